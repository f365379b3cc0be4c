"""F3, row by row, and what F4, F5, F7 and F8 make of it."""

from dataclasses import replace
from datetime import datetime
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol import fence, transitions
from fencing.protocol.fence import Committed, Decision, Gate, Phase, Reason, Rules, Step, Vote
from fencing.protocol.grants import Grant
from tests.protocol.values import NOW, ONE, OTHER, RULES, grant, later, step, vote

AGREED = (vote("production"), vote("replica"))


def decide(
    facts: Step, *grants: Grant, rules: Rules = RULES, now: datetime = NOW, is_key_taken: bool = False
) -> Decision:
    return fence.decide(facts, rules=rules, grants=grants, now=now, is_key_taken=lambda _digest: is_key_taken)


def outcome(decision: Decision) -> tuple[Phase, Reason | None]:
    return decision.phase, decision.reason


# ---- row 1 ----


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (step(vote("production"), vote("replica", OTHER)), Reason.DIVERGENCE),
        (step(vote("replica", OTHER), vote("production")), Reason.DIVERGENCE),
        (step(vote("production"), vote("production", OTHER)), Reason.EQUIVOCATION),
        (step(vote("production"), vote("production", OTHER), vote("replica", OTHER)), Reason.EQUIVOCATION),
        (step(*AGREED, pinned_digest=OTHER), Reason.PROPOSAL_MISMATCH),
        (step(vote("replica"), pinned_digest=OTHER), Reason.PROPOSAL_MISMATCH),
        (step(vote("production"), vote("replica", OTHER), pinned_digest=OTHER), Reason.DIVERGENCE),
        (step(*AGREED, pinned_tool="hold_for_review"), Reason.PROPOSAL_MISMATCH),
        (step(vote("production"), vote("replica", OTHER), pinned_tool="hold_for_review"), Reason.DIVERGENCE),
    ],
)
def test_a_visible_disagreement_rejects(facts: Step, reason: Reason) -> None:
    assert outcome(decide(facts)) == (Phase.REJECTED, reason)


@pytest.mark.parametrize("phase", [Phase.PROPOSED, Phase.AGREED, Phase.FENCED])
def test_a_disagreement_beats_every_grant_in_every_phase(phase: Phase) -> None:
    facts = step(vote("production"), vote("replica", OTHER), phase=phase, fenced_by="night-shift-3", fenced_at=NOW)
    assert outcome(decide(facts, grant(), grant(name="another", step="pay"))) == (Phase.REJECTED, Reason.DIVERGENCE)


def test_a_disagreement_beats_faults_and_the_deadline() -> None:
    facts = step(vote("production", fault="unknown_tool"), vote("replica", OTHER))
    assert decide(facts, now=later(500), is_key_taken=True).reason is Reason.DIVERGENCE


# ---- rows 1a, 1b, 2 ----


@pytest.mark.parametrize("votes", [AGREED, (vote("production"),)], ids=["agreement", "grant"])
@pytest.mark.parametrize("fault", ["unknown_tool", "invalid_args"])
def test_what_can_never_be_committed_is_rejected_where_it_would_be(votes: tuple[Vote, ...], fault: str) -> None:
    faulty = tuple(replace(each, fault=fault) for each in votes)
    assert outcome(decide(step(*faulty), grant())) == (Phase.REJECTED, Reason(fault))


def test_a_fault_of_one_path_alone_waits_for_the_others() -> None:
    assert decide(step(vote("production", fault="unknown_tool"))).phase is Phase.PROPOSED


@pytest.mark.parametrize("votes", [AGREED, (vote("production"),)], ids=["agreement", "grant"])
def test_a_taken_key_rejects(votes: tuple[Vote, ...]) -> None:
    assert decide(step(*votes), grant(), is_key_taken=True).reason is Reason.KEY_CONFLICT


def test_a_tool_that_only_reads_is_exempt_once_all_paths_want_it() -> None:
    rules = replace(RULES, is_read_only=True)
    assert outcome(decide(step(*AGREED), rules=rules, is_key_taken=True)) == (Phase.EXEMPT, Reason.READ_ONLY)
    assert decide(step(vote("production")), grant(), rules=rules).phase is Phase.PROPOSED


