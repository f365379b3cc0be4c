"""One confirmation for many steps that a silent path holds up: a grant for each, or a replay of those that timed out.

Three hundred waiting steps are one transaction of a few statements, in which each is judged alone and told alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import Reason
from fencing.protocol.identifiers import is_identifier
from fencing.protocol.outages import MAX_BATCH, grant_name
from fencing.services.issuing import issue_grants
from fencing.services.requests import IssueFor, IssueGrant, ReplayStep, ReplaySteps
from fencing.services.steps import replay_steps

MOST: Final = 1000
TIMED_OUT: Final = frozenset({Reason.TIMEOUT, Reason.PATH_UNAVAILABLE})


def issue_grants_for(request: IssueFor, caller: Caller) -> list[Result]:
    """Issue one grant for each listed step, each with a name, an audit row and an answer of its own (G1 to G6).

    Sent twice with one `batch`, the second answers are duplicates.
    """
    refusal = _check_batch(request.batch) or _check_number(request.steps)
    if refusal is not None:
        return [refusal for _ in request.steps]
    wanted = [
        IssueGrant(
            name=grant_name(request.batch, place),
            run=place.run,
            epoch=place.epoch,
            step=place.step,
            tool=place.tool,
            path=place.path,
            digest=place.digest,
            ttl_s=request.ttl_s,
            reason=request.reason,
        )
        for place in request.steps
    ]
    return issue_grants(wanted, caller)


def replay_timed_out(request: ReplaySteps, caller: Caller) -> list[Result]:
    """Replay each listed step that nobody decided in time (R4); any other is `not_rejected`."""
    refusal = _check_number(request.steps)
    if refusal is not None:
        return [refusal for _ in request.steps]
    wanted = [
        ReplayStep(run=place.run, step=place.step, from_epoch=place.epoch, reason=request.reason)
        for place in request.steps
    ]
    return replay_steps(wanted, caller, only=TIMED_OUT)


def _check_batch(batch: str) -> Refusal | None:
    if is_identifier(batch) and len(batch) <= MAX_BATCH:
        return None
    detail = f"A batch is named by 1 to {MAX_BATCH} characters of A-Z a-z 0-9 . _ : @ -, the first a letter or digit."
    return Refusal(code=Code.INVALID_IDENTIFIER, detail=detail, pointer="/batch")


def _check_number(steps: Sequence[object]) -> Refusal | None:
    if len(steps) <= MOST:
        return None
    return Refusal(code=Code.TOO_MANY_ITEMS, detail=f"At most {MOST} steps at once.", pointer="/steps")
