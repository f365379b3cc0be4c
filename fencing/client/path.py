"""What a path says to the fence: it asks which steps await its vote, decides by itself, and votes."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from fencing.client.calls import Apply, Call, Clock, Pause, Talk, members
from fencing.client.errors import Malformed, NotAllowed, Refused, TryLater, Unreachable
from fencing.client.objects import Receipt, Wanted, read, read_list
from fencing.client.polling import LEAST_TURN_S, KeyTalks, patient, wait_of
from fencing.client.shells import AsyncShell, SyncShell, asks

log = logging.getLogger(__name__)

MAX_REASON = 4000  # characters that an abstention may have
FIRST_REST_S = 1.0
LONGEST_REST_S = 60.0
REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """What a path answers: an action, a digest alone, or an abstention with its reason (F2).

    `model`, `prompt` (a fingerprint) and `rationale` are information for people and decide nothing.
    """

    action: Mapping[str, Any] | None = None
    digest: str | None = None
    abstain: str | None = None
    model: str | None = None
    prompt: str | None = None
    rationale: str | None = None


Answer: TypeAlias = Ballot | Mapping[str, Any]
Decide: TypeAlias = Callable[[Wanted], Answer | Awaitable[Answer]]
Heard: TypeAlias = Callable[[Wanted, Receipt | Refused], None]


class PathTalks(KeyTalks):
    """The calls of a path, written once for both shells. Which path it is, its key says (N8)."""

    @asks
    def wanted(self, *, wait_s: float = 0) -> Talk[tuple[Wanted, ...]]:
        """Read what awaits this path's vote, waiting up to `wait_s` seconds for the first; perhaps nothing."""
        return (yield from _wanted(self, wait_s))

    @asks
    def vote(  # noqa: PLR0913 - the members of a vote (F2)
        self,
        run: str,
        step: str,
        epoch: int,
        *,
        action: Mapping[str, Any] | None = None,
        digest: str | None = None,
        abstain: str | None = None,
        model: str | None = None,
        prompt: str | None = None,
        rationale: str | None = None,
    ) -> Talk[Receipt]:
        """Vote once; repeated alike it is a duplicate.

        Raises `Equivocation` after another vote of this path (both are stored), `StaleEpoch`, `UnknownStep` (repeat it
        once the step is proposed), `Malformed` for what has no canonical form.
        """
        ballot = Ballot(action=action, digest=digest, abstain=abstain, model=model, prompt=prompt, rationale=rationale)
        return (yield from _vote(self, run, step, epoch, ballot))

    @asks
    def serve(
        self,
        decide: Decide,
        *,
        stop: Callable[[], bool] = lambda: False,
        heard: Heard = lambda _wanted, _answer: None,
        wait_s: float = 20.0,
    ) -> Talk[None]:
        """Answer every wanted vote with what `decide` returns for it, until `stop()`, which is asked between steps.

        `decide` gives an action, or a `Ballot`. When it raises, the path abstains with the reason, and asks it again
        after a rest that grows up to a minute. An outage of the service is waited out; only a key that may not vote
        ends the loop (`NotAllowed`). `heard` is told each receipt or refusal. One step at a time: two processes with
        one key and a model that wavers would equivocate.
        """
        memory = _Memory()
        while not stop():
            worked = False
            for each in (yield from _endured(self, wait_s)):
                if stop():
                    return
                if memory.is_resting(each, (yield Clock())):
                    continue
                worked = True
                answer = yield from _answered(self, each, decide, memory)
                memory.note(each, answer, (yield Clock()))
                heard(each, answer)
            if not worked:
                yield Pause(least_s=LEAST_TURN_S, spread_s=LEAST_TURN_S)


class Path(PathTalks, SyncShell):
    """A path's client that blocks."""


class AsyncPath(PathTalks, AsyncShell):
    """A path's client for asyncio."""


