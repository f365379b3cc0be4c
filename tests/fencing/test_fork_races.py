"""Forks and undoings beside each other on real connections: each race names every end that is allowed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from fencing.models import Branch, Commit, Compensation, CompensationApproval, Delivery, Fork, Incident, Intent
from fencing.protocol.callers import Role
from fencing.services import fencing, steps, votes
from fencing.services.recompute import Tallied, find_faults
from fencing.services.requests import CastVote, ProposeStep
from tests.fencing.beside import Crowd
from tests.fencing.test_compensating import TWO, Undoing
from tests.fencing.test_forks import MORE, TICKET
from tests.length import long_or
from tests.stories import EPOCH, TOOLS, Told, actor, register

ROUNDS = long_or(4, long=100)


@pytest.fixture
def db(committed: None) -> None:
    """No transaction around the test: others see what it writes."""


@pytest.fixture
def story(db: None, straight_first: None) -> Iterator[Undoing]:
    """A run without forks. Whatever comes of it, stored states must equal those that the facts tell."""
    register([*TOOLS, *MORE, *TWO])
    story = Undoing()
    story.second = actor(Role.REVIEWER)
    assert story.open()["status"] == 201
    yield story
    assert list(find_faults(Tallied(), lambda _: None)) == []


def test_of_two_reconciliations_at_once_one_decides(story: Undoing) -> None:
    with Crowd(2) as crowd:
        for number in range(ROUNDS):
            fork, names = f"f{number}", (f"A{number}", f"B{number}")
            story.fork(*names, fork=fork)
            ends = crowd.at_once(*(lambda name=name, fork=fork: story.reconcile(name, fork=fork) for name in names))
            codes = sorted(str(end.get("code")) for end in ends)
            assert codes == ["None", "already_reconciled"]
            winner = Fork.objects.get(name=fork).winner
            assert list(Branch.objects.filter(fork__name=fork, state="won").values_list("name", flat=True)) == [winner]


def test_a_request_beside_the_win_of_its_sibling_leaves_nothing_behind(story: Undoing) -> None:
    with Crowd(2) as crowd:
        for number in range(ROUNDS):
            fork, mine, its = f"f{number}", f"A{number}", f"B{number}"
            story.fork(mine, its, fork=fork)
            asked, _ = crowd.at_once(
                lambda number=number, its=its: story.propose(f"s{number}", branch=its),  # type: ignore[misc]
                lambda fork=fork, mine=mine: story.reconcile(mine, fork=fork),  # type: ignore[misc]
            )
            if "code" in asked:
                assert asked["code"] == "branch_lost"
            else:
                assert story.step(f"s{number}")["reason"] == "branch_lost"


def test_an_admission_beside_the_loss_of_its_branch_is_taken_back_or_owed(story: Undoing) -> None:
    with Crowd(2) as crowd:
        for number in range(ROUNDS):
            fork, mine, its = f"f{number}", f"A{number}", f"B{number}"
            story.fork(mine, its, fork=fork)
            action = {"tool": "create_ticket", "args": {"title": f"t{number}"}}
            story.want(f"s{number}", action, branch=its)
            token = story.token(f"s{number}")
            admitted, told = crowd.at_once(
                lambda token=token, action=action: story.admit(token, action),  # type: ignore[misc]
                lambda fork=fork, mine=mine: story.reconcile(mine, fork=fork),  # type: ignore[misc]
            )
            if admitted.get("admit"):
                assert len(told["compensations"]) == 1
            else:
                assert admitted["code"] == "revoked"
                assert told["compensations"] == []


def test_a_commit_beside_the_loss_of_its_branch_stands_or_never_was(story: Undoing) -> None:
    with Crowd(2) as crowd:
        for number in range(ROUNDS):
            fork, mine, its = f"f{number}", f"A{number}", f"B{number}"
            story.fork(mine, its, fork=fork)
            story.propose(f"s{number}", branch=its)
            for path in (story.replica, story.production):
                story.vote(path, TICKET, f"s{number}")
            crowd.at_once(
                lambda: all(iter(fencing.decide_due, 0)),
                lambda fork=fork, mine=mine: bool(story.reconcile(mine, fork=fork)),  # type: ignore[misc]
            )
            story.decide()
            step = story.step(f"s{number}")
            assert (step["phase"], step["reason"], step["commit"]) == ("rejected", "branch_lost", None)
    assert not Commit.objects.filter(closed_at=None).exists()
    assert not Intent.objects.exclude(state="cancelled").exists()


def test_of_two_approvals_at_once_one_decides(story: Undoing) -> None:
    with Crowd(2) as crowd:
        for number in range(ROUNDS):
            story.fork(f"A{number}", f"B{number}", fork=f"f{number}")
            action = {"tool": "create_ticket", "args": {"title": f"t{number}"}}
            made = story.lost(f"s{number}", action, fork=f"f{number}", branch=f"B{number}")
            ends = crowd.at_once(
                lambda made=made: story.approve(made),  # type: ignore[misc]
                lambda made=made: story.approve(made, by=story.second),  # type: ignore[misc]
            )
            assert sorted(str(end.get("code")) for end in ends) == ["None", "already_decided"]
            assert CompensationApproval.objects.filter(compensation_id=made).count() == 1


def test_an_approval_beside_a_new_claim_never_undoes_what_is_wanted(story: Undoing) -> None:
    with Crowd(2) as crowd:
        for number in range(ROUNDS):
            story.fork(f"A{number}", f"B{number}", fork=f"f{number}")
            action = {"tool": "create_ticket", "args": {"title": f"t{number}"}}
            made = story.lost(f"s{number}", action, fork=f"f{number}", branch=f"B{number}")
            story.propose(f"again{number}")
            for path in (story.replica, story.production):
                story.vote(path, action, f"again{number}")
            ends = crowd.at_once(
                lambda made=made: story.approve(made).get("code", "approved"),  # type: ignore[misc]
                lambda: str(all(iter(fencing.decide_due, 0))),
            )
            story.decide()
            assert ends[0] in ("approved", "already_decided", "held")
            assert story.state(made) == "withdrawn", "the retry wants it, whoever came first"
    assert Delivery.objects.count() == ROUNDS
    assert set(Compensation.objects.values_list("state", flat=True)) == {"withdrawn"}


def test_the_new_claim_that_waits_is_seen_by_the_admission_of_the_undoing(story: Undoing) -> None:
    with Crowd(2) as crowd:
        for number in range(ROUNDS):
            story.fork(f"A{number}", f"B{number}", fork=f"f{number}")
            story.fork(f"C{number}", f"D{number}", fork=f"g{number}")
            action = {"tool": "create_ticket", "args": {"title": f"t{number}"}}
            made = story.lost(f"s{number}", action, fork=f"f{number}", branch=f"B{number}")
            story.approve(made)
            token = story.token_of(made)
            story.propose(f"again{number}", branch=f"C{number}")
            for path in (story.replica, story.production):
                story.vote(path, action, f"again{number}")
            undone, _ = crowd.at_once(
                lambda made=made, token=token: story.undo(made, token=token),  # type: ignore[misc]
                lambda: {"done": all(iter(fencing.decide_due, 0))},
            )
            story.decide()
            state = story.state(made)
            assert (undone.get("admit"), undone.get("code"), state) in [
                (True, None, "in_flight"),
                (None, "revoked", "held"),
            ]
            if state == "in_flight":
                assert story.admit(story.token(f"again{number}"), action)["code"] == "not_ready"


# ---- everything at once ----


def test_rounds_of_reconciling_admission_and_vote_reach_no_client_as_a_deadlock(story: Undoing) -> None:
    """Winner and loser want one effect, the loser wants another besides, and a third path disagrees about the loser's.

    Of the shared one exactly one call is let through, and it is owed nothing. The loser's own is out and owed an
    undoing, or taken back and owed none.
    """
    rounds = long_or(20, long=200)
    tokens = committed_trios(story, rounds)
    chance, ends = random.Random(7), Counter[str]()  # noqa: S311 - a test's dice
    with Crowd(7) as crowd:
        for number in range(rounds):
            shared, own = ticket(f"shared{number}"), ticket(f"own{number}")
            wins, loses, alone = f"w{number}", f"l{number}", f"o{number}"
            acts: list[tuple[str, Callable[[], Any]]] = [
                ("reconcile", partial(story.reconcile, f"A{number}", f"f{number}")),
                ("winner", partial(story.admit, tokens[wins], shared)),
                ("loser", partial(story.admit, tokens[loses], shared)),
                ("own", partial(story.admit, tokens[alone], own)),
                ("against", partial(story.vote, story.third, ticket("other"), loses)),
                ("against own", partial(story.vote, story.third, ticket("other"), alone)),
                ("decide", fencing.decide_due),
            ]
            chance.shuffle(acts)
            # Each end is reached however slow the machine is: in every fourth round the loser's own call has a start.
            after = 0.05 if number % 4 == 0 else 0.0
            waits = [chance.uniform(0, 0.03) + (0.0 if name == "own" else after) for name, _ in acts]
            begun = crowd.at_once(*(partial(late, act, wait) for (_, act), wait in zip(acts, waits, strict=True)))
            told = dict(zip([name for name, _ in acts], begun, strict=True))
            look_at_round(story, number, told)
            ends[told["own"].get("code", "out")] += 1
    assert min(ends["out"], ends["revoked"]) > 0, ends
    assert list(find_faults(Tallied(), lambda _: None)) == []


def late(act: Callable[[], Any], wait_s: float) -> Any:
    """Act a moment later than others, so that each of them comes first in some round."""
    time.sleep(wait_s)
    return act()


def look_at_round(story: Undoing, number: int, told: dict[str, Told]) -> None:
    """Hold what each was told against the ends that are allowed, and against what is stored."""
    let_through = {name for name in ("winner", "loser") if told[name].get("admit") is True}
    assert len(let_through) == 1, told
    assert told["winner"].get("code") in {None, "delivery_in_progress"}, told
    assert told["loser"].get("code") in {None, "delivery_in_progress", "revoked"}, told
    assert told["own"].get("code") in {None, "revoked"}, told
    assert {told[name].get("vote") for name in ("against", "against own")} <= {"recorded", "late"}, told
    is_out = told["own"].get("admit") is True
    assert len(told["reconcile"]["compensations"]) == is_out, told
    assert told["reconcile"]["withdrawn"] == []
    winner, loser, own = (story.step(f"{letter}{number}") for letter in "wlo")
    assert (winner["phase"], winner["intent"]["state"]) == ("committed", "in_flight")
    for name, step in (("loser", loser), ("own", own)):
        # What is out stands, though its branch lost and somebody disagrees: then people are told.
        stands = step["phase"] == "committed"
        assert (step["phase"], step["reason"]) in ENDS_OF_A_LOSER, step
        assert stands or told[name].get("admit") is None, told
        assert not stands or told[name].get("code") != "revoked", told
        about = Incident.objects.filter(step__name=step["step"], kind="late_divergence")
        assert about.count() == stands, step
    assert (own["phase"] == "committed") is is_out


ENDS_OF_A_LOSER = {("committed", "agreement"), ("rejected", "branch_lost"), ("rejected", "late_divergence")}


def ticket(title: str) -> dict[str, Any]:
    return {"tool": "create_ticket", "args": {"title": title}}


def committed_trios(story: Undoing, rounds: int) -> dict[str, str]:
    """Fork so many times, and commit in each fork three optimistic steps; give their tokens by step."""
    wanted: dict[str, tuple[str, dict[str, Any]]] = {}
    for number in range(rounds):
        story.fork(f"A{number}", f"B{number}", fork=f"f{number}")
        wanted[f"w{number}"] = f"A{number}", ticket(f"shared{number}")
        wanted[f"l{number}"] = f"B{number}", ticket(f"shared{number}")
        wanted[f"o{number}"] = f"B{number}", ticket(f"own{number}")
    place: dict[str, Any] = {"run": story.run, "epoch": EPOCH}
    asked = [ProposeStep(step=name, branch=branch, **place) for name, (branch, _) in wanted.items()]
    steps.propose_steps(asked, story.planner)
    for path in (story.replica, story.production):
        votes.cast_votes([CastVote(step=name, action=action, **place) for name, (_, action) in wanted.items()], path)
    story.decide()
    return dict(Commit.objects.filter(run__name=story.run).values_list("step_name", "token"))
