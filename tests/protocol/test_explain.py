"""Sentence first: what a person reads of each state, and that nothing from outside deceives in it."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from fencing.protocol.explain import (
    Effect,
    Heard,
    Mark,
    Sentence,
    Story,
    Tone,
    explain_intent,
    explain_step,
)
from fencing.protocol.fence import Committed, Gate, Phase, Reason
from fencing.protocol.intents import Kind, State
from fencing.protocol.simulate import stage
from fencing.protocol.simulate.strings import opening, random_string
from fencing.protocol.world import World
from fencing.protocol.world.events import Admit, Cast, Issue, Propose, Replay, Report, Restart, Revoke, Work
from fencing.protocol.world.telling import story_of
from tests.protocol.values import NOW, RULES, grant, step, vote

PROPOSE = Propose(step="a", epoch=7)
GRANT = Issue(name="night-shift-3", epoch=7, by="ann", tool="refund")


def cast(path: str, action: Any = stage.REFUND) -> Cast:
    return Cast(path=path, step="a", epoch=7, action=action)


def abstain(path: str) -> Cast:
    return Cast(path=path, step="a", epoch=7)


def told(*events: Any, at: float = 0, every_s: float = 1) -> Sentence:
    """What is said of step a after these events; `at` is how many seconds later somebody reads it."""
    world, now = World.opened(stage.tools), stage.START
    for event in events:
        now += timedelta(seconds=event if isinstance(event, float) else every_s)
        if not isinstance(event, float):
            world, _ = world.handle(event, now)
    record = world.step("a", 7)
    assert record is not None
    return explain_step(story_of(world, record, now + timedelta(seconds=at)))


AGREED = (PROPOSE, cast("production"), 0.8, cast("replica"), Work())
CALL = Admit(action=stage.REFUND, token="token-1")
DONE = Report(intent="intent-1", number=1, outcome=Kind.SUCCEEDED)

STORIES: dict[str, tuple[Any, ...]] = {
    "Waiting: production and replica have not voted for 41 s; the step is rejected at 02:16:01 UTC (in 79 s) unless "
    "they do.": (PROPOSE, 41.0),
    "Waiting: production has not voted for 41 s; the step is rejected at 02:16:01 UTC (in 79 s) unless it does.": (
        PROPOSE,
        cast("replica"),
        40.0,
    ),
    "Waiting: production and replica have not voted for 2.0 s; the step is rejected at 02:16:01 UTC (in 118 s) unless "
    "they do. replica could not answer: “it could not”.": (PROPOSE, abstain("replica"), 1.0),
    "Waiting: every path has voted; the fencer decides next.": AGREED[:4],
    "Waiting: the paths disagree; the fencer rejects the step next.": (
        PROPOSE,
        cast("production"),
        cast("replica", stage.HOLD),
    ),
    "Waiting: replica did not vote before 02:16:01 UTC; the fencer rejects the step next.": (
        PROPOSE,
        cast("production"),
        130.0,
    ),
    "Waiting: production has not voted for 3.0 s; the step is rejected at 02:16:01 UTC (in 117 s) unless it does. The "
    "grant night-shift-3 does not cover it: it lets production act, not replica.": (
        PROPOSE,
        GRANT,
        cast("replica"),
        1.0,
    ),
    "Agreed, without the action: production and replica voted the same digest; one of them must send its vote again "
    "with the action. Nothing can leave before.": (
        PROPOSE,
        *(Cast(path=path, step="a", epoch=7, digest=stage.REFUND.fence_digest) for path in ("production", "replica")),
        Work(),
    ),
    "Fenced under night-shift-3: production alone asked for refund on invoice 9 (cents 4200); until 02:14:09 UTC (in "
    "3.0 s) replica may still agree or disagree, then it commits alone, if the grant lives then. Nothing has left.": (
        PROPOSE,
        GRANT,
        cast("production"),
        Work(),
        2.0,
    ),
    "Committed by agreement: production and replica both asked for refund on invoice 9 (cents 4200), 1.8 s apart. "
    "Nothing has left yet: it waits for its gateway.": AGREED,
    "Committed by agreement: production and replica both asked for refund on invoice 9 (cents 4200), 1.8 s apart. The "
    "effect left at 02:14:05 UTC, and its outcome is not known yet.": (*AGREED, CALL),
    "Committed by agreement: production and replica both asked for refund on invoice 9 (cents 4200), 1.8 s apart. The "
    "effect left once, at 02:14:05 UTC, and succeeded.": (*AGREED, CALL, DONE),
    "Committed under a grant: night-shift-3 let production act alone on refund on invoice 9 (cents 4200). replica had "
    "not voted. Nothing has left yet: it waits for its gateway.": (
        PROPOSE,
        GRANT,
        cast("production"),
        Work(),
        5.0,
        Work(),
    ),
    "Committed by agreement: production and replica both asked for refund on invoice 9 (cents 4200), 1.8 s apart. "
    "replica asked for hold_for_review on invoice 9 afterwards, when the effect could not be stopped any more. Nothing "
    "is undone by itself: a person decides. The effect left at 02:14:05 UTC, and its outcome is not known yet.": (
        *AGREED,
        CALL,
        cast("replica", stage.HOLD),
    ),
    "Committed, and its effect failed: the effect was tried once and definitely failed: nothing is out. The step may "
    "be replayed, or proposed in a fresh epoch.": (
        *AGREED,
        CALL,
        Report(intent="intent-1", number=1, outcome=Kind.FAILED),
    ),
    "Rejected for divergence: production wants hold_for_review on invoice 9 and replica wants refund on invoice 9 "
    "(cents 4200). No commit token exists, and nothing was sent. The grant night-shift-3 did not help: a visible "
    "divergence beats every grant.": (PROPOSE, GRANT, cast("replica"), cast("production", stage.HOLD), Work()),
    "Rejected for equivocation: replica asked for refund on invoice 9 (cents 4200), and then for hold_for_review on "
    "invoice 9. No commit token exists, and nothing was sent.": (
        PROPOSE,
        cast("replica"),
        cast("replica", stage.HOLD),
        Work(),
    ),
    "Rejected, not what was proposed: the planner pinned refund on invoice 9 (cents 4200), and production and replica "
    "asked for refund on invoice 9 (cents 4300). No commit token exists, and nothing was sent.": (
        replace(PROPOSE, action=stage.REFUND),
        cast("production", stage.MORE),
        cast("replica", stage.MORE),
        Work(),
    ),
    "Rejected, can never be committed: no tool drop_table is registered. No commit token exists, and nothing was "
    "sent.": (PROPOSE, cast("production", stage.UNREGISTERED), cast("replica", stage.UNREGISTERED), Work()),
    "Rejected, can never be committed: the arguments do not fit the schema of send_mail. No commit token exists, and "
    "nothing was sent.": (PROPOSE, cast("production", stage.NO_FIT), cast("replica", stage.NO_FIT), Work()),
    "Rejected by silence: production had not voted when time was over at 02:16:01 UTC. No commit token exists, and "
    "nothing was sent.": (PROPOSE, cast("replica"), 120.0, Work(), cast("production")),
    "Rejected, no path could answer: every required path abstained. production could not answer: “it could not”. "
    "replica could not answer: “it could not”. No commit token exists, and nothing was sent.": (
        PROPOSE,
        abstain("replica"),
        abstain("production"),
        Work(),
    ),
    "Superseded: its planner restarted while it was undecided, and epoch 7 is closed. No commit token exists, and "
    "nothing was sent.": (PROPOSE, cast("replica"), Restart(expected=7)),
    "Taken back for a late divergence: it was committed for refund on invoice 9 (cents 4200); then replica asked for "
    "hold_for_review on invoice 9. Its commit token is void, and nothing was sent.": (
        *AGREED,
        cast("replica", stage.HOLD),
    ),
    "Taken back with its grant: night-shift-3 was revoked before the effect left, and was its only authority. Its "
    "commit token is void, and nothing was sent.": (
        PROPOSE,
        GRANT,
        cast("production"),
        Work(),
        5.0,
        Work(),
        Revoke(name="night-shift-3", by="ann"),
    ),
    "Taken back with its grant: night-shift-3 ended before the effect left, and was its only authority. Its commit "
    "token is void, and nothing was sent.": (PROPOSE, GRANT, cast("production"), Work(), 5.0, Work(), 60.0, Work()),
    "Taken back with its epoch: epoch 7 was closed by a restart, and a grant alone had committed it. Its commit token "
    "is void, and nothing was sent.": (
        PROPOSE,
        GRANT,
        cast("production"),
        Work(),
        5.0,
        Work(),
        Restart(expected=7),
    ),
    "Exempt: lookup_invoice only reads: it needs no vote and no token.": (replace(PROPOSE, tool="lookup_invoice"),),
}


@pytest.mark.parametrize(("sentence", "events"), STORIES.items(), ids=[text[:40] for text in STORIES])
def test_the_sentence_of_a_step(sentence: str, events: tuple[Any, ...]) -> None:
    assert told(*events).text == sentence


def test_a_reopened_step_says_so() -> None:
    world, _ = World.opened(stage.tools).handle(PROPOSE, NOW)
    for event in (cast("replica"), cast("production", stage.HOLD), Work(), Replay(step="a", from_epoch=7)):
        world, _ = world.handle(event, NOW)
    record = world.step("a", 8)
    assert record is not None
    assert explain_step(story_of(world, record, NOW)).text == (
        "Reopened: a replay opened epoch 8 for this step, and nobody has proposed it there yet."
    )


# ---- every state has its words ----


COMMITTED_ALONE = Committed(authority="grant", digest=vote("x").digest or "", grant=grant(), stands=False)


@pytest.mark.parametrize("reason", [*Reason, None])
@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("commit", [None, COMMITTED_ALONE], ids=["bare", "committed"])
def test_every_phase_and_reason_has_a_sentence(phase: Phase, reason: Reason | None, commit: Committed | None) -> None:
    for votes in ((), (vote("production"),), (vote("production"), vote("replica", "sha256:" + "9" * 64))):
        heard = tuple(Heard(path=each.path, at=NOW, digest=each.digest) for each in votes)
        facts = step(*votes, phase=phase, gate=Gate(may_act=False))
        sentence = explain_step(Story(step=facts, reason=reason, rules=RULES, now=NOW, heard=heard, commit=commit))
        assert sentence.text.endswith(".")
        assert sentence.head
        if phase is Phase.REJECTED:
            assert "nothing was sent" in sentence.text


@pytest.mark.parametrize("state", State)
def test_every_state_of_an_effect_has_its_words(state: State) -> None:
    for tries in (0, 1, 3):
        effect = Effect(state=state, tries=tries, may_be_out=tries, left_at=NOW if tries else None)
        assert explain_intent(effect, now=NOW).text.endswith(".")


def test_in_random_stories_nothing_is_called_unsent_that_may_be_out() -> None:
    for seed in range(40):
        scene = opening()
        for symbol in random_string(Random(seed)):  # noqa: S311 - a seed, no secret
            after = scene.after(symbol)
            scene = scene if after is None else after[0]
        for record in scene.world.steps:
            story = story_of(scene.world, record, scene.now)
            sentence = explain_step(story)
            assert sentence.text.isprintable()
            assert "  " not in sentence.text
            if story.effect is not None and (story.effect.may_be_out or story.effect.state is State.IN_DOUBT):
                assert "nothing was sent" not in sentence.text
                assert "Nothing has left" not in sentence.text


# ---- tones and marks ----


@pytest.mark.parametrize(
    ("events", "tone"),
    [
        ((PROPOSE,), Tone.WAITING),
        (AGREED, Tone.WAITING),
        ((*AGREED, CALL, DONE), Tone.GOOD),
        ((*AGREED, CALL, cast("replica", stage.HOLD)), Tone.DANGER),
        ((*AGREED, cast("replica", stage.HOLD)), Tone.REFUSED),
        ((replace(PROPOSE, tool="lookup_invoice"),), Tone.NEUTRAL),
    ],
)
def test_danger_is_kept_for_what_left_and_should_not_have(events: tuple[Any, ...], tone: Tone) -> None:
    assert told(*events).tone is tone


def test_the_verdict_is_strong_tools_are_code_and_names_are_names() -> None:
    sentence = told(PROPOSE, GRANT, cast("replica"), cast("production", stage.HOLD), Work())
    marked = {(part.text, part.mark) for part in (*sentence.head, *sentence.rest) if part.mark is not Mark.PLAIN}
    assert marked == {
        ("Rejected for divergence", Mark.STRONG),
        ("hold_for_review", Mark.CODE),
        ("refund", Mark.CODE),
        ("production", Mark.NAME),
        ("replica", Mark.NAME),
        ("night-shift-3", Mark.NAME),
    }


def test_an_agreement_that_is_not_independent_says_so() -> None:
    same = [
        Cast(path=path, step="a", epoch=7, action=stage.REFUND, model="m", prompt="p")
        for path in ("production", "replica")
    ]
    assert "this agreement is not independent" in told(PROPOSE, *same, Work()).text
    assert "independent" not in told(*AGREED).text


def test_a_grant_is_judged_by_what_was_on_record_when_the_step_was_decided() -> None:
    late = told(PROPOSE, replace(GRANT, ttl_s=20), cast("production"), 121.0, Work(), cast("replica", stage.HOLD))
    assert "The grant night-shift-3 did not help: it is expired." in late.text
