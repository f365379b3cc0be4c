"""Forks, ledgers and undoing in the world, told as stories: what its strings are made of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from fencing.protocol import compensations
from fencing.protocol.compensations import Cause
from fencing.protocol.errors import Code
from fencing.protocol.fence import Phase, Reason
from fencing.protocol.intents import Kind, State
from fencing.protocol.ledgers import Match
from fencing.protocol.simulate import stage
from fencing.protocol.simulate.strings import Happening, opening, play_again
from fencing.protocol.world.events import (
    Admit,
    Adopt,
    ApproveUndoing,
    Ask,
    Cast,
    Event,
    Observe,
    OpenFork,
    Propose,
    Reconcile,
    Record,
    Replay,
    Report,
    ReportUndoing,
    Resolve,
    ResolveUndoing,
    Sweep,
    Waive,
    Work,
)
from fencing.protocol.world.records import Done
from tests.protocol.test_world import Story, code, votes

FORK = OpenFork(fork="f", branches=("A", "B"))


def wants(step: str, branch: str | None, action: object = stage.TICKET) -> list[Event]:
    return [Propose(step=step, epoch=7, branch=branch), *votes(action, step=step), Work()]


def sent(story: Story, number: int = 1, outcome: Kind = Kind.SUCCEEDED) -> None:
    """Send the newest commit's ticket, as that delivery of its intent."""
    intent = story.world.intents[-1].id
    token = f"token-{sum(each.commit is not None for each in story.world.steps)}"
    assert story.do(Admit(action=stage.TICKET, token=token)).number == number
    story.do(Report(intent=intent, number=number, outcome=outcome))


def state(story: Story, number: int = 1) -> compensations.State:
    return story.world.undoings[number - 1].state


@pytest.fixture
def story() -> Story:
    story = Story()
    story.do(FORK)
    return story


@pytest.fixture
def lost(story: Story) -> Story:
    """Branch A sent a ticket, and B won."""
    story.do(*wants("x", "A"))
    sent(story)
    story.do(Reconcile(fork="f", winner="B"))
    return story


def undone(story: Story, undoing: str = "undoing-1") -> Done:
    record = next(each for each in story.world.undoings if each.id == undoing)
    assert record.action is not None
    assert record.digest is not None
    story.do(ApproveUndoing(undoing=undoing, by="eve", digest=record.digest), Work())
    result: Done = story.do(Admit(action=record.action, token=f"{undoing}/1"))
    return result


def test_a_branch_that_is_not_decided_sends_only_what_can_be_undone(story: Story) -> None:
    story.do(*wants("x", "A", stage.REFUND))
    assert story.step("x").phase is Phase.AGREED
    story.do(*wants("y", "B"))
    assert story.step("y").phase is Phase.COMMITTED
    story.do(Reconcile(fork="f", winner="A"), Work())
    assert (story.step("x").phase, story.step("y").reason) == (Phase.COMMITTED, Reason.BRANCH_LOST)


def test_a_fork_is_reconciled_once_and_a_lost_branch_takes_nothing_new(story: Story) -> None:
    story.do(*wants("x", "A", stage.REFUND)[:1], Reconcile(fork="f", winner="B"))
    assert story.do(Reconcile(fork="f", winner="B")).duplicate
    assert code(story.do(Reconcile(fork="f", winner="A"))) is Code.ALREADY_RECONCILED
    assert code(story.do(Propose(step="z", epoch=7, branch="A"))) is Code.BRANCH_LOST
    assert code(story.do(Replay(step="x", from_epoch=7))) is Code.BRANCH_LOST
    assert code(story.do(Propose(step="z", epoch=7, branch="nowhere"))) is Code.UNKNOWN_BRANCH


def test_the_clock_ends_a_fork_without_a_winner(story: Story) -> None:
    story.do(OpenFork(fork="h", branches=("E", "F"), deadline_s=60), Sweep(), after_s=61)
    assert story.world.tree.forks["h"].is_reconciled
    assert code(story.do(Reconcile(fork="h", winner="E"))) is Code.ALREADY_RECONCILED


def test_what_a_loser_sent_is_undone_once_a_person_approved_it(lost: Story) -> None:
    assert (state(lost), lost.world.undoings[0].cause) == (compensations.State.PROPOSED, Cause.BRANCH_LOST)
    assert undone(lost) == Done(undoing="undoing-1", number=1)
    lost.do(ReportUndoing(undoing="undoing-1", round=1, number=1, outcome=Kind.SUCCEEDED))
    assert state(lost) is compensations.State.DONE
    lost.do(*wants("a", None))
    sent(lost)
    assert [each.facts.generation for each in lost.world.intents] == [1, 2]


@pytest.mark.parametrize("is_lost_first", [True, False])
def test_what_was_taken_back_and_happened_after_all_is_owed_once_its_branch_is_lost(
    story: Story, is_lost_first: bool
) -> None:
    story.do(*wants("x", "A"))
    sent(story, outcome=Kind.NOT_SENT)
    story.do(Cast(path="replica", step="x", epoch=7, action=stage.REFUND))
    assert story.step("x").reason is Reason.LATE_DIVERGENCE
    happened = [
        Report(intent="intent-1", number=1, outcome=Kind.SUCCEEDED),
        Resolve(intent="intent-1", happened=True, by="eve"),
    ]
    lost = [Reconcile(fork="f", winner="B")]
    story.do(*(lost if is_lost_first else happened))
    assert [*story.world.undoings] == []
    story.do(*(happened if is_lost_first else lost))
    assert (state(story), story.world.undoings[0].cause) == (compensations.State.PROPOSED, Cause.BRANCH_LOST)


