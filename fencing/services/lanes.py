"""Lanes: made by a publisher, asked for by a reviewer's thresholds, halted by the system and resumed by a person."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from fencing.models import Incident, Lane, LaneEvent, LaneThresholds
from fencing.models.facts import read_clock
from fencing.models.grade_facts import lane_bodies, lock_lane, number_of_events
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.grades import LaneState
from fencing.services.identity import content_digest
from fencing.services.requests import MakeLane, ResumeLane, SetThresholds
from fencing.services.writes import Writes, in_transaction

KIND: Final = "lane"


def make_lane(request: MakeLane, caller: Caller) -> Result:
    """Make a lane for the caller's grades (`POST /lanes`; A5)."""
    return in_transaction(lambda: _make(request, caller))


def resume_lane(name: str, request: ResumeLane, caller: Caller, *, seen: int | None = None) -> Result:
    """Let a halted lane run again, in a reviewer's name (`POST /lanes/{lane}/resume`; A4).

    `seen` is the number of the halt that the person looked at: another one since then is `changed`.
    """
    return in_transaction(lambda: _resume(name, request, caller, seen))


def set_thresholds(name: str, request: SetThresholds, caller: Caller, *, seen: int | None = None) -> Result:
    """Ask something else of a lane, as its next version (`POST /lanes/{lane}/thresholds`; A5).

    `seen` is the version that the person looked at: another one since then is `changed`.
    """
    return in_transaction(lambda: _set_thresholds(name, request, caller, seen))


def halt_lane(lane: Lane, reason: str, *, attempt: str, writes: Writes, now: datetime) -> None:
    """Halt a lane that is under lock, open an incident, and wake who waits (A4). A halted one stays as it is."""
    if lane.state == LaneState.HALTED:
        return
    number = number_of_events(lane) + 1
    lane.state, lane.halt_reason, lane.halted_at = LaneState.HALTED.value, reason, now
    writes.insert(
        "laneevent", lane_id=lane.id, number=number, what=LaneEvent.What.HALTED, reason=reason, attempt=attempt, at=now
    )
    writes.update("lane", str(lane.id), state=LaneState.HALTED.value, halt_reason=reason, halted_at=now)
    incident = {"kind": Incident.Kind.LANE_HALTED, "state": Incident.State.OPEN, "opened_at": now, "resources": []}
    writes.insert("incident", lane=lane.name, note=f"{attempt}: {reason}", **incident)
    writes.audit("halt_lane", KIND, lane.name, before={"state": "running"}, after={"state": "halted"}, reason=reason)
    writes.signal(topic_of(lane.name))


def topic_of(lane: str) -> str:
    """On what a reader of the lane's gate waits."""
    return f"lane:{lane}"


def work_of(lane: str) -> str:
    """On what a worker of the lane waits."""
    return f"work:{lane}"


def _make(request: MakeLane, caller: Caller) -> Result:
    writes = Writes(caller)
    thresholds = _given(request.thresholds)
    digest = content_digest(request, thresholds=thresholds)
    known = Lane.objects.filter(name=request.lane).first()
    result: Result
    if known is None:
        result = _made(request.lane, thresholds, digest, writes)
    elif known.owner_group != caller.group:
        result = writes.refuse(not_your_lane(request.lane), KIND, lane=request.lane)
    elif known.content_digest != digest:
        detail = f"Lane {request.lane} was made with other content. A reviewer changes what is asked of it."
        refusal = Refusal(code=Code.LANE_CONFLICT, detail=detail, pointer="/lane")
        result = writes.refuse(refusal, KIND, lane=request.lane, digest=digest)
    else:
        writes.count("duplicates")
        result = Answer(status=OK, body={**lane_bodies([known])[0], "duplicate": True})
    writes.send()
    return result


def _made(name: str, thresholds: Mapping[str, Any], digest: str, writes: Writes) -> Answer:
    owner = {"owner_id": writes.caller.credential_id, "owner_group": writes.caller.group}
    counts = {"thresholds_version": 1, "published": 0, "audited": 0}
    now = read_clock()
    lane_id = writes.insert("lane", name=name, content_digest=digest, state="running", made_at=now, **owner, **counts)
    _add_version(writes, lane_id=lane_id, version=1, thresholds=thresholds, set_at=now, reason="")
    writes.audit("make_lane", KIND, name, after={"thresholds": dict(thresholds)})
    writes.send()
    return Answer(status=CREATED, body=lane_bodies([Lane.objects.get(pk=lane_id)])[0])


def _add_version(writes: Writes, **columns: object) -> None:
    who = {"person_id": writes.caller.person_id, "by_id": writes.caller.credential_id}
    writes.insert("lanethresholds", **columns, **who)


