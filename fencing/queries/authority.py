"""Who may do what until when, and through which grant: now, or at any moment of the past. Bounded reads.

What never changes is read from the rows, as of their moments; what does (a person's groups, a key's scope and end) is
read as it stands and taken back by the audit, event by event, to the moment that was asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Q

from fencing.models import AuditEvent, Credential, Grant, GrantApproval, GrantUse
from fencing.models import Freeze as FreezeRow
from fencing.models.bodies import grant_as_pure
from fencing.models.facts import read_clock
from fencing.protocol import grants, recompute
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.freezes import scope_in_words
from fencing.protocol.grants import State
from fencing.protocol.objects import Object, rfc3339
from fencing.protocol.policies import DAY_S

MOST: Final = 500
FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)
# No grant lives longer than a day, and none waits longer than a quarter of an hour before.
LONGEST: Final = timedelta(seconds=DAY_S + grants.PENDING_S)
COUNTS: Final = frozenset({State.LIVE, State.PENDING, State.USED_UP})

MAY: Final[Mapping[str, str]] = {
    "planner": "open and restart runs, propose and replay steps, in the runs of its group",
    "path": "vote as its path",
    "gateway": "be admitted to its tools, and report what became of it",
    "scorer": "hand in fragments in its lanes",
    "publisher": "publish into its own lanes",
    "gate": "read gates",
    "auditor": "read everything",
    "oncall": "issue, approve and revoke grants, freeze and lift",
    "on-call": "issue, approve and revoke grants, freeze and lift",
    "reviewer": "review grants and divergences, replay steps, decide on doubts and compensations",
    "viewer": "see the pages",
    "administrator": "change tools, keys and people",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantAuthority:
    """A path that may act alone, with the grant's `state` as of the moment.

    A pending one may once it is approved; a used-up one begins nothing more, and what it let through rests on it still.
    """

    name: str
    run: str
    epoch: int
    step: str | None
    tool: str | None
    path: str
    digest: str | None
    uses: int
    max_uses: int
    until: datetime | None
    state: State
    issuer: str
    approved_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeAuthority:
    """A freeze that stood: nobody could have anything of its scope admitted."""

    id: str
    tool: str | None
    run: str | None
    by: str
    since: datetime
    reason: str

    @property
    def scope(self) -> str:
        """Say what was frozen."""
        return scope_in_words(self.tool, self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAuthority:
    """A key that opened something: its role, and what it was bound to. `until` is None where it had no end."""

    name: str
    role: str
    may: str
    path: str | None
    group: str
    tools: tuple[str, ...] | None
    lanes: tuple[str, ...] | None
    person: str | None
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAuthority:
    """A person who could sign in, with their groups."""

    person: str
    roles: tuple[str, ...]
    may: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Who could do what at `at`. `is_cut`: a list has more than it shows."""

    at: datetime
    now: datetime
    grants: tuple[GrantAuthority, ...]
    freezes: tuple[FreezeAuthority, ...]
    keys: tuple[KeyAuthority, ...]
    people: tuple[PersonAuthority, ...]
    is_cut: bool


@dataclass(slots=True)
class _Past:
    """What the audit says of the time since a moment: by subject, the values that members had before."""

    before: dict[str, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))

    def of(self, subject: str, member: str, now: Any) -> Any:
        """The value that a member had, given the one that it has."""
        return self.before[subject].get(member, now) if subject in self.before else now


def read_authority(at: datetime | None = None) -> Authority | Refusal:
    """Read who could do what at a moment, by default now.

    Refuses a moment to come, and one from before there were records of any kind.
    """
    now = read_clock()
    if at is not None and not FIRST <= at <= now:
        detail = "Authority is known of now and of the past, and nothing is on record from before the year 2000."
        return Refusal(code=Code.INVALID_VALUE, detail=detail, extras={"parameter": "at"})
    moment = now if at is None else at.astimezone(UTC)
    parts = (_grants(moment), _freezes(moment), _keys(moment), _people(moment))
    return Authority(
        at=moment,
        now=now,
        grants=tuple(parts[0][:MOST]),
        freezes=tuple(parts[1][:MOST]),
        keys=tuple(parts[2][:MOST]),
        people=tuple(parts[3][:MOST]),
        is_cut=any(len(part) > MOST for part in parts),
    )


def authority_body(found: Authority) -> Object:
    """The answer of the API."""
    return {
        "at": rfc3339(found.at),
        "grants": [_grant_body(each) for each in found.grants],
        "freezes": [
            {
                "freeze": each.id,
                "scope": {"tool": each.tool, "run": each.run},
                "by": each.by,
                "since": rfc3339(each.since),
                "reason": each.reason,
            }
            for each in found.freezes
        ],
        "keys": [_key_body(each) for each in found.keys],
        "people": [
            {"who": each.person, "roles": list(each.roles), "may": list(each.may), "until": None}
            for each in found.people
        ],
        "is_cut": found.is_cut,
    }


def _grant_body(each: GrantAuthority) -> Object:
    scope = {name: getattr(each, name) for name in ("run", "epoch", "step", "tool", "digest", "uses", "max_uses")}
    who = {"who": each.path, "may": "commit alone", "until": rfc3339(each.until), "grant": each.name}
    return {**who, **scope, "state": each.state.value, "issuer": each.issuer, "approved_by": list(each.approved_by)}


