"""What is done with keys after they were made: rotate, narrow, end; and the keys that people make for themselves (H1).

Each act is an administrator's or, on a personal key, its owner's; each is audited. No secret is ever in the audit.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

from django.contrib.auth.models import User
from django.db import transaction

from fencing.models import Credential
from fencing.models.facts import read_clock
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.groups import GROUP_OF_ROLE
from fencing.protocol.identifiers import is_identifier
from fencing.protocol.objects import rfc3339
from fencing.services import credentials
from fencing.services.credentials import (
    HINT_LENGTH,
    PERSONAL,
    PERSONAL_LIFE_S,
    PREFIX,
    IssuedKey,
    IssueKey,
    hash_of,
)
from fencing.services.people import groups_in
from fencing.services.writes import Writes

MAX_OVERLAP_S: Final = 30 * 24 * 3600
# What binds a key of each role, beside what never changes.
SCOPE_OF: Final = {Role.PLANNER: "group", Role.GATEWAY: "tools", Role.SCORER: "lanes"}

Scope = str | tuple[str, ...] | None
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateKey:
    """A new secret beside the old one, which ends after `overlap_s` seconds, at once with 0."""

    name: str
    overlap_s: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeScope:
    """The group of a planner, the tools of a gateway or the lanes of a scorer (None for all); and what was seen."""

    name: str
    scope: Scope
    seen: Scope
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndKey:
    """When a key shall end: `in_s` seconds from now, never later than it would anyway."""

    name: str
    in_s: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedKey:
    """A key after an act on it."""

    name: str
    expires_at: datetime | None
    scope: Scope


def rotate(request: RotateKey, caller: Caller) -> IssuedKey | Refusal:
    """Make the successor of a key: same role, person and bindings, another secret and name.

    Both are good until the overlap ends. A key is rotated once: who comes second learns into which.
    """
    if not 0 <= request.overlap_s <= MAX_OVERLAP_S:
        return _unfit("overlap", f"from none to {MAX_OVERLAP_S // 86_400} days")

    def act(row: Credential) -> IssuedKey | Refusal:
        after = getattr(row, "rotated_to", None)
        if after is not None:
            return Refusal(code=Code.CHANGED, detail=f"{row.name} was rotated already, into {after.name}.")
        now = read_clock()
        secret = f"{PREFIX}{row.role}_{secrets.token_urlsafe(32)}"
        ends = _ends_after(row, now)
        fresh = Credential.objects.create(
            name=_next_name(row.name), role=row.role, key_hash=hash_of(secret), hint=secret[-HINT_LENGTH:],
            path=row.path, group=row.group, tools=row.tools, lanes=row.lanes, person_id=row.person_id,
            rotated_from=row, rate_per_s=row.rate_per_s, created_at=now, expires_at=ends,
        )  # fmt: skip
        old_ends = min(filter(None, (row.expires_at, now + timedelta(seconds=request.overlap_s))))
        row.expires_at = old_ends
        row.save(update_fields=["expires_at"])
        _audit("issue_key", fresh.name, caller, after={"role": row.role, "successor_of": row.name})
        told = {"into": fresh.name, "both_until": rfc3339(old_ends)}
        _audit("rotate_key", row.name, caller, after=told, reason=request.reason)
        return IssuedKey(name=fresh.name, role=Role(fresh.role), key=secret, expires_at=fresh.expires_at)

    return _on(request.name, caller, act)


def change_scope(request: ChangeScope, caller: Caller) -> ChangedKey | Refusal:
    """Bind a key to another group, other tools or other lanes, from its next call on."""
    wanted, seen = _normal(request.scope), _normal(request.seen)

    def act(row: Credential) -> ChangedKey | Refusal:
        member = SCOPE_OF.get(Role(row.role))
        if member is None:
            return _unfit("scope", f"a key of the role {row.role} has none")
        now = scope_of(row)
        if now not in (seen, wanted):
            return Refusal(code=Code.CHANGED, detail=f"What {row.name} is bound to changed since you looked.")
        refusal = _why_no_scope(member, wanted)
        if refusal is not None:
            return refusal
        if now != wanted:
            setattr(row, member, _plain(wanted))
            row.save(update_fields=[member])
            told = {"before": {member: _plain(now)}, "after": {member: _plain(wanted)}}
            _audit("change_key", row.name, caller, reason=request.reason, **told)
        return ChangedKey(name=row.name, expires_at=row.expires_at, scope=wanted)

    return _on(request.name, caller, act)


def end(request: EndKey, caller: Caller) -> ChangedKey | Refusal:
    """Let a key end sooner than it would. An end is never put off: who needs more time rotates the key."""
    if request.in_s < 1:
        return _unfit("in", "at least one second; to end it at once, revoke it")

    def act(row: Credential) -> ChangedKey | Refusal:
        ends = read_clock() + timedelta(seconds=request.in_s)
        if row.expires_at is not None and ends > row.expires_at:
            return _unfit("in", f"it ends at {rfc3339(row.expires_at)} anyway; an end is never put off: rotate the key")
        before = row.expires_at
        row.expires_at = ends
        row.save(update_fields=["expires_at"])
        told = {"before": {"expires_at": rfc3339(before) if before else None}, "after": {"expires_at": rfc3339(ends)}}
        _audit("end_key", row.name, caller, reason=request.reason, **told)
        return ChangedKey(name=row.name, expires_at=ends, scope=scope_of(row))

    return _on(request.name, caller, act)


def revoke(name: str, caller: Caller, reason: str = "") -> credentials.RevokedKey | Refusal:
    """End a key at once, where the caller may: an administrator every key, a person their own."""
    row = Credential.objects.filter(name=name).first()
    if row is None or not may_act_on(row, caller):
        return _absent(name)
    return credentials.revoke(name, caller, reason)


def issue_personal(role: Role, life_s: int, caller: Caller) -> IssuedKey | Refusal:
    """Make a key for the caller's own hand, in a role of one of their groups, for twelve hours at most."""
    person = User.objects.filter(pk=caller.person_id or 0, is_active=True).first()
    if person is None or role not in PERSONAL or GROUP_OF_ROLE[role] not in groups_in(person):
        return Refusal(
            code=Code.FORBIDDEN_ROLE,
            detail=f"This is for the group {GROUP_OF_ROLE.get(role, role)}; you are not in it.",
        )
    if not 1 <= life_s <= PERSONAL_LIFE_S:
        return _unfit("life", f"from one second to {PERSONAL_LIFE_S // 3600} hours")
    user = person.get_username()
    name = f"{user}:{role}:{read_clock():%Y%m%dT%H%M%S.%f}"
    return credentials.issue(IssueKey(role=role, name=name, user=user, expires_in_s=life_s), caller)


