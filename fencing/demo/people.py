"""What people do in the play, with keys of their own: issue a grant, read the counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fencing.client.calls import Call, Talk
from fencing.client.shells import Shell, SyncShell, asks


class OnCallTalks(Shell):
    """The calls of somebody on call."""

    @asks
    def issue_grant(self, grant: Mapping[str, Any]) -> Talk[Mapping[str, Any]]:
        """Issue a grant (G1); the members are the protocol's."""
        answer: Mapping[str, Any] = yield from self.asked(Call(method="POST", path="/grants", body=grant))
        return answer

    @asks
    def get_grant(self, name: str) -> Talk[Mapping[str, Any]]:
        """Read a grant."""
        answer: Mapping[str, Any] = yield from self.asked(Call(method="GET", path=f"/grants/{quote(name, safe='')}"))
        return answer


class AuditorTalks(Shell):
    """The calls of an auditor."""

    @asks
    def counters(self) -> Talk[Mapping[str, Any]]:
        """Read all counters (I1 to I6)."""
        answer: Mapping[str, Any] = yield from self.asked(Call(method="GET", path="/counters"))
        return answer


class OnCall(OnCallTalks, SyncShell):
    """Somebody on call."""


class Auditor(AuditorTalks, SyncShell):
    """An auditor."""
