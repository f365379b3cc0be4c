"""The world in memory tells the same stories as the system: a few of each kind, with their answers."""

from datetime import timedelta
from typing import Any

import pytest

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import Phase, Reason
from fencing.protocol.intents import Kind, State
from fencing.protocol.simulate import stage
from fencing.protocol.world import Done, World
from fencing.protocol.world.events import (
    Admit,
    Approve,
    Cast,
    Event,
    Issue,
    Propose,
    Replay,
    Report,
    Resolve,
    Restart,
    Revoke,
    Sweep,
    Work,
)
from fencing.protocol.world.records import StepRecord


class Story:
    """A world that goes on, a second with each event unless more is said."""

    def __init__(self) -> None:
        self.world, self.now = World.opened(stage.tools), stage.START

    def do(self, *events: Event, after_s: float = 1) -> Any:
        """Let events happen; give the last answer."""
        result: Any = None
        for event in events:
            self.now += timedelta(seconds=after_s)
            self.world, result = self.world.handle(event, self.now)
        return result

    def step(self, name: str = "a", epoch: int = 7) -> StepRecord:
        record = self.world.step(name, epoch)
        assert record is not None
        return record

    @property
    def token(self) -> str:
        commit = self.step().commit
        assert commit is not None
        return commit.token


def code(result: object) -> Code:
    assert isinstance(result, Refusal), result
    return result.code


def votes(action: Any = stage.REFUND, *, step: str = "a", epoch: int = 7) -> list[Event]:
    return [Cast(path=path, step=step, epoch=epoch, action=action) for path in ("production", "replica")]


PROPOSE = Propose(step="a", epoch=7)
GRANT = Issue(name="g", epoch=7, by="ann", tool="refund")


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def committed(story: Story) -> Story:
    story.do(PROPOSE, *votes(), Work())
    return story


def test_agreement_commits_and_its_effect_leaves_once(committed: Story) -> None:
    assert (committed.step().phase, committed.step().reason) == (Phase.COMMITTED, Reason.AGREEMENT)
    let_through = committed.do(Admit(action=stage.REFUND, token=committed.token))
    assert let_through == Done(intent="intent-1", number=1)
    assert code(committed.do(Admit(action=stage.REFUND, token=committed.token))) is Code.DELIVERY_IN_PROGRESS
    committed.do(Report(intent="intent-1", number=1, outcome=Kind.SUCCEEDED))
    assert committed.do(Admit(action=stage.REFUND, token=committed.token)).settled is State.SUCCEEDED


def test_a_call_is_refused_until_a_commit_stands(story: Story) -> None:
    story.do(PROPOSE)
    assert code(story.do(Admit(action=stage.REFUND, step="a"))) is Code.NOT_COMMITTED
    story.do(*votes(), Work())
    assert code(story.do(Admit(action=stage.REFUND, step="a"))) is Code.NO_TOKEN
    assert code(story.do(Admit(action=stage.MORE, token=story.token))) is Code.PAYLOAD_MISMATCH
    assert code(story.do(Admit(action=stage.REFUND, token="forged"))) is Code.BAD_TOKEN
    assert code(story.do(Admit(action=stage.UNREGISTERED))) is Code.UNKNOWN_TOOL
    assert story.do(Admit(action=stage.LOOKUP)) == Done(exempt=True)
    assert [row.reason for row in story.world.side_log] == [
        "not_committed",
        "no_token",
        "payload_mismatch",
        "bad_token",
        "unknown_tool",
    ]


def test_a_late_divergence_takes_the_commit_back_and_its_intent_is_cancelled(committed: Story) -> None:
    answer = committed.do(Cast(path="replica", step="a", epoch=7, action=stage.HOLD))
    assert code(answer) is Code.EQUIVOCATION
    assert (committed.step().phase, committed.step().reason) == (Phase.REJECTED, Reason.LATE_DIVERGENCE)
    assert committed.world.intents[0].facts.state is State.CANCELLED
    assert code(committed.do(Admit(action=stage.REFUND, token=committed.token))) is Code.REVOKED


def test_what_has_left_is_not_taken_back_and_people_are_called(committed: Story) -> None:
    committed.do(Admit(action=stage.REFUND, token=committed.token))
    committed.do(Cast(path="replica", step="a", epoch=7, action=stage.HOLD))
    assert committed.step().phase is Phase.COMMITTED
    assert [each.kind for each in committed.world.incidents] == ["late_divergence"]


