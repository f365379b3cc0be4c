"""Attempts: admitted with a count before anything is enqueued, and restarted into the next epoch (A1, A3)."""

from __future__ import annotations

from typing import Any, Final

from fencing.models import Attempt, AttemptEpoch, Fragment, Lane
from fencing.models.facts import read_clock
from fencing.models.grade_facts import attempt_body, lock_attempt, pure_attempt
from fencing.protocol import grades
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.canonical import canonical_bytes
from fencing.protocol.errors import Code, Refusal
from fencing.services.identity import content_digest
from fencing.services.lanes import no_lane, not_your_lane, topic_of, work_of
from fencing.services.requests import MakeAttempt, RestartAttempt
from fencing.services.writes import Writes, in_transaction

KIND: Final = "attempt"
# `/attempts/restart` is a call: an attempt of this name could not be read.
TAKEN_NAMES: Final = frozenset({"restart"})


def make_attempt(request: MakeAttempt, caller: Caller) -> Result:
    """Admit an attempt into one of the caller's lanes, in epoch 1 (`POST /attempts`; A1)."""
    return in_transaction(lambda: _make(request, caller))


def restart_attempt(request: RestartAttempt, caller: Caller) -> Result:
    """Open the next epoch; the fragments of the old one leave the grade and stay on record (A3)."""
    return in_transaction(lambda: _restart(request, caller))


def _make(request: MakeAttempt, caller: Caller) -> Result:
    writes = Writes(caller)
    digest = content_digest(request, inputs=None if request.inputs is None else list(request.inputs))
    known = Attempt.objects.select_related("lane", "regrade_of").filter(name=request.attempt).first()
    lane = Lane.objects.filter(name=request.lane).first()
    result: Result
    if lane is None:
        result = no_lane(request.lane)
    elif lane.owner_group != caller.group or (known is not None and known.lane.owner_group != caller.group):
        result = not_your_lane(request.lane)
    elif known is not None and known.content_digest != digest:
        detail = "An attempt of this name was made with other content. A new grade is a new attempt."
        extras = {"current_epoch": known.epoch}
        result = Refusal(code=Code.ATTEMPT_CONFLICT, detail=detail, pointer="/attempt", extras=extras)
    elif known is not None:
        writes.count("duplicates")
        result = Answer(status=OK, body={**attempt_body(known), "duplicate": True})
    else:
        result = _made(request, lane, digest, writes)
    if isinstance(result, Refusal):
        writes.refuse(result, KIND, attempt=request.attempt, lane=request.lane, digest=digest)
    writes.send()
    return result


def _made(request: MakeAttempt, lane: Lane, digest: str, writes: Writes) -> Result:
    if request.attempt in TAKEN_NAMES:
        detail = f"`{request.attempt}` is the address of another call, and no attempt's name."
        return Refusal(code=Code.INVALID_IDENTIFIER, detail=detail, pointer="/attempt")
    older = _regraded(request, writes.caller)
    if isinstance(older, Refusal):
        return older
    if request.inputs is not None and len(request.inputs) != request.expected:
        detail = f"{request.expected} fragments are expected, and {len(request.inputs)} inputs given."
        return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer="/inputs")
    now = read_clock()
    columns: dict[str, Any] = {
        "name": request.attempt,
        "lane_id": lane.id,
        "expected": request.expected,
        "require_permits": request.require_permits,
        "has_inputs": request.inputs is not None,
        "regrade_of_id": None if older is None else older.id,
        "content_digest": digest,
        "by_id": writes.caller.credential_id,
    }
    attempt_id = writes.insert("attempt", epoch=1, state="open", work_at=now, made_at=now, **columns)
    for seq, value in enumerate(request.inputs or ()):
        writes.insert("attemptinput", attempt_id=attempt_id, seq=seq, value=canonical_bytes(value))
    _open(writes, attempt_id=attempt_id, number=1, reason="", dropped=0, opened_at=now)
    after = {"lane": lane.name, "expected": request.expected, "epoch": 1, "regrade_of": request.regrade_of}
    writes.audit("make_attempt", KIND, request.attempt, after=after)
    writes.signal(topic_of(lane.name), work_of(lane.name))
    writes.send()
    return Answer(status=CREATED, body=attempt_body(_row(attempt_id)))


