"""L1 to L7: who gets which intent, when a try is let through, and what each report does."""

from typing import Any

import pytest

from fencing.protocol import intents, transitions
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.intents import Claiming, ClaimState, Intent, Kind, Recorded, Retries, State
from tests.protocol.values import IDEMPOTENT, NOW, ONCE, ONE, OTHER, delivery, intent, later

LOST, OPEN, WON = ClaimState.LOST, ClaimState.OPEN, ClaimState.WON
UNKNOWN, SUCCEEDED, FAILED = Kind.UNKNOWN, Kind.SUCCEEDED, Kind.FAILED


# ---- L1, L2, L7: claiming ----


@pytest.mark.parametrize(
    ("newest", "same", "other"),
    [
        (None, Claiming.OPEN_FIRST, Claiming.OPEN_FIRST),
        (intent(), Claiming.SHARE, Claiming.CONFLICT),
        (intent(state=State.HELD, claims=(OPEN,)), Claiming.SHARE, Claiming.CONFLICT),
        (intent(delivery(), state=State.IN_FLIGHT), Claiming.SHARE, Claiming.CONFLICT),
        (intent(delivery(outcome=SUCCEEDED), state=State.SUCCEEDED), Claiming.SHARE, Claiming.CONFLICT),
        (intent(delivery(outcome=SUCCEEDED), state=State.SUCCEEDED, claims=(LOST,)), Claiming.SHARE, Claiming.CONFLICT),
        (intent(delivery(outcome=UNKNOWN), state=State.IN_DOUBT, claims=(LOST,)), Claiming.SHARE, Claiming.CONFLICT),
        (intent(state=State.CANCELLED, claims=(LOST,)), Claiming.REUSE, Claiming.OPEN_NEXT),
        (intent(delivery(outcome=FAILED), state=State.FAILED, claims=(LOST,)), Claiming.OPEN_NEXT, Claiming.OPEN_NEXT),
        (
            intent(delivery(outcome=SUCCEEDED), state=State.SUCCEEDED, is_undone=True),
            Claiming.OPEN_NEXT,
            Claiming.OPEN_NEXT,
        ),
    ],
)
def test_a_key_serves_one_effect_at_a_time(newest: Intent | None, same: Claiming, other: Claiming) -> None:
    assert intents.claim(newest, ONE) is same
    assert intents.claim(newest, OTHER) is other


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (intent(state=State.HELD), State.READY),
        (intent(claims=(OPEN,)), State.HELD),
        (intent(claims=(OPEN,), is_optimistic=True), State.READY),
        (intent(claims=(LOST,), is_optimistic=True), State.CANCELLED),
        (intent(claims=(LOST, LOST)), State.CANCELLED),
        (intent(delivery(outcome=UNKNOWN), claims=(LOST,)), State.READY),
        (intent(delivery(outcome=Kind.BUSY), claims=(LOST,)), State.CANCELLED),
        (intent(state=State.CANCELLED), State.READY),
        (intent(delivery(), state=State.IN_FLIGHT, claims=(LOST,)), State.IN_FLIGHT),
        (intent(state=State.IN_DOUBT, claims=(LOST,)), State.IN_DOUBT),
        (intent(state=State.SUCCEEDED, claims=(LOST,)), State.SUCCEEDED),
        (intent(state=State.FAILED, claims=(LOST,)), State.FAILED),
    ],
)
def test_an_intent_follows_its_claims_while_nothing_is_out(facts: Intent, state: State) -> None:
    assert intents.state_after_claims(facts) is state


def test_what_is_being_undone_is_not_sent_again_before_that_has_ended() -> None:
    facts = intent(delivery(outcome=SUCCEEDED), state=State.SUCCEEDED, is_being_undone=True)
    verdict = intents.admit(facts, payload="p", retries=IDEMPOTENT, has_authority=True, now=NOW)
    assert isinstance(verdict, Refusal)
    assert verdict.code is Code.NOT_READY


def test_the_idempotency_key_is_made_of_run_key_and_generation() -> None:
    keys = {
        intents.idempotency_key(run, key, generation)
        for run, key, generation in [("r", "k", 1), ("r", "k", 2), ("r", "l", 1), ("s", "k", 1), ("r", "k1", 1)]
    }
    assert len(keys) == 5
    assert intents.idempotency_key("r", "k", 1) in keys
    assert all(len(key) <= 100 for key in keys)
    assert intents.default_key(ONE, 0) != intents.default_key(ONE, 1)


# ---- L3, L4, L5: letting a try through ----


def admit(facts: Intent, *, retries: Retries = IDEMPOTENT, has_authority: bool = True, **more: Any) -> Any:
    asked = {"payload": "p", "now": NOW, **more}
    return intents.admit(facts, retries=retries, has_authority=has_authority, **asked)