def _key_body(each: KeyAuthority) -> Object:
    return {
        "who": each.name,
        "role": each.role,
        "may": each.may,
        "path": each.path,
        "group": each.group,
        "tools": None if each.tools is None else list(each.tools),
        "lanes": None if each.lanes is None else list(each.lanes),
        "person": each.person,
        "since": rfc3339(each.since),
        "until": rfc3339(each.until),
    }


def _grants(moment: datetime) -> list[GrantAuthority]:
    rows = list(
        Grant.objects.filter(issued_at__lte=moment, issued_at__gt=moment - LONGEST)
        .exclude(Q(revoked_at__lte=moment) | Q(voided_at__lte=moment) | Q(expired_at__lte=moment))
        .exclude(expires_at__lte=moment)
        .select_related("run", "issuer")
        .order_by("-issued_at", "-id")[: MOST + 1]
    )
    used, approved = defaultdict(list), defaultdict(list)
    for grant_id, used_at in GrantUse.objects.filter(grant__in=rows).values_list("grant_id", "used_at"):
        used[grant_id].append(used_at)
    for each in GrantApproval.objects.filter(grant__in=rows, approved_at__lte=moment).select_related("person"):
        approved[each.grant_id].append(each)
    found = []
    for row in rows:
        past = recompute.PastGrant(
            grant=grant_as_pure(row, approvals=0),
            issued_at=row.issued_at,
            live_at=row.live_at,
            used_at=tuple(used[row.id]),
            approved_at=tuple(each.approved_at for each in approved[row.id]),
        )
        then = past.at(moment)
        state = None if then is None else grants.state_of(then, moment)
        if then is not None and state in COUNTS:
            found.append(_granted(row, then, state, [each.person.get_username() for each in approved[row.id]]))
    return found


def _granted(row: Grant, then: grants.Grant, state: State, approved_by: Iterable[str]) -> GrantAuthority:
    return GrantAuthority(
        name=row.name,
        run=row.run.name,
        epoch=row.epoch,
        step=row.step_name,
        tool=row.tool,
        path=row.path,
        digest=row.digest,
        uses=then.uses,
        max_uses=row.max_uses,
        until=then.expires_at or then.pending_until,
        state=state,
        issuer=row.issuer.get_username(),
        approved_by=tuple(approved_by),
    )


def _freezes(moment: datetime) -> list[FreezeAuthority]:
    stood = Q(lifted_at__isnull=True) | Q(lifted_at__gt=moment)
    rows = FreezeRow.objects.filter(stood, set_at__lte=moment).select_related("run", "set_by")
    return [
        FreezeAuthority(
            id=str(row.id),
            tool=row.tool,
            run=row.run.name if row.run else None,
            by=row.set_by.get_username(),
            since=row.set_at,
            reason=row.reason,
        )
        for row in rows.order_by("-set_at", "-id")[: MOST + 1]
    ]


def _keys(moment: datetime) -> list[KeyAuthority]:
    past, people = _past("key", moment), _past("person", moment)
    lived = Q(revoked_at__isnull=True) | Q(revoked_at__gt=moment)
    open_ = Q(expires_at__isnull=True) | Q(expires_at__gt=moment) | Q(name__in=list(past.before))
    rows = Credential.objects.filter(lived, open_, created_at__lte=moment).select_related("person")
    found = []
    for row in rows.order_by("role", "name")[: MOST + 1]:
        until = past.of(row.name, "expires_at", row.expires_at)
        until = datetime.fromisoformat(until) if isinstance(until, str) else until
        person = None if row.person is None else row.person.get_username()
        is_active = row.person is None or people.of(str(person), "is_active", row.person.is_active)
        if is_active and (until is None or until > moment):
            found.append(_keyed(row, past, until, person))
    return found


def _keyed(row: Credential, past: _Past, until: datetime | None, person: str | None) -> KeyAuthority:
    tools, lanes = (past.of(row.name, name, getattr(row, name)) for name in ("tools", "lanes"))
    return KeyAuthority(
        name=row.name,
        role=row.role,
        may=MAY[row.role],
        path=row.path,
        group=past.of(row.name, "group", row.group),
        tools=None if tools is None else tuple(tools),
        lanes=None if lanes is None else tuple(lanes),
        person=person,
        since=row.created_at,
        until=until,
    )


def _people(moment: datetime) -> list[PersonAuthority]:
    past = _past("person", moment)
    rows = User.objects.filter(date_joined__lte=moment).filter(Q(is_active=True) | Q(username__in=list(past.before)))
    found = []
    for row in rows.prefetch_related("groups").order_by("username")[: MOST + 1]:
        name = row.get_username()
        stored = sorted(group.name for group in row.groups.all())
        roles = tuple(past.of(name, "roles", stored))
        roles = ("administrator", *roles) if row.is_superuser and "administrator" not in roles else roles
        if past.of(name, "is_active", row.is_active) and roles:
            may = tuple(MAY[role] for role in roles if role in MAY)
            found.append(PersonAuthority(person=name, roles=roles, may=may))
    return found


def _past(kind: str, moment: datetime) -> _Past:
    """Take back what the audit tells of subjects of a kind since a moment, the newest change first."""
    past = _Past()
    events = AuditEvent.objects.filter(kind=kind, at__gt=moment, before__isnull=False)
    for event in events.order_by("-id"):
        if isinstance(event.before, dict):
            past.before[event.subject].update(event.before)
    return past
