"""Lanes of grades, and their gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ninja import Router

from fencing.api.access import ANY_BUT_PATH
from fencing.api.calls import Names, Read, Write
from fencing.api.document import list_of, ref
from fencing.api.endpoints import read, write
from fencing.api.forms import Form
from fencing.api.params import GateQuery, LanesQuery, listed
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.queries import lanes as lane_queries
from fencing.services import gating, lanes
from fencing.services.requests import MakeLane, ResumeLane, SetThresholds

router = Router(tags=["grades"])
PUBLISHERS: Final = frozenset({Role.PUBLISHER})
REVIEWERS: Final = frozenset({Role.REVIEWER})
READERS: Final = frozenset({Role.GATE, Role.PUBLISHER, Role.REVIEWER})


def make_lanes(requests: Sequence[MakeLane], caller: Caller, _names: Names) -> Sequence[Result]:
    """Make a lane: the grades of this key's attempts, and the gate that is computed from them (A5)."""
    return [lanes.make_lane(request, caller) for request in requests]


def resume_lane(requests: Sequence[ResumeLane], caller: Caller, names: Names) -> Sequence[Result]:
    """Let a halted lane run again, with a reason (A4)."""
    return [lanes.resume_lane(names["lane"], request, caller) for request in requests]


def set_thresholds(requests: Sequence[SetThresholds], caller: Caller, names: Names) -> Sequence[Result]:
    """Ask something else of a lane from now on: its next version of thresholds (A5)."""
    return [lanes.set_thresholds(names["lane"], request, caller) for request in requests]


def list_lanes(asked: LanesQuery, _caller: Caller, _names: Names) -> Result:
    """List lanes, newest first."""
    return listed(asked, lane_queries.list_lanes)


def read_gate(asked: GateQuery, caller: Caller, names: Names) -> Result:
    """Read the gate: pass, halt or wait, why, and from which grades (A7). What it says is put on record."""
    return gating.read_gate(names["lane"], caller, waits=asked.wait > 0)


write(
    router,
    "/lanes",
    Write(roles=PUBLISHERS, form=Form(MakeLane), service=make_lanes),
    answer=ref("lane"),
    is_creation=True,
)
read(
    router,
    "/lanes",
    Read(roles=ANY_BUT_PATH, form=Form(LanesQuery, is_query=True), query=list_lanes),
    answer=list_of("lane"),
)
write(
    router,
    "/lanes/{lane}/resume",
    Write(roles=REVIEWERS, form=Form(ResumeLane), service=resume_lane),
    answer=ref("lane"),
)
write(
    router,
    "/lanes/{lane}/thresholds",
    Write(roles=REVIEWERS, form=Form(SetThresholds), service=set_thresholds),
    answer=ref("lane"),
)
read(
    router,
    "/lanes/{lane}/gate",
    Read(roles=READERS, form=Form(GateQuery, is_query=True), query=read_gate),
    answer=ref("gate"),
)
