"""L3, L4: every way to say no before a tool is reached, in the order in which it is told."""

from collections.abc import Callable
from typing import Any

import pytest

from fencing.protocol import admission
from fencing.protocol.admission import Bound, Call, Claimant, Exempt
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import Committed, Phase, Reason
from fencing.protocol.intake import Known
from fencing.protocol.simulate import stage
from fencing.protocol.tokens import Claims
from tests.protocol.values import NOW, ONE, OTHER, RULES, grant, step, vote

STANDING = Committed(authority="agreement", digest=ONE, grant=None, stands=True)
CLOSED = Committed(authority="agreement", digest=ONE, grant=None, stands=False)
GENUINE = Claims(jti="c", iat=1, run="r", step="pay", epoch=7, tool="refund", dig="", key="", auth="agreement")
BAD = Refusal(code=Code.BAD_TOKEN, detail="no token of ours")
BOUND = Bound(run="r", step="pay", epoch=7, token="t", payload=stage.REFUND.payload_digest)


def row(phase: Phase = Phase.COMMITTED, commit: Committed | None = STANDING, epoch: int = 7) -> Known:
    return Known(step=step(phase=phase, epoch=epoch), content="c", commit=commit)


def judge(
    call: Call,
    *named: Known,
    bound: Bound | None = BOUND,
    verified: Claims | Refusal = BAD,
    take_back: Callable[[], Reason | None] = lambda: None,
    tool: str = "refund",
) -> Refusal | None:
    return admission.judge(
        call,
        named=named,
        bound=bound,
        verify=lambda _token: verified,
        take_back=take_back,
        definition=stage.tools(tool),
    )


def code(call: Call, *named: Known, **more: Any) -> Code | None:
    refusal = judge(call, *named, **more)
    return None if refusal is None else refusal.code


def call(token: str | None = "t", **more: Any) -> Call:  # noqa: S107 - a name
    return Call(action=more.pop("action", stage.REFUND), token=token, **more)


def test_the_stored_token_and_exactly_the_committed_payload_are_let_through() -> None:
    assert judge(call()) is None
    assert judge(call(run="r", step="pay", epoch=7), row()) is None
    assert judge(call(run="r", step="pay"), row(Phase.REJECTED, None, 6), row()) is None


# ---- not_committed, told first ----


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.PROPOSED, Phase.AGREED, Phase.FENCED, Phase.REJECTED])
@pytest.mark.parametrize("token", [None, "", "t", "forged"])
def test_a_call_for_a_step_without_commit_is_told_so_before_anything_about_its_token(
    phase: Phase, token: str | None
) -> None:
    refusal = judge(call(token, run="r", step="pay"), row(phase, None), bound=None)
    assert refusal is not None
    assert (refusal.code, refusal.extras["phase"]) == (Code.NOT_COMMITTED, phase.value)


def test_a_call_for_a_step_that_nobody_proposed_is_told_so() -> None:
    refusal = judge(call(None, run="r", step="pay"), bound=None)
    assert refusal is not None
    assert (refusal.code, refusal.extras["phase"]) == (Code.NOT_COMMITTED, "not proposed")


def test_a_commit_that_does_not_stand_is_none_for_a_call_without_token() -> None:
    assert code(call(None, run="r", step="pay"), row(Phase.REJECTED, CLOSED)) is Code.NOT_COMMITTED
    assert code(call(None, run="r", step="pay", epoch=8), row(), row(Phase.PROPOSED, None, 8)) is Code.NOT_COMMITTED


# ---- tokens ----


@pytest.mark.parametrize("token", [None, ""])
def test_a_call_needs_a_token(token: str | None) -> None:
    assert code(call(token)) is Code.NO_TOKEN
    assert code(call(token, run="r", step="pay"), row()) is Code.NO_TOKEN


def test_a_token_that_is_not_the_stored_one_is_checked_and_never_good_enough() -> None:
    assert code(call("forged"), bound=None) is Code.BAD_TOKEN
    assert code(call("forged")) is Code.BAD_TOKEN
    assert code(call("genuine"), verified=GENUINE) is Code.BAD_TOKEN
    assert code(call("genuine"), bound=None, verified=GENUINE) is Code.UNKNOWN_COMMIT


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ({"run": "else", "step": "pay"}, Code.BAD_TOKEN),
        ({"run": "r", "step": "else"}, Code.BAD_TOKEN),
        ({"epoch": 6}, Code.WRONG_EPOCH),
        ({"epoch": 8}, Code.WRONG_EPOCH),
        ({"run": "r", "step": "pay", "epoch": 8}, Code.WRONG_EPOCH),
    ],
)
def test_what_a_call_says_of_itself_must_be_what_its_token_says(says: dict[str, Any], expected: Code) -> None:
    assert code(call(**says), row()) is expected


