"""Every way to say no has one status, one title and one form (H2, H4)."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection, transaction
from psycopg import errors as pg
from psycopg_pool import PoolTimeout

from fencing.api.problems import STATUS, TITLE, problem, problem_members
from fencing.api.rendering import json_bytes
from fencing.protocol.errors import Code, Refusal
from fencing.services.unavailable import why_unavailable
from tests.api.conftest import Api


def test_every_code_has_exactly_one_status_and_a_title() -> None:
    assert set(STATUS) == set(TITLE) == set(Code)


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        (401, {Code.UNAUTHENTICATED}),
        (404, {Code.NOT_FOUND, Code.UNKNOWN_STEP}),
        (413, {Code.TOO_LARGE, Code.TOO_MANY_ITEMS}),
        # L4: what the gateway refuses for good, and what only has to wait.
        (403, {Code.NO_TOKEN, Code.NOT_COMMITTED, Code.BAD_TOKEN, Code.UNKNOWN_COMMIT, Code.REVOKED}),
        (403, {Code.GRANT_EXPIRED, Code.PAYLOAD_MISMATCH, Code.WRONG_EPOCH, Code.FROZEN, Code.OWN_GRANT}),
        (409, {Code.DELIVERY_IN_PROGRESS, Code.IN_DOUBT, Code.NOT_READY}),
        (422, {Code.UNKNOWN_TOOL, Code.INVALID_ARGS, Code.UNKNOWN_BRANCH, Code.BEYOND_POLICY, Code.REASON_REQUIRED}),
    ],
)
def test_codes_have_the_status_that_the_protocol_gives_them(status: int, codes: set[Code]) -> None:
    assert {STATUS[code] for code in codes} == {status}


def test_a_problem_tells_its_code_its_place_and_what_helps() -> None:
    refusal = Refusal(code=Code.STALE_EPOCH, detail="Closed.", pointer="/epoch", extras={"current_epoch": 9})
    members = problem_members(refusal)
    assert members["code"] == "stale_epoch"
    assert (members["status"], members["pointer"], members["current_epoch"]) == (409, "/epoch", 9)
    assert {"type", "title", "detail"} <= set(members)


def test_extras_never_replace_what_every_problem_has() -> None:
    members = problem_members(Refusal(code=Code.REVOKED, detail="Revoked.", extras={"status": 200, "code": "fine"}))
    assert (members["status"], members["code"]) == (403, "revoked")


@pytest.mark.parametrize(("seconds", "header"), [(0.2, "1"), (1, "1"), (2.1, "3")])
def test_what_has_to_wait_says_how_long_in_whole_seconds(seconds: float, header: str) -> None:
    refusal = Refusal(code=Code.DELIVERY_IN_PROGRESS, detail="Wait.", extras={"retry_after": seconds})
    assert problem(refusal)["Retry-After"] == header


def test_a_sentence_that_quotes_a_lone_surrogate_can_still_be_sent() -> None:
    assert json_bytes({"detail": "\ud800"}) == b'{"detail":"?"}'


@pytest.mark.parametrize("path", ["/nothing", "/runs/", "/runs/a/b", "/grants/a/forget", ""])
def test_an_unknown_address_is_a_problem_too(api: Api, path: str) -> None:
    answer = api.get("planner", path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("name", ["%00", "a%00b", "%F0%9F%98%80", "a%20b", "x" * 201, "%FF"])
@pytest.mark.parametrize(
    "path", ["/runs/{}", "/runs/{}/steps/s1", "/runs/a/steps/{}", "/grants/{}", "/intents/{}", "/incidents/{}"]
)
def test_what_no_name_could_be_is_not_there(api: Api, path: str, name: str) -> None:
    answer = api.get("auditor", path.format(name))
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("PUT", "/runs", "GET, POST"), ("DELETE", "/tools", "GET"), ("GET", "/votes", "POST")],
)
def test_a_method_that_an_address_does_not_take_is_told_with_those_that_it_does(
    api: Api, method: str, path: str, allowed: str
) -> None:
    answer = api.client.generic(method, f"/api/v1{path}")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert sorted(answer["Allow"].split(", ")) == allowed.split(", ")


def test_a_head_request_is_a_get_whose_body_stays_behind(api: Api) -> None:
    answer = api.client.head("/healthz")
    assert answer.status_code == 200
    assert answer.content == b""


def test_a_fault_of_ours_tells_the_caller_nothing_but_its_number(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret-detail")

    monkeypatch.setattr("fencing.services.runs.open_runs", fail)
    answer = api.post("planner", "/runs", {"run": "run-88"})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.json()["request_id"] == answer["X-Request-ID"]
    assert b"secret-detail" not in answer.content
    assert b"Traceback" not in answer.content


def test_a_database_that_takes_no_writes_is_told_as_such_and_decides_nothing(api: Api) -> None:
    before = transaction.savepoint()
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
    answer = api.post("planner", "/runs", {"run": "run-88"})
    transaction.savepoint_rollback(before)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert int(answer["Retry-After"]) >= 1
    assert "read-only" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (pg.DiskFull("53100"), "is full"),
        (PoolTimeout("none free"), "has no free connection"),
        (pg.AdminShutdown("57P01"), "is away"),
        (pg.DeadlockDetected("40P01"), "is too busy"),
    ],
)
def test_each_way_of_a_database_to_be_unavailable_has_its_name(cause: Exception, why: str) -> None:
    error = OperationalError()
    error.__cause__ = cause
    assert why_unavailable(error) == why


def test_a_fault_of_ours_is_not_taken_for_an_absent_database() -> None:
    assert why_unavailable(ValueError()) is None


def test_requests_carry_an_id_of_the_callers_or_one_of_ours(api: Api) -> None:
    assert api.get("planner", "/tools", **{"X-Request-ID": "trace-7"})["X-Request-ID"] == "trace-7"
    assert api.get("planner", "/tools", **{"X-Request-ID": "bad id\n"})["X-Request-ID"] != "bad id\n"
    assert api.get("planner", "/tools")["X-Request-ID"] != api.get("planner", "/tools")["X-Request-ID"]


def test_the_audit_knows_the_request_and_where_it_came_from(api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.keys['planner']}", "X-Request-ID": "trace-8"}
    api.client.post("/api/v1/runs", data=b'{"run": "run-8"}', content_type="application/json", headers=headers)
    events = api.get("auditor", "/audit?run=run-8").json()["items"]
    assert [(event["request"], event["source"]) for event in events] == [("trace-8", "127.0.0.1")]


def test_api_answers_are_neither_cached_nor_sniffed_and_set_no_cookie(api: Api) -> None:
    answer = api.get("planner", "/tools")
    assert answer["Cache-Control"] == "no-store"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert not answer.cookies
