"""Whole ledgers, uploaded and fetched, on the real database: what they show, what they lack, and how far they are."""

from __future__ import annotations

import csv
import errno
import io
import itertools
import json
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from django.contrib.auth.models import Group as GroupRow
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from dashboard.access import Group
from dashboard.presenters.ledgers import ledger_sentence, ledger_share
from dashboard.uploads import LedgerHandler
from fencing.gateway import ledger_intake, ledger_reading, ledgers
from fencing.gateway.ledger_intake import Span, keep
from fencing.gateway.ledger_reading import match_some
from fencing.models import Incident, Ledger, ObservedEffect
from fencing.protocol.answers import Answer
from fencing.protocol.ledger_files import Format, rows_of
from fencing.services.requests import ObserveEffect
from tests.factories import fresh
from tests.pushing import LOCAL, Serving, definition, serving
from tests.stories import OTHER_REFUND, REFUND, Story, Told, digest, register, told

pytestmark = pytest.mark.django_db


@pytest.fixture
def story(settings: Settings, tmp_path: Path) -> Story:
    settings.FENCE_DATA = tmp_path
    return Story.begin()


def sent(story: Story, step: str = "s1", **members: Any) -> Told:
    """Let one refund leave and succeed."""
    admitted = story.admit(story.agree(step, **members))
    assert story.report(admitted, "succeeded")["state"] == "succeeded"
    return admitted


def read(story: Story, rows: list[object], *, name: str = "bank.ndjson", span: Span | None = None) -> Ledger:
    """Upload rows and match them to the end."""
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    result = ledger_intake.upload("refund", name, keep([text]), span, story.reviewer)
    assert isinstance(result, Answer), result
    while match_some():
        pass
    return Ledger.objects.get(id=str(result.body["id"]))


def around_now() -> Span:
    now = datetime.now(UTC)
    return Span(start=now - timedelta(hours=1), end=now + timedelta(hours=1))


def test_a_file_shows_what_left_what_should_not_have_and_what_is_known(story: Story) -> None:
    key = sent(story)["idempotency_key"]
    rows: list[object] = [
        {"external_id": "a", "idempotency_key": key},
        {"external_id": "b", "idempotency_key": key},
        {"external_id": "c", "action": OTHER_REFUND},
        {"external_id": "a", "idempotency_key": key},
        {"external_id": "d", "tool": "another"},
        ["no row"],
    ]
    found = read(story, rows)
    assert (found.state, found.rows, found.matched, found.escapes, found.doubled, found.known, found.refused) == (
        "done", 6, 1, 1, 1, 1, 2,
    )  # fmt: skip
    assert found.says.startswith("First refused row: ")
    assert sorted(Incident.objects.values_list("kind", flat=True)) == ["doubled", "landed_escape"]
    assert not list(ledger_intake.folder().iterdir())  # what was read is not kept


def test_what_succeeded_and_is_absent_from_a_complete_ledger_is_missing_once(story: Story) -> None:
    shown, lacking = sent(story, "s1"), sent(story, "s2", occurrence=1)
    row = {"external_id": "a", "idempotency_key": shown["idempotency_key"]}
    assert read(story, [row]).missing == 0  # nobody declared it complete
    found = read(story, [row], span=around_now())
    # Both have one payload: the one that is shown is told by its key.
    assert (found.wanted, found.missing) == (2, 1)
    incident = Incident.objects.get(kind="missing")
    assert str(incident.intent_id) == lacking["intent"]
    assert read(story, [row], span=around_now()).missing == 0
    assert Incident.objects.filter(kind="missing").count() == 1


def test_a_reading_goes_on_where_it_stopped(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_reading, "BATCH", 3)
    monkeypatch.setattr(ledger_reading, "WORK_S", 0.0)
    rows: list[object] = [{"external_id": f"x-{number}", "action": REFUND} for number in range(8)]
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    result = ledger_intake.upload("refund", "bank.ndjson", keep([text]), None, story.reviewer)
    assert isinstance(result, Answer)
    seen = []
    while match_some(0.0):
        seen.append(Ledger.objects.get().rows)
    assert seen[:2] == [3, 6]
    assert (Ledger.objects.get().state, Ledger.objects.get().rows, ObservedEffect.objects.count()) == ("done", 8, 8)


def test_what_was_read_before_a_file_broke_stays_and_nothing_counts_as_missing(story: Story) -> None:
    sent(story)
    text = json.dumps([{"external_id": "a", "action": OTHER_REFUND}, {"external_id": "b"}]).encode()[:-5]
    result = ledger_intake.upload("refund", "bank.json", keep([text]), around_now(), story.reviewer)
    assert isinstance(result, Answer)
    while match_some():
        pass
    found = Ledger.objects.get()
    assert (found.state, found.rows, found.escapes, found.missing, found.wanted) == ("failed", 1, 1, 0, 0)
    assert found.says.startswith("Byte ")
    assert not Incident.objects.filter(kind="missing").exists()
    assert not list(ledger_intake.folder().iterdir())


