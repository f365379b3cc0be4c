"""B1 to B4 by SQL, whoever types it: a fork is reconciled once, and a lost branch takes and gives nothing."""

from __future__ import annotations

from typing import Any

import pytest

from fencing.models import Branch, Fork, Step, ToolVersion
from tests import factories as make
from tests.factories import soon
from tests.fencing.breaking import allowed, refused
from tests.fencing.conftest import Connection
from tests.fencing.racing import Race
from tests.stores import SqlStore

OPTIMISTIC: dict[str, Any] = {
    "idempotent": True,
    "optimistic": True,
    "compensator": {"tool": "undo", "args": {"invoice": {"from": "action", "pointer": "/args/invoice"}}},
}


def branch(fork: Fork, name: str, store: SqlStore) -> Branch:
    """Find a branch of a fork."""
    row = store.connection.execute(
        "SELECT id FROM fencing_branch WHERE fork_id = %s AND name = %s", [fork.pk, name]
    ).fetchone()
    assert row is not None
    return Branch(id=row[0], run=fork.run, fork=fork, name=name)


@pytest.fixture
def fork(as_fencer: SqlStore) -> Fork:
    """A fork of A and B."""
    return make.make_fork(store=as_fencer)


def step_in(fork: Fork, name: str | None, store: SqlStore, *, tool: ToolVersion | None = None) -> Step:
    return make.make_step(run=fork.run, tool=tool, branch=name, store=store)


# ---- one reconciliation, one winner ----


def test_a_fork_is_reconciled_once(fork: Fork, fencer: Connection, as_fencer: SqlStore) -> None:
    with refused(fencer, by="fork_winner_by_reconciliation"):
        as_fencer.update(fork, winner="A")
    as_fencer.update(fork, reconciled_at=soon(0), winner="A")
    for values in ({"winner": "B"}, {"winner": None}, {"reconciled_at": None, "winner": None}):
        with refused(fencer, by="fork_reconciled_once"):
            as_fencer.update(fork, **values)


def test_a_branch_becomes_what_its_fork_says(fork: Fork, fencer: Connection, as_fencer: SqlStore) -> None:
    one, two = branch(fork, "A", as_fencer), branch(fork, "B", as_fencer)
    for state in ("won", "lost"):
        with refused(fencer, by="branch_decided_by_its_fork"):
            as_fencer.update(one, state=state, decided_at=soon(0))
    as_fencer.update(fork, reconciled_at=soon(0), winner="A")
    for each, state in ((one, "lost"), (two, "won")):
        with refused(fencer, by="branch_decided_by_its_fork"):
            as_fencer.update(each, state=state, decided_at=soon(0))
    with allowed(fencer):
        as_fencer.update(one, state="won", decided_at=soon(0))
        as_fencer.update(two, state="lost", decided_at=soon(0))
    with refused(fencer, by="branch_moves"):
        as_fencer.update(two, state="undecided", decided_at=None)
    with refused(fencer, by="branch_decided_at_a_moment"):
        as_fencer.update(one, decided_at=None)


def test_at_most_one_branch_wins(owner: Connection, as_owner: SqlStore) -> None:
    """The guard of a branch's state speaks first: it is taken away here, and the index alone still refuses."""
    fork = make.make_fork(store=as_owner)
    owner.execute("SET CONSTRAINTS ALL IMMEDIATE")
    owner.execute("ALTER TABLE fencing_branch DISABLE TRIGGER USER")
    as_owner.update(branch(fork, "A", as_owner), state="won", decided_at=soon(0))
    with refused(owner, by="branch_wins_once"):
        as_owner.update(branch(fork, "B", as_owner), state="won", decided_at=soon(0))
    owner.rollback()


def test_a_winner_is_lost_with_what_it_lies_in(fork: Fork, fencer: Connection, as_fencer: SqlStore) -> None:
    outer = branch(fork, "A", as_fencer)
    inner = make.make_fork("X", "Y", run=fork.run, parent=outer, store=as_fencer)
    winner = branch(inner, "X", as_fencer)
    make.reconcile(inner, winner, branch(inner, "Y", as_fencer), store=as_fencer)
    with refused(fencer, by="branch_decided_by_its_fork"):
        as_fencer.update(winner, state="lost")
    make.reconcile(fork, branch(fork, "B", as_fencer), outer, store=as_fencer)
    with allowed(fencer):
        as_fencer.update(winner, state="lost")


# ---- where forks and branches lie ----


def test_a_fork_has_two_branches_or_more(fencer: Connection, as_fencer: SqlStore) -> None:
    run = make.make_run(store=as_fencer)
    with refused(fencer, by="fork_of_branches"):
        make.make_fork("only", run=run, store=as_fencer)


def test_names_are_unique_in_a_run(fork: Fork, fencer: Connection, as_fencer: SqlStore) -> None:
    with refused(fencer, by="branch_once"):
        make.make_fork("A", "C", run=fork.run, store=as_fencer)
    with refused(fencer, by="fork_once"):
        make.make_fork("C", "D", run=fork.run, name=fork.name, store=as_fencer)
    with allowed(fencer):
        make.make_fork("A", "B", store=as_fencer)


