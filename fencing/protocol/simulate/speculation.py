"""Speculation: two branches that want effects at the same time, in every order, here and on a naive coordinator (I3).

A wins. Each branch asks for its keys and ends; effects are optimistic and leave at once. After the reconciliation what
is owed an undoing is undone. At rest the tool's ledger must hold what the winner wanted, once: no more and no less.

The naive coordinator gives an intent to the branch that asked first, and takes the losers' keys back: so the winner
loses what a loser had asked for before it. It is here so that this suite is seen to be able to fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from types import MappingProxyType
from typing import Final

from fencing.protocol import branches, claims, intents, undoing
from fencing.protocol.branches import Branch, Fork, Tree
from fencing.protocol.intents import Claiming, ClaimState, Delivery, Intent, Kind
from fencing.protocol.simulate.figures import Figure

Event = tuple[str, str | None]
"""A branch and the key that it asks for; None is its end."""

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
RETRIES: Final = intents.Retries(is_idempotent=True)
WINNER, LOSER = "A", "B"
SCENES: Final = MappingProxyType(
    {
        "shared_key": (("k",), ("k",)),
        "disjoint_keys": (("a",), ("b",)),
        "wanted_twice": (("k", "k"), ("k",)),
        "overlapping": (("p", "q"), ("p", "r")),
    }
)
NAIVE_MUST_BE: Final = MappingProxyType({"shared_key": 3, "disjoint_keys": 0})


def interleavings(mine: Sequence[str], its: Sequence[str]) -> Iterator[tuple[Event, ...]]:
    """Every order of two branches' events, each branch's own kept."""
    one = [*((WINNER, key) for key in mine), (WINNER, None)]
    other = [*((LOSER, key) for key in its), (LOSER, None)]
    size = len(one) + len(other)
    for places in combinations(range(size), len(one)):
        left, right = iter(one), iter(other)
        yield tuple(next(left) if place in places else next(right) for place in range(size))


@dataclass(slots=True)
class Fenced:
    """This system: the functions of the core, with the least state that they need."""

    tree: Tree = field(
        default_factory=lambda: Tree.of([Fork(name="f")], [Branch(name=name, fork="f") for name in (WINNER, LOSER)])
    )
    newest: dict[str, Intent] = field(default_factory=dict)
    claimed: dict[str, list[str]] = field(default_factory=dict)
    ledger: Counter[str] = field(default_factory=Counter)

    def ask(self, branch: str, key: str) -> None:
        """A step of the branch commits: it claims the key's intent, and the effect leaves unless it left already."""
        how = intents.claim(self.newest.get(key), key)
        if how in (Claiming.OPEN_FIRST, Claiming.OPEN_NEXT):
            generation = claims.generation_for(self.newest.get(key), key)
            self.newest[key] = Intent(generation=generation, fence_digest=key, state=intents.State.READY)
            self.claimed[key] = []
        state = claims.state_of(self.tree.gate(branch), is_committed=True)
        intent = self.newest[key]
        self.claimed[key].append(branch)
        self.newest[key] = replace(intent, claims=(*intent.claims, state), is_optimistic=True)
        self._send(key)

    def _send(self, key: str) -> None:
        intent = self.newest[key]
        verdict = intents.admit(intent, payload=key, retries=RETRIES, has_authority=True, now=NOW)
        if isinstance(verdict, intents.Admitted):
            self.ledger[key] += 1
            made = Delivery(
                number=verdict.number, payload=key, lease_until=NOW + timedelta(seconds=60), outcome=Kind.SUCCEEDED
            )
            self.newest[key] = replace(intent, state=intents.State.SUCCEEDED, deliveries=(*intent.deliveries, made))

    def reconcile(self) -> None:
        """A wins; what nobody wants any more and left is undone, once a person approved it."""
        match branches.reconcile(self.tree, "f", WINNER):
            case branches.Reconciled(tree=tree):
                self.tree = tree
            case other:
                raise AssertionError(f"a fork is reconciled once: {other}")
        for key, intent in self.newest.items():
            states = tuple(claims.state_of(self.tree.gate(branch), is_committed=True) for branch in self.claimed[key])
            after = replace(intent, claims=states)
            self.newest[key] = after
            is_of_lost_branch = ClaimState.LOST in states
            if undoing.is_owed(after, None, is_of_lost_branch=is_of_lost_branch) and ClaimState.OPEN not in states:
                self.ledger[key] -= 1
                self.newest[key] = replace(after, is_undone=True)


@dataclass(slots=True)
class FirstOwner:
    """The naive coordinator: who asked first owns the intent, and a loser's intents are taken back."""

    owner: dict[str, str] = field(default_factory=dict)
    ledger: Counter[str] = field(default_factory=Counter)

    def ask(self, branch: str, key: str) -> None:
        """Send it at once for the first that asks; the others are told that it is done."""
        if key not in self.owner:
            self.owner[key] = branch
            self.ledger[key] += 1

    def reconcile(self) -> None:
        """Take back what the loser owns."""
        for key, branch in self.owner.items():
            if branch != WINNER:
                self.ledger[key] -= 1


def holds(make: Callable[[], Fenced | FirstOwner], order: Sequence[Event], wanted: Sequence[str]) -> bool:
    """Play one order, and tell whether the ledger then holds what the winner wanted, and nothing else (I3)."""
    coordinator = make()
    for branch, key in order:
        if key is not None:
            coordinator.ask(branch, key)
    coordinator.reconcile()
    return +coordinator.ledger == Counter(set(wanted)) and min(coordinator.ledger.values(), default=0) >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationFigures:
    """In how many orders of each scene I3 is broken, here and on the naive coordinator."""

    ours: tuple[Figure, ...]
    naive: tuple[Figure, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The figures as they are printed."""
        return (
            f"speculation here   {' '.join(str(each) for each in self.ours)}",
            f"speculation naive  {' '.join(str(each) for each in self.naive)}",
        )

    @property
    def faults(self) -> tuple[str, ...]:
        """A sentence for each figure that is not what it must be; a suite that cannot fail is at fault, too."""
        wrong = [f"{each} and must be {each.must_be}" for each in (*self.ours, *self.naive) if not each.is_right]
        blind = [
            f"{each.name} finds nothing on the naive coordinator: the suite could not see it"
            for each in self.naive
            if each.name not in NAIVE_MUST_BE and not each.n
        ]
        return (*wrong, *blind)


def speculation() -> SpeculationFigures:
    """Play every order of every scene."""
    ours, naive = [], []
    for name, (mine, its) in SCENES.items():
        orders = list(interleavings(mine, its))
        broken = sum(not holds(Fenced, order, mine) for order in orders)
        ours.append(Figure(name=name, n=broken, of=len(orders), must_be=0))
        broken = sum(not holds(FirstOwner, order, mine) for order in orders)
        naive.append(Figure(name=name, n=broken, of=len(orders), must_be=NAIVE_MUST_BE.get(name)))
    return SpeculationFigures(ours=tuple(ours), naive=tuple(naive))