def test_what_is_wanted_meanwhile_is_withdrawn_or_sent_again(lost: Story) -> None:
    undone(lost)
    lost.do(*wants("a", None))
    lost.do(ReportUndoing(undoing="undoing-1", round=1, number=1, outcome=Kind.SUCCEEDED))
    assert [each.facts.state for each in lost.world.intents] == [State.SUCCEEDED, State.READY]


def test_the_winner_who_claims_it_withdraws_its_undoing(lost: Story) -> None:
    lost.do(*wants("y", "B"))
    assert state(lost) is compensations.State.WITHDRAWN
    assert len(lost.world.intents) == 1


def test_what_nobody_knows_of_an_undoing_is_a_persons(lost: Story) -> None:
    undone(lost)
    lost.do(Sweep(), after_s=11)
    assert state(lost) is compensations.State.IN_DOUBT
    action = lost.world.undoings[0].action
    assert action is not None
    assert code(lost.do(Admit(action=action, token="undoing-1/1"))) is Code.IN_DOUBT


def test_who_came_to_want_it_meanwhile_gets_it_anew_though_the_undoing_was_in_doubt_first(lost: Story) -> None:
    undone(lost)
    lost.do(OpenFork(fork="g", parent="B", branches=("E", "F")), *wants("a", "E"))
    for outcome, held in ((Kind.FAILED, compensations.State.HELD), (Kind.SUCCEEDED, compensations.State.IN_DOUBT)):
        lost.do(ReportUndoing(undoing="undoing-1", round=1, number=1, outcome=outcome))
        assert state(lost) is held
    lost.do(ResolveUndoing(undoing="undoing-1", happened=True, by="eve"))
    assert state(lost) is compensations.State.DONE
    lost.do(Reconcile(fork="g", winner="E"), Work())
    assert [each.facts.generation for each in lost.world.intents] == [1, 2]
    sent(lost)


def test_an_escape_holds_its_action_back_until_a_person_adopts_it(story: Story) -> None:
    row = Observe(tool="create_ticket", external_id="T-1", action=stage.TICKET)
    assert story.do(row).match is Match.ESCAPE
    assert story.do(row).duplicate
    story.do(*wants("a", None))
    assert code(story.do(Admit(action=stage.TICKET, token="token-1"))) is Code.NOT_READY
    adopt = Adopt(intent="intent-1", effect="T-1", by="eve")
    assert story.do(adopt).settled is State.SUCCEEDED
    assert story.do(adopt).duplicate
    assert state(story) is compensations.State.WITHDRAWN
    assert story.do(Admit(action=stage.TICKET, token="token-1")).settled is State.SUCCEEDED


def test_a_second_ledger_row_of_one_key_is_doubled(lost: Story) -> None:
    rows = [Observe(tool="create_ticket", external_id=each, of="intent-1") for each in ("T-1", "T-2")]
    assert [lost.do(row).match for row in rows] == [Match.INTENT, Match.DOUBLED]


def test_who_asks_does_not_approve_and_what_has_no_compensator_is_recorded(story: Story) -> None:
    story.do(*wants("a", None, stage.REFUND), Admit(action=stage.REFUND, token="token-1"))
    story.do(Report(intent="intent-1", number=1, outcome=Kind.SUCCEEDED), Ask(by="eve", intent="intent-1"))
    assert story.do(Ask(by="eve", intent="intent-1")).duplicate
    assert code(story.do(Ask(by="dan", intent="intent-1"))) is Code.ALREADY_PROPOSED
    approve = ApproveUndoing(undoing="undoing-1", by="eve", digest=stage.REFUND.payload_digest)
    assert code(story.do(approve)) is Code.OWN_REQUEST
    story.do(Record(undoing="undoing-1", by="dan"))
    assert state(story) is compensations.State.DONE
    assert code(story.do(Ask(by="eve", intent="intent-1"))) is Code.NOTHING_TO_UNDO


def test_what_a_person_let_stand_and_is_not_there_breaks_nothing() -> None:
    lost: list[Event] = [FORK, *wants("x", "A"), Admit(action=stage.TICKET, token="token-1")]
    lost.append(Reconcile(fork="f", winner="B"))
    owed = play_again(at_moments(lost), opening()).scene.world.undoings[0]
    end: list[Event] = [
        Waive(undoing=owed.id, by="dan", digest=owed.digest),
        Report(intent="intent-1", number=1, outcome=Kind.FAILED),
    ]
    played = play_again(at_moments([*lost, *end]), opening())
    assert played.scene.world.undoings[0].state is compensations.State.WAIVED
    assert played.scene.world.intents[0].facts.state is State.FAILED
    assert not played.violations


def at_moments(events: Sequence[Event]) -> tuple[Happening, ...]:
    """The events, a second apart."""
    return tuple((stage.START + timedelta(seconds=number), each) for number, each in enumerate(events, start=1))
