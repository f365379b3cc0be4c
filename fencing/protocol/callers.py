"""Who asks: the authority of a call comes from its credential, never from its body (N8)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The one role of a key (H1), `system` for what the service does by itself, and two that no key has.

    `administrator` and `person` are for people in the browser alone: over others, and over their own account.
    """

    PLANNER = "planner"
    PATH = "path"
    GATEWAY = "gateway"
    SCORER = "scorer"
    PUBLISHER = "publisher"
    GATE = "gate"
    AUDITOR = "auditor"
    ONCALL = "oncall"
    REVIEWER = "reviewer"
    SYSTEM = "system"
    ADMINISTRATOR = "administrator"
    PERSON = "person"


KEY_ROLES = frozenset(Role) - {Role.SYSTEM, Role.ADMINISTRATOR, Role.PERSON}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A credential that was found good, as a value.

    `group` names the planner keys that share runs; `tools` and `lanes` are None where the key is not scoped;
    `person_id` is set for people's keys. `address` and `request_id` go to the audit alone.
    """

    credential_id: uuid.UUID | None
    name: str
    role: Role
    group: str = ""
    path: str | None = None
    tools: frozenset[str] | None = None
    lanes: frozenset[str] | None = None
    person_id: int | None = None
    person: str | None = None
    rate_per_s: int = 2000
    address: str = ""
    request_id: str = ""

    @property
    def actor(self) -> str:
        """The name that the audit carries: the person behind the key, else the key."""
        return f"{self.person} ({self.name})" if self.person and self.person != self.name else self.name


SYSTEM = Caller(credential_id=None, name="fencer", role=Role.SYSTEM)
