"""B1 to B4: the tree of forks, who may act in it, and what a reconciliation takes away."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol import branches
from fencing.protocol.branches import EMPTY, Opened, Reconciled, Same, State, Tree
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import TRUNK, Gate

LOST = Gate(may_act=False, is_lost=True)
WAITS = Gate(may_act=False)


def opened(tree: Tree, name: str, *names: str, parent: str | None = None) -> Tree:
    made = branches.open_fork(tree, name=name, branches=names, parent=parent)
    assert isinstance(made, Opened), made
    return Tree.of((*tree.forks.values(), made.fork), (*tree.branches.values(), *made.branches))


def reconciled(tree: Tree, fork: str, winner: str | None) -> Reconciled:
    made = branches.reconcile(tree, fork, winner)
    assert isinstance(made, Reconciled), made
    return made


def code(answer: object) -> Code:
    assert isinstance(answer, Refusal), answer
    return answer.code


@pytest.fixture
def nested() -> Tree:
    """Branches A and B; in A lie A1 and A2; in A1 lie X and Y."""
    tree = opened(EMPTY, "outer", "A", "B")
    return opened(opened(tree, "inner", "A1", "A2", parent="A"), "deep", "X", "Y", parent="A1")


def test_the_trunk_may_always_act(nested: Tree) -> None:
    assert nested.gate(None) == EMPTY.gate(None) == TRUNK


def test_a_branch_that_is_not_there_never_acts_and_is_not_lost(nested: Tree) -> None:
    assert nested.gate("nowhere") == WAITS


def test_names_are_unique_in_the_run(nested: Tree) -> None:
    assert code(branches.open_fork(nested, name="f", branches=("C", "A1"), parent=None)) is Code.BRANCH_EXISTS
    assert code(branches.open_fork(nested, name="f", branches=("C", "C"), parent=None)) is Code.BRANCH_EXISTS


def test_a_fork_lies_in_a_branch_that_is_there_and_not_lost(nested: Tree) -> None:
    assert code(branches.open_fork(nested, name="f", branches=("C", "D"), parent="nowhere")) is Code.UNKNOWN_BRANCH
    tree = reconciled(nested, "outer", "B").tree
    assert code(branches.open_fork(tree, name="f", branches=("C", "D"), parent="X")) is Code.BRANCH_LOST


def test_a_branch_acts_when_it_and_all_its_ancestors_have_won(nested: Tree) -> None:
    deep = reconciled(nested, "deep", "X")
    assert deep.acting == ()
    assert deep.tree.gate("X") == WAITS
    inner = reconciled(deep.tree, "inner", "A1")
    assert inner.tree.gate("X") == inner.tree.gate("A1") == WAITS
    outer = reconciled(inner.tree, "outer", "A")
    assert set(outer.acting) == {"A", "A1", "X"}
    assert outer.tree.gate("X") == TRUNK


def test_what_lies_in_a_lost_branch_is_lost_whatever_it_decided(nested: Tree) -> None:
    tree = reconciled(nested, "deep", "X").tree
    verdict = reconciled(tree, "outer", "B")
    assert set(verdict.lost) == {"A", "A1", "A2", "X"}
    assert set(verdict.closed) == {"outer", "inner"}
    assert all(verdict.tree.gate(name) == LOST for name in ("A", "A1", "A2", "X", "Y"))
    assert verdict.tree.forks["deep"].winner == "X"


def test_a_fork_is_reconciled_once(nested: Tree) -> None:
    tree = reconciled(nested, "outer", "B").tree
    assert isinstance(branches.reconcile(tree, "outer", "B"), Same)
    assert code(branches.reconcile(tree, "outer", "A")) is Code.ALREADY_RECONCILED
    assert code(branches.reconcile(tree, "outer", None)) is Code.ALREADY_RECONCILED
    assert code(branches.reconcile(tree, "inner", "A1")) is Code.ALREADY_RECONCILED
    assert isinstance(branches.reconcile(tree, "inner", None), Same)


def test_a_winner_is_a_branch_of_the_fork(nested: Tree) -> None:
    assert code(branches.reconcile(nested, "outer", "A1")) is Code.UNKNOWN_BRANCH
    assert code(branches.reconcile(nested, "outer", "nowhere")) is Code.UNKNOWN_BRANCH


def test_with_no_winner_all_lose(nested: Tree) -> None:
    verdict = reconciled(nested, "inner", None)
    assert set(verdict.lost) == {"A1", "A2", "X", "Y"}
    assert verdict.tree.gate("A") == WAITS


def test_a_proposal_names_a_branch_that_is_there_and_not_lost(nested: Tree) -> None:
    assert branches.check_branch(nested, None) is None
    assert branches.check_branch(nested, "X") is None
    assert code(branches.check_branch(nested, "nowhere")) is Code.UNKNOWN_BRANCH
    assert code(branches.check_branch(reconciled(nested, "outer", "B").tree, "X")) is Code.BRANCH_LOST


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("fork"), st.integers(0, 20), st.integers(2, 3)),
        st.tuples(st.just("reconcile"), st.integers(0, 20), st.integers(0, 3)),
    ),
    max_size=25,
)


@given(MOVES)
def test_in_every_tree_losing_is_for_good_and_acting_needs_all_above(moves: list[tuple[Any, ...]]) -> None:
    tree = EMPTY
    for kind, where, which in moves:
        before = tree
        tree = _grown(tree, where, which) if kind == "fork" else _decided(tree, where, which)
        for name, branch in before.branches.items():
            assert branch.state is not State.LOST or tree.branches[name].state is State.LOST
            assert not before.gate(name).is_lost or tree.gate(name) == LOST
        for fork in tree.forks:
            won = [each.name for each in tree.of_fork(fork) if each.state is State.WON]
            assert len(won) <= 1
            assert set(won) <= {tree.forks[fork].winner}
        for name in tree.branches:
            states = [each.state for each in tree.upward(name)]
            gate = tree.gate(name)
            assert gate.may_act == all(state is State.WON for state in states)
            assert gate.is_lost == (tree.branches[name].state is State.LOST), "what lies in a lost branch says so"


def _grown(tree: Tree, where: int, size: int) -> Tree:
    places = [None, *tree.branches]
    parent = places[where % len(places)]
    number = len(tree.forks)
    made = branches.open_fork(
        tree, name=f"f{number}", branches=tuple(f"b{number}.{each}" for each in range(size)), parent=parent
    )
    if isinstance(made, Refusal):
        assert parent is not None
        assert tree.gate(parent).is_lost
        return tree
    return Tree.of((*tree.forks.values(), made.fork), (*tree.branches.values(), *made.branches))


def _decided(tree: Tree, where: int, which: int) -> Tree:
    if not tree.forks:
        return tree
    fork = list(tree.forks)[where % len(tree.forks)]
    options = [*(branch.name for branch in tree.of_fork(fork)), None]
    verdict = branches.reconcile(tree, fork, options[which % len(options)])
    return verdict.tree if isinstance(verdict, Reconciled) else tree
