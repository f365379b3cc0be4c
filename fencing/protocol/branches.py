"""Forks and branches: speculative siblings, of which at most one wins (protocol, section 10).

A fork names its branches and is reconciled once. It may lie in a branch of another fork, so the forks of a run are a
tree. Two questions decide everything that happens in a branch: may it act (it and all its ancestors have won), and is
it lost (it or one of its ancestors has lost)? In between it waits, and only what can be undone may leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import TRUNK, Gate


class State(StrEnum):
    """What became of a branch. A winner is still lost when a branch is lost that it lies in (B4)."""

    UNDECIDED = "undecided"
    WON = "won"
    LOST = "lost"


TRANSITIONS = MappingProxyType(
    {
        State.UNDECIDED: MappingProxyType(
            {State.WON: "its fork was reconciled with it", State.LOST: "its fork was reconciled without it"}
        ),
        State.WON: MappingProxyType({State.LOST: "a branch that it lies in was lost"}),
        State.LOST: MappingProxyType({}),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One branch: its name, unique in the run, and the fork that it belongs to."""

    name: str
    fork: str
    state: State = State.UNDECIDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """One fork. `parent` is the branch that it lies in, None on the trunk; `winner` is told once it is reconciled."""

    name: str
    parent: str | None = None
    winner: str | None = None
    is_reconciled: bool = False


LOST_FOR_CERTAIN = Gate(may_act=False, is_lost=True)
WAITS = Gate(may_act=False, is_lost=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The forks of one run, and their branches in the order in which they were named."""

    forks: Mapping[str, Fork] = field(default_factory=dict)
    branches: Mapping[str, Branch] = field(default_factory=dict)

    @classmethod
    def of(cls, forks: Iterable[Fork], branches: Iterable[Branch]) -> Tree:
        """Make a tree of its parts."""
        return cls(forks={each.name: each for each in forks}, branches={each.name: each for each in branches})

    def of_fork(self, fork: str) -> tuple[Branch, ...]:
        """The branches of one fork, in the order in which they were named."""
        return tuple(branch for branch in self.branches.values() if branch.fork == fork)

    def upward(self, branch: str) -> Iterator[Branch]:
        """A branch and all its ancestors, from the inside out."""
        name: str | None = branch
        while name is not None:
            found = self.branches[name]
            yield found
            name = self.forks[found.fork].parent

    def gate(self, branch: str | None) -> Gate:
        """Tell whether a step of this branch may act (B3), and whether its branch is lost (B4).

        The trunk always may. A branch that is not there never may, and nothing is lost by it: fail closed.
        """
        if branch is None:
            return TRUNK
        if branch not in self.branches:
            return WAITS
        states = [each.state for each in self.upward(branch)]
        if State.LOST in states:
            return LOST_FOR_CERTAIN
        return TRUNK if all(state is State.WON for state in states) else WAITS

    def within(self, branches: Iterable[str]) -> tuple[str, ...]:
        """Name these branches and all that lie in them, at any depth."""
        named = frozenset(branches)
        return tuple(name for name in self.branches if any(each.name in named for each in self.upward(name)))


EMPTY = Tree()


@dataclass(frozen=True, slots=True, kw_only=True)
class Same:
    """The very reconciliation that is on record, asked for again (N2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A fork that may be opened."""

    fork: Fork
    branches: tuple[Branch, ...]


def check_branch(tree: Tree, branch: str | None) -> Refusal | None:
    """Refuse a proposal in a branch that is not there (B1), or that is lost (B4)."""
    if branch is None:
        return None
    if branch not in tree.branches:
        detail = f"There is no branch {branch} in this run: open its fork first (POST /forks)."
        return Refusal(code=Code.UNKNOWN_BRANCH, detail=detail, pointer="/branch")
    return branch_lost(branch, pointer="/branch") if tree.gate(branch).is_lost else None


def branch_lost(branch: str, *, pointer: str) -> Refusal:
    """Refuse what is new in a lost branch (B4)."""
    return Refusal(code=Code.BRANCH_LOST, detail=f"Branch {branch} is lost: it takes nothing new.", pointer=pointer)


def open_fork(tree: Tree, *, name: str, branches: tuple[str, ...], parent: str | None) -> Opened | Refusal:
    """Judge a fork that is not on record yet (B1): its place, and that its branches' names are new in the run."""
    if parent is not None and parent not in tree.branches:
        detail = f"There is no branch {parent} in this run for the fork to lie in."
        return Refusal(code=Code.UNKNOWN_BRANCH, detail=detail, pointer="/parent")
    for index, branch in enumerate(branches):
        if branch in tree.branches or branch in branches[:index]:
            detail = f"There is a branch {branch} in this run already: names are unique in a run."
            return Refusal(code=Code.BRANCH_EXISTS, detail=detail, pointer=f"/branches/{index}")
    if parent is not None and tree.gate(parent).is_lost:
        return branch_lost(parent, pointer="/parent")
    made = tuple(Branch(name=branch, fork=name) for branch in branches)
    return Opened(fork=Fork(name=name, parent=parent), branches=made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What a reconciliation does: the tree afterwards, which branches are lost by it, and which may act by it.

    `closed` are the forks that it ends: the one that was asked for, and those that lie in what is lost.
    """

    tree: Tree
    lost: tuple[str, ...]
    acting: tuple[str, ...]
    closed: tuple[str, ...]


def reconcile(tree: Tree, fork: str, winner: str | None) -> Reconciled | Same | Refusal:
    """Reconcile a fork with one winner, or none (B2): the rest lose, and all that lies in them, whatever it decided."""
    found = tree.forks[fork]
    if winner is not None and (winner not in tree.branches or tree.branches[winner].fork != fork):
        detail = f"Fork {fork} has no branch {winner}."
        return Refusal(code=Code.UNKNOWN_BRANCH, detail=detail, pointer="/winner")
    if found.is_reconciled:
        if found.winner == winner:
            return Same()
        detail = f"Fork {fork} was reconciled already, with {found.winner or 'no winner'}."
        return Refusal(code=Code.ALREADY_RECONCILED, detail=detail, pointer="/winner")
    losers = [branch.name for branch in tree.of_fork(fork) if branch.name != winner]
    lost = tuple(name for name in tree.within(losers) if tree.branches[name].state is not State.LOST)
    closed = tuple(
        name
        for name, each in tree.forks.items()
        if name == fork or (each.parent is not None and each.parent in lost and not each.is_reconciled)
    )
    forks = {
        name: replace(each, is_reconciled=True, winner=winner if name == fork else None) if name in closed else each
        for name, each in tree.forks.items()
    }
    states = {**dict.fromkeys(lost, State.LOST), **({winner: State.WON} if winner is not None else {})}
    branches = {name: replace(each, state=states.get(name, each.state)) for name, each in tree.branches.items()}
    after = Tree(forks=forks, branches=branches)
    acting = tuple(name for name in branches if after.gate(name).may_act and not tree.gate(name).may_act)
    return Reconciled(tree=after, lost=lost, acting=acting, closed=closed)
