"""Steps as those who wait for them read them, many in one statement; what is not plain is left to `queries.steps`."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fencing.models.facts import outcome_body
from fencing.protocol import objects
from fencing.protocol.answers import OK, Answer
from fencing.protocol.callers import Caller, Role
from fencing.queries.steps import DECIDED

STATEMENT: Final = "SELECT n, step::text FROM fence_straight_reads(%s::jsonb)"
DECIDED_PHASES: Final = frozenset(phase.value for phase in DECIDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One read: the step, and whether and from which phase on it waits (H5)."""

    run: str
    step: str
    epoch: int
    caller: Caller
    phase: str | None
    waits: bool


Course = Generator[tuple[str, str], Sequence[tuple[Any, ...]], list[Answer | None]]


def course(wanted: Sequence[Wanted]) -> Course:
    """Read steps for callers that are no paths: yields a statement with its parameter for rows.

    Returns an answer for each, None where the careful way must look.
    """
    answers: list[Answer | None] = [None] * len(wanted)
    items = [
        {
            "n": number,
            "run": each.run,
            "step": each.step,
            "epoch": each.epoch,
            "by_id": str(each.caller.credential_id),
            "group": each.caller.group if each.caller.role is Role.PLANNER else None,
        }
        for number, each in enumerate(wanted)
        if each.caller.role is not Role.PATH
    ]
    if items:
        for number, row in (yield STATEMENT, json.dumps(items)):
            answers[number] = _answer(wanted[number], json.loads(row))
    return answers


def _answer(wanted: Wanted, row: Mapping[str, Any]) -> Answer:
    phase = row["phase"]
    holds = phase in DECIDED_PHASES if wanted.phase is None else phase != wanted.phase
    pending = () if holds or not wanted.waits else (f"step:{wanted.run}/{wanted.step}/{wanted.epoch}={phase}",)
    return Answer(status=OK, body=body_of_view(wanted.run, row), pending=pending)


def body_of_view(run: str, row: Mapping[str, Any]) -> objects.Object:
    """The step's object, of what `fence_step_views` gives."""
    votes, commit, intent = row["votes"], row["commit"], row["intent"]
    seen = {vote["digest"] for vote in votes} | {row["pinned_digest"]}
    seen.discard(None)
    stands = commit is not None and commit["closed_at"] is None
    return objects.step_object(
        run=run,
        row=row,
        votes=votes,
        digest=next(iter(seen)) if len(seen) == 1 else None,
        tool=row["pinned_tool"] or next((vote["tool"] for vote in votes if vote["tool"] is not None), None),
        commit=objects.commit_object(
            token=commit["token"],
            authority=commit["authority"],
            grant=commit["grant"],
            payload_digest=commit["payload_digest"],
            key=commit["key"],
        )
        if stands
        else None,
        revoked=None
        if commit is None or stands
        else {"reason": commit["closed_reason"], "at": objects.rfc3339(commit["closed_at"])},
        intent=None
        if intent is None
        else {
            "id": intent["id"],
            "state": intent["state"],
            "generation": intent["generation"],
            "outcome": outcome_body(intent["settled"]),
        },
    )
