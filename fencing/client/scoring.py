"""A scoring worker that can be thrown away: takes work, asks for a permit, asks a model, reports, and sends.

It keeps nothing. Killed at any instruction, what it held is handed out again once its lease is over; what it sends late
is refused by the fence. So it needs no care: start any number, and end them as you like.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fencing.client.chat import ChatModel, NoAnswer, Said, Usage
from fencing.client.errors import BadAnswer, NotAllowed, Refused, TryLater, Unreachable
from fencing.client.marker import Scorer
from fencing.client.objects import Leased
from fencing.protocol import strict_json
from fencing.protocol.permits import HEADER

log = logging.getLogger(__name__)

INSTRUCTION: Final = (
    "You grade one answer. Reply with one JSON object and nothing else: "
    '{"score": a number from 0 to 1, "why": a short sentence}.'
)
LONGEST_REST_S: Final = 60.0


@dataclass(kw_only=True)
class ScoringWorker:
    """One worker on one lane. `needs_score` refuses answers without a number; without it the text is the fragment."""

    scorer: Scorer
    model: ChatModel
    lane: str
    instruction: str = INSTRUCTION
    needs_score: bool = True
    counts: dict[str, int] = field(default_factory=dict)
    failures: int = 0

    def serve(self, *, stop: Callable[[], bool] = lambda: False, wait_s: float = 20.0) -> None:
        """Work until `stop()`, which is asked between fragments. Only a key that may not work here ends it."""
        while not stop():
            try:
                taken = self.scorer.lease(self.lane, wait_s=wait_s)
            except (Unreachable, TryLater, BadAnswer) as trouble:
                log.warning("The fence is away; this worker asks again: %s", trouble)
                self._rest()
                continue
            for item in taken:
                self.note(self.work(item))

    def note(self, end: str) -> None:
        """Count how a fragment ended, and rest after a failure: a model that fails is not asked again at once."""
        self.counts[end] = self.counts.get(end, 0) + 1
        if end in ("failed", "lost"):
            self._rest()
        else:
            self.failures = 0

    def work(self, item: Leased) -> str:
        """Score one fragment; give how it ended: accept, duplicate, stale, rejected, failed, lost."""
        try:
            permit = self.scorer.permit(item.attempt, item.epoch, item.seq).permit
            try:
                said = self.model.ask(self._messages(item), headers={HEADER: permit})
                body, score = read_score(said) if self.needs_score else (said.text, None)
            except NoAnswer as fault:
                log.warning("No score for %s seq %s: %s", item.attempt, item.seq, fault)
                self._spend(permit, fault.usage)
                return "failed"
            self._spend(permit, said.usage)
            return self.scorer.send(item.attempt, item.epoch, item.seq, body=body, score=score, permit=permit).result
        except NotAllowed:
            raise
        except Refused as refused:
            # Restarted, published or handed to another meanwhile: the fence has it on record.
            log.info("Seq %s of %s was refused: %s", item.seq, item.attempt, refused)
            return "stale" if refused.code == "stale_epoch" else "rejected"
        except (Unreachable, BadAnswer) as trouble:
            log.warning("Seq %s of %s is left to the next lease: %s", item.seq, item.attempt, trouble)
            return "lost"

    def _spend(self, permit: str, usage: Usage | None) -> None:
        """Report what the call used, before its fragment: a worker that dies in between has spent it all the same."""
        if usage is not None:
            tokens = {"tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out}
            self.scorer.spend(permit, model=self.model.model, **tokens)

    def _messages(self, item: Leased) -> Sequence[dict[str, Any]]:
        given = item.input if isinstance(item.input, str) else json.dumps(item.input, ensure_ascii=False)
        return ({"role": "system", "content": self.instruction}, {"role": "user", "content": given})

    def _rest(self) -> None:
        self.failures += 1
        time.sleep(min(LONGEST_REST_S, 0.25 * 2 ** min(self.failures, 10)))


def read_score(said: Said) -> tuple[Any, float]:
    """Read what was asked for: an object with a finite number `score`. Raises `NoAnswer` for anything else."""
    told = strict_json.parse(said.text.encode("utf-8", "surrogatepass"))
    score = told.get("score") if isinstance(told, dict) else None
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise NoAnswer(f"the model gave no score: {said.text[:200]!r}", usage=said.usage)
    return told, float(score)
