"""Sending one message to one address, by apprise: bounded in time, to no machine of the house, with no secret told.

An address is a secret as a whole: whoever has it can write in that person's name. It is opened here alone, and what is
told of a failure holds nothing of it.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from django.conf import settings

from fencing.environment import Mode
from fencing.protocol.addresses import Network, may_reach
from fencing.protocol.errors import Code, Refusal
from fencing.services import locked_text

CONNECT_S: Final = 4.0
READ_S: Final = 6.0
MAX_ADDRESS: Final = 2000
MAX_ERROR: Final = 200
SHORTEST_SECRET: Final = 4
# What speaks HTTP or SMTP to a host that the address names, or to a service on the public network.
SERVICES: Final = frozenset(
    {
        "bark", "barks", "betterstack", "discord", "feishu", "flock", "form", "forms", "gchat", "goalert", "gotify",
        "gotifys", "googlechat", "guilded", "incidentio", "json", "jsons", "lark", "mailgun", "mailto", "mailtos",
        "matrix", "matrixs", "mmost", "mmosts", "msg91", "msteams", "ntfy", "ntfys", "opsgenie", "pagerduty",
        "pagertree", "postmark", "pover", "pushover", "rocket", "rockets", "sendgrid", "ses", "signal", "signals",
        "slack", "smtp2go", "sns", "sparkpost", "spike", "splunk", "squadcast", "tgram", "twilio", "victorops",
        "webex", "wxteams", "workflow", "workflows", "xml", "xmls", "zulip",
    }
)  # fmt: skip
# The same without TLS, which in production nobody uses.
PLAIN: Final = frozenset(
    {"bark", "form", "gotify", "json", "matrix", "mmost", "ntfy", "rocket", "signal", "xml", "mailto"}
)
ENVIRONMENT: Final = re.compile(r"env:(FENCE_NOTIFY_[A-Z0-9_]{1,60})", re.ASCII)
FILE: Final = re.compile(r"file:([A-Za-z0-9][A-Za-z0-9._-]{0,80})", re.ASCII)
FOLDER: Final = "notify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address that may be used: its secret text, what it is called, and whether it stands elsewhere."""

    text: str
    service: str
    is_reference: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """How a try ended; `error` tells a person why, and nothing of the address."""

    is_sent: bool
    error: str = ""


class ForbiddenAddress(OSError):
    """The address that was about to be dialled is one of the house."""


def read_address(text: str) -> Address | Refusal:
    """Check an address that a person gives: a reference (`env:`, `file:`), or an apprise URL.

    Where its host is known by now, it is refused if that is a machine of the house; it is checked once more when it is
    dialled, for names can change.
    """
    text = text.strip()
    opened = _opened(text)
    if isinstance(opened, Refusal):
        return opened
    scheme, url = _parts(opened)
    why = _why_not(scheme, url, opened)
    if why:
        return _refused(why)
    plugin = _plugin(opened)
    if plugin is None:
        return _refused("Apprise does not read that address: look up how it is written for this service.")
    return Address(text=text, service=str(plugin.service_name or scheme)[:60], is_reference=opened != text)


def lock_address(address: Address) -> str:
    """Lock an address for the database."""
    return locked_text.lock(address.text)


def send(locked: str, title: str, body: str) -> Sent:
    """Send one message. It ends within seconds, whatever the other side does."""
    try:
        opened = _opened(locked_text.unlock(locked))
    except locked_text.Unreadable:
        return Sent(is_sent=False, error="The address cannot be read any more: the secret key changed. Enter it anew.")
    if isinstance(opened, Refusal):
        return Sent(is_sent=False, error=opened.detail)
    scheme, url = _parts(opened)
    if scheme not in SERVICES or (why := _why_not(scheme, url, opened, is_looked_up=False)):
        return Sent(is_sent=False, error=why if scheme in SERVICES else "That service is not allowed.")
    plugin = _plugin(opened)
    if plugin is None:
        return Sent(is_sent=False, error="Apprise does not read that address any more.")
    return _send(plugin, opened, title, body)


def _send(plugin: Any, opened: str, title: str, body: str) -> Sent:
    from apprise import NotifyFormat  # noqa: PLC0415 - see above

    plugin.socket_connect_timeout, plugin.socket_read_timeout = CONNECT_S, READ_S
    with _guarded() as guard, _heard() as heard:
        try:
            is_sent = bool(plugin.notify(body=body, title=title, body_format=NotifyFormat.TEXT))
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises, the telling is settled by it
            return Sent(is_sent=False, error=f"The service's module failed ({type(error).__name__}).")
    if guard.refused:
        return Sent(is_sent=False, error="The address leads to a machine of this house, which is not allowed.")
    return Sent(is_sent=is_sent, error="" if is_sent else _without_secrets(heard, opened))


@cache
def _load() -> None:
    """Import apprise's modules, all at once and once. Some import what Python is about to lose."""
    from apprise import Apprise  # noqa: PLC0415 - it is large, and a web process that adds no target needs none of it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        Apprise.instantiate("json://localhost", suppress_exceptions=True)


