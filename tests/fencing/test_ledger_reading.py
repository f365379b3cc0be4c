"""Whole ledgers, uploaded and fetched, on the real database: what they show, what they lack, and how far they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group as GroupRow
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from dashboard.access import Group
from fencing.gateway import ledger_reading
from fencing.gateway.ledger_reading import Span, match_some
from fencing.models import Incident, Ledger, ObservedEffect
from fencing.protocol.answers import Answer
from tests.pushing import LOCAL, Serving, definition, serving
from tests.stories import OTHER_REFUND, REFUND, Story, Told, register

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
    result = ledger_reading.upload("refund", name, [text], span, story.reviewer)
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
    assert not list(ledger_reading.folder().iterdir())  # what was read is not kept


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
    result = ledger_reading.upload("refund", "bank.ndjson", [text], None, story.reviewer)
    assert isinstance(result, Answer)
    seen = []
    while match_some(0.0):
        seen.append(Ledger.objects.get().rows)
    assert seen[:2] == [3, 6]
    assert (Ledger.objects.get().state, Ledger.objects.get().rows, ObservedEffect.objects.count()) == ("done", 8, 8)


def test_a_name_without_a_form_is_refused(story: Story) -> None:
    assert not isinstance(ledger_reading.upload("refund", "bank.xlsx", [b"x"], None, story.reviewer), Answer)
    assert not isinstance(ledger_reading.pull("refund", None, story.reviewer), Answer)


@pytest.fixture
def server(settings: Settings) -> Iterator[Serving]:
    settings.FENCE_TOOL_HOSTS = LOCAL
    with serving() as made:
        yield made


def test_a_tool_s_own_list_is_fetched_page_by_page(
    story: Story, server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_reading, "BATCH", 2)
    register([definition(server)])
    for number in range(5):
        server.ledger.act(f"theirs-{number}", {"tool": "pay", "args": {"invoice": number}}, once=False)
    result = ledger_reading.pull("pay", None, story.reviewer)
    assert isinstance(result, Answer)
    while match_some():
        pass
    found = Ledger.objects.get()
    assert (found.state, found.rows, found.escapes) == ("done", 5, 5)
    again = ledger_reading.pull("pay", None, story.reviewer)
    assert isinstance(again, Answer)
    while match_some():
        pass
    assert Ledger.objects.get(id=str(again.body["id"])).known == 5


def test_a_list_that_cannot_be_read_fails_and_says_why(story: Story, settings: Settings) -> None:
    settings.FENCE_TOOL_HOSTS = LOCAL
    with serving() as gone:
        register([definition(gone)])
    assert isinstance(ledger_reading.pull("pay", None, story.reviewer), Answer)
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
