"""Who plays: keys, people and tools. They stay in the database, since the rows refer to them; nobody knows the keys."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group as GroupOfPeople

from fencing.models.registry import current_registry, registry_at
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.protocol.groups import GROUP_OF_ROLE
from fencing.protocol.tools import ToolDefinition, read_tool
from fencing.services.credentials import COMMAND_LINE, IssueKey, authenticate, issue, revoke
from fencing.services.tools import load_definitions

TOOLS: Final = Path(__file__).with_name("tools.json")
PEOPLE: Final = {
    "maria.keller": Role.ONCALL,
    "jonas.brandt": Role.ONCALL,
    "aylin.demir": Role.REVIEWER,
    "tom.fischer": Role.REVIEWER,
}
ADDRESS: Final = "10.20.0.7"


class CannotPlay(Exception):
    """The stage cannot be set; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Troupe:
    """The callers by what they play."""

    planners: tuple[Caller, ...]
    replica: Caller
    production: Caller
    gateway: Caller
    oncall: Caller
    second_oncall: Caller
    reviewer: Caller

    @classmethod
    def engage(cls) -> Troupe:
        """Register the tools, make the people that are missing, and issue keys whose secret is thrown away.

        Raises:
            CannotPlay: a tool of that name is there with another definition.
        """
        _register_tools()
        mark = secrets.token_hex(3)
        return cls(
            planners=tuple(_caller(Role.PLANNER, f"planner-{name}-{mark}") for name in ("billing", "support", "night")),
            replica=_caller(Role.PATH, f"replica-{mark}", path="replica"),
            production=_caller(Role.PATH, f"production-{mark}", path="production"),
            gateway=_caller(Role.GATEWAY, f"gateway-{mark}"),
            oncall=_caller(Role.ONCALL, f"maria-{mark}", user="maria.keller"),
            second_oncall=_caller(Role.ONCALL, f"jonas-{mark}", user="jonas.brandt"),
            reviewer=_caller(Role.REVIEWER, f"aylin-{mark}", user="aylin.demir"),
        )

    def path(self, name: str) -> Caller:
        """The caller that speaks for a path."""
        return {"replica": self.replica, "production": self.production}[name]

    def dismiss(self) -> None:
        """End the keys. Their rows stay."""
        for each in (*self.planners, self.replica, self.production, self.gateway, self.oncall, self.second_oncall):
            revoke(each.name, COMMAND_LINE)
        revoke(self.reviewer.name, COMMAND_LINE)


def _register_tools() -> None:
    values = json.loads(TOOLS.read_text(encoding="utf-8"))
    known = registry_at(current_registry())
    for value in values:
        definition = read_tool(value)
        if isinstance(definition, ToolDefinition) and known.get(definition.tool, definition) != definition:
            raise CannotPlay(f"the tool {definition.tool} is registered with another definition: that one stays")
    loaded = load_definitions(values, COMMAND_LINE)
    if isinstance(loaded, Refusal):
        raise CannotPlay(loaded.detail)


def _caller(role: Role, name: str, *, path: str | None = None, user: str | None = None) -> Caller:
    if user is not None:
        person, _ = get_user_model().objects.get_or_create(username=user)
        person.groups.add(GroupOfPeople.objects.get_or_create(name=str(GROUP_OF_ROLE[role]))[0])
    issued = issue(IssueKey(role=role, name=name, path=path, user=user), COMMAND_LINE)
    if isinstance(issued, Refusal):
        raise CannotPlay(issued.detail)
    caller = authenticate(f"Bearer {issued.key}", address=ADDRESS)
    if isinstance(caller, Refusal):
        raise CannotPlay(caller.detail)
    return caller