def test_equal_digests_of_all_required_paths_commit_at_once() -> None:
    decision = decide(step(*AGREED), grant())
    assert outcome(decision) == (Phase.COMMITTED, Reason.AGREEMENT)
    assert (decision.digest, decision.payload, decision.tool, decision.grant) == (ONE, "payload of 11", "refund", None)


def test_agreement_is_every_required_path_of_this_tool() -> None:
    rules = replace(RULES, required_paths=("production", "replica", "auditor"))
    assert decide(step(*AGREED), rules=rules).phase is Phase.PROPOSED
    assert decide(step(*AGREED, vote("auditor")), rules=rules).phase is Phase.COMMITTED
    assert decide(step(vote("production"), vote("stranger"))).phase is Phase.PROPOSED


def test_an_agreement_that_came_in_time_commits_after_the_deadline_and_beside_dead_grants() -> None:
    dead = grant(expires_at=later(-1))
    assert decide(step(*AGREED), dead, now=later(500)).phase is Phase.COMMITTED


# ---- row 3, F4 ----


def test_one_path_under_a_live_grant_is_fenced_for_the_grace() -> None:
    decision = decide(step(vote("production")), grant())
    assert outcome(decision) == (Phase.FENCED, Reason.GRANT)
    assert (decision.grant, decision.fenced_at, decision.due_at) == ("night-shift-3", NOW, later(5))


def fenced(*votes: Vote, by: str = "night-shift-3", **more: Any) -> Step:
    return step(*(votes or (vote("production"),)), phase=Phase.FENCED, fenced_at=NOW, fenced_by=by, **more)


@pytest.mark.parametrize(("after_s", "phase"), [(4.999999, Phase.FENCED), (5, Phase.COMMITTED), (59, Phase.COMMITTED)])
def test_it_commits_when_the_grace_has_passed(after_s: float, phase: Phase) -> None:
    decision = decide(fenced(), grant(), now=later(after_s))
    assert outcome(decision) == (phase, Reason.GRANT)
    if phase is Phase.COMMITTED:
        assert (decision.grant, decision.payload, decision.due_at) == ("night-shift-3", "payload of 11", later(60))


def test_it_falls_back_when_the_grant_is_over_by_then() -> None:
    assert decide(fenced(), grant(expires_at=later(5)), now=later(5)).phase is Phase.PROPOSED
    assert decide(fenced(), grant(revoked_at=later(1)), now=later(5)).phase is Phase.PROPOSED
    assert decide(fenced(), grant(uses=1), now=later(5)).phase is Phase.PROPOSED


def test_another_grant_begins_another_grace() -> None:
    decision = decide(fenced(by="gone"), grant(), now=later(5))
    assert (decision.phase, decision.fenced_at, decision.due_at) == (Phase.FENCED, later(5), later(10))


def test_the_grant_that_fenced_it_is_kept_where_others_cover_it_too() -> None:
    assert decide(fenced(by="z"), grant(name="a"), grant(name="z"), now=later(5)).grant == "z"


def test_the_missing_path_speaks_in_the_grace() -> None:
    assert outcome(decide(fenced(*AGREED), grant(), now=later(1))) == (Phase.COMMITTED, Reason.AGREEMENT)
    assert decide(fenced(vote("production"), vote("replica", OTHER)), grant(), now=later(1)).reason is Reason.DIVERGENCE


def test_without_a_grace_a_single_path_commits_at_once() -> None:
    assert decide(step(vote("production")), grant(), rules=replace(RULES, grace_s=0)).phase is Phase.COMMITTED


def test_an_abstaining_path_does_not_stand_in_a_grants_way() -> None:
    assert decide(step(vote("replica", None), vote("production")), grant()).phase is Phase.FENCED


def test_a_digest_alone_is_not_enough_for_a_grant() -> None:
    assert decide(step(vote("production", payload=None)), grant()).phase is Phase.PROPOSED


