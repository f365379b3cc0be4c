"""I6 and the tables: nothing of the past changes between a world and the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fencing.protocol.fence import Phase
from fencing.protocol.world.records import StepRecord

if TYPE_CHECKING:
    from fencing.protocol.simulate.invariants import Moment

FINAL = frozenset({Phase.REJECTED, Phase.EXEMPT})


def the_past_stays(moment: Moment) -> Iterator[str]:
    """Votes, deliveries, side log and openings only grow, epochs too; what is decided stays decided."""
    before, after = moment.before, moment.after
    if after.epochs.epoch < before.epochs.epoch or after.epochs.counter < before.epochs.counter:
        yield "an epoch went back"
    if after.epochs.counter < after.epochs.epoch:
        yield "the counter is behind the epoch"
    for name in ("side_log", "openings", "incidents"):
        if getattr(after, name)[: len(getattr(before, name))] != getattr(before, name):
            yield f"the {name.replace('_', ' ')} changed"
    for old in before.steps:
        yield from _changed_step(old, after.step(*old.place))
    for intent, now in zip(before.intents, after.intents, strict=False):
        if [each.number for each in now.facts.deliveries][: len(intent.facts.deliveries)] != [
            each.number for each in intent.facts.deliveries
        ]:
            yield f"a delivery of {intent.id} vanished"


def _changed_step(old: StepRecord, new: StepRecord | None) -> Iterator[str]:
    if new is None or new.facts.votes[: len(old.facts.votes)] != old.facts.votes:
        yield f"a vote on {_name(old)} was changed or lost"
    elif old.phase in FINAL and (new.phase is not old.phase or new.reason is not old.reason):
        yield f"{_name(old)} was {old.phase.value} and became {new.phase.value}"
    elif old.phase is Phase.COMMITTED and new.phase not in (Phase.COMMITTED, Phase.REJECTED):
        yield f"{_name(old)} was committed and became {new.phase.value}"
    if new is not None and old.commit is not None:
        # B6: what is undone, and was wanted again meanwhile, is another generation of the same key.
        kept = ("token", "payload", "digest", "key", "at", "grant")
        if new.commit is None or any(getattr(new.commit, each) != getattr(old.commit, each) for each in kept):
            yield f"the commit of {_name(old)} changed"
        elif not old.commit.stands and new.commit.stands:
            yield f"the commit of {_name(old)} came back"


def _name(record: StepRecord) -> str:
    return f"{record.facts.step} of epoch {record.facts.epoch}"
