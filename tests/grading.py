"""Rows of grades for tests, in the manner of `factories`: each makes what it refers to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencing.models import (
    Attempt,
    AttemptEpoch,
    AttemptInput,
    Credential,
    Fragment,
    FragmentLease,
    GateReading,
    Grade,
    GradeFinding,
    Lane,
    LaneEvent,
    LaneThresholds,
    Permit,
    Spend,
)
from fencing.models.grade_facts import pure_fragment
from fencing.protocol import grades
from fencing.protocol.canonical import canonical_bytes, digest_of
from tests.factories import NO_DIGEST, fresh, make_credential, make_user, soon
from tests.stores import ORM, Store


def make_lane(*, owner: Credential | None = None, store: Store = ORM, **values: Any) -> Lane:
    owner = owner or make_credential(role="publisher", store=store)
    defaults: dict[str, Any] = {"name": fresh("lane"), "owner": owner, "owner_group": owner.group}
    lane = Lane(**{**defaults, "content_digest": NO_DIGEST, **values})
    store.insert(lane)
    store.insert(LaneThresholds(lane=lane, version=1, thresholds={}, by=owner))
    return lane


def make_attempt(*, lane: Lane | None = None, expected: int = 2, store: Store = ORM, **values: Any) -> Attempt:
    lane = lane or make_lane(store=store)
    defaults: dict[str, Any] = {"name": fresh("attempt"), "lane": lane, "expected": expected, "by": lane.owner}
    attempt = Attempt(**{**defaults, "content_digest": NO_DIGEST, "work_at": soon(0), **values})
    store.insert(attempt)
    store.insert(AttemptEpoch(attempt=attempt, number=1, by=lane.owner))
    return attempt


def make_input(*, attempt: Attempt, seq: int = 0, store: Store = ORM) -> AttemptInput:
    row = AttemptInput(attempt=attempt, seq=seq, value=canonical_bytes({"question": seq}))
    store.insert(row)
    return row


def make_fragment(*, attempt: Attempt, seq: int = 0, store: Store = ORM, **values: Any) -> Fragment:
    body = canonical_bytes(values.pop("text", f"sample {seq}"))
    defaults: dict[str, Any] = {
        "attempt": attempt,
        "epoch": attempt.epoch,
        "seq": seq,
        "body": body,
        "digest": digest_of(body),
        "score": 0.5,
        "by": values.get("by") or make_credential(role="scorer", store=store),
    }
    row = Fragment(**defaults | values)
    store.insert(row)
    return row


def make_fragments(*, attempt: Attempt, store: Store = ORM, **values: Any) -> list[Fragment]:
    """Make every fragment of the open epoch."""
    by = make_credential(role="scorer", store=store)
    return [make_fragment(attempt=attempt, seq=seq, by=by, store=store, **values) for seq in range(attempt.expected)]


def restart(*, attempt: Attempt, store: Store = ORM, dropped: int = 0) -> None:
    """Restart an attempt, as the service does."""
    store.insert(AttemptEpoch(attempt=attempt, number=attempt.epoch + 1, by=attempt.by, dropped=dropped))
    store.update(attempt, epoch=attempt.epoch + 1)


def make_grade(*, attempt: Attempt, parts: Sequence[Fragment], store: Store = ORM, **values: Any) -> Grade:
    """Insert a grade alone; `publish` also tells the attempt and the lane."""
    pure = [pure_fragment(each) for each in parts]
    defaults: dict[str, Any] = {
        "attempt": attempt,
        "lane": attempt.lane,
        "place": attempt.lane.published + 1,
        "epoch": attempt.epoch,
        "fragments": [each.pk for each in parts],
        "mean": grades.mean_of(pure),
        "scored": sum(1 for each in parts if each.score is not None),
        "digest": grades.grade_digest(attempt.name, attempt.epoch, pure),
        "by": attempt.by,
    }
    row = Grade(**defaults | values)
    store.insert(row)
    return row


def publish(*, attempt: Attempt, parts: Sequence[Fragment] | None = None, store: Store = ORM, **values: Any) -> Grade:
    """Publish an attempt whose fragments are there, or are made now."""
    parts = make_fragments(attempt=attempt, store=store) if parts is None else parts
    grade = make_grade(attempt=attempt, parts=parts, store=store, **values)
    store.update(attempt, state="published", work_at=None)
    store.update(attempt.lane, published=grade.place)
    return grade


def make_permit(*, attempt: Attempt, seq: int = 0, store: Store = ORM, **values: Any) -> Permit:
    by = values.get("by") or make_credential(role="scorer", store=store)
    defaults = {"attempt": attempt, "epoch": attempt.epoch, "seq": seq, "number": 1, "token": fresh("permit")}
    row = Permit(**{**defaults, "kid": "k1", "by": by, **values})
    store.insert(row)
    return row


def make_spend(*, permit: Permit, store: Store = ORM, **values: Any) -> Spend:
    place = {"attempt": permit.attempt, "epoch": permit.epoch, "seq": permit.seq, "by": permit.by}
    defaults: dict[str, Any] = {"permit": permit, "tokens_in": 900, "tokens_out": 100, "is_zombie": False}
    row = Spend(**{**place, **defaults, "answered": "wasted", **values})
    store.insert(row)
    return row


def make_lease(*, attempt: Attempt, seq: int = 0, store: Store = ORM, **values: Any) -> FragmentLease:
    by = make_credential(role="scorer", store=store)
    defaults = {"attempt": attempt, "epoch": attempt.epoch, "seq": seq, "by": by, "lease_until": soon(60)}
    row = FragmentLease(**defaults | values)
    store.insert(row)
    return row


def halt(*, lane: Lane, number: int = 1, store: Store = ORM) -> None:
    """Halt a lane, as the service does."""
    store.insert(LaneEvent(lane=lane, number=number, what="halted", reason="a mixed grade was found"))
    store.update(lane, state="halted", halt_reason="a mixed grade was found", halted_at=soon(0))


def resume(*, lane: Lane, number: int = 2, store: Store = ORM) -> None:
    """Resume a halted lane, as the service does."""
    person = make_user(store=store)
    store.insert(LaneEvent(lane=lane, number=number, what="resumed", reason="it was a drill", person=person))
    store.update(lane, state="running", halt_reason=None, halted_at=None)


def make_finding(*, grade: Grade, store: Store = ORM, **values: Any) -> GradeFinding:
    defaults = {"lane": grade.lane, "attempt": grade.attempt, "grade": grade, "flaw": "mixed", "detail": "two epochs"}
    row = GradeFinding(**defaults | values)
    store.insert(row)
    return row


def make_reading(*, lane: Lane, store: Store = ORM) -> GateReading:
    by = make_credential(role="gate", store=store)
    said: dict[str, Any] = {"gate": "wait", "reasons": [], "figures": {}, "snapshot": NO_DIGEST}
    row = GateReading(lane=lane, thresholds_version=1, upto=0, by=by, **said)
    store.insert(row)
    return row


def every_row_of_grades(store: Store) -> None:
    """Make at least one row in every table of grades."""
    attempt = make_attempt(store=store)
    make_input(attempt=attempt, store=store)
    make_lease(attempt=attempt, store=store)
    make_spend(permit=make_permit(attempt=attempt, store=store), store=store)
    grade = publish(attempt=attempt, store=store)
    make_finding(grade=grade, store=store)
    make_reading(lane=attempt.lane, store=store)
    halt(lane=attempt.lane, store=store)