def _resume(name: str, request: ResumeLane, caller: Caller, seen: int | None) -> Result:
    writes = Writes(caller)
    lane = lock_lane(name)
    result: Result
    result = no_lane(name) if lane is None else _resumed(lane, request, writes, seen)
    if isinstance(result, Refusal):
        writes.refuse(result, KIND, lane=name)
    writes.send()
    return result


def _resumed(lane: Lane, request: ResumeLane, writes: Writes, seen: int | None) -> Result:
    last = LaneEvent.objects.select_related("person").filter(lane=lane).order_by("-number").first()
    number = 0 if last is None else last.number
    if lane.state == LaneState.RUNNING:
        return _not_halted(lane, last, request, writes)
    if seen not in (None, number):
        return Refusal(code=Code.CHANGED, detail=f"Lane {lane.name} was halted anew meanwhile: {lane.halt_reason}")
    now = read_clock()
    who = {"person_id": writes.caller.person_id, "by_id": writes.caller.credential_id}
    event = {"number": number + 1, "what": LaneEvent.What.RESUMED, "reason": request.reason, "at": now}
    writes.insert("laneevent", lane_id=lane.id, **event, **who)
    writes.update("lane", str(lane.id), state=LaneState.RUNNING.value, halt_reason=None, halted_at=None)
    before, after = {"state": "halted", "halted_for": lane.halt_reason}, {"state": "running"}
    writes.audit("resume_lane", KIND, lane.name, before=before, after=after, reason=request.reason)
    writes.signal(topic_of(lane.name))
    writes.send()
    return Answer(status=OK, body=lane_bodies([Lane.objects.get(pk=lane.pk)])[0])


def _not_halted(lane: Lane, last: LaneEvent | None, request: ResumeLane, writes: Writes) -> Result:
    """Answer who resumes a lane that runs: the same word again is a duplicate, another comes too late."""
    if last is None:
        return Refusal(code=Code.NOT_HALTED, detail=f"Lane {lane.name} is not halted.")
    if last.person_id == writes.caller.person_id and last.reason == request.reason:
        writes.count("duplicates")
        return Answer(status=OK, body={**lane_bodies([lane])[0], "duplicate": True})
    by = last.person.get_username() if last.person else None
    extras = {"decided_by": by, "decided_at": last.at}
    return Refusal(code=Code.NOT_HALTED, detail=f"Lane {lane.name} runs: {by} resumed it.", extras=extras)


def _set_thresholds(name: str, request: SetThresholds, caller: Caller, seen: int | None) -> Result:
    writes = Writes(caller)
    lane = lock_lane(name)
    result = no_lane(name) if lane is None else _asked_anew(lane, request, writes, seen)
    if isinstance(result, Refusal):
        writes.refuse(result, KIND, lane=name)
    writes.send()
    return result


def _asked_anew(lane: Lane, request: SetThresholds, writes: Writes, seen: int | None) -> Result:
    thresholds = _given(request.thresholds)
    now = LaneThresholds.objects.select_related("person").get(lane=lane, version=lane.thresholds_version)
    if now.thresholds == thresholds and now.reason == request.reason and now.person_id == writes.caller.person_id:
        writes.count("duplicates")
        return Answer(status=OK, body={**lane_bodies([lane])[0], "duplicate": True})
    if seen not in (None, now.version):
        by = now.person.get_username() if now.person else None
        detail = f"Meanwhile {by or 'somebody'} asked something else of lane {lane.name}: version {now.version}."
        return Refusal(code=Code.CHANGED, detail=detail, extras={"decided_by": by, "decided_at": now.set_at})
    version = now.version + 1
    _add_version(
        writes, lane_id=lane.id, version=version, thresholds=thresholds, set_at=read_clock(), reason=request.reason
    )
    writes.update("lane", str(lane.id), thresholds_version=version)
    before, after = {"thresholds": now.thresholds}, {"thresholds": thresholds, "version": version}
    writes.audit("set_thresholds", KIND, lane.name, before=before, after=after, reason=request.reason)
    writes.signal(topic_of(lane.name))
    writes.send()
    return Answer(status=OK, body=lane_bodies([Lane.objects.get(pk=lane.pk)])[0])


def _given(thresholds: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sorted(thresholds.items()) if value is not None}


def no_lane(name: str) -> Refusal:
    """Refuse a name that no lane has."""
    return Refusal(code=Code.NOT_FOUND, detail=f"There is no lane {name}: its publisher makes it (POST /lanes).")


def not_your_lane(name: str) -> Refusal:
    """Refuse a key that has nothing to do in a lane (A5, H1)."""
    return Refusal(code=Code.NOT_YOUR_LANE, detail=f"Lane {name} is none of this key's.")


def check_scope(name: str, caller: Caller) -> Refusal | None:
    """Refuse a key that the operator bound to other lanes (H1)."""
    return None if caller.lanes is None or name in caller.lanes else not_your_lane(name)
