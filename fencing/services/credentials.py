"""Bearer keys: issuing, revoking, and telling who asks (H1)."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import DateTimeField, ExpressionWrapper, Q, Value

from fencing.models import Credential
from fencing.models.fields import ClockTimestamp
from fencing.protocol.callers import KEY_ROLES, Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.identifiers import is_identifier
from fencing.services.tallies import PENDING
from fencing.services.writes import Writes

PREFIX: Final = "fk_"
HINT_LENGTH: Final = 4
MAX_KEY_LENGTH: Final = 200
PERSONAL: Final = frozenset({Role.ONCALL, Role.REVIEWER})
PERSONAL_LIFE_S: Final = 12 * 3600
DEFAULT_RATE_PER_S: Final = 2000

# Whoever has a shell on the machine and its database. The audit tells that it was done there.
COMMAND_LINE: Final = Caller(credential_id=None, name="command line", role=Role.SYSTEM)

# One index, on the hash, and at most one row; a good key is asked for with every call.
FIND: Final = """
SELECT c.id, c.name, c.role, c.path, c."group", c.tools, c.lanes, c.rate_per_s, c.person_id, p.username,
       c.last_used_at IS NULL OR c.last_used_at < clock_timestamp() - interval '1 minute'
FROM fencing_credential c LEFT JOIN auth_user p ON p.id = c.person_id
WHERE c.key_hash = %s AND c.revoked_at IS NULL AND (c.expires_at IS NULL OR c.expires_at > clock_timestamp())
  AND (c.person_id IS NULL OR p.is_active)
