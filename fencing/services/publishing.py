"""Publishing a grade: the one moment at which a set of fragments is judged, and becomes a grade or nothing (A4)."""

from __future__ import annotations

from typing import Any, Final

from fencing.models import Attempt, Fragment, Grade, GradeFinding
from fencing.models.facts import read_clock
from fencing.models.grade_facts import grade_body, lock_attempt, lock_lane, pure_attempt, pure_fragment
from fencing.protocol import grades
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.services.lanes import halt_lane, not_your_lane, topic_of
from fencing.services.requests import PublishAttempt
from fencing.services.writes import Writes, in_transaction

KIND: Final = "publish"


def publish_attempt(request: PublishAttempt, caller: Caller) -> Result:
    """Publish an attempt (`POST /publish`). Asked again, it is the same grade."""
    return in_transaction(lambda: _publish(request, caller))


def _publish(request: PublishAttempt, caller: Caller) -> Result:
    writes = Writes(caller)
    attempt = lock_attempt(request.attempt)
    result: Result
    if attempt is None:
        result = Refusal(code=Code.NOT_FOUND, detail=f"There is no attempt {request.attempt}.", pointer="/attempt")
    elif attempt.lane.owner_group != caller.group:
        result = not_your_lane(attempt.lane.name)
    elif attempt.state == grades.State.PUBLISHED:
        writes.count("duplicates")
        grade = grade_body(Grade.objects.get(attempt=attempt), attempt.name)
        result = Answer(status=OK, body={"result": "publish", "grade": grade, "duplicate": True})
    else:
        result = _judged(attempt, request, writes)
    if isinstance(result, Refusal):
        lane = None if attempt is None else attempt.lane.name
        writes.refuse(result, KIND, attempt=request.attempt, lane=lane)
    writes.send()
    return result


def _judged(attempt: Attempt, request: PublishAttempt, writes: Writes) -> Answer:
    lane = lock_lane(attempt.lane.name)
    assert lane is not None  # noqa: S101 - a lane never goes
    attempt.lane = lane
    rows = list(
        Fragment.objects.filter(attempt=attempt, epoch__gte=attempt.epoch).defer("body").order_by("epoch", "seq")
    )
    verdict = grades.judge_publish(
        pure_attempt(attempt),
        [pure_fragment(row) for row in rows],
        is_lane_halted=lane.state == grades.LaneState.HALTED,
        expected=request.expected,
    )
    if isinstance(verdict, grades.Publish):
        return _published(attempt, rows, verdict, writes)
    if isinstance(verdict, grades.Incomplete):
        body: dict[str, Any] = {"result": "incomplete", "missing": list(verdict.missing), "expected": attempt.expected}
        return Answer(status=OK, body=body)
    return _halted(attempt, verdict, writes)


def _published(attempt: Attempt, rows: list[Fragment], verdict: grades.Publish, writes: Writes) -> Answer:
    place, now = attempt.lane.published + 1, read_clock()
    grade = {
        "epoch": attempt.epoch,
        "mean": verdict.mean,
        "digest": verdict.digest,
        "published_at": now,
    }
    fragments = [str(row.id) for row in rows]
    scored = sum(1 for row in rows if row.score is not None)
    owner = {"attempt_id": attempt.id, "lane_id": attempt.lane.id, "by_id": writes.caller.credential_id}
    writes.insert("grade", place=place, fragments=fragments, scored=scored, **grade, **owner)
    writes.update("attempt", str(attempt.id), state=grades.State.PUBLISHED.value, work_at=None)
    # Without a moment it is the auditor's next one.
    writes.update("lane", str(attempt.lane.id), published=place, audited_at=None)
    after = {"epoch": attempt.epoch, "mean": verdict.mean, "digest": verdict.digest}
    writes.audit("publish_grade", "attempt", attempt.name, before={"state": "open"}, after=after)
    writes.signal(topic_of(attempt.lane.name))
    writes.send()
    return Answer(
        status=OK, body={"result": "publish", "grade": grade_body(Grade.objects.get(attempt=attempt), attempt.name)}
    )


def _halted(attempt: Attempt, verdict: grades.Halt, writes: Writes) -> Answer:
    lane = attempt.lane
    if verdict.found is not None:
        now = read_clock()
        told = f"it holds a fragment of epoch {verdict.found}, and is in epoch {attempt.epoch}"
        finding = {"flaw": grades.Flaw.MIXED.value, "detail": told}
        if not GradeFinding.objects.filter(attempt=attempt, flaw=grades.Flaw.MIXED.value).exists():
            writes.insert(
                "gradefinding", lane_id=lane.id, attempt_id=attempt.id, grade_id=None, found_at=now, **finding
            )
        halt_lane(
            lane,
            f"attempt {attempt.name} was about to be published mixed: {told}",
            attempt=attempt.name,
            writes=writes,
            now=now,
        )
    detail = f"Lane {lane.name} is halted: {lane.halt_reason}"
    writes.side_log(KIND, "lane_halted", detail=detail, attempt=attempt.name, lane=lane.name, epoch=attempt.epoch)
    return Answer(status=OK, body={"result": "halt", "reason": lane.halt_reason})