@pytest.mark.parametrize(
    ("gate", "is_optimistic", "phase"),
    [
        (Gate(may_act=False), False, Phase.AGREED),
        (Gate(may_act=False), True, Phase.COMMITTED),
        (Gate(may_act=False, is_lost=True), True, Phase.REJECTED),
        (Gate(may_act=False, is_lost=True), False, Phase.REJECTED),
    ],
)
def test_a_branch_acts_when_it_may(gate: Gate, is_optimistic: bool, phase: Phase) -> None:
    rules = replace(RULES, is_optimistic=is_optimistic)
    assert decide(step(*AGREED, gate=gate), rules=rules).phase is phase
    if phase is Phase.AGREED:
        assert decide(fenced(gate=gate), grant(), now=later(5)).phase is Phase.FENCED


def test_a_lost_branch_rejects_what_waits() -> None:
    facts = step(vote("production"), gate=Gate(may_act=False, is_lost=True))
    assert outcome(decide(facts)) == (Phase.REJECTED, Reason.BRANCH_LOST)


# ---- rows 4 and 5 ----


@pytest.mark.parametrize("votes", [(), (vote("production"),), (vote("replica", None),)])
def test_silence_rejects_at_the_deadline_and_not_before(votes: tuple[Vote, ...]) -> None:
    assert decide(step(*votes), now=later(119.999999)).phase is Phase.PROPOSED
    assert outcome(decide(step(*votes), now=later(120))) == (Phase.REJECTED, Reason.TIMEOUT)


def test_no_path_that_can_answer_rejects() -> None:
    facts = step(vote("production", None), vote("replica", None))
    assert outcome(decide(facts)) == (Phase.REJECTED, Reason.PATH_UNAVAILABLE)


def test_a_path_that_abstained_may_vote_later() -> None:
    facts = step(vote("production", None), vote("replica", None), *AGREED)
    assert decide(facts).phase is Phase.COMMITTED
    assert decide(step(vote("production", None), vote("replica", None), vote("replica"))).phase is Phase.PROPOSED


def test_else_it_waits_until_the_deadline() -> None:
    assert decide(step(vote("production"))).due_at == later(120)


# ---- F5, C6 ----


def test_an_agreement_on_digests_waits_for_the_action() -> None:
    bare = tuple(replace(each, payload=None, tool=None) for each in AGREED)
    decision = decide(step(*bare))
    assert outcome(decision) == (Phase.AGREED, Reason.AGREEMENT)
    assert decide(step(*bare, vote("replica"))).phase is Phase.COMMITTED


def test_where_prose_may_differ_the_trusted_paths_action_is_bound() -> None:
    rules = replace(RULES, has_advisory=True)
    production, replica = vote("production", payload="ours"), vote("replica", payload="theirs")
    assert decide(step(replica, vote("production", payload=None)), rules=rules).phase is Phase.AGREED
    assert decide(step(replica, production), rules=rules).payload == "ours"
    assert decide(step(production, vote("production", payload="again"), replica), rules=rules).payload == "ours"


def test_a_grant_binds_the_granted_paths_own_action() -> None:
    rules = replace(RULES, has_advisory=True, grace_s=0)
    only = grant(path="replica", digest=ONE)
    assert decide(step(vote("replica", payload="theirs")), only, rules=rules).payload == "theirs"


# ---- N4 ----


def test_no_order_of_the_same_votes_decides_otherwise() -> None:
    votes = (vote("production"), vote("replica", None), vote("replica"), vote("auditor", OTHER))
    for some in range(len(votes) + 1):
        seen = {outcome(decide(step(*order), grant())) for order in permutations(votes[:some])}
        assert len(seen) == 1