@pytest.mark.parametrize("ending", ["csv", "json", "ndjson"])
def test_a_reading_asks_for_no_byte_twice(story: Story, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """However far a million rows are: each job goes on where the last one stopped."""
    monkeypatch.setattr(ledger_reading, "BATCH", 2)
    names = [f"x-{number}" for number in range(9)]
    rows = [json.dumps({"external_id": name, "action": REFUND}) for name in names]
    table = io.StringIO(newline="")
    csv.writer(table).writerows([["external_id", "action"], *((name, json.dumps(REFUND)) for name in names)])
    text = {"csv": table.getvalue(), "json": f"[{','.join(rows)}]", "ndjson": "\n".join(rows)}[ending]
    result = ledger_intake.upload("refund", f"bank.{ending}", keep([text.encode()]), None, story.reviewer)
    assert isinstance(result, Answer)
    starts: list[int] = []

    def noted(file: BinaryIO, written: Format, start: int = 0) -> Any:
        starts.append(start)
        return rows_of(file, written, start)

    monkeypatch.setattr(ledger_reading, "rows_of", noted)
    while match_some(0.0):
        pass
    assert (Ledger.objects.get().state, Ledger.objects.get().rows) == ("done", 9)
    assert starts == sorted(set(starts))
    assert len(starts) >= 5
    assert sorted(ObservedEffect.objects.values_list("external_id", flat=True)) == names


def test_a_batch_takes_as_many_statements_as_a_row(story: Story) -> None:
    """A million rows are two thousand batches, and not a million questions."""
    caller = story.gateway

    def mixed(many: int) -> list[ObserveEffect]:
        made = []
        for _ in range(many):
            key = sent(story, fresh("s"), occurrence=next(occurrences))["idempotency_key"]
            failed = story.admit(story.agree(fresh("s"), occurrence=next(occurrences)))
            assert story.report(failed, "failed")["state"] == "failed"
            told: list[dict[str, Any]] = [
                {"idempotency_key": key},
                {"idempotency_key": key},
                {"idempotency_key": failed["idempotency_key"]},
                {"digest": digest(REFUND)},
                {"action": {"tool": "refund", "args": {"invoice": next(occurrences)}}},
            ]
            made += [ObserveEffect(tool="refund", external_id=fresh("x"), **members) for members in told]
        return made

    occurrences = itertools.count(1)

    def statements(rows: list[ObserveEffect]) -> int:
        with CaptureQueriesContext(connection) as asked:
            results = [told(each) for each in ledgers.observe_effects(rows, caller)]
        assert not [each for each in results if "code" in each]
        return len(asked)

    few, many = mixed(1), mixed(8)
    assert statements(few) == statements(many)
    assert statements(few) == statements(many)  # known by now
    assert set(ObservedEffect.objects.values_list("match", flat=True)) >= {"intent", "escape", "doubled"}


def test_a_few_rows_do_not_wait_behind_a_million(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_reading, "BATCH", 2)
    for many in (9, 3):
        text = "".join(json.dumps({"external_id": f"{many}-{n}", "action": REFUND}) + "\n" for n in range(many))
        ledger_intake.upload("refund", "bank.ndjson", keep([text.encode()]), None, story.reviewer)
    large, small = Ledger.objects.order_by("asked_at")
    assert match_some(0.0)
    large.refresh_from_db()
    assert large.rows == 2
    assert ledger_share(large) == pytest.approx(2 / 9, abs=0.01)
    while small.finished_at is None:
        assert match_some(0.0)
        small.refresh_from_db()
    large.refresh_from_db()
    assert large.rows < 9


def test_how_far_a_reading_is_stands_on_its_page(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_reading, "BATCH", 2)
    text = "".join(json.dumps({"external_id": f"x-{n}", "action": REFUND}) + "\n" for n in range(8))
    ledger_intake.upload("refund", "bank.ndjson", keep([text.encode()]), None, story.reviewer)
    assert match_some(0.0)
    row = Ledger.objects.get()
    assert ledger_sentence(row, row.asked_at)[0] == "Being matched: 2 rows so far, 25 % of the file."
    later = row.asked_at + timedelta(seconds=60)
    assert ledger_sentence(row, later)[0].endswith(", 25 % of the file; about 3 min to go.")
    person = User.objects.create_user("vera")
    person.groups.set(GroupRow.objects.filter(name=Group.VIEWER))
    client = Client()
    client.force_login(person)
    page = client.get(f"/reconciliation/{row.id}").content.decode()
    assert '<progress class="verifying" max="100" value="25"' in page
    assert "25 % of the file" in client.get("/reconciliation").content.decode()


def test_what_breaks_off_on_the_way_leaves_nothing_and_old_strays_go(story: Story) -> None:
    def breaks() -> Iterator[bytes]:
        yield b"x"
        raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        keep(breaks())
    assert not list(ledger_intake.folder().iterdir())
    stray = keep([b"x"])
    waits = ledger_intake.upload("refund", "bank.csv", keep([b"external_id\n"]), None, story.reviewer)
    assert isinstance(waits, Answer)
    assert ledger_intake.remove_strays() == 0
    assert ledger_intake.remove_strays(time.time() + ledger_intake.STRAY_S + 60) == 1
    assert not stray.exists()
    assert len(list(ledger_intake.folder().iterdir())) == 1


def test_a_file_that_goes_while_strays_are_looked_for_fails_nothing(story: Story) -> None:
    stray = keep([b"x"])
    # Listed and not there when it is looked at: as a file that another worker removes between the two.
    gone = ledger_intake.folder() / f"gone{ledger_intake.ARRIVING}"
    gone.symlink_to("nowhere")
    try:
        assert ledger_intake.remove_strays(time.time() + ledger_intake.STRAY_S + 60) == 1
    finally:
        gone.unlink()
    assert not stray.exists()


def test_a_file_that_cannot_be_kept_is_told(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    person = User.objects.create_user("rita")
    person.groups.set(GroupRow.objects.filter(name=Group.REVIEWER))
    client = Client()
    client.force_login(person)

    def full(_self: object, _raw: bytes, _start: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(LedgerHandler, "receive_data_chunk", full)
    file = SimpleUploadedFile("bank.csv", b"external_id\n")
    answer = client.post("/reconciliation/upload", {"tool": "refund", "file": file})
    assert (answer.status_code, "No space left on device" in answer.content.decode()) == (503, True)
    assert not list(ledger_intake.folder().iterdir())


def test_a_name_without_a_form_is_refused(story: Story) -> None:
    assert not isinstance(ledger_intake.upload("refund", "bank.xlsx", keep([b"x"]), None, story.reviewer), Answer)
    assert not isinstance(ledger_intake.pull("refund", None, story.reviewer), Answer)


def test_a_tool_s_own_list_is_fetched_page_by_page(
    story: Story, server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_reading, "BATCH", 2)
    register([definition(server)])
    for number in range(5):
        server.ledger.act(f"theirs-{number}", {"tool": "pay", "args": {"invoice": number}}, once=False)
    result = ledger_intake.pull("pay", None, story.reviewer)
    assert isinstance(result, Answer)
    while match_some():
        pass
    found = Ledger.objects.get()
    assert (found.state, found.rows, found.escapes) == ("done", 5, 5)
    again = ledger_intake.pull("pay", None, story.reviewer)
    assert isinstance(again, Answer)
    while match_some():
        pass
    assert Ledger.objects.get(id=str(again.body["id"])).known == 5


def test_a_list_that_cannot_be_read_fails_and_says_why(story: Story, settings: Settings) -> None:
    settings.FENCE_TOOL_HOSTS = LOCAL
    with serving() as gone:
        register([definition(gone)])
    assert isinstance(ledger_intake.pull("pay", None, story.reviewer), Answer)
    while match_some():
        pass
    assert (Ledger.objects.get().state, Ledger.objects.get().rows) == ("failed", 0)
    assert "did not take the connection" in Ledger.objects.get().says


def test_a_reviewer_finds_an_escape_in_an_uploaded_file(story: Story) -> None:
    person = User.objects.create_user("rita")
    person.groups.set(GroupRow.objects.filter(name=Group.REVIEWER))
    client = Client()
    client.force_login(person)
    assert "No ledger was read yet" in client.get("/reconciliation").content.decode()
    file = SimpleUploadedFile("bank.csv", b'external_id,action\nx-1,"{""tool"":""refund"",""args"":{""invoice"":7}}"\n')
    half = client.post("/reconciliation/upload", {"tool": "refund", "file": file, "complete_from": "2026-11-01"})
    assert half.status_code == 422
    file.seek(0)
    answer = client.post("/reconciliation/upload", {"tool": "refund", "file": file})
    assert answer.status_code == 302, re.findall(r'class="error"[^<]*<', answer.content.decode())
    while match_some():
        pass
    page = client.get(answer["Location"].partition("#")[0]).content.decode()
    assert "1 of 1 rows show effects that should not be there" in page
    assert "landed escape" in client.get("/incidents?resource=7").content.decode()
    viewer = User.objects.create_user("vera")
    viewer.groups.set(GroupRow.objects.filter(name=Group.VIEWER))
    client.force_login(viewer)
    assert "This is for the group reviewer" in client.get("/reconciliation").content.decode()
    assert client.post("/reconciliation/upload", {"tool": "refund", "file": file}).status_code == 403
