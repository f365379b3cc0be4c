"""N2, R4 to R6, F2, F6, F7, G4: whether an input is a repetition, a refusal or news, and in which order it is told."""

from typing import Any

import pytest

from fencing.protocol import intake
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import Committed, Phase, Reason, Vote
from fencing.protocol.intake import Heard, Known, Late, Repeated
from fencing.protocol.simulate import stage
from tests.protocol.values import ONE, OTHER, step, vote

STANDING = Committed(authority="agreement", digest=ONE, grant=None, stands=True)
CLOSED = Committed(authority="agreement", digest=ONE, grant=None, stands=False)


def known(*votes: Vote, epoch: int = 7, phase: Phase = Phase.PROPOSED, content: str | None = "c", **more: Any) -> Known:
    return Known(step=step(*votes, phase=phase, epoch=epoch), content=content, **more)


COMMITTED = known(vote("production"), vote("replica"), phase=Phase.COMMITTED, commit=STANDING, reason=Reason.AGREEMENT)
REJECTED = known(vote("production"), vote("replica", OTHER), phase=Phase.REJECTED, reason=Reason.DIVERGENCE)
FAILED = known(phase=Phase.COMMITTED, commit=CLOSED, reason=Reason.EFFECT_FAILED)
IDLE = known(epoch=8, phase=Phase.IDLE, content=None)


def code(verdict: object) -> Code | None:
    return verdict.code if isinstance(verdict, Refusal) else None


# ---- proposals ----


def propose(*rows: Known, epoch: int = 7, content: str = "c", own: int = 7) -> object:
    return intake.judge_proposal(rows, epoch=epoch, content=content, own=own)


def test_a_proposal_for_an_unknown_or_reopened_step_is_news() -> None:
    assert propose() is None
    assert propose(REJECTED, IDLE, epoch=8, own=8) is None


def test_the_same_proposal_again_is_a_duplicate_whatever_became_of_the_step_or_the_epoch() -> None:
    for row in (known(), REJECTED, FAILED):
        assert propose(row) == Repeated(epoch=7)
        assert propose(row, own=9) == Repeated(epoch=7)


def test_a_standing_commit_answers_every_proposal_of_its_step() -> None:
    assert propose(COMMITTED, epoch=7) == Repeated(epoch=7)
    assert propose(COMMITTED, epoch=9, own=9) == Repeated(epoch=7)
    assert propose(COMMITTED, epoch=99, own=9, content="else") == Repeated(epoch=7, is_other=True)


def test_other_content_is_a_conflict_and_an_old_number_is_told_first() -> None:
    assert code(propose(known(), content="else")) is Code.STEP_CONFLICT
    assert code(propose(known(), content="else", own=8)) is Code.STALE_EPOCH


def test_a_new_proposal_comes_at_the_steps_own_number() -> None:
    assert code(propose(epoch=6)) is Code.STALE_EPOCH
    assert code(propose(epoch=8)) is Code.FUTURE_EPOCH
    assert code(propose(REJECTED, epoch=6)) is Code.STALE_EPOCH


def test_a_proposal_names_a_registered_tool_and_arguments_that_fit_it() -> None:
    assert intake.check_tool(None, None, stage.tools) is None
    assert intake.check_tool("refund", stage.REFUND, stage.tools) is None
    unregistered = intake.check_tool("drop_table", stage.UNREGISTERED, stage.tools)
    assert unregistered is not None
    assert (unregistered.code, unregistered.pointer) == (Code.UNKNOWN_TOOL, "/action/tool")
    named = intake.check_tool("drop_table", None, stage.tools)
    assert named is not None
    assert named.pointer == "/tool"
    misfit = intake.check_tool("send_mail", stage.NO_FIT, stage.tools)
    assert misfit is not None
    assert (misfit.code, misfit.pointer) == (Code.INVALID_ARGS, "/action/args")


def test_a_tool_that_only_reads_skips_the_fence() -> None:
    assert intake.first_phase("lookup_invoice", stage.tools) == (Phase.EXEMPT, Reason.READ_ONLY)
    for tool in ("refund", "drop_table", None):
        assert intake.first_phase(tool, stage.tools) == (Phase.PROPOSED, None)


