"""Attempts, their fragments, permits for model calls, and publication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ninja import Router

from fencing.api.access import ANY_BUT_PATH
from fencing.api.calls import Names, Read, Write
from fencing.api.document import ref
from fencing.api.endpoints import read, write
from fencing.api.forms import Form
from fencing.api.params import Nothing
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.queries import attempts as attempt_queries
from fencing.services import attempts, fragments, permits, publishing
from fencing.services.requests import (
    AskPermit,
    LeaseFragments,
    MakeAttempt,
    PublishAttempt,
    ReportSpend,
    RestartAttempt,
    SendFragment,
)

router = Router(tags=["grades"])
PUBLISHERS: Final = frozenset({Role.PUBLISHER})
SCORERS: Final = frozenset({Role.SCORER})


def make_attempts(requests: Sequence[MakeAttempt], caller: Caller, _names: Names) -> Sequence[Result]:
    """Admit an attempt of so many fragments into a lane, before any worker hears of it (A1)."""
    return [attempts.make_attempt(request, caller) for request in requests]


def get_attempt(_asked: Nothing, _caller: Caller, names: Names) -> Result:
    """Read one attempt."""
    return attempt_queries.get_attempt(names["attempt"])


def restart_attempt(requests: Sequence[RestartAttempt], caller: Caller, _names: Names) -> Sequence[Result]:
    """Open the next epoch of an attempt: what it has so far leaves the grade, and stays on record (A3)."""
    return [attempts.restart_attempt(request, caller) for request in requests]


def lease_fragments(requests: Sequence[LeaseFragments], caller: Caller, _names: Names) -> Sequence[Result]:
    """Take work: fragments of the open epochs of a lane that nobody has sent and nobody else holds."""
    return [fragments.lease_fragments(request, caller) for request in requests]


def ask_permits(requests: Sequence[AskPermit], caller: Caller, _names: Names) -> Sequence[Result]:
    """Ask for a permit before a model call; a closed epoch gets none (A6)."""
    return permits.ask_permits(requests, caller)


def report_spend(requests: Sequence[ReportSpend], caller: Caller, _names: Names) -> Sequence[Result]:
    """Report what the model call of a permit used (A6)."""
    return permits.report_spend(requests, caller)


def send_fragments(requests: Sequence[SendFragment], caller: Caller, _names: Names) -> Sequence[Result]:
    """Send a fragment: accepted, a duplicate of the first one, or rejected with its reason (A2)."""
    return fragments.send_fragments(requests, caller)


def publish_attempt(requests: Sequence[PublishAttempt], caller: Caller, _names: Names) -> Sequence[Result]:
    """Publish the grade of a complete attempt; once, and always the same (A4)."""
    return [publishing.publish_attempt(request, caller) for request in requests]


write(
    router,
    "/attempts",
    Write(roles=PUBLISHERS, form=Form(MakeAttempt), service=make_attempts),
    answer=ref("attempt"),
    is_creation=True,
)
write(
    router,
    "/attempts/restart",
    Write(roles=PUBLISHERS, form=Form(RestartAttempt), service=restart_attempt),
    answer=ref("restart"),
    is_creation=True,
)
# After `/attempts/restart`, which would be one of its names.
read(
    router,
    "/attempts/{attempt}",
    Read(roles=ANY_BUT_PATH, form=Form(Nothing, is_query=True), query=get_attempt),
    answer=ref("attempt"),
)
write(
    router,
    "/fragments/lease",
    Write(roles=SCORERS, form=Form(LeaseFragments), service=lease_fragments),
    answer=ref("leased_fragments"),
)
write(
    router,
    "/permits",
    Write(roles=SCORERS, form=Form(AskPermit), service=ask_permits, has_bulk=True),
    answer=ref("permit"),
    is_creation=True,
)
write(
    router,
    "/permits/spend",
    Write(roles=SCORERS, form=Form(ReportSpend), service=report_spend, has_bulk=True),
    answer=ref("spend"),
    is_creation=True,
)
write(
    router,
    "/fragments",
    Write(roles=SCORERS, form=Form(SendFragment), service=send_fragments, has_bulk=True),
    answer=ref("fragment_result"),
    is_creation=True,
)
write(
    router,
    "/publish",
    Write(roles=PUBLISHERS, form=Form(PublishAttempt), service=publish_attempt),
    answer=ref("publication"),
)
