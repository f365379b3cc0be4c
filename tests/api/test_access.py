"""Who may call what (H1, N7, N8)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fencing.models import Credential, SideLogRow, Tally
from fencing.protocol.callers import Role
from fencing.protocol.errors import Refusal
from fencing.services.credentials import COMMAND_LINE, authenticate, revoke
from fencing.services.tallies import PENDING
from tests.api.conftest import Api, make_key


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer nonsense", "Bearer fk_planner_" + "x" * 43, "Basic eA==", "Bearer fk_\u00e9"]
)
def test_a_request_without_a_good_key_is_refused_and_told_how_to_send_one(api: Api, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = api.client.post("/api/v1/runs", data=b"{}", content_type="application/json", headers=headers)
    assert answer.status_code == 401
    assert answer.json()["code"] == "unauthenticated"
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_requests_without_a_key_are_counted_and_not_logged_one_by_one(api: Api) -> None:
    for _ in range(5):
        api.post(None, "/runs", {"run": "x"})
    PENDING.flush()
    assert sum(Tally.objects.filter(name="unauthenticated").values_list("count", flat=True)) >= 5
    assert not SideLogRow.objects.exists()


def test_a_key_opens_nothing_from_the_moment_it_is_revoked(api: Api) -> None:
    issued = make_key("planner", Role.PLANNER)
    headers = {"Authorization": f"Bearer {issued.key}"}
    assert api.client.get("/api/v1/tools", headers=headers).status_code == 200
    revoke(issued.name, COMMAND_LINE)
    assert api.client.get("/api/v1/tools", headers=headers).status_code == 401


def test_a_key_ends_by_the_clock_of_the_database(db: None) -> None:
    issued = make_key("planner", Role.PLANNER, expires_in_s=3600)
    assert not isinstance(authenticate(f"Bearer {issued.key}"), Refusal)
    # The row is what counts: whatever this process takes the time to be, PostgreSQL says that it is over.
    Credential.objects.filter(name=issued.name).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert isinstance(authenticate(f"Bearer {issued.key}"), Refusal)


def test_a_persons_key_ends_with_the_persons_account(db: None) -> None:
    issued = make_key("oncall", Role.ONCALL)
    caller = authenticate(f"Bearer {issued.key}")
    assert not isinstance(caller, Refusal)
    assert caller.person_id is not None
    User.objects.filter(pk=caller.person_id).update(is_active=False)
    assert isinstance(authenticate(f"Bearer {issued.key}"), Refusal)


def test_a_good_key_is_recognised_in_one_query(db: None) -> None:
    issued = make_key("planner", Role.PLANNER)
    authenticate(f"Bearer {issued.key}")
    with CaptureQueriesContext(connection) as queries:
        authenticate(f"Bearer {issued.key}")
    assert len(queries) == 1


def test_the_last_use_is_written_once_a_minute(db: None) -> None:
    issued = make_key("planner", Role.PLANNER)
    authenticate(f"Bearer {issued.key}")
    first = Credential.objects.get(name=issued.name).last_used_at
    authenticate(f"Bearer {issued.key}")
    assert first is not None
    assert Credential.objects.get(name=issued.name).last_used_at == first
    Credential.objects.filter(name=issued.name).update(last_used_at=first - timedelta(minutes=2))
    authenticate(f"Bearer {issued.key}")
    last = Credential.objects.get(name=issued.name).last_used_at
    assert last is not None
    assert last >= first


def test_the_key_itself_is_stored_nowhere(db: None) -> None:
    issued = make_key("planner", Role.PLANNER)
    row = Credential.objects.filter(name=issued.name).values().get()
    assert issued.key.startswith("fk_planner_")
    assert len(issued.key.removeprefix("fk_planner_")) == 43
    assert all(issued.key.encode() not in str(value).encode() for value in row.values())


def test_a_key_of_another_role_is_refused_and_the_side_log_tells_whose_and_what(api: Api) -> None:
    answer = api.post("replica", "/runs", {"run": "run-88"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden_role")
    row = SideLogRow.objects.get()
    assert (row.kind, row.reason, row.run) == ("request", "forbidden_role", "run-88")
    assert row.by is not None
    assert row.by.role == "path"


def test_a_wrong_role_is_told_of_a_read_too_with_the_names_in_its_address(api: Api) -> None:
    assert api.get("replica", "/runs/run-88").status_code == 403
    row = SideLogRow.objects.get()
    assert (row.reason, row.run, row.body_sha256) == ("forbidden_role", "run-88", None)


@pytest.mark.parametrize(
    "path",
    [
        "/runs",
        "/votes/wanted",
        "/events",
        "/grants",
        "/gateway/wanted",
        "/intents",
        "/incidents",
        "/side-log",
        "/audit",
    ],
)
def test_an_auditor_may_make_every_get(api: Api, path: str) -> None:
    assert api.get("auditor", path).status_code == 200


@pytest.mark.parametrize("path", ["/runs", "/votes", "/gateway/admissions", "/side-log/acknowledge", "/grants"])
def test_an_auditor_may_write_nothing(api: Api, path: str) -> None:
    assert api.post("auditor", path, {}).status_code == 403


@pytest.mark.parametrize("path", ["/runs", "/grants", "/intents", "/incidents", "/side-log", "/audit", "/events"])
def test_a_path_reads_nothing_but_what_it_must_vote_on(api: Api, path: str) -> None:
    assert api.get("replica", path).status_code == 403


def test_which_path_votes_comes_from_the_key_and_never_from_the_body(api: Api, run: str) -> None:
    vote = {"run": run, "step": "s1", "epoch": 7, "digest": "sha256:" + "a" * 64}
    assert api.post("replica", "/votes", {**vote, "path": "production"}).json()["code"] == "unknown_member"
    assert api.post("replica", "/votes", vote).status_code == 201
    votes = api.get("planner", f"/runs/{run}/steps/s1").json()["votes"]
    assert [each["path"] for each in votes] == ["replica"]


def test_a_key_that_calls_too_often_is_told_when_to_come_back(api: Api) -> None:
    slow = make_key("auditor", Role.AUDITOR, rate_per_s=2)
    headers = {"Authorization": f"Bearer {slow.key}"}
    answers = [api.client.get("/api/v1/tools", headers=headers) for _ in range(4)]
    assert [answer.status_code for answer in answers[:2]] == [200, 200]
    assert answers[-1].status_code == 429
    assert answers[-1].json()["code"] == "rate_limited"
    assert int(answers[-1]["Retry-After"]) >= 1
    assert api.get("auditor", "/tools").status_code == 200
