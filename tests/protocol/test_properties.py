"""The invariants under every order of events: Hypothesis looks for a story that breaks one."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from fencing.protocol import fence, intents
from fencing.protocol.fence import Phase
from fencing.protocol.simulate import stage
from fencing.protocol.world import World
from fencing.protocol.world.events import Cast, Event, Issue, Propose, Work
from tests.length import long_or
from tests.protocol.machine import BOUNDED, BranchMachine, FenceMachine

TestFence = FenceMachine.TestCase
TestFence.settings = BOUNDED
TestBranches = BranchMachine.TestCase
TestBranches.settings = BOUNDED

SHORT = settings(max_examples=long_or(150, long=2000), deadline=None)

votes = st.builds(
    Cast,
    path=st.sampled_from(["production", "replica"]),
    step=st.just("a"),
    epoch=st.just(7),
    action=st.sampled_from(
        [stage.REFUND, stage.REFUND, stage.MORE, stage.HOLD, stage.NO_FIT, stage.UNREGISTERED, None]
    ),
)
grants = st.sampled_from(
    [
        Issue(name="g-refund", epoch=7, by="ann", tool="refund"),
        Issue(name="g-hold", epoch=7, by="ann", step="a", tool="hold_for_review"),
    ]
)


facts_in_any_order = st.lists(votes | grants, min_size=2, max_size=6, unique_by=str)


def decided(facts: list[Event]) -> tuple[object, ...]:
    """What the fencer makes of facts that arrived in this order, all of them before it looked."""
    world, _ = World.opened(stage.tools).handle(Propose(step="a", epoch=7), stage.START)
    for event in facts:
        world, _ = world.handle(event, stage.START)
    looked = []
    for after_s in (0, 6):  # at once, and when the grace is over
        world, _ = world.handle(Work(), stage.START + timedelta(seconds=after_s))
        record = world.step("a", 7)
        assert record is not None
        commit = record.commit
        looked.append((record.phase, record.reason, commit and (commit.digest, commit.payload, commit.authority)))
    return tuple(looked)


@SHORT
@given(data=st.data(), facts=facts_in_any_order)
def test_the_decision_is_the_same_in_whatever_order_the_facts_arrived(data: st.DataObject, facts: list[Event]) -> None:
    assert decided(facts) == decided(data.draw(st.permutations(facts)))


@SHORT
@given(data=st.data(), facts=st.lists(votes | grants, min_size=1, max_size=5))
def test_the_decision_is_the_same_when_deliveries_are_doubled(data: st.DataObject, facts: list[Event]) -> None:
    once = list({str(event): event for event in facts}.values())
    doubled = data.draw(st.permutations([*once, *once]))
    first = list({str(event): event for event in doubled}.values())
    assert decided(doubled) == decided(first)


@SHORT
@given(facts=st.lists(votes | grants, max_size=5), crashes=st.lists(st.booleans(), min_size=5, max_size=5))
def test_a_crash_before_or_after_each_event_changes_nothing_once_it_is_repeated(
    facts: list[Event], crashes: list[bool]
) -> None:
    """Before its commit a transaction leaves no trace; after it, the caller who got no answer sends the same again."""
    calm = stormy = World.opened(stage.tools).handle(Propose(step="a", epoch=7), stage.START)[0]
    for event, is_recorded in zip(facts, crashes, strict=False):
        calm, _ = calm.handle(event, stage.START)
        lost, _ = stormy.handle(event, stage.START)
        stormy, _ = (lost if is_recorded else stormy).handle(event, stage.START)
        assert stormy.record == calm.record


@SHORT
@given(facts=st.lists(votes | grants, min_size=1, max_size=6))
def test_nothing_is_committed_once_two_digests_were_seen(facts: list[Event]) -> None:
    world, _ = World.opened(stage.tools).handle(Propose(step="a", epoch=7), stage.START)
    for number, event in enumerate(facts):
        at = stage.START + timedelta(seconds=number * 6)
        world, _ = world.handle(event, at)
        world, _ = world.handle(Work(), at)
        record = world.step("a", 7)
        assert record is not None
        if len(fence.digests_on_record(record.facts)) > 1:
            assert record.phase is Phase.REJECTED
            assert record.commit is None or not record.commit.stands
            assert not any(intents.is_admitted(intent.facts) for intent in world.intents)
