"""The environment as a value: which variables there are, what they mean, and which of them are wrong.

Read once by `settings.py`. Standard library only, no side effects.

| variable | meaning | default |
| --- | --- | --- |
| `FENCE_MODE` | `local` or `production` (refuses debug mode and weak or missing secrets) | `local` |
| `FENCE_ROLE` | database role of this process: `owner`, `app` or `fencer` | `owner` |
| `FENCE_DATA` | folder of keys and, embedded, of everything that has to stay | `var` beside manage.py |
| `DATABASE_URL` | `postgresql://` address of the owner (migrations) | the embedded server |
| `FENCE_DATABASE_URL_APP` | the same for the web processes | `DATABASE_URL` |
| `FENCE_DATABASE_URL_FENCER` | the same for the workers | `DATABASE_URL` |
| `FENCE_DATABASE_POOL` | greatest number of pooled connections of a process; 0 is one for each thread | 0 |
| `REDIS_URL` | `redis://`, `rediss://` or `unix://` | the embedded server |
| `FENCE_SECRET_KEY` | secret key, 40 characters or more; also locks second factors | made and kept in the data folder |
| `FENCE_OLD_SECRET_KEYS` | the ones before it, with commas: what they locked stays readable | none |
| `FENCE_HOSTS` | host names that are answered, with commas | this machine's loopback names |
| `FENCE_TRUSTED_ORIGINS` | origins that forms may come from, with commas | none |
| `FENCE_BEHIND_PROXY` | `1` where a proxy sets `X-Forwarded-Proto` | 0 |
| `FENCE_TOOL_HOSTS` | hosts of push tools that may be plain http, and private | none; 127.0.0.1 for workers of `up` |
| `FENCE_CREDENTIALS` | folder with a file for each credential of a push tool | `credentials` in the data folder |
| `FENCE_CREDENTIAL_<NAME>` | one credential, other characters as `_`; the file comes first | none |
| `FENCE_SILENCE_S` | seconds without a vote after which a path that is wanted is called silent | 60 |
| `FENCE_HEADS` | folder of the file of seals' heads, best on another disk | `heads` in the data folder |
| `FENCE_WITNESSES` | addresses that each seal's head is sent to, with commas; `https://` in production | none |
| `FENCE_FRAGMENT_LEASE_S` | seconds for which a fragment is handed to a worker | 120 |
| `FENCE_PRICES` | prices of models for a million tokens: `{"name": {"in": 3, "out": 15, "currency": "EUR"}}` | none |
| `FENCE_PUBLIC_URL` | address under which people open the pages: it stands in messages | `http://127.0.0.1:8000` |
| `FENCE_NOTIFY_NETWORKS` | networks of the house that messages may go to, with commas | this machine, if local |
| `FENCE_SESSION_IDLE_S` | seconds after which a session ends that asked for no page | 7200 |
| `FENCE_SESSION_MAX_S` | seconds after sign-in when it ends in any case | 43200 |
| `FENCE_OIDC_ISSUER` | OpenID provider to sign in with, exactly as it names itself; `https://` in production | none |
| `FENCE_OIDC_CLIENT_ID`, `FENCE_OIDC_CLIENT_SECRET` | what the provider knows this system by | none |
| `FENCE_OIDC_NAME` | what people call the provider | its host |
| `FENCE_OIDC_USERNAME_CLAIM` | claim that equals a user name: links accounts at the first sign-in | none |
| `FENCE_DEBUG` | `1` for Django's debug pages; never in production | 0 |
| `FENCE_LOG` | `console` or `json` | by the mode |
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

TOP = Path(__file__).resolve().parent.parent
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
# Django's own check asks for 50 random characters or more for a full score; 40 hold 160 bits in hexadecimal.
MIN_SECRET_LENGTH = 40
SILENCE_S = 60
MAX_URL = 500
FRAGMENT_LEASE_S = 120
MAX_PRICE = 1_000_000
PRICES_WANTED = 'FENCE_PRICES has to be JSON: {"model": {"in": 3, "out": 15, "currency": "EUR"}}, for a million tokens'

M = TypeVar("M", bound=StrEnum)


class Mode(StrEnum):
    """How strict the start is: `LOCAL` makes what is missing, `PRODUCTION` refuses to start without it."""

    LOCAL = "local"
    PRODUCTION = "production"


class Role(StrEnum):
    """The database role of a process, and the variable that holds its address."""

    OWNER = "owner"
    APP = "app"
    FENCER = "fencer"

    @property
    def variable(self) -> str:
        """The environment variable with this role's database address."""
        return "DATABASE_URL" if self is Role.OWNER else f"FENCE_DATABASE_URL_{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """The OpenID provider that people may sign in with."""

    issuer: str
    client_id: str
    client_secret: str
    name: str
    username_claim: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What a million tokens of a model cost, those that go in and those that come out."""

    tokens_in: Decimal
    tokens_out: Decimal
    currency: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """What the environment says; `faults` are sentences, and none of them means that it can be used."""

    mode: Mode
    role: Role
    data: Path
    database_url: str
    pool: int
    redis_url: str
    secret_key: str
    old_secret_keys: tuple[str, ...]
    session_idle_s: int
    session_max_s: int
    provider: Provider | None
    hosts: tuple[str, ...]
    trusted_origins: tuple[str, ...]
    behind_proxy: bool
    silence_s: int
    public_url: str
    notify_networks: tuple[str, ...]
    heads: Path
    witnesses: tuple[str, ...]
    fragment_lease_s: int
    prices: Mapping[str, Price]
    tool_hosts: tuple[str, ...]
    credentials: Path
    debug: bool
    json_logs: bool
    faults: tuple[str, ...]


