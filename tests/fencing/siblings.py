"""Requests with three siblings each, reviewers who decide as they like, and the ledger held against what was wanted."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from zlib import crc32

from django.db import connections

from fencing.demo.push_tool import Ledger
from fencing.gateway import compensating, outcomes
from fencing.models import Commit, Compensation, CompensationDelivery, Delivery, Intent, Step
from fencing.protocol.answers import Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.services import forks, runs, steps, votes
from fencing.services.requests import (
    ApproveCompensation,
    AskCompensation,
    CastVote,
    OpenFork,
    OpenRun,
    ProposeStep,
    ReconcileFork,
    ResolveCompensation,
    ResolveIntent,
    RestartRun,
    WaiveCompensation,
)
from tests.pushing import Serving, definition
from tests.stories import actor

BRANCHES: Final = ("A", "B", "C")
TOGETHER: Final = 300
OPEN: Final = ("proposed", "held", "approved", "in_flight", "in_doubt")


def tools(server: Serving) -> list[dict[str, Any]]:
    """Push tools: one that may leave early and can be undone, one that waits for its branch, one that knows no key."""
    args = {name: {"from": "action", "pointer": f"/args/{name}"} for name in ("run", "invoice", "do")}
    early: dict[str, Any] = {"optimistic": True, "compensator": {"tool": "unpay", "args": args}}
    many = {"max_deliveries": 100, "max_in_flight": 40, "deadline_s": 3600}
    return [
        definition(server, policy=many, **early),
        {**definition(server, policy=many), "tool": "unpay"},
        {**definition(server, policy=many), "tool": "book"},
        definition(server, "note", policy=many),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A step that a sibling, or the request's own retry, wants: of which tool, for which invoice of its run."""

    run: str
    step: str
    branch: str | None
    tool: str
    invoice: str
    epoch: int = 1

    @property
    def action(self) -> dict[str, Any]:
        """What is wanted, alike for all who want it; of some the first call takes long enough to be died in."""
        do = ["slow:0.5", "random"] if crc32(f"{self.run}/{self.invoice}".encode()) % 8 == 0 else "random"
        return {"tool": self.tool, "args": {"run": self.run, "invoice": self.invoice, "do": do}}


@dataclass(kw_only=True)
class Request:
    """One request: what its siblings want, which of them wins, and whether it is retried, at once or later."""

    run: str
    wishes: list[Wish]
    winner: str | None
    again: Wish | None
    is_late: bool

    @classmethod
    def drawn(cls, run: str, chance: random.Random) -> Request:
        wishes = [wish for branch in BRANCHES for wish in _of_branch(run, branch, chance)]
        again = Wish(run=run, step="again", branch=None, tool="pay", invoice="shared", epoch=2)
        winner = chance.choice([*BRANCHES, *BRANCHES, None])
        retry = chance.choices(["never", "at once", "late"], [3, 1, 1])[0]
        is_late = retry == "late"
        return cls(run=run, wishes=wishes, winner=winner, again=None if retry == "never" else again, is_late=is_late)


def _of_branch(run: str, branch: str, chance: random.Random) -> Iterator[Wish]:
    """A sibling wants what the others want as well, or something of its own, or now and then both."""
    kinds = chance.choices(["shared", "own", "both"], [5, 4, 1])[0]
    if kinds != "own":
        yield Wish(run=run, step=f"{branch}-shared", branch=branch, tool="pay", invoice="shared")
    if kinds != "shared":
        tool = chance.choices(["pay", "book", "note"], [2, 1, 1])[0]
        yield Wish(run=run, step=f"{branch}-own", branch=branch, tool=tool, invoice=branch)


