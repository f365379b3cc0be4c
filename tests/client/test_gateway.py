"""No code of an effect runs without an admission, and what becomes of it is told."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fencing.client import (
    AdmissionLost,
    AlreadySettled,
    AsyncGateway,
    AttemptedEscape,
    Busy,
    DeliveryInProgress,
    Failed,
    FenceError,
    Gateway,
    InDoubt,
    Malformed,
    NotSent,
    OutcomeConflict,
    OutcomeUnreported,
    PayloadMismatch,
    StaleDelivery,
    TryLater,
)
from tests.client.conftest import QUICK
from tests.client.scripted import DROPPED, Answer, ScriptedServer, problem

Make = Callable[..., Any]
REFUND = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
ADMITTED = Answer(
    body={
        "admit": True,
        "intent": "i-1",
        "delivery": "d-1",
        "idempotency_key": "key-1",
        "lease_until": "2026-01-02T03:04:05.000006Z",
    }
)
SUCCEEDED = {"outcome": "succeeded", "response": {"refund_id": "re_1"}, "at": None, "by": "gateway"}
SETTLED = Answer(body={"id": "i-1", "state": "succeeded", "outcome": SUCCEEDED})
STILL_OPEN = Answer(body={"id": "i-1", "state": "in_flight", "outcome": None})
ADMISSIONS, OUTCOMES = "/api/v1/gateway/admissions", "/api/v1/gateway/outcomes"

NO_ADMISSION = [
    (problem(403, "not_committed"), AttemptedEscape),
    (problem(403, "payload_mismatch"), PayloadMismatch),
    (problem(403, "unknown_tool"), AttemptedEscape),
    (problem(409, "delivery_in_progress", retry_after=2), DeliveryInProgress),
    (problem(409, "in_doubt", retry_after=2), InDoubt),
    (problem(429, "rate_limited", retry_after=0), TryLater),
    (problem(503, "unavailable", retry_after=0), TryLater),
    (Answer(status=502, body=b"<html>"), AdmissionLost),
    (Answer(status=500, body=b"<html>"), FenceError),
    (Answer(status=307, headers={"Location": "/"}), AdmissionLost),
    (Answer(body=b"<html>"), AdmissionLost),
    (Answer(body={"admit": "yes"}), AdmissionLost),
    (Answer(body={"admit": True}), AdmissionLost),
    (Answer(body={}), AdmissionLost),
    (DROPPED, AdmissionLost),
    (Answer(body=ADMITTED.body, is_cut=True), AdmissionLost),
    (Answer(body=ADMITTED.body, delay_s=0.4), AdmissionLost),
]


@pytest.mark.parametrize(("answer", "error"), NO_ADMISSION)
def test_without_an_admission_nothing_runs_and_it_is_asked_for_once(
    client: Make, server: ScriptedServer, answer: Answer, error: type[Exception]
) -> None:
    server.will(answer)
    with pytest.raises(error):
        client(Gateway, timeout_s=0.25).perform("refund", _never, "t", {"invoice": 9, "cents": 4200})
    assert server.paths == [ADMISSIONS]


@pytest.mark.parametrize(("answer", "error"), NO_ADMISSION[:5])
def test_a_guarded_block_is_not_entered_without_an_admission(
    server: ScriptedServer, answer: Answer, error: type[Exception]
) -> None:
    server.will(answer)
    with Gateway(server.base_url, "key") as gateway, pytest.raises(error), gateway.effect(REFUND, "t"):
        _never()
    assert server.paths == [ADMISSIONS]


def test_an_admitted_function_gets_its_arguments_and_the_key_and_its_answer_is_reported(
    client: Make, server: ScriptedServer
) -> None:
    server.will(ADMITTED, SETTLED)
    given: dict[str, Any] = {}

    def refund(**args: Any) -> dict[str, str]:
        given.update(args)
        return {"refund_id": "re_1"}

    outcome = client(Gateway).perform("refund", refund, "t", {"invoice": 9, "cents": 4200})
    assert given == {"invoice": 9, "cents": 4200, "idempotency_key": "key-1"}
    assert (outcome.outcome, outcome.response) == ("succeeded", {"refund_id": "re_1"})
    admission, report = server.requests
    assert admission.body == {"action": REFUND, "token": "t"}
    assert report.body == {
        "intent": "i-1",
        "delivery": "d-1",
        "outcome": "succeeded",
        "response": {"refund_id": "re_1"},
    }


def test_a_guarded_block_and_a_guarded_function_do_the_same(server: ScriptedServer) -> None:
    with Gateway(server.base_url, "key") as gateway:
        server.will(ADMITTED, SETTLED)
        with gateway.effect(REFUND, "t") as effect:
            assert effect.idempotency_key == "key-1"
            assert effect.payload == b'{"args":{"cents":4200,"invoice":9},"tool":"refund"}'
            effect.response = {"refund_id": "re_1"}
        assert effect.outcome is not None

        @gateway.guards("refund")
        def refund(invoice: int, cents: int, idempotency_key: str) -> dict[str, str]:
            assert (invoice, cents, idempotency_key) == (9, 4200, "key-1")
            return {"refund_id": "re_1"}

        server.will(ADMITTED, SETTLED)
        assert refund("t", invoice=9, cents=4200) == effect.outcome
    assert [request.body for request in server.requests[:2]] == [request.body for request in server.requests[2:]]


def test_the_asynchronous_gateway_guards_both_ways_too(server: ScriptedServer) -> None:
    async def story() -> None:
        async with AsyncGateway(server.base_url, "key") as gateway:
            server.will(ADMITTED, SETTLED)
            async with gateway.effect(REFUND, "t") as effect:
                effect.response = {"refund_id": "re_1"}

            @gateway.guards("refund")
            async def refund(invoice: int, cents: int, idempotency_key: str) -> dict[str, str]:
                assert (invoice, cents, idempotency_key) == (9, 4200, "key-1")
                await asyncio.sleep(0)
                return {"refund_id": "re_1"}

            server.will(ADMITTED, SETTLED)
            assert await refund("t", invoice=9, cents=4200) == effect.outcome

    asyncio.run(story())
    assert server.paths == [ADMISSIONS, OUTCOMES] * 2


def test_a_settled_effect_is_not_run_again_and_gives_its_recorded_outcome(client: Make, server: ScriptedServer) -> None:
    server.will(Answer(body={"admit": False, "intent": "i-1", "outcome": SUCCEEDED}))
    outcome = client(Gateway).perform("refund", _never, "t", {})
    assert outcome.response == {"refund_id": "re_1"}
    assert server.paths == [ADMISSIONS]


def test_an_effect_that_failed_before_fails_again_without_running(client: Make, server: ScriptedServer) -> None:
    failed = {"outcome": "failed", "response": {"error": "closed account"}}
    server.will(Answer(body={"admit": False, "intent": "i-1", "outcome": failed}))
    with pytest.raises(Failed) as caught:
        client(Gateway).perform("refund", _never, "t", {})
    assert caught.value.response == {"error": "closed account"}
    assert caught.value.outcome is not None


def test_a_block_whose_effect_is_settled_is_not_entered(server: ScriptedServer) -> None:
    server.will(Answer(body={"admit": False, "intent": "i-1", "outcome": SUCCEEDED}))
    gateway = Gateway(server.base_url, "key")
    with gateway, pytest.raises(AlreadySettled) as caught, gateway.effect(REFUND, "t"):
        _never()
    assert (caught.value.intent, caught.value.outcome.outcome) == ("i-1", "succeeded")


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ConnectionResetError("card 4111"), {"outcome": "unknown", "response": {"exception": "ConnectionResetError"}}),
        (KeyboardInterrupt(), {"outcome": "unknown", "response": {"exception": "KeyboardInterrupt"}}),
        (NotSent(), {"outcome": "not_sent"}),
        (Busy(retry_after_s=3), {"outcome": "busy", "retry_after": 3}),
        (Busy(), {"outcome": "busy"}),
        (Failed({"error": "closed account"}), {"outcome": "failed", "response": {"error": "closed account"}}),
    ],
)
def test_an_exception_is_unknown_unless_it_says_more_and_stays_what_it_was(
    client: Make, server: ScriptedServer, fault: BaseException, told: dict[str, Any]
) -> None:
    server.will(ADMITTED, STILL_OPEN)

    def refund(**_args: Any) -> None:
        raise fault

    with pytest.raises(type(fault)) as caught:
        client(Gateway).perform("refund", refund, "t", {})
    assert caught.value is fault
    assert server.requests[1].body == {"intent": "i-1", "delivery": "d-1", **told}


def test_an_exception_in_a_guarded_block_is_reported_and_goes_on(server: ScriptedServer) -> None:
    server.will(ADMITTED, STILL_OPEN)
    with Gateway(server.base_url, "key") as gateway, pytest.raises(TimeoutError), gateway.effect(REFUND, "t"):
        raise TimeoutError
    assert server.requests[1].body["outcome"] == "unknown"


def test_a_cancelled_effect_is_reported_as_unknown(server: ScriptedServer) -> None:
    server.will(ADMITTED, STILL_OPEN)

    async def story() -> None:
        async with AsyncGateway(server.base_url, "key") as gateway:
            started = asyncio.Event()

            async def refund() -> None:
                started.set()
                await asyncio.sleep(60)

            task = asyncio.create_task(gateway.perform("refund", refund, "t", {}))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(story())
    assert server.requests[1].body["outcome"] == "unknown"


def test_a_report_is_told_again_until_it_is_heard(client: Make, server: ScriptedServer) -> None:
    server.will(ADMITTED, DROPPED, problem(503, "unavailable", retry_after=0), SETTLED)
    runs: list[int] = []
    client(Gateway).perform("refund", lambda: runs.append(1), "t", {})
    assert runs == [1]
    assert server.paths == [ADMISSIONS, OUTCOMES, OUTCOMES, OUTCOMES]


def test_an_outcome_that_nobody_heard_is_handed_to_the_caller_for_later(client: Make, server: ScriptedServer) -> None:
    gateway = client(Gateway)
    server.will(ADMITTED, DROPPED)
    with pytest.raises(OutcomeUnreported) as caught:
        gateway.perform("refund", lambda: {"refund_id": "re_1"}, "t", {})
    server.will(SETTLED)
    assert gateway.report(caught.value.report).state == "succeeded"
    assert server.requests[-1].body["response"] == {"refund_id": "re_1"}


def test_a_fault_of_the_function_is_not_hidden_by_a_lost_report(client: Make, server: ScriptedServer) -> None:
    server.will(ADMITTED, DROPPED)
    with pytest.raises(ZeroDivisionError) as caught:
        client(Gateway).perform("refund", lambda: 1 / 0, "t", {})
    assert "'unknown' was not taken" in caught.value.__notes__[0]


def test_who_is_interrupted_does_not_wait_for_a_service_that_is_away(server: ScriptedServer) -> None:
    server.will(ADMITTED, DROPPED)
    gateway = Gateway(server.base_url, "key", repetition=QUICK)
    with gateway, pytest.raises(SystemExit), gateway.effect(REFUND, "t"):
        raise SystemExit
    assert server.paths == [ADMISSIONS, OUTCOMES]


@pytest.mark.parametrize(("code", "error"), [("stale_delivery", StaleDelivery), ("outcome_conflict", OutcomeConflict)])
def test_an_outcome_that_contradicts_is_told_by_name(
    client: Make, server: ScriptedServer, code: str, error: type[Exception]
) -> None:
    server.will(ADMITTED, problem(409, code))
    with pytest.raises(error):
        client(Gateway).perform("refund", lambda: None, "t", {})


@pytest.mark.parametrize("response", [float("nan"), object(), "\ud800"])
def test_a_response_that_is_no_json_does_not_hold_back_the_outcome(
    client: Make, server: ScriptedServer, response: object
) -> None:
    server.will(ADMITTED, SETTLED)
    client(Gateway).perform("refund", lambda: response, "t", {})
    told = server.requests[1].body
    assert told["outcome"] == "succeeded"
    assert "unrecorded" in told["response"]


def test_a_response_that_the_service_refuses_does_not_hold_back_the_outcome_either(
    client: Make, server: ScriptedServer
) -> None:
    server.will(ADMITTED, problem(422, "unsafe_number", pointer="/response/id"), SETTLED)
    client(Gateway).perform("refund", lambda: {"id": 2**60}, "t", {})
    assert server.requests[2].body["response"] == {"unrecorded": "unsafe_number at /response/id: unsafe_number"}


def test_a_read_only_tool_runs_without_token_key_or_report(client: Make, server: ScriptedServer) -> None:
    server.will(Answer(body={"admit": True, "exempt": True}))
    outcome = client(Gateway).perform("lookup_invoice", lambda invoice: {"invoice": invoice}, None, {"invoice": 9})
    assert outcome.response == {"invoice": 9}
    assert [request.body for request in server.requests] == [
        {"action": {"tool": "lookup_invoice", "args": {"invoice": 9}}}
    ]


def test_a_function_that_takes_no_key_is_given_none(client: Make, server: ScriptedServer) -> None:
    server.will(ADMITTED, SETTLED)
    assert client(Gateway).perform("notify", lambda to: to, "t", {"to": "oncall"}).outcome == "succeeded"


@pytest.mark.parametrize(
    "args", [{"invoice": 9}, {"invoice": 9, "cents": 1, "more": 2}, {"invoice": 9, "cents": 1, "idempotency_key": "x"}]
)
def test_arguments_that_do_not_fit_the_function_are_told_before_anything_is_asked(
    client: Make, server: ScriptedServer, args: dict[str, Any]
) -> None:
    def refund(invoice: int, cents: int, idempotency_key: str) -> None:
        pytest.fail(f"this must not run: {invoice, cents, idempotency_key}")

    with pytest.raises(TypeError):
        client(Gateway).perform("refund", refund, "t", args)
    assert server.requests == []


@pytest.mark.parametrize("args", [{"cents": float("nan")}, {"account": 2**60}, {"name": "\ud800"}])
def test_what_has_no_canonical_form_is_told_before_anything_is_asked(
    client: Make, server: ScriptedServer, args: dict[str, Any]
) -> None:
    with pytest.raises(Malformed):
        client(Gateway).perform("refund", _never, "t", args)
    assert server.requests == []


def test_the_function_gets_what_was_agreed_on_and_not_the_callers_spelling(
    client: Make, server: ScriptedServer
) -> None:
    given: dict[str, Any] = {}
    args = {"cents": 4200.0, "to": {"iban": "XX00"}}
    server.will(ADMITTED, SETTLED)

    def refund(cents: object, to: object) -> None:
        args["to"]["iban"] = "changed"  # type: ignore[index]
        given.update(cents=cents, to=to)

    client(Gateway).perform("refund", refund, "t", args)
    assert repr(given["cents"]) == "4200"
    assert given["to"] == {"iban": "XX00"}


def test_an_early_call_names_its_step(client: Make, server: ScriptedServer) -> None:
    server.will(problem(403, "not_committed"))
    with pytest.raises(AttemptedEscape):
        client(Gateway).admit(REFUND, run="r", step="s", epoch=7)
    assert server.requests[0].body == {"action": REFUND, "run": "r", "step": "s", "epoch": 7}


def test_admission_and_report_can_be_called_by_hand(client: Make, server: ScriptedServer) -> None:
    gateway = client(Gateway)
    server.will(ADMITTED, SETTLED)
    admission = gateway.admit(REFUND, "t")
    assert gateway.report(admission.report("succeeded", response={"refund_id": "re_1"})).outcome.by == "gateway"
    with pytest.raises(ValueError, match="no delivery"):
        type(admission)(admit=False).report("succeeded")


def test_what_waits_for_a_gateway_is_read_with_its_token(client: Make, server: ScriptedServer) -> None:
    server.will(Answer(body={"items": [{"intent": "i-1", "compensation": None, "action": REFUND, "token": "t"}]}))
    (errand,) = client(Gateway).wanted(tool="refund", wait_s=1)
    assert (errand.intent, errand.token, errand.action) == ("i-1", "t", REFUND)
    assert server.requests[0].query == {"tool": "refund", "wait": "1.000"}


def test_an_effect_is_entered_once(server: ScriptedServer) -> None:
    server.will(ADMITTED, SETTLED, ADMITTED)
    with Gateway(server.base_url, "key") as gateway:
        effect = gateway.effect(REFUND, "t")
        with pytest.raises(RuntimeError, match="not been admitted"):
            _ = effect.idempotency_key
        with effect:
            pass
        with pytest.raises(RuntimeError, match="entered once"), effect:
            _never()


def test_the_blocking_gateway_guards_no_asynchronous_function(server: ScriptedServer) -> None:
    async def refund() -> None:
        raise AssertionError

    with Gateway(server.base_url, "key") as gateway, pytest.raises(TypeError, match="AsyncGateway"):
        gateway.guards("refund")(refund)


def _never(**_args: Any) -> None:
    pytest.fail("this must not run")