class _Memory:
    """What a serving path remembers: the digest that it voted for a step, and which steps it gives a rest."""

    def __init__(self) -> None:
        self.voted: OrderedDict[tuple[str, str, int], str] = OrderedDict()
        self.rests: OrderedDict[tuple[str, str, int, str], tuple[float, float]] = OrderedDict()

    def is_resting(self, wanted: Wanted, now: float) -> bool:
        until, _ = self.rests.get((*_place(wanted), wanted.need), (now, 0))
        return now < until

    def note(self, wanted: Wanted, answer: Receipt | Refused, now: float) -> None:
        """A step that is listed again after this was not settled by it: then it is left alone for a while."""
        if isinstance(answer, Receipt) and answer.digest is not None:
            _remember(self.voted, _place(wanted), answer.digest)
        place = (*_place(wanted), wanted.need)
        _, last = self.rests.get(place, (0, FIRST_REST_S / 2))
        rest_s = min(LONGEST_REST_S, last * 2)
        _remember(self.rests, place, (now + rest_s, rest_s))


def _place(wanted: Wanted) -> tuple[str, str, int]:
    return wanted.run, wanted.step, wanted.epoch


def _remember(memory: OrderedDict[Any, Any], place: Any, value: Any) -> None:
    memory[place] = value
    memory.move_to_end(place)
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)


def _wanted(shell: KeyTalks, wait_s: float) -> Talk[tuple[Wanted, ...]]:
    def look(left_s: float) -> Call:
        return Call(method="GET", path="/votes/wanted", query=members(wait=wait_of(left_s)), wait_s=left_s)

    found, _ = yield from patient(shell, look, lambda answer: read_list(Wanted, answer) or None, patience_s=wait_s)
    return found or ()


def _endured(shell: KeyTalks, wait_s: float) -> Talk[tuple[Wanted, ...]]:
    try:
        return (yield from _wanted(shell, wait_s))
    except (Unreachable, TryLater) as trouble:
        log.warning("The fence is away; this path asks again: %s", trouble)
        yield Pause(least_s=shell.repetition.longest_s / 2, spread_s=shell.repetition.longest_s / 2)
        return ()


def _vote(shell: KeyTalks, run: str, step: str, epoch: int, ballot: Ballot) -> Talk[Receipt]:
    body = members(
        run=run,
        step=step,
        epoch=epoch,
        action=ballot.action,
        digest=ballot.digest,
        abstain=ballot.abstain,
        model=ballot.model,
        prompt=ballot.prompt,
        rationale=ballot.rationale,
    )
    return read(Receipt, (yield from shell.asked(Call(method="POST", path="/votes", body=body))))


def _answered(shell: KeyTalks, wanted: Wanted, decide: Decide, memory: _Memory) -> Talk[Receipt | Refused]:
    ballot = yield from _decided(wanted, decide)
    if wanted.need == "action":
        # With the digest of the first vote beside it, a changed mind is refused (C2) instead of equivocating.
        ballot = replace(ballot, digest=memory.voted.get(_place(wanted), ballot.digest))
    try:
        return (yield from _cast(shell, wanted, ballot))
    except NotAllowed:
        raise
    except Refused as refused:
        log.info("The vote on %s was refused: %s", _place(wanted), refused)
        return refused
    except Unreachable as lost:
        log.warning("The vote on %s got no answer: %s", _place(wanted), lost)
        return Receipt(vote="lost")


def _decided(wanted: Wanted, decide: Decide) -> Talk[Ballot]:
    try:
        answer = yield Apply(decide, (wanted,))
    except Exception as fault:  # noqa: BLE001 - whatever stops the path from answering is the reason of its abstention
        return _abstention(fault)
    return answer if isinstance(answer, Ballot) else Ballot(action=answer)


def _cast(shell: KeyTalks, wanted: Wanted, ballot: Ballot) -> Talk[Receipt]:
    try:
        return (yield from _vote(shell, wanted.run, wanted.step, wanted.epoch, ballot))
    except (Malformed, TypeError, ValueError) as fault:
        # What cannot be voted is no answer; said aloud, people see it on the step.
        return (yield from _vote(shell, wanted.run, wanted.step, wanted.epoch, _abstention(fault)))


def _abstention(fault: Exception) -> Ballot:
    reason = f"{type(fault).__name__}: {fault}".encode("utf-8", "replace").decode()
    return Ballot(abstain=reason[:MAX_REASON])