def _row(attempt_id: str) -> Attempt:
    return Attempt.objects.select_related("lane", "regrade_of").get(pk=attempt_id)


def _regraded(request: MakeAttempt, caller: Caller) -> Attempt | Refusal | None:
    if request.regrade_of is None:
        return None
    older = Attempt.objects.select_related("lane").filter(name=request.regrade_of).first()
    if older is None:
        detail = f"There is no attempt {request.regrade_of} to grade anew."
        return Refusal(code=Code.NOT_FOUND, detail=detail, pointer="/regrade_of")
    if older.lane.owner_group != caller.group or older.lane.name != request.lane:
        return not_your_lane(older.lane.name)
    if older.state != grades.State.PUBLISHED:
        detail = f"{older.name} is not published: restart it, instead of grading it anew."
        return Refusal(code=Code.NOT_PUBLISHED, detail=detail, pointer="/regrade_of")
    return older


def _open(writes: Writes, **columns: object) -> None:
    writes.insert("attemptepoch", by_id=writes.caller.credential_id, **columns)


def _restart(request: RestartAttempt, caller: Caller) -> Result:
    writes = Writes(caller)
    attempt = lock_attempt(request.attempt)
    digest = content_digest(request)
    result: Result
    if attempt is None:
        detail = f"There is no attempt {request.attempt}."
        result = Refusal(code=Code.NOT_FOUND, detail=detail, pointer="/attempt")
    elif attempt.lane.owner_group != caller.group:
        result = not_your_lane(attempt.lane.name)
    elif (earlier := _repetition(attempt, request, digest, caller)) is not None:
        writes.count("duplicates")
        told = {"epoch": earlier.number, "dropped": earlier.dropped, "current_epoch": attempt.epoch}
        result = Answer(status=OK, body={"attempt": attempt.name, **told, "duplicate": True})
    else:
        result = _restarted(attempt, request, digest, writes)
    if isinstance(result, Refusal):
        lane = None if attempt is None else attempt.lane.name
        writes.refuse(result, KIND, attempt=request.attempt, lane=lane, epoch=request.expected_epoch)
    writes.send()
    return result


def _repetition(attempt: Attempt, request: RestartAttempt, digest: str, caller: Caller) -> AttemptEpoch | None:
    """Find the restart that this is the exact repetition of, by the same key."""
    same = {"number": request.expected_epoch + 1, "content_digest": digest, "by_id": caller.credential_id}
    return AttemptEpoch.objects.filter(attempt=attempt, **same).first()


def _restarted(attempt: Attempt, request: RestartAttempt, digest: str, writes: Writes) -> Result:
    number = grades.judge_restart(pure_attempt(attempt), expected_epoch=request.expected_epoch)
    if isinstance(number, Refusal):
        return number
    now = read_clock()
    dropped = Fragment.objects.filter(attempt=attempt, epoch=attempt.epoch).count()
    opening = {"number": number, "reason": request.reason, "dropped": dropped, "content_digest": digest}
    _open(writes, attempt_id=attempt.id, opened_at=now, **opening)
    writes.update("attempt", str(attempt.id), epoch=number, work_at=now)
    before, after = {"epoch": attempt.epoch}, {"epoch": number, "dropped": dropped}
    writes.audit("restart_attempt", KIND, attempt.name, before=before, after=after, reason=request.reason)
    writes.signal(topic_of(attempt.lane.name), work_of(attempt.lane.name))
    return Answer(status=CREATED, body={"attempt": attempt.name, "epoch": number, "dropped": dropped})
