"""Lists page by keyset, newest first, whole and without a row twice (H6)."""

from __future__ import annotations

import base64
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.models import Run, SideLogRow, ToolVersion
from fencing.protocol.errors import Refusal
from fencing.queries.pages import Cursor
from tests.api.conftest import Api
from tests.factories import (
    make_action,
    make_approved,
    make_commit,
    make_incident,
    make_intent,
    make_release,
    make_run,
    make_side_log_row,
    make_step,
    make_tool,
    make_votes,
    soon,
)

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - the bounds are bare


def walk(api: Api, path: str, *, limit: int, as_: str = "auditor") -> list[list[dict[str, Any]]]:
    """Follow a list to its end."""
    pages, cursor = [], ""
    while True:
        body = api.get(as_, f"{path}{'&' if '?' in path else '?'}limit={limit}{cursor}").json()
        pages.append(body["items"])
        if body["next"] is None:
            return pages
        cursor = f"&cursor={body['next']}"


def test_a_list_is_read_to_its_end_in_order_without_a_row_twice_or_missed(api: Api) -> None:
    moment = soon(-60)
    # Ten of them at the very same microsecond: only the id tells them apart.
    rows = [make_side_log_row(recorded_at=moment if number < 10 else soon(-number)) for number in range(25)]
    pages = walk(api, "/side-log", limit=4)
    ids = [row["id"] for page in pages for row in page]
    assert [len(page) for page in pages] == [4, 4, 4, 4, 4, 4, 1]
    assert set(ids) == {str(row.pk) for row in rows}
    ordered = SideLogRow.objects.order_by("-recorded_at", "-pk").values_list("pk", flat=True)
    assert ids == [str(pk) for pk in ordered]


def test_a_path_is_told_of_all_that_awaits_it_at_once_or_page_by_page(api: Api) -> None:
    moment = soon(-60)
    run = make_run()
    for number in range(60):
        make_step(run=run, name=f"s{number}", proposed_at=moment if number < 30 else soon(number - 59))
    whole = api.get("replica", "/votes/wanted").json()
    assert (len(whole["items"]), whole["next"]) == (60, None)
    assert walk(api, "/votes/wanted", limit=25, as_="replica") == [
        whole["items"][:25],
        whole["items"][25:50],
        whole["items"][50:],
    ]


def make_ready_intents(tool: ToolVersion, number: int) -> None:
    """Commit one action for as many steps, each with an intent of its own."""
    action, run = make_action(tool=tool), make_run()
    for _ in range(number):
        step = make_step(run=run, tool=tool)
        make_votes(step=step, action=action)
        intent = make_intent(step=step, digest=action.payload_digest, tool=tool.tool)
        make_commit(step=step, action=action, intent=intent)


def test_a_gateway_is_told_of_all_that_is_ready_at_once_or_page_by_page(api: Api) -> None:
    tool = make_tool()
    for _ in range(3):
        make_release(compensation=make_approved(tool=tool.tool, registry=tool.pk))
    make_ready_intents(tool, 52)
    whole = api.get("gateway", "/gateway/wanted").json()
    assert [name for each in whole["items"] for name in ("compensation", "intent") if name in each] == [
        *["compensation"] * 3,
        *["intent"] * 52,
    ]
    assert whole["next"] is None
    for limit in (2, 3, 40, 55):
        pages = walk(api, "/gateway/wanted", limit=limit, as_="gateway")
        assert [each for page in pages for each in page] == whole["items"]


@pytest.mark.parametrize(("as_", "path"), [("replica", "/votes/wanted"), ("gateway", "/gateway/wanted")])
@pytest.mark.parametrize("cursor", ["x", Cursor(at=None, id=7).encode(), Cursor(at=soon(), id=7).encode()])
def test_a_list_of_work_refuses_a_cursor_that_it_did_not_give(api: Api, as_: str, path: str, cursor: str) -> None:
    answer = api.get(as_, f"{path}?cursor={cursor}")
    assert (answer.status_code, answer.json()["parameter"]) == (422, "cursor")


def test_rows_that_arrive_meanwhile_move_nothing(api: Api) -> None:
    for number in range(4):
        make_side_log_row(recorded_at=soon(-100 - number))
    first = api.get("auditor", "/side-log?limit=2").json()
    make_side_log_row()
    second = api.get("auditor", f"/side-log?limit=2&cursor={first['next']}").json()
    assert len({row["id"] for row in first["items"] + second["items"]}) == 4
    assert second["next"] is None


