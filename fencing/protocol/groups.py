"""The groups of people: what the tables of people name them, and which role a group lets its people act in."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from fencing.protocol.callers import Role


class Group(StrEnum):
    """The groups, in the order of what they may."""

    VIEWER = "viewer"
    AUDITOR = "auditor"
    ONCALL = "on-call"
    REVIEWER = "reviewer"
    ADMINISTRATOR = "administrator"


GROUP_OF_ROLE: Final = {
    Role.AUDITOR: Group.AUDITOR,
    Role.ONCALL: Group.ONCALL,
    Role.REVIEWER: Group.REVIEWER,
    Role.ADMINISTRATOR: Group.ADMINISTRATOR,
}
# Whoever is in one of these acts for the house: in production mode only with a second factor.
ACTING: Final = frozenset({Group.ONCALL, Group.REVIEWER, Group.ADMINISTRATOR})
