"""Why a grant that was about a step did not let it through: what its trail tells as a refused use (G8).

Nothing here decides. The fence does, and asks afterwards what each grant had to do with it.
"""

from __future__ import annotations

from datetime import datetime

from fencing.protocol import fence
from fencing.protocol.fence import Rules, Step
from fencing.protocol.grants import Grant, why_not_covering

DIVERGED = "a visible divergence beats every grant"


def why_refused(step: Step, grant: Grant, *, rules: Rules, now: datetime) -> str | None:
    """Say why a grant was refused to an undecided step, or None where nobody asked it for anything.

    It was asked where its path voted on a step of its epoch that it names, for a tool that it names, and agreement did
    not make it superfluous.
    """
    voted = [vote for vote in step.votes if vote.path == grant.path and vote.digest is not None]
    if not voted or grant.epoch != step.epoch or grant.step not in (None, step.step) or rules.is_read_only:
        return None
    tools: set[str | None] = {vote.tool for vote in voted if vote.tool is not None}
    tools = tools or {fence.tool_of(step)}
    if grant.tool is not None and grant.tool not in tools:
        return None
    if fence.divergence(step) is not None:
        return DIVERGED
    if fence.is_agreed(step, rules):
        return None
    return why_not_alone(step, grant, rules=rules, now=now)


def why_not_alone(step: Step, grant: Grant, *, rules: Rules, now: datetime) -> str | None:
    """Say why a grant does not let its path act alone on a step with one digest on record, or None where it does."""
    paths, (digest,) = fence.paths_for(step), fence.digests_on_record(step)
    if len(paths) > 1:
        return f"{len(paths)} paths voted, and it lets one act alone"
    tool = fence.tool_of(step)
    if tool is None or fence.payload_for(step, digest, (grant.path,)) is None:
        return f"{grant.path} voted a digest alone, without its action"
    return why_not_covering(
        grant, step=step.step, epoch=step.epoch, path=grant.path, digest=digest, tool=tool, rules=rules, now=now
    )