@pytest.mark.parametrize(
    "cursor", ["x", "%20", "AAAA", "=", "%F0%9F%98%80", "a" * 201, "bjk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5", "LTEuLi4"]
)
@pytest.mark.parametrize("path", ["/side-log", "/audit", "/runs", "/incidents", "/tools", "/grants", "/intents"])
def test_a_cursor_that_no_list_gave_is_refused(api: Api, path: str, cursor: str) -> None:
    answer = api.get("auditor", f"{path}?cursor={cursor}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_value")
    assert answer.json()["parameter"] == "cursor"


def test_a_cursor_of_one_list_is_refused_by_another(api: Api) -> None:
    numbered = Cursor(at=None, id=7).encode()
    dated = Cursor(at=soon(), id=uuid.uuid4()).encode()
    assert api.get("auditor", f"/side-log?cursor={numbered}").status_code == 422
    assert api.get("auditor", f"/audit?cursor={dated}").status_code == 422


@given(at=MOMENTS | st.none(), number=st.uuids() | st.integers(0, 2**63 - 1))
def test_a_cursor_is_read_as_it_was_written(at: datetime | None, number: uuid.UUID | int) -> None:
    cursor = Cursor(at=at, id=number)
    written = cursor.encode()
    assert Cursor.decode(written) == cursor
    assert written.isascii()
    assert set(written) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(st.text() | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_whatever_is_sent_as_a_cursor_is_read_or_refused(text: str) -> None:
    assert isinstance(Cursor.decode(text), Cursor | Refusal)


@pytest.mark.parametrize(
    ("limit", "status"), [("1", 200), ("500", 200), ("0", 422), ("501", 422), ("x", 422), ("-1", 422)]
)
def test_a_page_holds_one_to_five_hundred_rows(api: Api, limit: str, status: int) -> None:
    assert api.get("auditor", f"/side-log?limit={limit}").status_code == status


def test_a_filter_that_nobody_knows_is_refused_and_not_passed_over(api: Api) -> None:
    answer = api.get("auditor", "/side-log?rn=run-88")
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_member")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("run=run-88", 2),
        ("run=run-88&step=pay", 1),
        ("epoch=7", 1),
        ("path=replica", 1),
        ("reason=late_vote", 1),
        ("kind=epoch", 1),
        ("resource=9", 1),
        ("attempt=a-1&seq=4", 1),
        ("acknowledged=false", 4),
        ("acknowledged=true", 0),
        ("run=run-8", 0),
        ("run=it's%20%25_odd", 0),
    ],
)
def test_the_side_log_is_filtered_by_every_member_of_a_subject(api: Api, query: str, found: int) -> None:
    make_side_log_row(run="run-88", step="pay", epoch=7, path="replica")
    make_side_log_row(run="run-88", reason="late_vote", kind="epoch")
    make_side_log_row(run="run-89", resources=["9", "10"])
    make_side_log_row(attempt="a-1", seq=4)
    assert len(api.get("auditor", f"/side-log?{query}").json()["items"]) == found


def test_a_row_is_acknowledged_by_a_person_once_and_shows_by_whom_and_why(api: Api) -> None:
    row = make_side_log_row()
    first = api.post(
        "oncall", "/side-log/acknowledge", {"ids": [str(row.pk)], "reason": "Known: the planner restarted."}
    )
    again = api.post("reviewer", "/side-log/acknowledge", {"ids": [str(row.pk)], "reason": "Me too."})
    assert first.status_code == again.status_code == 200
    assert again.json()["duplicate"] is True
    (shown,) = api.get("auditor", "/side-log").json()["items"]
    assert shown["acknowledged"]["reason"] == "Known: the planner restarted."
    verbs = [event["verb"] for event in api.get("auditor", "/audit?kind=side_log").json()["items"]]
    assert verbs == ["acknowledge"]