def read_environment(variables: Mapping[str, str] | None = None) -> Environment:
    """Return the environment as a value; `variables` defaults to the process's own."""
    given = os.environ if variables is None else variables
    faults: list[str] = []
    mode = _member(Mode, given, "FENCE_MODE", Mode.LOCAL, faults)
    role = _member(Role, given, "FENCE_ROLE", Role.OWNER, faults)
    data = Path(given.get("FENCE_DATA") or TOP / "var")
    environment = Environment(
        mode=mode,
        role=role,
        data=data,
        database_url=given.get(role.variable) or given.get("DATABASE_URL", ""),
        pool=_number(given, "FENCE_DATABASE_POOL", faults),
        redis_url=given.get("REDIS_URL") or f"unix://{data / 'sockets' / 'valkey.sock'}",
        secret_key=given.get("FENCE_SECRET_KEY", ""),
        old_secret_keys=_list(given.get("FENCE_OLD_SECRET_KEYS", "")),
        session_idle_s=_number(given, "FENCE_SESSION_IDLE_S", faults) or 2 * 3600,
        session_max_s=_number(given, "FENCE_SESSION_MAX_S", faults) or 12 * 3600,
        provider=_provider(given, mode, faults),
        hosts=_list(given.get("FENCE_HOSTS", "")) or LOOPBACK_HOSTS,
        trusted_origins=_list(given.get("FENCE_TRUSTED_ORIGINS", "")),
        behind_proxy=given.get("FENCE_BEHIND_PROXY") == "1",
        silence_s=_number(given, "FENCE_SILENCE_S", faults) or SILENCE_S,
        public_url=given.get("FENCE_PUBLIC_URL") or "http://127.0.0.1:8000",
        notify_networks=_networks(given, mode, faults),
        heads=Path(given.get("FENCE_HEADS") or data / "heads"),
        witnesses=_witnesses(given, mode, faults),
        fragment_lease_s=_number(given, "FENCE_FRAGMENT_LEASE_S", faults) or FRAGMENT_LEASE_S,
        prices=_prices(given.get("FENCE_PRICES", ""), faults),
        tool_hosts=_list(given.get("FENCE_TOOL_HOSTS", "").lower()),
        credentials=Path(given.get("FENCE_CREDENTIALS") or data / "credentials"),
        debug=given.get("FENCE_DEBUG") == "1",
        json_logs=given.get("FENCE_LOG", "json" if mode is Mode.PRODUCTION else "console") == "json",
        faults=(),
    )
    if mode is Mode.PRODUCTION:
        faults += _production_faults(environment, given)
    return replace(environment, faults=tuple(faults))