@dataclass(kw_only=True)
class Planner:
    """Drives requests in waves: one is proposed and voted on, the one before reconciled, an older one retried."""

    requests: list[Request]
    chance: random.Random
    key: Caller = field(default_factory=lambda: actor(Role.PLANNER))
    paths: tuple[Caller, ...] = field(
        default_factory=lambda: tuple(actor(Role.PATH, path=name) for name in ("replica", "production"))
    )

    def drive(self, wave: int) -> None:
        """Bring all requests to their reconciliation."""
        asked = [OpenRun(run=each.run) for each in self.requests]
        for part in _parts(asked):
            _good(runs.open_runs(part, self.key))
        waves = [self.requests[begin : begin + wave] for begin in range(0, len(self.requests), wave)]
        for new, old, oldest in zip([*waves, [], []], [[], *waves, []], [[], [], *waves], strict=True):
            self._propose(new)
            self._end(old)
            self._retry([each for each in oldest if each.is_late])

    def _propose(self, requests: Sequence[Request]) -> None:
        for each in requests:
            self._repeated(partial(forks.open_fork, _fork(each.run), self.key))
        wishes = [wish for each in requests for wish in each.wishes]
        self.chance.shuffle(wishes)
        self._want(wishes)

    def _want(self, wishes: Sequence[Wish]) -> None:
        for part in _parts(wishes):
            self._repeated(partial(steps.propose_steps, [_step(each) for each in part], self.key))
            for path in self.paths:
                self._repeated(partial(votes.cast_votes, [_vote(each) for each in part], path))

    def _end(self, requests: Sequence[Request]) -> None:
        """Reconcile; half of those that are retried at once have restarted by then."""
        at_once = [each for each in requests if each.again and not each.is_late]
        self._restart(at_once[::2])
        for each in self.chance.sample(requests, len(requests)):
            asked = ReconcileFork(run=each.run, fork=f"{each.run}.f", winner=each.winner)
            self._repeated(partial(forks.reconcile_fork, asked, self.key))
        self._restart(at_once[1::2])
        self._want([each.again for each in at_once if each.again])

    def _retry(self, requests: Sequence[Request]) -> None:
        self._restart(requests)
        self._want([each.again for each in requests if each.again])

    def _restart(self, requests: Sequence[Request]) -> None:
        for each in requests:
            restart = RestartRun(run=each.run, expected_epoch=1, reason="the request was sent again")
            self._repeated(partial(runs.restart_run, restart, self.key))

    def _repeated(self, act: Callable[[], Result | Sequence[Result]]) -> None:
        """Act, and now and then once more, as who got no answer does (N2)."""
        _good(act())
        if self.chance.random() < 1 / 4:
            _good(act())


def _fork(run: str) -> OpenFork:
    return OpenFork(run=run, fork=f"{run}.f", branches=BRANCHES)


def _step(wish: Wish) -> ProposeStep:
    return ProposeStep(run=wish.run, step=wish.step, epoch=wish.epoch, branch=wish.branch)


def _vote(wish: Wish) -> CastVote:
    return CastVote(run=wish.run, step=wish.step, epoch=wish.epoch, action=wish.action)


def _good(told: Result | Sequence[Result]) -> None:
    refused = [each for each in (told if isinstance(told, Sequence) else [told]) if not isinstance(each, Answer)]
    assert not refused, refused[:3]


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[begin : begin + TOGETHER] for begin in range(0, len(items), TOGETHER))


@dataclass(kw_only=True)
class Reviewers:
    """Two people who decide as they like, each in a thread, until nothing is left; of doubts they tell the truth.

    What nobody knows they look up in the tool's own ledger, by the key. `asks` is how often the first one has something
    undone that a winner wanted.
    """

    ledger: Ledger
    seed: int
    asks: int
    people: tuple[Caller, ...] = field(default_factory=lambda: (actor(Role.REVIEWER), actor(Role.REVIEWER)))
    is_over: threading.Event = field(default_factory=threading.Event)
    said: Counter[str] = field(default_factory=Counter)

    def decide(self, number: int) -> None:
        """Be one of them."""
        chance, person = random.Random(self.seed + number), self.people[number]  # noqa: S311 - a test's dice
        try:
            while not self.is_over.wait(0.1):
                self._compensations(person, chance)
                self._doubts(person, chance)
                if number == 0 and self.said["asked"] < self.asks:
                    self._ask(person, chance)
        finally:
            connections.close_all()

    def _compensations(self, person: Caller, chance: random.Random) -> None:
        rows = list(Compensation.objects.filter(state__in=("proposed", "in_doubt")).order_by("?")[:40])
        for row in rows:
            wish, known = chance.random(), str(row.pk)
            if row.state == "in_doubt":
                asked = ResolveCompensation(happened=self._is_undone(row), evidence="the tool's ledger")
                self._note("undoing resolved", compensating.resolve(known, asked, person))
            elif wish < 0.6 and row.payload_id is not None:
                approval = ApproveCompensation(digest=row.payload_id, reason="nobody wants it")
                self._note("approved", compensating.approve(known, approval, person))
            elif wish < 0.7:
                waiver = WaiveCompensation(digest=row.payload_id, reason="it does no harm")
                self._note("waived", compensating.waive(known, waiver, person))

    def _doubts(self, person: Caller, chance: random.Random) -> None:
        for row in list(Intent.objects.filter(state="in_doubt").order_by("?")[:40]):
            key = Delivery.objects.filter(intent=row).values_list("idempotency_key", flat=True).first()
            if chance.random() < 0.8:
                asked = ResolveIntent(happened=key in self.ledger.by_key, evidence="the tool's ledger")
                self._note("effect resolved", outcomes.resolve_intent(str(row.pk), asked, person))

    def _ask(self, person: Caller, chance: random.Random) -> None:
        rows = Intent.objects.filter(state="succeeded", tool="pay", claims__state="won").order_by("?")
        row = rows.first() if chance.random() < 0.2 else None
        if row is not None:
            self._note("asked", compensating.ask(AskCompensation(intent=str(row.pk), reason="wrong"), person))

    def _is_undone(self, row: Compensation) -> bool:
        tries = CompensationDelivery.objects.filter(compensation=row).order_by("-admitted_at")
        return tries.values_list("idempotency_key", flat=True).first() in self.ledger.by_key

    def _note(self, what: str, result: Result) -> None:
        self.said[what if isinstance(result, Answer) else f"{what}: {result.code.value}"] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The tool's own ledger beside what was wanted, by run and invoice (I3)."""

    wanted: int
    undone: int
    stands: int
    extra: Counter[tuple[str, str, str]]
    missing: Counter[tuple[str, str, str]]
    doubled: Counter[str]