def refused(facts: Intent, **more: Any) -> tuple[Code, object]:
    refusal = admit(facts, **more)
    assert isinstance(refusal, Refusal)
    return refusal.code, refusal.extras.get("retry_after")


def test_the_first_try_is_let_through_and_the_next_one_is_numbered_on() -> None:
    assert admit(intent()) == intents.Admitted(number=1)
    assert admit(intent(delivery(1, Kind.BUSY), delivery(2, Kind.NOT_SENT))) == intents.Admitted(number=3)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED])
def test_what_is_settled_is_answered_with_its_outcome(state: State) -> None:
    assert admit(intent(delivery(outcome=SUCCEEDED), state=state)) == intents.Settled(state=state)


def test_what_is_in_doubt_waits_for_a_person() -> None:
    assert refused(intent(delivery(outcome=UNKNOWN), state=State.IN_DOUBT)) == (Code.IN_DOUBT, 60)


def test_one_delivery_at_a_time() -> None:
    facts = intent(delivery(lease_s=59.2), state=State.IN_FLIGHT)
    assert refused(facts) == (Code.DELIVERY_IN_PROGRESS, 60)
    assert refused(facts, now=later(59)) == (Code.DELIVERY_IN_PROGRESS, 1)


def test_other_prose_waits_until_the_first_is_settled() -> None:
    facts = intent(delivery(outcome=UNKNOWN, payload="other prose"))
    assert refused(facts)[0] is Code.DELIVERY_IN_PROGRESS
    assert admit(intent(delivery(outcome=Kind.NOT_SENT, payload="other prose"))) == intents.Admitted(number=2)


@pytest.mark.parametrize("state", [State.HELD, State.CANCELLED])
def test_what_may_not_act_is_not_ready(state: State) -> None:
    assert refused(intent(state=state)) == (Code.NOT_READY, 5)


def test_the_next_try_waits_for_the_last_ones_back_off() -> None:
    facts = intent(delivery(outcome=Kind.BUSY), not_before=later(30))
    assert refused(facts) == (Code.DELIVERY_IN_PROGRESS, 30)
    assert admit(facts, now=later(30)) == intents.Admitted(number=2)


def test_an_unknown_try_is_repeated_while_tool_limit_and_authority_allow() -> None:
    once, thrice = intent(delivery(1, UNKNOWN)), intent(*(delivery(number, UNKNOWN) for number in (1, 2, 3)))
    assert admit(once) == intents.Admitted(number=2)
    assert admit(once, retries=ONCE) == intents.Doubtful()
    assert admit(once, has_authority=False) == intents.Doubtful()
    assert admit(thrice) == intents.Doubtful()


def test_what_was_not_done_is_repeated_even_where_the_tool_honours_no_key() -> None:
    facts = intent(*(delivery(number, Kind.BUSY) for number in range(1, 9)))
    assert admit(facts, retries=ONCE, has_authority=False) == intents.Admitted(number=9)


def test_a_lease_ends_at_its_very_moment() -> None:
    facts = intent(delivery(1, UNKNOWN, lease_s=1), delivery(2, lease_s=60))
    assert intents.expired_leases(facts, later(59.999999)) == ()
    assert [each.number for each in intents.expired_leases(facts, later(60))] == [2]


# ---- L5, "Outcomes": reports ----


def report(
    facts: Intent,
    outcome: Kind,
    number: int = 1,
    *,
    retries: Retries = IDEMPOTENT,
    has_authority: bool = True,
    retry_after_s: float | None = None,
) -> Recorded:
    return intents.report(
        facts,
        number=number,
        outcome=outcome,
        retries=retries,
        has_authority=has_authority,
        retry_after_s=retry_after_s,
        now=later(10),
    )


FLYING = intent(delivery(), state=State.IN_FLIGHT)
ALL_LOST = intent(delivery(), state=State.IN_FLIGHT, claims=(LOST,))
NOBODY_MAY = intent(delivery(), state=State.IN_FLIGHT, claims=(OPEN, LOST))