# ---- the commit ----


@pytest.mark.parametrize(
    ("reason", "expected"),
    [(reason, Code.REVOKED) for reason in Reason if reason is not Reason.GRANT_EXPIRED]
    + [(Reason.GRANT_EXPIRED, Code.GRANT_EXPIRED)],
)
def test_a_commit_that_is_taken_back_now_lets_nothing_through(reason: Reason, expected: Code) -> None:
    assert code(call(), take_back=lambda: reason) is expected


def closed(reason: Reason) -> Bound:
    return Bound(run="r", step="pay", epoch=7, token="t", payload=BOUND.payload, closed_reason=reason)


def test_a_commit_that_was_taken_back_before_says_why() -> None:
    assert code(call(), bound=closed(Reason.LATE_DIVERGENCE)) is Code.REVOKED
    assert code(call(), bound=closed(Reason.GRANT_EXPIRED)) is Code.GRANT_EXPIRED


def test_the_token_of_a_failed_effect_still_answers_for_it() -> None:
    assert judge(call(), bound=closed(Reason.EFFECT_FAILED)) is None


def test_nothing_is_taken_back_for_a_token_that_is_refused_before() -> None:
    def never() -> Reason | None:
        raise AssertionError("asked too early")

    assert code(call("forged"), take_back=never) is Code.BAD_TOKEN
    assert code(call(epoch=8), take_back=never) is Code.WRONG_EPOCH


def test_another_payload_is_told_before_anything_about_progress() -> None:
    refusal = judge(call(action=stage.MORE))
    assert refusal is not None
    assert (refusal.code, refusal.extras["payload_digest"]) == (Code.PAYLOAD_MISMATCH, BOUND.payload)


def test_arguments_are_checked_again() -> None:
    bound = Bound(run="r", step="pay", epoch=7, token="t", payload=stage.NO_FIT.payload_digest)
    refusal = judge(call(action=stage.NO_FIT), bound=bound, tool="send_mail")
    assert refusal is not None
    assert (refusal.code, refusal.pointer) == (Code.INVALID_ARGS, "/action/args")


# ---- T1, T2 ----


def test_only_a_tool_that_is_registered_as_reading_is_exempt() -> None:
    assert admission.exemption(stage.LOOKUP, stage.tools("lookup_invoice")) == Exempt()
    assert admission.exemption(stage.REFUND, stage.tools("refund")) is None
    refusal = admission.exemption(stage.UNREGISTERED, None)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.UNKNOWN_TOOL


def test_what_only_waits_is_no_escape() -> None:
    assert not admission.ESCAPES & {Code.DELIVERY_IN_PROGRESS, Code.IN_DOUBT, Code.NOT_READY}
    assert len(admission.ESCAPES) == 11


# ---- L5 ----


@pytest.mark.parametrize(
    ("claimants", "has_authority"),
    [
        ((), False),
        ((None,), False),
        ((CLOSED,), False),
        ((STANDING,), True),
        ((CLOSED, STANDING), True),
        ((Committed(authority="grant", digest=ONE, grant=grant(expires_at=NOW), stands=True),), False),
        ((Committed(authority="grant", digest=ONE, grant=grant(uses=1), stands=True),), True),
    ],
)
def test_what_is_unknown_is_repeated_while_any_claim_has_authority(
    claimants: tuple[Committed | None, ...], has_authority: bool
) -> None:
    made = [Claimant(step=step(vote("production")), rules=RULES, commit=commit) for commit in claimants]
    assert admission.has_authority(made, run_epoch=7, now=NOW) is has_authority


def test_a_second_digest_ends_the_authority_to_repeat() -> None:
    diverged = Claimant(step=step(vote("production"), vote("replica", OTHER)), rules=RULES, commit=STANDING)
    assert not admission.has_authority([diverged], run_epoch=7, now=NOW)