def _plugin(opened: str) -> Any:
    _load()
    from apprise import Apprise, AppriseAsset  # noqa: PLC0415 - see above

    asset = AppriseAsset(app_id="Fence", app_desc="Fence", http_redirects=False, async_mode=False)
    with _guarded(), _heard():
        try:
            return Apprise.instantiate(opened, asset=asset, suppress_exceptions=True)
        except Exception:  # noqa: BLE001 - an address that breaks a plugin is none
            return None


# ---- reading an address ----


def _opened(text: str) -> str | Refusal:
    """Give the address itself, from where a reference says that it stands."""
    if not text or len(text) > MAX_ADDRESS:
        return _refused(f"An address has 1 to {MAX_ADDRESS} characters.")
    if (found := ENVIRONMENT.fullmatch(text)) is not None:
        value = os.environ.get(found[1], "")
        return value.strip() or _refused(f"{found[1]} is not in the environment of this process.")
    if (found := FILE.fullmatch(text)) is not None:
        try:
            return (Path(settings.FENCE_DATA) / FOLDER / found[1]).read_text().strip() or _refused("The file is empty.")
        except (OSError, UnicodeDecodeError):
            return _refused(f"There is no file {found[1]} in the folder {FOLDER} of the data.")
    if text.startswith(("env:", "file:")):
        return _refused(
            f"A reference is written env:FENCE_NOTIFY_… or file:NAME, with a file in the folder {FOLDER} of the data."
        )
    return text


def _parts(opened: str) -> tuple[str, Any]:
    try:
        url = urlsplit(opened)
        _ = url.port
    except ValueError:
        return "", None
    return url.scheme.lower(), url


def _why_not(scheme: str, url: Any, opened: str, *, is_looked_up: bool = True) -> str:
    is_production = settings.FENCE_MODE is Mode.PRODUCTION
    if url is None or scheme not in SERVICES:
        known = "mailtos://, jsons://, slack://, mmosts://, msteams://, ntfys://, pagerduty:// and others"
        return f"That is the address of no service that is allowed here. Known are {known}, as apprise writes them."
    if is_production and scheme in PLAIN:
        return f"{scheme}:// sends in the clear: use {scheme}s://."
    if is_production and re.search(r"[?&](verify|mode)=(no|n|false|off|0|insecure)\b", opened, re.IGNORECASE):
        return "The certificate of the other side has to be verified."
    if is_looked_up and url.hostname and not _may_reach_host(url.hostname):
        return "That host is a machine of this house, or of this machine, which is not allowed."
    return ""


def _may_reach_host(host: str) -> bool:
    """Whether every address that a name has now may be dialled. A name that nobody knows may be a token."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return True
    return all(may_reach(str(where[0]), _networks()) for *_, where in found)


def _networks() -> Sequence[Network]:
    networks: Sequence[Network] = settings.FENCE_NOTIFY_NETWORKS
    return networks


def _refused(detail: str) -> Refusal:
    return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer="/address")


# ---- what is dialled ----


class _Guard(threading.local):
    """What this thread may dial: nothing is asked of threads that send nothing."""

    is_on = False
    refused = False


_GUARD: Final = _Guard()


def _look_at_dialling(event: str, values: tuple[Any, ...]) -> None:
    """Refuse what a sending thread is about to dial: the very address, after every look-up and redirect."""
    if event != "socket.connect" or not _GUARD.is_on:
        return
    where = values[1]
    if not isinstance(where, tuple) or not may_reach(str(where[0]), _networks()):
        _GUARD.refused = True
        raise ForbiddenAddress("not allowed")


@cache
def _install() -> None:
    """Have every dialling looked at from now on. A hook cannot be taken out again, so only who sends puts it in."""
    sys.addaudithook(_look_at_dialling)


@contextmanager
def _guarded() -> Iterator[_Guard]:
    _install()
    _GUARD.is_on, _GUARD.refused = True, False
    try:
        yield _GUARD
    finally:
        _GUARD.is_on = False


# ---- what went wrong ----


class _Ears(logging.Handler):
    """Keeps what apprise says in one thread; it says it nowhere else."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.local = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line where this thread listens."""
        lines = getattr(self.local, "lines", None)
        if lines is not None:
            lines.append(record.getMessage())


_EARS: Final = _Ears()
_APPRISE: Final = logging.getLogger("apprise")
_APPRISE.addHandler(_EARS)
_APPRISE.propagate = False
_APPRISE.setLevel(logging.WARNING)


@contextmanager
def _heard() -> Iterator[list[str]]:
    lines: list[str] = []
    _EARS.local.lines = lines
    try:
        yield lines
    finally:
        _EARS.local.lines = None


def _without_secrets(lines: Sequence[str], opened: str) -> str:
    """The last thing that was said, without any piece of the address that could be a secret."""
    text = " ".join((lines[-1] if lines else "It was not sent; the service did not say why.").split())
    pieces = {unquote(piece) for piece in re.split(r"[/:@?&=,;#]+", opened)} | set(re.split(r"[/:@?&=,;#]+", opened))
    for piece in sorted(pieces, key=len, reverse=True):
        if len(piece) >= SHORTEST_SECRET:
            text = text.replace(piece, "•••")
    return text[:MAX_ERROR]