@pytest.mark.parametrize(
    ("facts", "outcome", "more", "state", "is_released"),
    [
        (FLYING, SUCCEEDED, {}, State.SUCCEEDED, False),
        (FLYING, FAILED, {}, State.FAILED, False),
        (FLYING, UNKNOWN, {}, State.READY, False),
        (FLYING, UNKNOWN, {"retries": ONCE}, State.IN_DOUBT, False),
        (FLYING, UNKNOWN, {"has_authority": False}, State.IN_DOUBT, False),
        (FLYING, Kind.BUSY, {"retries": ONCE}, State.READY, True),
        (FLYING, Kind.NOT_SENT, {"retries": ONCE}, State.READY, True),
        (ALL_LOST, Kind.NOT_SENT, {}, State.CANCELLED, True),
        (NOBODY_MAY, Kind.BUSY, {}, State.HELD, True),
    ],
)
def test_the_first_report_of_a_delivery(
    facts: Intent, outcome: Kind, more: dict[str, Any], state: State, is_released: bool
) -> None:
    recorded = report(facts, outcome, **more)
    assert (recorded.state, recorded.is_effective, recorded.refusal) == (state, True, None)
    assert recorded.is_released is is_released
    assert transitions.allows(intents.TRANSITIONS, facts.state, state)


def test_the_last_repetition_that_the_tool_allows_ends_in_doubt() -> None:
    facts = intent(delivery(1, UNKNOWN), delivery(2, UNKNOWN), delivery(3), state=State.IN_FLIGHT)
    assert report(facts, UNKNOWN, 3).state is State.IN_DOUBT
    assert report(facts, UNKNOWN, 3, retries=Retries(is_idempotent=True, max_deliveries=4)).state is State.READY


@pytest.mark.parametrize(
    ("outcome", "retry_after_s", "wait_s"),
    [
        (UNKNOWN, None, 60),
        (Kind.BUSY, None, 11),
        (Kind.BUSY, 30, 40),
        (Kind.BUSY, 1e9, 3610),
        (Kind.NOT_SENT, None, None),
    ],
)
def test_how_long_the_next_try_waits(outcome: Kind, retry_after_s: float | None, wait_s: float | None) -> None:
    recorded = report(FLYING, outcome, retry_after_s=retry_after_s)
    assert recorded.not_before == (None if wait_s is None else later(wait_s))


def test_the_same_report_again_is_no_news() -> None:
    for kind in (SUCCEEDED, FAILED, Kind.BUSY, Kind.NOT_SENT, UNKNOWN):
        recorded = report(intent(delivery(outcome=kind)), kind)
        assert (recorded.is_news, recorded.is_effective, recorded.refusal) == (False, False, None)


LATE = intent(delivery(1, UNKNOWN), delivery(2), state=State.IN_FLIGHT)


def test_success_of_any_delivery_settles() -> None:
    assert report(LATE, SUCCEEDED, 1).state is State.SUCCEEDED
    assert report(LATE, SUCCEEDED, 2).state is State.SUCCEEDED
    doubtful = intent(delivery(1, UNKNOWN), state=State.IN_DOUBT, claims=(LOST,))
    assert report(doubtful, SUCCEEDED).state is State.SUCCEEDED


def test_a_failure_settles_only_where_no_other_delivery_is_unknown() -> None:
    assert report(LATE, FAILED, 2).state is State.IN_DOUBT
    assert report(intent(delivery(1, Kind.BUSY), delivery(2), state=State.IN_FLIGHT), FAILED, 2).state is State.FAILED
    assert report(intent(delivery(1, UNKNOWN), state=State.IN_DOUBT), FAILED).state is State.FAILED


@pytest.mark.parametrize("outcome", [FAILED, UNKNOWN])
def test_an_older_delivery_that_says_otherwise_comes_too_late(outcome: Kind) -> None:
    recorded = report(LATE, outcome, 1)
    assert recorded.refusal is not None
    assert (recorded.refusal.code, recorded.is_effective, recorded.state) == (
        Code.STALE_DELIVERY,
        False,
        State.IN_FLIGHT,
    )


@pytest.mark.parametrize(
    ("facts", "outcome", "has_conflict", "state"),
    [
        (intent(delivery(outcome=SUCCEEDED), state=State.SUCCEEDED), FAILED, True, State.SUCCEEDED),
        (intent(delivery(outcome=SUCCEEDED), state=State.SUCCEEDED), Kind.BUSY, True, State.SUCCEEDED),
        (intent(delivery(outcome=SUCCEEDED), state=State.SUCCEEDED), UNKNOWN, False, State.SUCCEEDED),
        (intent(delivery(outcome=FAILED), state=State.FAILED), SUCCEEDED, True, State.FAILED),
        (intent(delivery(outcome=Kind.NOT_HAPPENED)), SUCCEEDED, True, State.IN_DOUBT),
        (intent(delivery(outcome=Kind.NOT_HAPPENED), state=State.CANCELLED), SUCCEEDED, True, State.IN_DOUBT),
        (intent(delivery(outcome=Kind.NOT_SENT)), SUCCEEDED, True, State.IN_DOUBT),
        (intent(delivery(outcome=Kind.BUSY)), FAILED, False, State.READY),
    ],
)
def test_what_contradicts_is_refused_and_goes_to_a_person(
    facts: Intent, outcome: Kind, has_conflict: bool, state: State
) -> None:
    recorded = report(facts, outcome)
    assert recorded.refusal is not None
    assert (recorded.refusal.code, recorded.is_effective) == (Code.OUTCOME_CONFLICT, False)
    assert (recorded.has_conflict, recorded.state) == (has_conflict, state)