def test_what_turns_out_not_to_have_left_is_taken_back_then(committed: Story) -> None:
    committed.do(Admit(action=stage.REFUND, token=committed.token))
    committed.do(Cast(path="replica", step="a", epoch=7, action=stage.HOLD))
    committed.do(Report(intent="intent-1", number=1, outcome=Kind.NOT_SENT))
    assert (committed.step().phase, committed.step().reason) == (Phase.REJECTED, Reason.LATE_DIVERGENCE)


def test_a_success_that_contradicts_the_record_keeps_the_effect_with_a_person(committed: Story) -> None:
    for _ in range(2):
        committed.do(Admit(action=stage.REFUND, token=committed.token))
        committed.do(Report(intent="intent-1", number=1, outcome=Kind.NOT_SENT))
    assert code(committed.do(Report(intent="intent-1", number=1, outcome=Kind.SUCCEEDED))) is Code.OUTCOME_CONFLICT
    committed.do(Cast(path="replica", step="a", epoch=7, action=stage.HOLD))
    committed.do(Report(intent="intent-1", number=2, outcome=Kind.BUSY))
    assert committed.world.intents[0].facts.state is State.IN_DOUBT
    assert committed.step().phase is Phase.COMMITTED
    committed.do(Resolve(intent="intent-1", happened=False, by="eve"))
    assert committed.step().reason is Reason.LATE_DIVERGENCE
    assert [each.facts.state for each in committed.world.intents] == [State.CANCELLED]


def test_a_lost_answer_is_unknown_repeated_with_limit_and_then_a_persons(committed: Story) -> None:
    for number in (1, 2, 3):
        assert committed.do(Admit(action=stage.REFUND, token=committed.token)).number == number
        committed.do(Sweep(), after_s=11)
    intent = committed.world.intents[0]
    assert intent.facts.state is State.IN_DOUBT
    assert code(committed.do(Admit(action=stage.REFUND, token=committed.token))) is Code.IN_DOUBT
    word = Resolve(intent="intent-1", happened=False, by="eve")
    assert committed.do(word).settled is State.READY
    assert committed.do(word).duplicate
    assert code(committed.do(Resolve(intent="intent-1", happened=True, by="eve"))) is Code.NOT_IN_DOUBT
    assert committed.do(Admit(action=stage.REFUND, token=committed.token)).number == 4


def test_a_tool_that_honours_no_key_is_never_tried_twice_on_a_guess(story: Story) -> None:
    story.do(PROPOSE, *votes(stage.WIRE), Work(), Admit(action=stage.WIRE, token="token-1"), Sweep(), after_s=11)
    assert story.world.intents[0].facts.state is State.IN_DOUBT


def test_a_failed_effect_frees_its_step_and_the_next_generation_is_another_effect(committed: Story) -> None:
    committed.do(Admit(action=stage.REFUND, token=committed.token))
    committed.do(Report(intent="intent-1", number=1, outcome=Kind.FAILED))
    assert (committed.step().phase, committed.step().reason) == (Phase.COMMITTED, Reason.EFFECT_FAILED)
    assert committed.do(Admit(action=stage.REFUND, token="token-1")).settled is State.FAILED
    assert committed.do(Replay(step="a", from_epoch=7)).epoch == 8
    committed.do(Propose(step="a", epoch=8), *votes(epoch=8), Work())
    assert [intent.facts.generation for intent in committed.world.intents] == [1, 2]
    assert committed.do(Admit(action=stage.REFUND, token="token-2")) == Done(intent="intent-2", number=1)


def test_two_steps_that_want_the_same_share_one_effect_and_a_key_serves_one_action(story: Story) -> None:
    for name in ("a", "b"):
        story.do(Propose(step=name, epoch=7, key="k"), *votes(step=name), Work())
    story.do(Propose(step="c", epoch=7, key="k"), *votes(stage.MORE, step="c"), Work())
    assert len(story.world.intents) == 1
    assert [claim.step for claim in story.world.intents[0].claims] == ["a", "b"]
    assert story.step("c").reason is Reason.KEY_CONFLICT


