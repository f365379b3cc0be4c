"""Keys, as their page shows them: whose, for what, until when, and when they were last used. Never a secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Q, QuerySet

from fencing.models import AuditEvent, Credential
from fencing.models.facts import read_clock
from fencing.protocol.callers import Role
from fencing.protocol.errors import Refusal
from fencing.queries.pages import Page

LIVE: Final = "live"
ENDED: Final = "ended"
REVOKED: Final = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine:
    """One key. `hint` are its last characters; `state` is live, ended or revoked as of the database's clock."""

    name: str
    role: str
    state: str
    hint: str
    path: str | None
    group: str
    tools: tuple[str, ...] | None
    lanes: tuple[str, ...] | None
    person: str | None
    rate_per_s: int
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    rotated_from: str | None
    rotated_to: str | None

    @property
    def binding(self) -> tuple[str, str]:
        """Say in a word and a value what the key is bound to."""
        if self.person is not None:
            return "person", self.person
        bound = {
            Role.PATH: ("path", self.path or ""),
            Role.PLANNER: ("group", self.group),
            Role.GATEWAY: ("tools", "all" if self.tools is None else ", ".join(self.tools) or "none"),
            Role.SCORER: ("lanes", "all" if self.lanes is None else ", ".join(self.lanes) or "none"),
        }
        return bound.get(Role(self.role), ("", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEvent:
    """One act on a key, out of the audit."""

    at: datetime
    actor: str
    verb: str
    before: Any
    after: Any
    reason: str


def list_keys(filters: Mapping[str, str], page: Page) -> tuple[list[KeyLine], str | None] | Refusal:
    """One page of keys, newest first. Filters: `role`, `state`, `name` (its beginning), `person` (a user name)."""
    if (refusal := page.fits(at="created_at")) is not None:
        return refusal
    now = read_clock()
    rows, following = page.of(_chosen(filters, now), at="created_at")
    return [_line(row, now) for row in rows], following


def read_key(name: str) -> KeyLine | None:
    """One key by its name."""
    row = _all().filter(name=name).first()
    return None if row is None else _line(row, read_clock())


def read_key_events(name: str) -> list[KeyEvent]:
    """What was done with a key, newest first."""
    rows = AuditEvent.objects.filter(kind="key", subject=name).order_by("-id")[:100]
    return [
        KeyEvent(
            at=row.at, actor=row.actor, verb=row.verb, before=row.before, after=row.after, reason=row.reason
        )
        for row in rows
    ]  # fmt: skip


def _all() -> QuerySet[Credential]:
    return Credential.objects.select_related("person", "rotated_from", "rotated_to")


def _chosen(filters: Mapping[str, str], now: datetime) -> QuerySet[Credential]:
    rows = _all()
    if filters.get("role"):
        rows = rows.filter(role=filters["role"])
    if filters.get("person"):
        rows = rows.filter(person__username=filters["person"])
    if filters.get("name"):
        rows = rows.filter(name__startswith=filters["name"])
    is_over = Q(expires_at__isnull=False, expires_at__lte=now)
    of_state = {
        LIVE: Q(revoked_at__isnull=True) & ~is_over,
        ENDED: Q(revoked_at__isnull=True) & is_over,
        REVOKED: Q(revoked_at__isnull=False),
    }
    return rows.filter(of_state.get(filters.get("state", ""), Q()))


def _line(row: Credential, now: datetime) -> KeyLine:
    after = getattr(row, "rotated_to", None)
    ended = row.expires_at is not None and row.expires_at <= now
    return KeyLine(
        name=row.name,
        role=row.role,
        state=REVOKED if row.revoked_at else ENDED if ended else LIVE,
        hint=row.hint,
        path=row.path,
        group=row.group,
        tools=None if row.tools is None else tuple(row.tools),
        lanes=None if row.lanes is None else tuple(row.lanes),
        person=row.person.get_username() if row.person else None,
        rate_per_s=row.rate_per_s,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
        rotated_from=row.rotated_from.name if row.rotated_from else None,
        rotated_to=after.name if after else None,
    )