def may_act_on(row: Credential, caller: Caller) -> bool:
    """Tell whether a caller may see and act on a key."""
    is_above = caller.role in (Role.ADMINISTRATOR, Role.SYSTEM)
    return is_above or (row.person_id is not None and row.person_id == caller.person_id)


def scope_of(row: Credential) -> Scope:
    """Give what a key is bound to, as far as that can change: a group, tools, lanes; None for all or nothing."""
    member = SCOPE_OF.get(Role(row.role))
    value = getattr(row, member) if member else None
    return _normal(tuple(value)) if isinstance(value, list) else value


def _normal(scope: Scope) -> Scope:
    return tuple(sorted(set(scope))) if isinstance(scope, tuple) else scope


def _on(name: str, caller: Caller, act: Callable[[Credential], T | Refusal]) -> T | Refusal:
    with transaction.atomic():
        row = Credential.objects.select_for_update().filter(name=name).first()
        if row is None or not may_act_on(row, caller):
            return _absent(name)
        if row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= read_clock()):
            return Refusal(code=Code.CHANGED, detail=f"{name} has ended: nothing can be done with it any more.")
        return act(row)


def _ends_after(row: Credential, now: datetime) -> datetime | None:
    """Give the end of a successor: a machine's key lives as long again, a person's not past their twelve hours."""
    if row.expires_at is None:
        return None
    life: timedelta = row.expires_at - row.created_at
    return min(row.expires_at, now + life) if row.person_id is not None else now + life


def _next_name(name: str) -> str:
    """Name the successor: `billing`, `billing@2`, `billing@3`; taken names are passed over, none is used again."""
    stem, _, number = name.rpartition("@")
    base, count = (stem, int(number)) if stem and number.isascii() and number.isdecimal() else (name, 1)
    while True:
        count += 1
        tail = f"@{count}"
        fresh = base[: 200 - len(tail)] + tail
        if not Credential.objects.filter(name=fresh).exists():
            return fresh


def _why_no_scope(member: str, scope: Scope) -> Refusal | None:
    if member == "group" and not isinstance(scope, str):
        return _unfit("group", "name one")
    names = (scope,) if isinstance(scope, str) else scope or ()
    wrong = next((name for name in names if not is_identifier(name)), None)
    if wrong is not None or (isinstance(scope, str) and member != "group"):
        return Refusal(code=Code.INVALID_IDENTIFIER, detail=f"{member}: {wrong!r} is not an identifier (N1).")
    return None


def _plain(scope: Scope) -> object:
    return list(scope) if isinstance(scope, tuple) else scope


def _absent(name: str) -> Refusal:
    return Refusal(code=Code.NOT_FOUND, detail=f"There is no key named {name}.")


def _unfit(member: str, why: str) -> Refusal:
    return Refusal(code=Code.INVALID_VALUE, detail=f"{member}: {why}.", pointer=f"/{member}")


def _audit(
    verb: str, name: str, caller: Caller, *, before: object = None, after: object = None, reason: str = ""
) -> None:
    writes = Writes(caller)
    writes.audit(verb, "key", name, before=before, after=after, reason=reason)
    writes.send()