# ---- votes ----


def hear(said: Vote, *rows: Known, epoch: int = 7, own: int = 7) -> object:
    return intake.judge_vote(rows, epoch=epoch, vote=said, own=own)


def test_a_vote_for_what_was_not_proposed_is_told_so_before_anything_about_its_epoch() -> None:
    for rows in ((), (IDLE,)):
        assert code(hear(vote("replica"), *rows, epoch=3)) is Code.UNKNOWN_STEP
        assert code(hear(vote("replica"), *rows, epoch=99)) is Code.UNKNOWN_STEP
    assert code(hear(vote("replica"), REJECTED, IDLE, epoch=8, own=8)) is Code.UNKNOWN_STEP


def test_a_vote_counts_at_the_steps_own_number() -> None:
    assert hear(vote("replica"), known()) == Heard(late=Late.NO)
    assert code(hear(vote("replica"), known(), epoch=6)) is Code.STALE_EPOCH
    assert code(hear(vote("replica"), known(), epoch=8)) is Code.FUTURE_EPOCH
    assert code(hear(vote("auditor"), REJECTED, IDLE, epoch=7, own=8)) is Code.STALE_EPOCH


def test_the_same_vote_again_is_a_duplicate_in_every_phase_and_epoch() -> None:
    for row, own in ((known(vote("production")), 7), (COMMITTED, 7), (REJECTED, 8), (REJECTED, 7)):
        assert hear(vote("production"), row, own=own) == Repeated(epoch=7, digest=ONE)


def test_a_second_and_different_vote_is_heard_and_answered_as_equivocation_each_time() -> None:
    first = known(vote("production"))
    assert hear(vote("production", OTHER), first) == Heard(late=Late.NO, contradicts=ONE)
    both = known(vote("production"), vote("production", OTHER), phase=Phase.REJECTED)
    assert code(hear(vote("production", OTHER), both)) is Code.EQUIVOCATION
    assert hear(vote("production"), both) == Repeated(epoch=7, digest=ONE)


def test_a_digest_is_sent_again_with_its_action_once() -> None:
    bare = known(vote("production", payload=None))
    assert hear(vote("production"), bare) == Heard(late=Late.NO)
    assert hear(vote("production", payload=None), known(vote("production"))) == Repeated(epoch=7, digest=ONE)
    both = known(vote("production", payload=None), vote("production"))
    assert hear(vote("production"), both) == Repeated(epoch=7, digest=ONE)


def test_the_same_decision_with_other_prose_is_a_duplicate_that_leaves_a_trace() -> None:
    said = vote("production", payload="other prose")
    assert hear(said, known(vote("production"))) == Repeated(epoch=7, digest=ONE, is_other=True)


def test_an_abstention_is_heard_once_and_after_a_vote_changes_nothing() -> None:
    abstention = vote("replica", None)
    assert hear(abstention, known(vote("production"))) == Heard(late=Late.NO)
    assert hear(abstention, known(abstention)) == Repeated(epoch=7)
    assert hear(abstention, known(vote("replica"))) == Repeated(epoch=7, digest=ONE)
    assert hear(vote("replica"), known(abstention)) == Heard(late=Late.NO)


def test_a_vote_for_a_committed_step_is_always_heard_whatever_was_opened_since() -> None:
    assert hear(vote("auditor"), COMMITTED, own=9) == Heard(late=Late.WITNESS_OR_DIVERGENCE)
    assert hear(vote("replica", OTHER), COMMITTED, own=9) == Heard(late=Late.WITNESS_OR_DIVERGENCE, contradicts=ONE)
    for epoch in (6, 8, 9):
        refusal = hear(vote("auditor"), COMMITTED, epoch=epoch, own=9)
        assert code(refusal) is Code.ALREADY_COMMITTED
        assert isinstance(refusal, Refusal)
        assert refusal.extras["current_epoch"] == 7