def test_a_committed_step_answers_with_its_commit_in_every_later_epoch(committed: Story) -> None:
    committed.do(Restart(expected=7))
    assert committed.do(Propose(step="a", epoch=8)) == Done(duplicate=True, epoch=7, token="token-1")
    assert committed.do(Replay(step="a", from_epoch=8)) == Done(duplicate=True, epoch=7, token="token-1")
    assert committed.do(Propose(step="a", epoch=8, key="else")).token == "token-1"
    assert committed.world.side_log[-1].reason == "already_committed"


def test_a_restart_supersedes_what_is_undecided_and_voids_grants(story: Story) -> None:
    story.do(PROPOSE, GRANT)
    assert story.do(Restart(expected=7)) == Done(epoch=8, touched=(("a", 7),))
    assert story.step().reason is Reason.SUPERSEDED
    assert story.world.grants[0].facts.voided_at is not None
    assert story.do(Restart(expected=7)).duplicate
    assert code(story.do(Restart(expected=7, number=9))) is Code.STALE_EPOCH
    assert code(story.do(*votes()[:1])) is Code.STALE_EPOCH
    assert code(story.do(Issue(name="h", epoch=7, by="ann", tool="refund"))) is Code.STALE_EPOCH


def test_one_path_under_a_grant_commits_after_the_grace_and_the_end_of_the_grant_takes_it_back(story: Story) -> None:
    story.do(PROPOSE, GRANT, votes()[0], Work())
    assert story.step().phase is Phase.FENCED
    story.do(Work(), after_s=5)
    assert (story.step().phase, story.step().reason) == (Phase.COMMITTED, Reason.GRANT)
    assert story.world.grants[0].facts.uses == 1
    assert code(story.do(Admit(action=stage.REFUND, token=story.token), after_s=60)) is Code.GRANT_EXPIRED
    assert (story.step().phase, story.step().reason) == (Phase.REJECTED, Reason.GRANT_EXPIRED)


def test_a_witness_keeps_the_commit_when_the_grant_ends(story: Story) -> None:
    story.do(PROPOSE, GRANT, votes()[0], Work())
    story.do(Work(), after_s=5)
    assert story.do(votes()[1]).late.value == "witness_or_divergence"
    story.do(Work(), Sweep(), after_s=60)
    commit = story.step().commit
    assert commit is not None
    assert (commit.authority, commit.stands) == ("both", True)
    assert story.do(Admit(action=stage.REFUND, token=story.token)).number == 1


def test_a_revocation_answers_what_it_stopped(story: Story) -> None:
    story.do(PROPOSE, GRANT, votes()[0], Work())
    assert story.do(Revoke(name="g", by="ann")).touched == (("a", 7),)
    assert story.step().phase is Phase.PROPOSED
    assert story.do(Revoke(name="g", by="ann")).duplicate
    assert code(story.do(Revoke(name="none", by="ann"))) is Code.NOT_FOUND


def test_a_dangerous_tool_asks_a_second_person(story: Story) -> None:
    story.do(PROPOSE, Issue(name="w", epoch=7, by="ann", tool="wire_transfer"), votes(stage.WIRE)[0], Work())
    assert story.step().phase is Phase.PROPOSED
    assert code(story.do(Approve(name="w", by="ann"))) is Code.OWN_GRANT
    story.do(Approve(name="w", by="bob"), Work())
    assert story.do(Approve(name="w", by="bob")).duplicate
    assert story.step().phase is Phase.FENCED


def test_an_agreement_on_digests_waits_for_the_action_with_its_claim(story: Story) -> None:
    digest = stage.MAIL.fence_digest
    story.do(PROPOSE, *(Cast(path=path, step="a", epoch=7, digest=digest) for path in ("production", "replica")))
    story.do(Work())
    assert story.step().phase is Phase.AGREED
    assert story.world.intents[0].facts.state is State.HELD
    story.do(votes(stage.OTHER_PROSE)[1], Work())
    assert story.step().phase is Phase.AGREED
    story.do(votes(stage.MAIL)[0], Work())
    commit = story.step().commit
    assert commit is not None
    assert commit.payload == stage.MAIL.payload_digest


def test_nothing_of_a_turn_reaches_the_world_by_itself(committed: Story) -> None:
    before = committed.world
    before.turn(committed.now).note("scribble")
    before.handle(Restart(expected=7), committed.now)
    assert before.side_log == ()
    assert before.epochs.epoch == 7