@given(
    votes=st.lists(
        st.builds(
            vote,
            path=st.sampled_from(["production", "replica"]),
            digest=st.sampled_from([ONE, ONE, OTHER, None]),
            payload=st.sampled_from(["p", None]),
            fault=st.sampled_from([None, None, "invalid_args"]),
        ),
        max_size=5,
    ),
    grants=st.lists(st.sampled_from([grant(), grant(expires_at=later(3)), grant(name="x", uses=1)]), max_size=2),
)
def test_every_move_that_it_makes_stands_in_the_table(votes: list[Vote], grants: list[Grant]) -> None:
    facts = step()
    for number, each in enumerate([*votes, None, None]):
        facts = facts if each is None else replace(facts, votes=(*facts.votes, each))
        decision = decide(facts, *grants, now=later(number * 3))
        if decision.phase is not facts.phase:
            assert transitions.allows(fence.TRANSITIONS, facts.phase, decision.phase, decision.reason)
        if decision.phase not in fence.UNDECIDED:
            return
        facts = replace(facts, phase=decision.phase, fenced_at=decision.fenced_at, fenced_by=decision.grant)


# ---- F7, F8, G5, R3: what takes a commit back ----


BY_AGREEMENT = Committed(authority="agreement", digest=ONE, grant=None, stands=True)


def under(facts: Grant) -> Committed:
    return Committed(authority="grant", digest=ONE, grant=facts, stands=True)


def lost(commit: Committed, facts: Step, *, run_epoch: int = 7, now: datetime = NOW) -> Reason | None:
    return fence.lost_authority(commit, facts, RULES, run_epoch=run_epoch, now=now)


ALONE = step(vote("production"), phase=Phase.COMMITTED)
BOTH = step(*AGREED, phase=Phase.COMMITTED)


@pytest.mark.parametrize(
    ("commit", "facts", "more", "reason"),
    [
        (BY_AGREEMENT, BOTH, {}, None),
        (BY_AGREEMENT, BOTH, {"run_epoch": 8}, None),
        (BY_AGREEMENT, step(*AGREED, vote("replica", OTHER)), {}, Reason.LATE_DIVERGENCE),
        (BY_AGREEMENT, replace(BOTH, gate=Gate(may_act=False, is_lost=True)), {}, Reason.BRANCH_LOST),
        (under(grant(uses=1)), ALONE, {}, None),
        (under(grant(uses=1)), ALONE, {"now": later(59.999999)}, None),
        (under(grant(uses=1)), ALONE, {"now": later(60)}, Reason.GRANT_EXPIRED),
        (under(grant(expired_at=later(60))), ALONE, {"now": later(1)}, Reason.GRANT_EXPIRED),
        (under(grant(revoked_at=NOW)), ALONE, {}, Reason.GRANT_REVOKED),
        (under(grant(voided_at=NOW)), ALONE, {}, Reason.EPOCH_CLOSED),
        (under(grant()), ALONE, {"run_epoch": 8}, Reason.EPOCH_CLOSED),
        (under(grant(revoked_at=NOW)), step(vote("production"), vote("replica", OTHER)), {}, Reason.LATE_DIVERGENCE),
        (under(grant(revoked_at=NOW)), BOTH, {}, None),
        (under(grant()), BOTH, {"now": later(500), "run_epoch": 8}, None),
        (replace(under(grant(revoked_at=NOW)), authority="both"), ALONE, {}, None),
    ],
)
def test_a_commit_loses_its_authority(
    commit: Committed, facts: Step, more: dict[str, Any], reason: Reason | None
) -> None:
    assert lost(commit, facts, **more) is reason


# ---- F10 ----


@pytest.mark.parametrize(
    ("production", "replica", "is_correlated"),
    [
        (("m", "p"), ("m", "p"), True),
        (("m", "p"), ("m", "q"), False),
        (("m", "p"), ("n", "p"), False),
        ((None, None), (None, None), False),
        (("m", None), ("m", None), False),
    ],
)
def test_the_same_model_and_prompt_are_not_independent(
    production: tuple[str | None, str | None],
    replica: tuple[str | None, str | None],
    is_correlated: bool,
) -> None:
    votes = [
        vote(path, model=model, prompt=prompt)
        for path, (model, prompt) in (("production", production), ("replica", replica))
    ]
    assert fence.is_correlated(step(*votes), RULES) is is_correlated