@pytest.mark.parametrize(
    ("row", "late"),
    [
        (known(phase=Phase.AGREED), Late.NO),
        (known(phase=Phase.FENCED), Late.NO),
        (REJECTED, Late.TOO_LATE),
        (FAILED, Late.TOO_LATE),
        (known(phase=Phase.REJECTED, commit=CLOSED, reason=Reason.GRANT_REVOKED), Late.TOO_LATE),
        (known(phase=Phase.EXEMPT), Late.NOTHING_TO_DECIDE),
    ],
)
def test_how_late_a_vote_is(row: Known, late: Late) -> None:
    assert hear(vote("auditor"), row) == Heard(late=late)


def test_votes_only_add_up() -> None:
    heard = intake.with_vote(step(vote("production")), vote("production", OTHER))
    assert heard.votes == (vote("production"), vote("production", OTHER))


def test_the_first_word_about_the_tool_sets_its_deadline() -> None:
    assert intake.tells_the_tool(step(vote("replica", tool=None)), vote("production"))
    assert not intake.tells_the_tool(step(), vote("production", tool=None))
    assert not intake.tells_the_tool(step(vote("replica")), vote("production"))
    assert not intake.tells_the_tool(step(pinned_tool="refund"), vote("production"))


def test_a_vote_that_can_never_be_committed_says_why() -> None:
    assert intake.fault_of(stage.REFUND, stage.tools) is None
    assert intake.fault_of(stage.UNREGISTERED, stage.tools) == "unknown_tool"
    assert intake.fault_of(stage.NO_FIT, stage.tools) == "invalid_args"


# ---- replays ----


def replay(*rows: Known, from_epoch: int = 7, own: int = 7, earlier: int | None = None) -> object:
    return intake.judge_replay(rows, from_epoch=from_epoch, own=own, earlier=earlier)


def test_what_was_rejected_or_failed_is_replayed_from_its_own_number() -> None:
    assert replay(REJECTED) is None
    assert replay(FAILED) is None
    assert code(replay(REJECTED, from_epoch=6)) is Code.STALE_EPOCH
    assert code(replay(REJECTED, from_epoch=8)) is Code.FUTURE_EPOCH
    stale = replay(REJECTED, own=8)
    assert isinstance(stale, Refusal)
    assert (stale.code, stale.pointer) == (Code.STALE_EPOCH, "/from_epoch")


@pytest.mark.parametrize(
    "row", [known(), known(phase=Phase.AGREED), known(phase=Phase.FENCED), known(phase=Phase.EXEMPT)]
)
def test_nothing_else_is_replayed(row: Known) -> None:
    assert code(replay(row)) is Code.NOT_REJECTED


def test_a_reopened_step_is_not_replayed_before_it_is_decided_again() -> None:
    assert code(replay(REJECTED, IDLE, from_epoch=8, own=8)) is Code.NOT_REJECTED
    assert code(replay(IDLE)) is Code.UNKNOWN_STEP
    assert code(replay()) is Code.UNKNOWN_STEP


def test_a_replay_of_what_is_committed_or_was_replayed_is_a_duplicate() -> None:
    assert replay(COMMITTED, own=9, from_epoch=3) == Repeated(epoch=7)
    assert replay(REJECTED, IDLE, own=8, earlier=8) == Repeated(epoch=8)


# ---- grants ----


def place(row: Known | None, *, epoch: int = 7, own: int = 7) -> Code | None:
    return code(intake.check_grant_place(row, epoch=epoch, own=own))


def test_a_grant_needs_something_to_let_through() -> None:
    assert place(None) is None
    assert place(known(vote("production"))) is None
    assert place(known(epoch=7, phase=Phase.IDLE, content=None)) is None
    assert place(known(), epoch=6) is Code.STALE_EPOCH
    assert place(None, epoch=8) is Code.FUTURE_EPOCH
    assert place(COMMITTED) is Code.ALREADY_DECIDED
    assert place(known(phase=Phase.REJECTED, reason=Reason.TIMEOUT)) is Code.ALREADY_DECIDED


def test_a_grant_launders_no_divergence_and_that_is_told_first() -> None:
    assert place(known(vote("production"), vote("replica", OTHER))) is Code.DIVERGED
    assert place(REJECTED) is Code.DIVERGED
