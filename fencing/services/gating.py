"""Reading the gate: what it says is also what is written down, with the grades that it read (A7)."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from fencing.models import GateReading
from fencing.models.grade_facts import LaneFacts, gate_body, read_lane
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.gate import Gate
from fencing.services.lanes import check_scope, no_lane, topic_of


def read_gate(name: str, caller: Caller, *, waits: bool = False) -> Result:
    """Answer with the gate of a lane (`GET /lanes/{lane}/gate`); `waits` until it says something else than wait.

    What it said is put on record when it is news for this key: a pipeline that asks each second leaves one row for each
    change, and a gate that was read by nobody has said nothing.
    """
    if (refusal := check_scope(name, caller)) is not None:
        return refusal
    with transaction.atomic():
        facts = read_lane(name)
        if facts is None:
            return no_lane(name)
        reading = facts.reading()
        body = gate_body(facts, reading)
        _record(facts, body, caller)
    pending = (topic_of(name),) if waits and reading.gate is Gate.WAIT else ()
    return Answer(status=OK, body=body, pending=pending)


def _record(facts: LaneFacts, body: dict[str, Any], caller: Caller) -> None:
    said = {name: body[name] for name in ("gate", "reasons", "figures", "snapshot", "thresholds_version")}
    last = GateReading.objects.filter(lane_id=facts.id, by_id=caller.credential_id).order_by("-read_at").first()
    if last is not None and said == {name: getattr(last, name) for name in said}:
        return
    assert caller.credential_id is not None  # noqa: S101 - only keys read the gate by the API
    GateReading.objects.create(
        lane_id=facts.id, upto=facts.upto, excluded=facts.excluded, by_id=caller.credential_id, **said
    )
