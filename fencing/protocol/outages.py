"""A path is silent: which grant would help a step that waits for it, and what such a grant is called (G1, F3 row 3)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fencing.protocol import fence
from fencing.protocol.fence import Rules, Step
from fencing.protocol.grants import Grant
from fencing.protocol.previews import Fate, judge_now

# A batch's name, a dash and twelve digits are an identifier (N1).
MAX_BATCH: Final = 187
DIGITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlace:
    """One epoch of a step."""

    run: str
    step: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantFor:
    """The grant that one listed step would get in an outage: the path that may act alone, and for a witness its digest.

    `tool` is named where it is known, so that its limits are asked at once.
    """

    run: str
    step: str
    epoch: int
    path: str = "production"
    tool: str | None = None
    digest: str | None = None


def grant_name(batch: str, place: GrantFor) -> str:
    """The name of a step's grant in a batch: the same each time the batch is sent, so that it is issued once (N2)."""
    told = f"{place.run}/{place.step}/{place.epoch}".encode()
    return f"{batch}-{hashlib.sha256(told).hexdigest()[:DIGITS]}"


def relief(run: str, step: Step, silent: str, *, rules: Rules, now: datetime) -> GrantFor | str:
    """Give the grant under which a step could go on without its silent path, or say why none can help it.

    The trusted path acts; where that one is silent, a witness may, with the exact digest that it voted.
    """
    voted = fence.paths_for(step)
    trusted_is_silent = silent == rules.trusted_path
    path = next(iter(sorted(voted)), None) if trusted_is_silent else rules.trusted_path
    if path is None:
        return f"{silent} is the trusted path: a witness acts alone only with the digest that it voted, and none did"
    seen = fence.digests_on_record(step)
    digest = next(iter(seen)) if trusted_is_silent and len(seen) == 1 else None
    place = GrantFor(run=run, step=step.step, epoch=step.epoch, path=path, tool=fence.tool_of(step), digest=digest)
    verdict = judge_now(step, _grant(place), reason=None, rules=rules, now=now)
    if verdict.fate in (Fate.PASSES, Fate.WAITS):
        return place
    return verdict.why or "it needs no grant"


def _grant(place: GrantFor) -> Grant:
    return Grant(
        name="",
        epoch=place.epoch,
        step=place.step,
        tool=place.tool,
        path=place.path,
        digest=place.digest,
        max_uses=1,
        uses=0,
        ttl_s=1,
        approvals=0,
        approvals_needed=None,
        pending_until=None,
        expires_at=None,
    )


def covers(grant: Grant, place: GrantFor) -> bool:
    """Tell whether a grant of the step's run is there for the same thing already."""
    return (
        grant.epoch == place.epoch
        and grant.path == place.path
        and grant.step in (None, place.step)
        and (grant.tool is None or place.tool is None or grant.tool == place.tool)
    )