@pytest.mark.parametrize("unknown", ["01a22a68-0eba-7b3f-baba-2d015bede1b3", "x"])
def test_acknowledging_a_row_that_is_not_there_acknowledges_none(api: Api, unknown: str) -> None:
    row = make_side_log_row()
    answer = api.post("oncall", "/side-log/acknowledge", {"ids": [str(row.pk), unknown], "reason": "Seen."})
    assert (answer.status_code, answer.json()["code"], answer.json()["pointer"]) == (404, "not_found", "/ids/1")
    told, untouched = api.get("auditor", "/side-log").json()["items"]
    assert (told["kind"], told["reason"]) == ("acknowledge", "not_found")
    assert (untouched["id"], untouched["acknowledged"]) == (str(row.pk), None)


def test_incidents_are_filtered_and_read_one_by_one(api: Api) -> None:
    run = make_run()
    step = make_step(run=run)
    incident = make_incident(run=run, step=step, resources=["9"])
    make_incident(kind="doubled")
    (found,) = api.get("auditor", f"/incidents?run={run.name}&kind=late_divergence&state=open&resource=9").json()[
        "items"
    ]
    assert found["id"] == str(incident.pk)
    assert found["step"] == step.name
    assert api.get("auditor", f"/incidents/{incident.pk}").json() == found
    assert api.get("auditor", "/incidents/nonsense").status_code == 404
    assert api.get("auditor", f"/incidents/{uuid.uuid4()}").status_code == 404


def test_a_planner_sees_incidents_of_its_own_groups_runs_alone(api: Api, run: str) -> None:
    make_incident(run=Run.objects.get(name=run))
    incident = make_incident(run=make_run())
    assert [each["run"] for each in api.get("planner", "/incidents").json()["items"]] == [run]
    assert api.get("planner", f"/incidents/{incident.pk}").status_code == 404
    assert len(api.get("gateway", "/incidents").json()["items"]) == 2


def test_the_audit_is_listed_newest_first_by_sequence(api: Api, run: str) -> None:
    events = api.get("auditor", f"/audit?run={run}").json()["items"]
    assert [event["verb"] for event in events] == ["propose_step", "open_run"]
    assert events[0]["sequence"] > events[1]["sequence"]
    assert api.get("planner", "/audit").status_code == 403


def test_the_registry_shows_each_tool_once_as_it_stands(api: Api) -> None:
    items = api.get("replica", "/tools").json()["items"]
    assert sorted(item["tool"] for item in items) == ["hold_for_review", "lookup_invoice", "refund"]
    assert all(item["version"] == 1 for item in items)
    assert [item["tool"] for item in api.get("replica", "/tools?tool=refund").json()["items"]] == ["refund"]


# In UTC each of them is another day; PostgreSQL reads no offset beyond sixteen hours.
FAR_OFFSETS = ["1660-11-04T10:19:11.14-23:45", "2026-01-01T00:00:00+23:59", "2026-01-01T00:00:00-16:00"]
NO_MOMENTS = ["0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-00:01", "2026-01-01T00:00:00", "2026-01-01", "now"]
WITH_MOMENTS = [("/side-log", "since"), ("/side-log", "until"), ("/audit", "since"), ("/audit", "until")]


def quoted(moment: str) -> str:
    return moment.replace("+", "%2B")


@pytest.mark.parametrize("moment", FAR_OFFSETS)
@pytest.mark.parametrize(("path", "bound"), WITH_MOMENTS)
def test_a_moment_with_a_far_offset_is_a_moment(api: Api, path: str, bound: str, moment: str) -> None:
    assert api.get("auditor", f"{path}?{bound}={quoted(moment)}").status_code == 200


@pytest.mark.parametrize("moment", NO_MOMENTS)
@pytest.mark.parametrize(("path", "bound"), [*WITH_MOMENTS, ("/authority", "at")])
def test_what_is_no_moment_is_refused(api: Api, path: str, bound: str, moment: str) -> None:
    answer = api.get("auditor", f"{path}?{bound}={quoted(moment)}")
    assert (answer.status_code, answer.json()["parameter"]) == (422, bound)


@pytest.mark.parametrize("path", ["/side-log", "/audit"])
def test_a_time_that_ends_before_it_begins_holds_nothing(api: Api, path: str) -> None:
    make_side_log_row()
    answer = api.get("auditor", f"{path}?since=2026-02-01T00:00:00Z&until=2026-01-01T00:00:00Z")
    assert (answer.status_code, answer.json()["items"]) == (200, [])
