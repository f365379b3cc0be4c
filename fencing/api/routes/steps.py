"""Steps: proposing, voting, replaying, reading and following them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ninja import Router

from fencing.api.access import ANY
from fencing.api.calls import Names, Read, Write
from fencing.api.document import list_of, ref
from fencing.api.endpoints import read, write
from fencing.api.forms import Form
from fencing.api.params import EventsQuery, StepQuery, WantedQuery, worked_off
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.queries import events as event_queries
from fencing.queries import steps as step_queries
from fencing.queries import votes as vote_queries
from fencing.services import steps, votes
from fencing.services.requests import CastVote, ProposeStep, ReplayStep

router = Router(tags=["steps"])
PLANNERS = frozenset({Role.PLANNER})
PATHS = frozenset({Role.PATH})


def propose_steps(requests: Sequence[ProposeStep], caller: Caller, _names: Names) -> Sequence[Result]:
    """Propose a step. The proposal is the registration: what was not proposed cannot be delivered (F1)."""
    return steps.propose_steps(requests, caller)


def replay_step(requests: Sequence[ReplayStep], caller: Caller, _names: Names) -> Sequence[Result]:
    """Open the next epoch for one step alone, which was rejected or whose effect failed (R4)."""
    return [steps.replay_step(request, caller) for request in requests]


def cast_votes(requests: Sequence[CastVote], caller: Caller, _names: Names) -> Sequence[Result]:
    """Vote on a step, as the path that the key is bound to (F2)."""
    return votes.cast_votes(requests, caller)


def wanted_votes(asked: WantedQuery, caller: Caller, _names: Names) -> Result:
    """List the steps that await this path's vote, or the action of a digest it voted for (F5, F10)."""
    return worked_off(asked, lambda page: vote_queries.wanted(caller, page, wait=asked.wait > 0))


def get_step(asked: StepQuery, caller: Caller, names: Names) -> Result:
    """Read one step; with `wait` as soon as it is decided, with `phase` too as soon as it has left that phase (H5)."""
    found = step_queries.get_step(
        names["run"], names["step"], asked.epoch, caller, phase=asked.phase, wait=asked.wait > 0
    )
    if isinstance(found, Refusal) or not found.pending:
        return found
    # The phase that was seen goes with the topic, so that the net under lost signals knows what to compare with.
    return replace(found, pending=tuple(f"{topic}={found.body['phase']}" for topic in found.pending))


def list_events(asked: EventsQuery, caller: Caller, _names: Names) -> Result:
    """Follow decisions in bulk, oldest first, each with its whole step and token."""
    return event_queries.list_events(asked.after, caller, limit=asked.limit, wait=asked.wait > 0)


PROPOSE = Write(roles=PLANNERS, form=Form(ProposeStep), service=propose_steps, has_bulk=True)
VOTE = Write(roles=PATHS, form=Form(CastVote), service=cast_votes, has_bulk=True)
READ_STEP = Read(roles=ANY, form=Form(StepQuery, is_query=True), query=get_step)

write(
    router,
    "/steps",
    PROPOSE,
    answer=ref("step"),
    is_creation=True,
)
write(
    router,
    "/votes",
    VOTE,
    answer=ref("recorded_vote"),
    is_creation=True,
)
read(
    router,
    "/runs/{run}/steps/{step}",
    READ_STEP,
    answer=ref("step"),
)
read(
    router,
    "/events",
    Read(roles=PLANNERS, form=Form(EventsQuery, is_query=True), query=list_events),
    answer=list_of("event"),
)
read(
    router,
    "/votes/wanted",
    Read(roles=PATHS, form=Form(WantedQuery, is_query=True), query=wanted_votes),
    answer=list_of("wanted_vote"),
)
write(
    router,
    "/steps/replay",
    Write(roles=PLANNERS | {Role.REVIEWER}, form=Form(ReplayStep), service=replay_step),
    answer=ref("opening"),
    is_creation=True,
)
