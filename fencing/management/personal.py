"""Commands that act for a person: the key that says who, never a name, and never a word of the command line (H1).

A command asks the same services as the API and the pages, and leaves the same trail: side log, audit, "from where".
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
import uuid
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from django.core.management.base import CommandError, OutputWrapper

from fencing.api.forms import Form
from fencing.protocol.answers import Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.services.credentials import PERSONAL, authenticate
from fencing.services.side_log import RefusedBody, record_refusals, subject_of

VARIABLE: Final = "FENCE_KEY"
MAX_SOURCE: Final = 64
HOW: Final = (
    f"A personal key says who you are: make one in the browser (it lives 12 hours at most) and put it into the variable"
    f" {VARIABLE}, or type it when asked. It is never an argument: the list of processes is for everybody to read."
)

R = TypeVar("R")


def add_answer_options(parser: ArgumentParser) -> None:
    """Add what every such command takes."""
    parser.add_argument("--json", action="store_true", help="print the object as the API gives it")


def whoever(*roles: Role) -> Caller:
    """Tell whose key this is, and that it may do this; a wrong role goes to the side log, as over HTTP.

    Raises:
        CommandError: there is no good personal key, or its role may not.
    """
    caller = authenticate(f"Bearer {_key()}", address=source(), request_id=uuid.uuid4().hex)
    if isinstance(caller, Refusal) or caller.role not in PERSONAL:
        raise CommandError(f"unauthenticated: this is no personal key that is good now. {HOW}")
    if caller.role not in roles:
        detail = f"A key of the role {caller.role} may not do that; it takes {', '.join(sorted(roles))}."
        refusal = Refusal(code=Code.FORBIDDEN_ROLE, detail=detail)
        record_refusals([(refusal, subject_of(None), None)], caller)
        raise CommandError(f"{refusal.code}: {refusal.detail}")
    return caller


def source() -> str:
    """Where the act came from, for the audit: this machine's command line."""
    return f"command line on {socket.gethostname()}"[:MAX_SOURCE]


def request(form: type[R], members: Mapping[str, Any], caller: Caller) -> R:
    """Read what was typed by the form of the API's body; what does not fit goes to the side log, as over HTTP.

    Raises:
        CommandError: it does not fit.
    """
    given = {name: value for name, value in members.items() if value is not None}
    read = Form(form).read(given)
    if isinstance(read, Refusal):
        record_refusals([(read, subject_of(given), RefusedBody.of(json.dumps(given).encode()))], caller)
        raise CommandError(f"{read.code}: {read.detail}")
    return read


def taken(result: Result) -> dict[str, Any]:
    """Give the object of an answer.

    Raises:
        CommandError: it was refused; the words are the refusal's, with its code before them.
    """
    if isinstance(result, Answer):
        return dict(result.body)
    raise CommandError(f"{result.code}: {result.detail}")


def told(body: Mapping[str, Any], sentence: str, out: OutputWrapper, *, as_json: bool) -> None:
    """Print an answer: a sentence, or the object itself."""
    again = " (known already: nothing new was done)" if body.get("duplicate") else ""
    out.write(json.dumps(body, ensure_ascii=True, indent=1) if as_json else f"{sentence}{again}")


def lines(name: str, found: list[dict[str, Any]], more: int = 0) -> list[str]:
    """Write what was stopped, or what is out, one step or one undoing a line."""
    listed = [
        f"  {each['run'] + ' ' if each.get('run') else ''}{_place(each)}"
        f"{', intent ' + each['intent'] if each['intent'] else ''}"
        for each in found
    ]
    rest = [f"  and {more} more"] if more else []
    return [f"{name}: {len(found) + more}", *listed, *rest]


def _place(line: dict[str, Any]) -> str:
    if "compensation" in line:
        return f"undoing {line['compensation']}"
    return f"{line['step']} of epoch {line['epoch']}"


def _key() -> str:
    key = os.environ.get(VARIABLE, "")
    if not key and sys.stdin.isatty():
        key = getpass.getpass("Personal key: ")
    if not key.strip():
        raise CommandError(f"unauthenticated: no key was given. {HOW}")
    return key.strip()