def test_a_branch_lies_in_the_run_of_its_open_fork(fork: Fork, fencer: Connection, as_fencer: SqlStore) -> None:
    other = make.make_run(store=as_fencer)
    with refused(fencer, by="branch_in_its_run"):
        as_fencer.insert(Branch(run=other, fork=fork, name="C", place=2))
    with refused(fencer, by="branch_begins_undecided"):
        as_fencer.insert(Branch(run=fork.run, fork=fork, name="C", place=2, state="won", decided_at=soon(0)))
    as_fencer.update(fork, reconciled_at=soon(0))
    with refused(fencer, by="branch_of_an_open_fork"):
        as_fencer.insert(Branch(run=fork.run, fork=fork, name="C", place=2))


def test_a_fork_lies_in_no_branch_of_another_run_and_in_no_lost_one(
    fork: Fork, fencer: Connection, as_fencer: SqlStore
) -> None:
    outer = branch(fork, "A", as_fencer)
    with refused(fencer, by="fork_in_its_run"):
        make.make_fork("X", "Y", parent=outer, store=as_fencer)
    make.reconcile(fork, None, outer, store=as_fencer)
    with refused(fencer, by="fork_in_no_lost_branch"):
        make.make_fork("X", "Y", run=fork.run, parent=outer, store=as_fencer)


# ---- what a branch may ----


def test_a_lost_branch_takes_no_step(fork: Fork, fencer: Connection, as_fencer: SqlStore) -> None:
    with refused(fencer, by="step_in_a_living_branch"):
        step_in(fork, "nowhere", as_fencer)
    outer = branch(fork, "A", as_fencer)
    make.make_fork("X", "Y", run=fork.run, parent=outer, store=as_fencer)
    with allowed(fencer):
        step_in(fork, "A", as_fencer)
        step_in(fork, "X", as_fencer)
    make.reconcile(fork, None, outer, store=as_fencer)
    for name in ("A", "X"):
        with refused(fencer, by="step_in_a_living_branch"):
            step_in(fork, name, as_fencer)


def test_nothing_commits_in_a_branch_that_may_not_act(fork: Fork, fencer: Connection, as_fencer: SqlStore) -> None:
    outer = branch(fork, "A", as_fencer)
    inner = make.make_fork("X", "Y", run=fork.run, parent=outer, store=as_fencer)
    winner = branch(inner, "X", as_fencer)
    make.reconcile(inner, winner, store=as_fencer)
    for name in ("A", "X"):
        with refused(fencer, by="commit_when_its_branch_may_act"):
            make.make_committed_step(run=fork.run, branch=name, store=as_fencer)
    make.reconcile(fork, outer, store=as_fencer)
    with allowed(fencer):
        make.make_committed_step(run=fork.run, branch="X", store=as_fencer)


def test_an_optimistic_tool_commits_in_a_branch_that_is_not_lost(
    fork: Fork, fencer: Connection, as_fencer: SqlStore
) -> None:
    tool = make.make_tool(store=as_fencer, **OPTIMISTIC)
    with allowed(fencer):
        make.make_committed_step(run=fork.run, tool=tool, branch="A", store=as_fencer)
    steps = [step_in(fork, "A", as_fencer, tool=tool) for _ in range(1)]
    action = make.make_action(tool=tool, store=as_fencer)
    make.make_votes(step=steps[0], action=action, store=as_fencer)
    make.reconcile(fork, None, branch(fork, "A", as_fencer), store=as_fencer)
    with refused(fencer, by="commit_when_its_branch_may_act"):
        make.make_commit(step=steps[0], action=action, store=as_fencer)


def test_nothing_leaves_a_lost_branch(fork: Fork, fencer: Connection, as_fencer: SqlStore) -> None:
    tool = make.make_tool(store=as_fencer, **OPTIMISTIC)
    commit = make.make_committed_step(run=fork.run, tool=tool, branch="A", store=as_fencer)
    make.reconcile(fork, None, branch(fork, "A", as_fencer), store=as_fencer)
    with refused(fencer, by="delivery_of_no_lost_branch"):
        make.make_delivery(commit=commit, store=as_fencer)


def test_a_step_beside_the_loss_of_its_branch_comes_before_it_or_not_at_all(race: Race) -> None:
    one, two = race.racer("fence_app"), race.racer("fence_app")
    fork = make.make_fork(store=one.store)
    lost = branch(fork, "A", one.store)
    tool = make.make_tool(store=race.racer("fence_owner").store)
    race.racers[-1].connection.commit()
    one.connection.commit()
    ends = race.behind(
        (one, lambda store: make.reconcile(fork, None, lost, store=store)),
        (two, lambda store: step_in(fork, "A", store, tool=tool)),
    )
    assert ends == "step_in_a_living_branch"