def test_a_newer_delivery_may_end_after_an_older_one_settled_the_effect() -> None:
    settled = intent(delivery(1, SUCCEEDED), delivery(2), state=State.SUCCEEDED)
    for kind in (Kind.NOT_SENT, Kind.BUSY, UNKNOWN, SUCCEEDED):
        recorded = report(settled, kind, 2)
        assert (recorded.state, recorded.is_effective, recorded.refusal) == (State.SUCCEEDED, True, None)
    assert report(settled, FAILED, 2).has_conflict


@pytest.mark.parametrize("outcome", [Kind.NOT_SENT, Kind.BUSY, UNKNOWN, FAILED])
def test_while_somebody_says_that_it_happened_no_machine_sends_it_again(outcome: Kind) -> None:
    facts = intents.contradicted(intent(delivery(1, Kind.BUSY), delivery(2), state=State.IN_DOUBT))
    assert report(facts, outcome, 2).state is State.IN_DOUBT
    assert not report(facts, outcome, 2).is_released
    assert report(facts, SUCCEEDED, 2).state is State.SUCCEEDED
    for settled in (intents.happened(facts), intents.not_happened(facts)):
        assert not settled.is_contradicted


# ---- L6: a person's word ----


@pytest.mark.parametrize(
    ("claims", "happened", "state"),
    [
        ((WON,), True, State.SUCCEEDED),
        ((LOST,), True, State.SUCCEEDED),
        ((WON,), False, State.READY),
        ((OPEN, LOST), False, State.HELD),
        ((LOST,), False, State.CANCELLED),
    ],
)
def test_a_person_resolves_what_is_in_doubt(claims: tuple[ClaimState, ...], happened: bool, state: State) -> None:
    recorded = intents.resolve(
        intent(delivery(outcome=UNKNOWN), state=State.IN_DOUBT, claims=claims), happened=happened, now=NOW
    )
    assert isinstance(recorded, Recorded)
    assert (recorded.state, recorded.is_released) == (state, not happened)
    assert transitions.allows(intents.TRANSITIONS, State.IN_DOUBT, state)


@pytest.mark.parametrize("state", [each for each in State if each is not State.IN_DOUBT])
def test_there_is_nothing_to_resolve_elsewhere(state: State) -> None:
    refusal = intents.resolve(intent(state=state), happened=True, now=NOW)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.NOT_IN_DOUBT


def test_nobody_can_say_that_nothing_happened_while_a_delivery_may_be_acting() -> None:
    doubt = intent(delivery(1, Kind.NOT_SENT), delivery(2, None), state=State.IN_DOUBT)
    refusal = intents.resolve(doubt, happened=False, now=NOW)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.DELIVERY_IN_PROGRESS
    assert refusal.extras["retry_after"] in range(1, 3600)
    assert isinstance(intents.resolve(doubt, happened=True, now=NOW), Recorded)


def test_a_persons_word_is_about_every_delivery_that_may_be_out() -> None:
    facts = intent(delivery(1, UNKNOWN), delivery(2, Kind.BUSY), delivery(3, UNKNOWN), state=State.IN_DOUBT)
    assert [each.outcome for each in intents.not_happened(facts).deliveries] == [
        Kind.NOT_HAPPENED,
        Kind.BUSY,
        Kind.NOT_HAPPENED,
    ]
    assert [each.outcome for each in intents.happened(facts).deliveries] == [UNKNOWN, Kind.BUSY, SUCCEEDED]
    contradicted = intent(delivery(1, Kind.BUSY), delivery(2, Kind.NOT_SENT), state=State.IN_DOUBT)
    assert intents.in_question(contradicted) == (2,)
    assert intents.is_admitted(intents.happened(contradicted))


@pytest.mark.parametrize(
    ("kind", "is_out"),
    [
        (None, True),
        (UNKNOWN, True),
        (SUCCEEDED, True),
        (FAILED, False),
        (Kind.BUSY, False),
        (Kind.NOT_SENT, False),
        (Kind.NOT_HAPPENED, False),
    ],
)
def test_admitted_is_what_may_be_out(kind: Kind | None, is_out: bool) -> None:
    assert intents.is_admitted(intent(delivery(outcome=kind))) is is_out
