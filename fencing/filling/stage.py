"""The stage: plays calls of the real services one after the other, and notes when each of them ended.

Every call says how long its caller took before it. The play itself does not wait: the pauses are put in when a cast is
made, and then every moment that a call wrote moves with it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from fencing.filling.troupe import CannotPlay, Troupe
from fencing.gateway.admissions import admit
from fencing.gateway.outcomes import report_outcomes
from fencing.models import Commit
from fencing.models.facts import read_clock
from fencing.protocol.answers import Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.services.fencing import decide_due
from fencing.services.requests import Admit, CastVote, OpenRun, ProposeStep, ReportOutcome
from fencing.services.runs import open_runs
from fencing.services.steps import propose_steps
from fencing.services.votes import cast_votes

# Nine digits that stand nowhere by chance: each number, and each amount, of a cast takes the place of one.
FIRST_NUMBER: Final = 913_570_001
FIRST_AMOUNT: Final = 813_570_001
THINKING_S: Final = {"replica": 2.2, "production": 3.4}
MODELS: Final = {"replica": ("small-model-2", "p-b41d"), "production": ("large-model-5", "p-07fe")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One call that was played: the seconds before it, and when it ended, by both clocks that rows are stamped with."""

    pause_s: float
    database: datetime
    machine: float


@dataclass(slots=True, kw_only=True)
class Stage:
    """One run under play. `run` is its name, `beats` what was played."""

    troupe: Troupe
    planner: Caller
    run: str
    beats: list[Beat] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(FIRST_NUMBER))
    _amounts: Iterator[int] = field(default_factory=lambda: itertools.count(FIRST_AMOUNT))

    def open(self) -> None:
        """Open the run."""
        labels = {"channel": "mail", "customer": str(self.number())}
        self.good(0.0, open_runs([OpenRun(run=self.run, labels=labels)], self.planner)[0])

    def number(self) -> int:
        """Return a number that is another one in each cast."""
        return next(self._numbers)

    def amount(self) -> int:
        """Return an amount that is another one in each cast, small as amounts are."""
        return next(self._amounts)

    def action(self, tool: str, **more: object) -> dict[str, Any]:
        """Make an action of its own."""
        args = {"invoice": self.number(), "cents": self.amount(), "currency": "EUR"} | more
        return {"tool": tool, "args": {name: value for name, value in args.items() if value is not None}}

    def propose(self, step: str, *, epoch: int = 1, pause_s: float = 1.0, **more: Any) -> None:
        """Propose a step."""
        context = {"ticket": "The customer was charged twice and asks for the difference.", "language": "en"}
        request = ProposeStep(run=self.run, step=step, epoch=epoch, context=context, **more)
        self.good(pause_s, propose_steps([request], self.planner)[0])

    def vote(
        self,
        step: str,
        path: str,
        action: Mapping[str, Any] | None,
        *,
        epoch: int = 1,
        pause_s: float | None = None,
        refused: Code | None = None,
        **more: Any,
    ) -> None:
        """Vote by a path."""
        model, prompt = MODELS[path]
        request = CastVote(run=self.run, step=step, epoch=epoch, action=action, model=model, prompt=prompt, **more)
        pause_s = THINKING_S[path] if pause_s is None else pause_s
        self.expect(pause_s, cast_votes([request], self.troupe.path(path))[0], refused)

    def decide(self, *, pause_s: float = 0.006) -> None:
        """Let the fencer decide what is due."""
        if decide_due() == 0:
            raise CannotPlay("nothing was due for the fencer")
        self.mark(pause_s)

    def agree(self, step: str, action: Mapping[str, Any], *, epoch: int = 1) -> None:
        """Have both paths want the same, and the fencer decide."""
        for path in ("replica", "production"):
            self.vote(step, path, action, epoch=epoch)
        self.decide()

    def token(self, step: str, epoch: int = 1) -> str:
        """The token of a step's commit."""
        return Commit.objects.get(run__name=self.run, step_name=step, epoch=epoch).token

    def admit(self, step: str, action: Mapping[str, Any], *, epoch: int = 1, pause_s: float = 0.4) -> Mapping[str, Any]:
        """Have the effect admitted; give the answer."""
        result = admit([Admit(action=action, token=self.token(step, epoch))], self.troupe.gateway)[0]
        return self.good(pause_s, result)

    def try_without(self, step: str, action: Mapping[str, Any], refused: Code, *, token: str | None = None) -> None:
        """Call the gateway with what it refuses."""
        request = Admit(action=action, token=token, run=self.run, step=step, epoch=1)
        self.expect(0.3, admit([request], self.troupe.gateway)[0], refused)

    def report(self, admitted: Mapping[str, Any], outcome: str, *, pause_s: float = 0.8, response: Any = None) -> None:
        """Report what became of a delivery."""
        request = ReportOutcome(
            intent=admitted["intent"],
            delivery=admitted["delivery"],
            outcome=outcome,  # type: ignore[arg-type]
            response=response,
        )
        self.good(pause_s, report_outcomes([request], self.troupe.gateway)[0])

    def deliver(self, step: str, action: Mapping[str, Any], *, epoch: int = 1, outcome: str = "succeeded") -> None:
        """Have the effect admitted and its outcome reported."""
        admitted = self.admit(step, action, epoch=epoch)
        response = {"reference": self.number(), "state": "booked" if outcome == "succeeded" else "declined"}
        self.report(admitted, outcome, response=response)

    def good(self, pause_s: float, result: Result) -> Mapping[str, Any]:
        """Note a call that was answered; give the answer's body. Raises `CannotPlay` where it was refused."""
        self.expect(pause_s, result, None)
        return result.body if isinstance(result, Answer) else {}

    def expect(self, pause_s: float, result: Result, refused: Code | None) -> None:
        """Note a call that was refused with a code, or with None was not."""
        got = result.code if isinstance(result, Refusal) else None
        if got is not refused:
            told = result.detail if isinstance(result, Refusal) else result.body
            raise CannotPlay(f"{self.run}: {got} instead of {refused}: {told}")
        self.mark(pause_s)

    def mark(self, pause_s: float) -> None:
        """Note that a call ended now, `pause_s` seconds after the one before."""
        self.beats.append(Beat(pause_s=pause_s, database=read_clock(), machine=time.time()))