def balance(ledger: Ledger, requests: Sequence[Request]) -> Balance:
    """Hold the ledger against the winners' standing commits' intents, less what people undid, plus what they let stand.

    Who won is what the planner said, and what happened is what the tool says: neither is read from the system.
    """
    winners = {each.run: each.winner for each in requests}
    expected, undone, stands = Counter[tuple[str, str, str]](), 0, 0
    standing = _wanted_by(winners)
    acts = _acts()
    places = _places()
    for intent in Intent.objects.filter(pk__in=list(places)):
        mine = acts.get(intent.pk, set())
        if ("done", "requested") in mine:
            undone += 1
        elif intent.pk in standing:
            assert ("done", "branch_lost") not in mine, f"{intent.pk} is wanted, and was undone"
            expected[places[intent.pk]] += 1
        elif any(state == "waived" for state, _ in mine):
            stands += intent.state == "succeeded"
            expected[places[intent.pk]] += intent.state == "succeeded"
        else:
            undone += any(state == "done" for state, _ in mine)
    happened = _happened(ledger)
    keys = Counter(row["idempotency_key"] for row in ledger.effects)
    return Balance(
        wanted=len(standing),
        undone=undone,
        stands=stands,
        extra=happened - expected,
        missing=expected - happened,
        doubled=Counter({key: times for key, times in keys.items() if times > 1}),
    )


def _wanted_by(winners: dict[str, str | None]) -> set[Any]:
    """The intents of standing commits of the trunk and of the branches that the planner let win."""
    commits = Commit.objects.filter(closed_at=None).values_list("intent_id", "run__name", "step__branch")
    return {intent for intent, run, branch in commits if branch is None or branch == winners[run]}


def _acts() -> dict[Any, set[tuple[str, str]]]:
    found: dict[Any, set[tuple[str, str]]] = {}
    for intent, state, cause in Compensation.objects.values_list("intent_id", "state", "cause"):
        found.setdefault(intent, set()).add((state, cause))
    return found


def _places() -> dict[Any, tuple[str, str, str]]:
    """What each intent is about that was committed or sent."""
    rows = [
        *Commit.objects.values_list("intent_id", "payload__canonical"),
        *Delivery.objects.values_list("intent_id", "payload__canonical"),
    ]
    return {intent: _place(json.loads(bytes(canonical))) for intent, canonical in rows}


def _place(action: dict[str, Any]) -> tuple[str, str, str]:
    tool = str(action["tool"]).removeprefix("un")
    return tool, str(action["args"]["run"]), str(action["args"]["invoice"])


def _happened(ledger: Ledger) -> Counter[tuple[str, str, str]]:
    """What stands in the world, by the tool's own rows: effects less undoings. Fails where one undid nothing."""
    done, undone = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    for row in ledger.effects:
        (undone if row["action"]["tool"] == "unpay" else done)[_place(row["action"])] += 1
    assert not undone - done, undone - done
    return done - undone


def is_at_rest() -> bool:
    """Whether nothing is undecided, in flight, in doubt, or awaits a person (I3)."""
    under_way = Intent.objects.filter(state__in=("held", "ready", "in_flight", "in_doubt"))
    waiting = Step.objects.filter(phase__in=("proposed", "agreed", "fenced"))
    return not (waiting.exists() or under_way.exists() or Compensation.objects.filter(state__in=OPEN).exists())
