"""The demonstration's three lanes: one whose gate passes, one that waits, and one that was halted.

The third one has a grade that was changed behind the system's back: its fragment is moved into another epoch with the
triggers off, as only the owner of the tables can, and the auditor finds it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, transaction

from fencing.protocol.answers import Answer, Result
from fencing.protocol.callers import Caller
from fencing.services import attempts, fragments, gating, lanes, permits, publishing
from fencing.services.grade_audit import audit_lane
from fencing.services.requests import (
    AskPermit,
    LeaseFragments,
    MakeAttempt,
    MakeLane,
    PublishAttempt,
    ReportSpend,
    RestartAttempt,
    SendFragment,
)

FRAGMENTS: Final = 12
TAMPER: Final = """
UPDATE fencing_fragment SET epoch = epoch + 1 WHERE seq = 3
   AND attempt_id = (SELECT id FROM fencing_attempt WHERE name = %s)
"""


class NotAsExpected(Exception):
    """A service said no where the demonstration needs a yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graders:
    """Whose keys the lanes are made with."""

    publisher: Caller
    scorer: Caller
    gate: Caller


def make_lanes(name: str, graders: Graders) -> Iterator[str]:
    """Make the three lanes, and tell what became of each."""
    chance = random.Random(9)  # noqa: S311 - scores of a demonstration, the same each time
    passing, waiting, halted = (f"{name}-{word}" for word in ("canary", "nightly", "tampered"))
    _lane(graders, passing, {"min_published": 2, "min_mean": 0.6, "max_reject_ratio": 0.2})
    for number in range(3):
        _attempt(graders, passing, f"{passing}-{number}", chance, restarts=number == 1)
    _lane(graders, waiting, {"min_published": 2})
    _attempt(graders, waiting, f"{waiting}-0", chance)
    _attempt(graders, waiting, f"{waiting}-1", chance, misses=(4, 9))
    _lane(graders, halted, {})
    for number in range(2):
        _attempt(graders, halted, f"{halted}-{number}", chance)
    _tamper(f"{halted}-1")
    audit_lane(halted)
    for lane in (passing, waiting, halted):
        said = _done(gating.read_gate(lane, graders.gate))
        yield f"lane {lane}: {said['gate']}: {said['reasons'][0]['detail']}"


def _lane(graders: Graders, name: str, thresholds: Any) -> None:
    _done(lanes.make_lane(MakeLane(lane=name, thresholds=thresholds), graders.publisher))


def _attempt(
    graders: Graders,
    lane: str,
    name: str,
    chance: random.Random,
    *,
    restarts: bool = False,
    misses: tuple[int, ...] = (),
) -> None:
    inputs = [{"question": f"What is owed on invoice {9 + seq}?"} for seq in range(FRAGMENTS)]
    request = MakeAttempt(attempt=name, lane=lane, expected=FRAGMENTS, inputs=inputs)
    _done(attempts.make_attempt(request, graders.publisher))
    _done(fragments.lease_fragments(LeaseFragments(lane=lane, limit=FRAGMENTS), graders.scorer))
    epoch = 1
    if restarts:
        _score(graders, name, epoch, range(5), chance)
        late = _permit(graders, name, epoch, 5)
        reason = "The worker's host was replaced."
        _done(
            attempts.restart_attempt(RestartAttempt(attempt=name, expected_epoch=1, reason=reason), graders.publisher)
        )
        epoch = 2
        # The old worker does not know yet.
        fragments.send_fragments([_fragment(name, 1, 5, 0.99, late)], graders.scorer)
        _spend(graders, late)
        _done(fragments.lease_fragments(LeaseFragments(lane=lane, limit=FRAGMENTS), graders.scorer))
    _score(graders, name, epoch, [seq for seq in range(FRAGMENTS) if seq not in misses], chance)
    if not misses:
        _done(publishing.publish_attempt(PublishAttempt(attempt=name), graders.publisher))


def _score(graders: Graders, name: str, epoch: int, seqs: Any, chance: random.Random) -> None:
    for seq in seqs:
        permit = _permit(graders, name, epoch, seq)
        _spend(graders, permit)
        score = round(0.6 + 0.4 * chance.random(), 3)
        (result,) = fragments.send_fragments([_fragment(name, epoch, seq, score, permit)], graders.scorer)
        _done(result)


def _permit(graders: Graders, name: str, epoch: int, seq: int) -> str:
    (result,) = permits.ask_permits([AskPermit(attempt=name, epoch=epoch, seq=seq)], graders.scorer)
    return str(_done(result)["permit"])


def _spend(graders: Graders, permit: str) -> None:
    request = ReportSpend(permit=permit, model="judge-1", tokens_in=900, tokens_out=100)
    (result,) = permits.report_spend([request], graders.scorer)
    _done(result)


def _fragment(name: str, epoch: int, seq: int, score: float, permit: str) -> SendFragment:
    body = {"answer": "42.00", "why": "The invoice says so."}
    return SendFragment(attempt=name, epoch=epoch, seq=seq, body=body, score=score, permit=permit)


def _tamper(attempt: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fencing_fragment DISABLE TRIGGER USER")
        cursor.execute(TAMPER, [attempt])
        cursor.execute("ALTER TABLE fencing_fragment ENABLE TRIGGER USER")


def _done(result: Result) -> Any:
    if not isinstance(result, Answer):
        raise NotAsExpected(f"{result.code}: {result.detail}")
    return result.body