def _prices(text: str, faults: list[str]) -> dict[str, Price]:
    """Read prices; where one is wrong none of them is taken."""
    if not text:
        return {}
    try:
        return {
            str(model): Price(
                tokens_in=_amount(each["in"]), tokens_out=_amount(each["out"]), currency=str(each["currency"])[:10]
            )
            for model, each in json.loads(text, parse_float=Decimal, parse_int=Decimal).items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        faults.append(PRICES_WANTED)
        return {}


def _amount(value: object) -> Decimal:
    if not isinstance(value, Decimal) or not 0 <= value < MAX_PRICE:
        raise ValueError(value)
    return value


def database(environment: Environment) -> dict[str, Any]:
    """Return Django's `DATABASES` entry for the role of `environment`."""
    url = urlsplit(environment.database_url)
    options: dict[str, Any] = {"application_name": f"fence {environment.role}", **dict(parse_qsl(url.query))}
    if environment.pool:
        # A thread that finds no free connection fails after the timeout (seconds) instead of hanging.
        options["pool"] = {"min_size": 1, "max_size": environment.pool, "timeout": 10}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(url.path.lstrip("/")) or "fence",
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": options.pop("host", unquote(url.hostname or "")) or str(environment.data / "sockets"),
        "PORT": options.pop("port", str(url.port or "")),
        "OPTIONS": options,
        # A pooled connection goes back after each request; without a pool a thread keeps its one.
        "CONN_MAX_AGE": 0 if environment.pool else None,
        # One more round trip for each request would be felt; the API repeats a first query that finds a dead
        # connection. A worker asks before each job, a command has a fresh one.
        "CONN_HEALTH_CHECKS": environment.role is not Role.APP,
    }


def _production_faults(environment: Environment, given: Mapping[str, str]) -> list[str]:
    faults = []
    if environment.debug:
        faults.append("FENCE_DEBUG=1 is not allowed in production")
    if len(environment.secret_key) < MIN_SECRET_LENGTH:
        faults.append(f"FENCE_SECRET_KEY needs {MIN_SECRET_LENGTH} characters or more in production")
    faults += [
        f"{name} is missing; production has no default for it"
        for name in (environment.role.variable, "REDIS_URL", "FENCE_DATA", "FENCE_HOSTS")
        if not given.get(name)
    ]
    return faults


def _witnesses(given: Mapping[str, str], mode: Mode, faults: list[str]) -> tuple[str, ...]:
    urls = _list(given.get("FENCE_WITNESSES", ""))
    schemes = ("https://",) if mode is Mode.PRODUCTION else ("https://", "http://")
    if not all(url.startswith(schemes) and urlsplit(url).hostname and len(url) <= MAX_URL for url in urls):
        faults.append(f"FENCE_WITNESSES has to be addresses that begin with {' or '.join(schemes)}, with commas")
    return urls


def _provider(given: Mapping[str, str], mode: Mode, faults: list[str]) -> Provider | None:
    issuer = given.get("FENCE_OIDC_ISSUER", "")
    if not issuer:
        return None
    host = urlsplit(issuer).hostname or ""
    if not host or (mode is Mode.PRODUCTION and not issuer.startswith("https://")):
        faults.append("FENCE_OIDC_ISSUER has to be the provider's https:// address")
    if not given.get("FENCE_OIDC_CLIENT_ID"):
        faults.append("FENCE_OIDC_CLIENT_ID is missing; FENCE_OIDC_ISSUER asks for it")
    return Provider(
        issuer=issuer,
        client_id=given.get("FENCE_OIDC_CLIENT_ID", ""),
        client_secret=given.get("FENCE_OIDC_CLIENT_SECRET", ""),
        name=given.get("FENCE_OIDC_NAME") or host,
        username_claim=given.get("FENCE_OIDC_USERNAME_CLAIM", ""),
    )


def _member(kind: type[M], given: Mapping[str, str], name: str, default: M, faults: list[str]) -> M:
    value = given.get(name, "")
    if not value:
        return default
    try:
        return kind(value)
    except ValueError:
        faults.append(f"{name} is {value!r}; it can be {', '.join(kind)}")
        return default


def _networks(given: Mapping[str, str], mode: Mode, faults: list[str]) -> tuple[str, ...]:
    """Read the networks of the house that messages may go to. In local mode this machine is one of them."""
    named = _list(given.get("FENCE_NOTIFY_NETWORKS", ""))
    for text in named:
        try:
            ip_network(text)
        except ValueError:
            faults.append(f"FENCE_NOTIFY_NETWORKS holds {text!r}, which is no network such as 10.1.0.0/16")
    return named if mode is Mode.PRODUCTION else ("127.0.0.0/8", "::1/128", *named)


def _number(given: Mapping[str, str], name: str, faults: list[str]) -> int:
    value = given.get(name) or "0"
    if value.isdecimal():
        return int(value)
    faults.append(f"{name} is {value!r}; it has to be a whole number")
    return 0


def _list(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())
