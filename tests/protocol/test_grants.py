"""G1 to G6: what a grant covers, when it is live, and what ends it."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from fencing.protocol import grants
from fencing.protocol.errors import Code
from fencing.protocol.fence import Rules
from fencing.protocol.grants import Grant, State
from tests.protocol.values import NOW, ONE, OTHER, RULES, grant, later


def why(facts: Grant, *, rules: Rules = RULES, now: datetime = NOW, **scope: Any) -> str | None:
    asked = {"step": "pay", "epoch": 7, "path": "production", "digest": ONE, "tool": "refund", **scope}
    return grants.why_not_covering(facts, rules=rules, now=now, **asked)


# ---- G1, G2: what it covers ----


@pytest.mark.parametrize(
    "facts",
    [
        grant(),
        grant(step="pay"),
        grant(step="pay", tool=None),
        grant(digest=ONE),
        grant(max_uses=2, uses=1),
        grant(ttl_s=900),
    ],
)
def test_it_covers(facts: Grant) -> None:
    assert why(facts) is None


def test_a_witness_is_covered_with_its_exact_digest_alone() -> None:
    assert why(grant(path="replica", digest=ONE), path="replica") is None
    assert "exact digest" in str(why(grant(path="replica"), path="replica"))


@pytest.mark.parametrize(
    ("facts", "scope", "words"),
    [
        (grant(uses=1), {}, "it is used up"),
        (grant(expires_at=NOW), {}, "it is expired"),
        (grant(revoked_at=NOW), {}, "it is revoked"),
        (grant(voided_at=NOW), {}, "it is void"),
        (grant(expires_at=None, pending_until=later(900)), {}, "it is pending"),
        (grant(epoch=6), {}, "it is for epoch 6"),
        (grant(epoch=8), {}, "it is for epoch 8"),
        (grant(step="other"), {}, "it is for step other"),
        (grant(tool="hold_for_review"), {}, "it is for tool hold_for_review"),
        (grant(), {"path": "replica"}, "it lets production act, not replica"),
        (grant(digest=OTHER), {}, "it is pinned to another digest"),
        (grant(path="stranger", digest=ONE), {"path": "stranger"}, "stranger is no path of this tool"),
        (grant(tool=None, step="pay"), {"rules": replace(RULES, grant_approvals=2)}, "the tool asks for 2 approvals"),
        (grant(ttl_s=901), {}, "the tool allows grants of 900 s at most"),
    ],
)
def test_it_does_not_cover_and_says_why(facts: Grant, scope: dict[str, Any], words: str) -> None:
    assert why(facts, **scope) == words


def test_approvals_are_asked_for_when_a_vote_tells_the_tool() -> None:
    assert why(grant(tool=None, step="pay", approvals=1), rules=replace(RULES, grant_approvals=2)) is None


# ---- G2: when it is live ----


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (grant(), State.LIVE),
        (grant(expires_at=None, pending_until=later(900)), State.PENDING),
        (grant(expires_at=None, pending_until=NOW), State.EXPIRED),
        (grant(expires_at=NOW), State.EXPIRED),
        (grant(expired_at=later(60)), State.EXPIRED),
        (grant(uses=1), State.USED_UP),
        (grant(uses=1, expires_at=NOW), State.USED_UP),
        (grant(uses=1, revoked_at=NOW), State.REVOKED),
        (grant(revoked_at=NOW, voided_at=NOW, expires_at=NOW), State.REVOKED),
        (grant(voided_at=NOW, expires_at=NOW), State.VOID),
    ],
)
def test_its_state(facts: Grant, state: State) -> None:
    assert grants.state_of(facts, NOW) is state


def test_at_the_very_instant_of_its_end_it_is_over() -> None:
    assert grants.state_of(grant(), later(59.999999)) is State.LIVE
    assert grants.state_of(grant(), later(60)) is State.EXPIRED


def test_a_clock_that_steps_back_revives_nothing() -> None:
    written = replace(grant(), expired_at=later(60))
    assert grants.state_of(written, NOW) is State.EXPIRED
    assert grants.has_run_out(grant(), later(60))
    assert not grants.has_run_out(written, later(60))
    assert not grants.has_run_out(grant(revoked_at=NOW), later(60))
    assert not grants.has_run_out(grant(), later(59))


@pytest.mark.parametrize(
    ("facts", "ended"),
    [
        (grant(), None),
        (grant(uses=1), None),
        (grant(expires_at=NOW), "grant_expired"),
        (grant(expired_at=NOW), "grant_expired"),
        (grant(expires_at=None), "grant_expired"),
        (grant(revoked_at=NOW, expires_at=NOW), "grant_revoked"),
        (grant(voided_at=NOW), "epoch_closed"),
    ],
)
def test_how_what_rests_on_it_ends(facts: Grant, ended: str | None) -> None:
    assert grants.ended_as(facts, NOW) == ended


# ---- G4: what is refused at issue ----


def code(facts: Grant, *, reason: str = "replica is down", rules: Rules | None = RULES) -> Code | None:
    refusal = grants.check_form(facts, reason=reason, rules=rules)
    return None if refusal is None else refusal.code


@pytest.mark.parametrize("reason", ["", "too short", " " * 20, "\u200b" * 20, "a b c d e f g h i", "\u3164" * 12])
def test_a_reason_has_ten_characters_that_are_seen(reason: str) -> None:
    assert code(grant(), reason=reason) is Code.REASON_REQUIRED
    assert code(grant(), reason="ten letters") is None


@pytest.mark.parametrize(
    "facts",
    [
        grant(tool=None),
        grant(max_uses=101),
        grant(path="replica"),
        grant(path="stranger", digest=ONE),
        grant(ttl_s=901),
    ],
)
def test_what_is_beyond_policy(facts: Grant) -> None:
    assert code(facts) is Code.BEYOND_POLICY


def test_a_grant_by_step_alone_is_judged_when_a_vote_tells_the_tool() -> None:
    assert code(grant(tool=None, step="pay", ttl_s=80_000), rules=None) is None
    assert code(grant(tool=None, step="pay", path="replica"), rules=None) is Code.BEYOND_POLICY
    assert code(grant(tool=None, step="pay", path="replica", digest=ONE), rules=None) is None


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [
        ({}, {}, True),
        ({"step": "pay"}, {}, True),
        ({"step": "pay"}, {"step": "other"}, False),
        ({"tool": None, "step": "pay"}, {}, True),
        ({"tool": None, "step": "pay"}, {"step": "other"}, False),
        ({}, {"tool": "hold_for_review"}, False),
        ({}, {"epoch": 8}, False),
        ({}, {"path": "replica"}, False),
    ],
)
def test_two_grants_for_the_same_vote(one: dict[str, Any], other: dict[str, Any], is_shared: bool) -> None:
    asked, there = grant(name="one", **one), grant(name="other", **other)
    assert grants.overlaps(asked, there) is grants.overlaps(there, asked) is is_shared
    refusal = grants.check_overlap(asked, [there], NOW)
    assert (None if refusal is None else refusal.code) is (Code.GRANT_EXISTS if is_shared else None)


@pytest.mark.parametrize("over", [{"uses": 1}, {"revoked_at": NOW}, {"voided_at": NOW}, {"expires_at": NOW}])
def test_a_grant_that_is_over_stands_in_no_other_ones_way(over: dict[str, Any]) -> None:
    assert grants.check_overlap(grant(name="one"), [grant(name="other", **over)], NOW) is None


# ---- G3, G5, G6, R3, R4: its life ----


def test_it_is_live_at_once_or_pending_until_a_second_person_approves() -> None:
    wanted = grant(expires_at=None)
    assert grants.issued(wanted, NOW).expires_at == later(60)
    pending = grants.issued(replace(wanted, approvals_needed=1), NOW)
    assert (pending.expires_at, pending.pending_until) == (None, later(900))
    assert grants.issued(replace(wanted, approvals_needed=None), NOW).expires_at == later(60)
    # Live at once it owes a review within 24 hours; approved by a second person, none.
    assert grants.issued(wanted, NOW).review_due_at == later(24 * 3600)
    assert pending.review_due_at is None


def test_the_clock_of_its_life_starts_with_the_approval_that_was_missing() -> None:
    pending = grant(expires_at=None, pending_until=later(900), approvals_needed=1)
    live = grants.approved(pending, later(300))
    assert (live.approvals, live.expires_at) == (1, later(360))
    assert grants.approved(live, later(310)).expires_at == later(360)
    by_step = grant(tool=None, step="pay", approvals_needed=None)
    assert grants.approved(by_step, later(10)) == replace(by_step, approvals=1)


def test_who_may_approve_what() -> None:
    pending = grant(expires_at=None, pending_until=later(900), approvals_needed=1)
    own = grants.check_approval(pending, by_issuer=True, now=NOW)
    assert own is not None
    assert own.code is Code.OWN_GRANT
    assert grants.check_approval(pending, by_issuer=False, now=NOW) is None
    assert grants.check_approval(grant(tool=None, step="pay", approvals_needed=None), by_issuer=False, now=NOW) is None
    for over in (grant(), pending, grant(uses=1), grant(revoked_at=NOW)):
        refusal = grants.check_approval(over, by_issuer=False, now=later(900))
        assert refusal is not None
        assert refusal.code is Code.ALREADY_DECIDED


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (grant(), None),
        (grant(uses=1), None),
        (grant(expires_at=None, pending_until=later(900)), None),
        (grant(expires_at=NOW), Code.ALREADY_DECIDED),
        (grant(voided_at=NOW), Code.ALREADY_DECIDED),
    ],
)
def test_what_can_be_revoked(facts: Grant, code: Code | None) -> None:
    refusal = grants.check_revocation(facts, NOW)
    assert (None if refusal is None else refusal.code) is code


@pytest.mark.parametrize(
    ("facts", "step", "is_voided"),
    [
        (grant(), None, True),
        (grant(expires_at=None, pending_until=later(900)), None, True),
        (grant(epoch=8), None, False),
        (grant(uses=1), None, False),
        (grant(expires_at=NOW), None, False),
        (grant(revoked_at=NOW), None, False),
        (grant(step="pay"), "pay", True),
        (grant(step="other"), "pay", False),
        (grant(), "pay", False),
    ],
)
def test_which_grants_a_fresh_epoch_voids(facts: Grant, step: str | None, is_voided: bool) -> None:
    assert grants.is_voided_by(facts, number=8, step=step, now=NOW) is is_voided
