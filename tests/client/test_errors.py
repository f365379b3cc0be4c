import pytest

from fencing.client import errors
from fencing.client.calls import refusal, understood
from fencing.protocol.errors import Code
from tests.client.scripted import refused, reply

ESCAPES = [
    Code.NO_TOKEN,
    Code.NOT_COMMITTED,
    Code.BAD_TOKEN,
    Code.UNKNOWN_COMMIT,
    Code.REVOKED,
    Code.GRANT_EXPIRED,
    Code.PAYLOAD_MISMATCH,
    Code.UNKNOWN_TOOL,
    Code.INVALID_ARGS,
    Code.WRONG_EPOCH,
    Code.FROZEN,
]


@pytest.mark.parametrize("code", ESCAPES)
def test_whatever_the_gateway_counts_as_an_escape_is_an_attempted_escape(code: Code) -> None:
    assert isinstance(refusal(403, {"code": code}), errors.AttemptedEscape)


@pytest.mark.parametrize("code", [Code.DELIVERY_IN_PROGRESS, Code.IN_DOUBT, Code.NOT_READY])
def test_what_has_to_wait_at_the_gateway_is_no_escape(code: Code) -> None:
    assert isinstance(refusal(409, {"code": code, "retry_after": 3}), errors.TryLater)
    assert not isinstance(refusal(409, {"code": code}), errors.AttemptedEscape)


@pytest.mark.parametrize("code", [Code.UNKNOWN_TOOL, Code.INVALID_ARGS])
def test_the_same_code_in_a_proposal_is_a_fault_of_form(code: Code) -> None:
    assert isinstance(refusal(422, {"code": code}), errors.Malformed)


def test_every_code_that_has_a_class_is_one_of_the_protocol() -> None:
    assert set(errors.BY_CODE) <= {str(code) for code in Code}


def test_a_refusal_carries_all_that_the_service_said() -> None:
    with pytest.raises(errors.StaleEpoch, match="stale_epoch at /epoch: closed") as caught:
        understood(refused(409, "stale_epoch", current_epoch=8, detail="closed", pointer="/epoch"))
    found = caught.value
    assert (found.status, found.code, found.detail, found.pointer) == (409, "stale_epoch", "closed", "/epoch")
    assert found.current_epoch == 8
    assert found.extras == {"current_epoch": 8}


def test_a_code_of_a_newer_service_falls_back_on_its_status() -> None:
    assert type(refusal(409, {"code": "brand_new"})) is errors.Conflict
    assert type(refusal(418, {"code": "teapot"})) is errors.Refused


def test_a_refusal_without_a_body_is_told_by_its_status() -> None:
    with pytest.raises(errors.NotAllowed) as caught:
        understood(reply("<html>", 403))
    assert caught.value.code == "http_403"


def test_a_redirect_is_no_answer() -> None:
    with pytest.raises(errors.BadAnswer, match="points elsewhere"):
        understood(reply({}, 307))


def test_a_success_that_is_no_json_is_no_answer() -> None:
    with pytest.raises(errors.BadAnswer, match="no JSON"):
        understood(reply({}).__class__(status=200, headers={}, body=b"<html>"))