"""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueKey:
    """What an operator asks for. `user` is the username of an existing person, for the roles that are bound to one."""

    role: Role
    name: str
    path: str | None = None
    user: str | None = None
    group: str | None = None
    tools: tuple[str, ...] | None = None
    lanes: tuple[str, ...] | None = None
    expires_in_s: int | None = None
    rate_per_s: int = DEFAULT_RATE_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedKey:
    """A new key. `key` is shown here and never again: only its hash is kept."""

    name: str
    role: Role
    key: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedKey:
    """A key that opens nothing any more, and since when."""

    name: str
    revoked_at: datetime


def issue(request: IssueKey, caller: Caller) -> IssuedKey | Refusal:
    """Make a key (H1). Refuses bindings that do not fit the role, a person who is not there, a name that is taken."""
    refusal = _why_unfit(request)
    if refusal is not None:
        return refusal
    person = User.objects.filter(username=request.user, is_active=True).first() if request.user else None
    if request.user and person is None:
        return _unfit("user", f"there is no active person named {request.user}; make one first")
    key = f"{PREFIX}{request.role}_{secrets.token_urlsafe(32)}"
    try:
        with transaction.atomic():
            row = Credential.objects.create(**_columns(request, key, person))
            _audit("issue_key", request.name, caller, after=_described(request))
            row.refresh_from_db()
    except IntegrityError:
        return _unfit("name", f"a key named {request.name} exists; names are never used again")
    return IssuedKey(name=row.name, role=request.role, key=key, expires_at=row.expires_at)


def revoke(name: str, caller: Caller, reason: str = "") -> RevokedKey | Refusal:
    """End a key, from the next request on. Repeating it changes nothing."""
    with transaction.atomic():
        row = Credential.objects.select_for_update().filter(name=name).first()
        if row is None:
            return Refusal(code=Code.NOT_FOUND, detail=f"There is no key named {name}.")
        if row.revoked_at is None:
            Credential.objects.filter(pk=row.pk).update(revoked_at=ClockTimestamp())
            _audit("revoke_key", name, caller, before={"role": row.role}, reason=reason)
            row.refresh_from_db()
    assert row.revoked_at is not None  # noqa: S101 - written above
    return RevokedKey(name=name, revoked_at=row.revoked_at)


def authenticate(header: str | None, *, address: str = "", request_id: str = "") -> Caller | Refusal:
    """Tell whose key an `Authorization` header carries, in one indexed query.

    Expiry is by the database's clock, revocation acts at once, and a person's key ends with the person's account.
    Requests without a good key are counted, not logged one by one (N7).
    """
    key = _key_in(header)
    row = _find(key) if key else None
    if row is None:
        PENDING.add("unauthenticated")
        detail = "Send `Authorization: Bearer <key>` with a key that exists, has not expired and was not revoked."
        return Refusal(code=Code.UNAUTHENTICATED, detail=detail)
    credential_id, name, role, path, group, tools, lanes, rate, person_id, person, is_use_due = row
    if is_use_due:
        _note_use(credential_id)
    return Caller(
        credential_id=credential_id,
        name=name,
        role=Role(role),
        group=group,
        path=path,
        tools=None if tools is None else frozenset(tools),
        lanes=None if lanes is None else frozenset(lanes),
        person_id=person_id,
        person=person,
        rate_per_s=rate,
        address=address,
        request_id=request_id,
    )


def hash_of(key: str) -> bytes:
    """What is stored of a key. It has 256 random bits: one round of SHA-256 is as good as any slow hash."""
    return hashlib.sha256(key.encode()).digest()


def _find(key: str) -> tuple[Any, ...] | None:
    with connection.cursor() as cursor:
        cursor.execute(FIND, [hash_of(key)])
        row: tuple[Any, ...] | None = cursor.fetchone()
    return row


def _note_use(credential_id: uuid.UUID) -> None:
    """Write the last use, once a minute at most. It is information: where it cannot be written the call goes on."""
    is_due = Q(last_used_at__isnull=True) | Q(last_used_at__lt=ClockTimestamp() - Value(timedelta(minutes=1)))
    try:
        with transaction.atomic():
            Credential.objects.filter(is_due, pk=credential_id).update(last_used_at=ClockTimestamp())
    except DatabaseError as error:
        log.warning("last_use_not_written", error=type(error).__name__)


def _key_in(header: str | None) -> str | None:
    scheme, _, key = (header or "").partition(" ")
    key = key.strip()
    is_key = scheme.lower() == "bearer" and key.startswith(PREFIX) and len(key) <= MAX_KEY_LENGTH and key.isascii()
    return key if is_key else None


def _columns(request: IssueKey, key: str, person: Any) -> dict[str, Any]:
    life_s = request.expires_in_s if request.role not in PERSONAL else request.expires_in_s or PERSONAL_LIFE_S
    ends = ClockTimestamp() + Value(timedelta(seconds=life_s)) if life_s else None
    return {
        "name": request.name,
        "role": request.role.value,
        "key_hash": hash_of(key),
        "hint": key[-HINT_LENGTH:],
        "path": request.path,
        "group": request.group or request.name,
        "tools": None if request.tools is None else sorted(request.tools),
        "lanes": None if request.lanes is None else sorted(request.lanes),
        "person": person,
        "rate_per_s": request.rate_per_s,
        "expires_at": None if ends is None else ExpressionWrapper(ends, output_field=DateTimeField()),
    }


def _described(request: IssueKey) -> dict[str, object]:
    bindings = {"path": request.path, "person": request.user, "group": request.group}
    scopes = {"tools": request.tools, "lanes": request.lanes, "expires_in_s": request.expires_in_s}
    return {"role": request.role.value, **{name: value for name, value in {**bindings, **scopes}.items() if value}}


def _why_unfit(request: IssueKey) -> Refusal | None:
    names = [("name", request.name), ("path", request.path), ("group", request.group)]
    names += [("tool", tool) for tool in request.tools or ()] + [("lane", lane) for lane in request.lanes or ()]
    for what, name in names:
        if name is not None and not is_identifier(name):
            return Refusal(
                code=Code.INVALID_IDENTIFIER, detail=f"{what}: {name!r} is not an identifier (N1).", pointer=f"/{what}"
            )
    allowed = {"path": Role.PATH, "group": Role.PLANNER, "tools": Role.GATEWAY, "lanes": Role.SCORER}
    for member, role in allowed.items():
        if getattr(request, member) is not None and request.role is not role:
            return _unfit(member, f"only a key of the role {role} has that")
    if request.role is Role.PATH and request.path is None:
        return _unfit("path", "a key of the role path speaks for one path: name it")
    if (request.role in PERSONAL) != (request.user is not None):
        return _unfit("user", "a key of the roles oncall and reviewer belongs to a person, and no other does")
    return _why_not_so_long(request)


def _why_not_so_long(request: IssueKey) -> Refusal | None:
    if request.role not in KEY_ROLES:
        return _unfit("role", f"no key has the role {request.role}")
    if request.rate_per_s < 1:
        return _unfit("rate", "at least one request a second")
    if request.expires_in_s is not None and request.expires_in_s < 1:
        return _unfit("expires-in", "at least one second")
    if request.role in PERSONAL and (request.expires_in_s or 0) > PERSONAL_LIFE_S:
        return _unfit("expires-in", f"a person's key lives {PERSONAL_LIFE_S} seconds at most")
    return None


def _unfit(member: str, why: str) -> Refusal:
    return Refusal(code=Code.INVALID_VALUE, detail=f"{member}: {why}.", pointer=f"/{member}")


def _audit(verb: str, name: str, caller: Caller, **told: object) -> None:
    writes = Writes(caller)
    writes.audit(verb, "key", name, **told)  # type: ignore[arg-type]
    writes.send()
