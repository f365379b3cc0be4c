"""Totals of effects by tool, as the page of reconciliation shows them: what they count, and what asking costs."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from django.contrib.auth.models import Group as GroupRow
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dashboard.access import Group
from dashboard.presenters.ledgers import totals_of
from fencing.gateway import ledgers
from fencing.models import Compensation, Incident, Intent
from fencing.models.facts import read_clock
from fencing.queries.ledgers import Totals, totals
from fencing.services.counts import sum_changes
from fencing.services.requests import ObserveEffect
from tests.factories import fresh
from tests.stories import OTHER_REFUND, Story, register, told

pytestmark = pytest.mark.django_db


def sent(story: Story, **members: Any) -> dict[str, Any]:
    """Let one refund leave and succeed."""
    admitted = story.admit(story.agree(fresh("s"), **members))
    assert story.report(admitted, "succeeded")["state"] == "succeeded"
    return dict(admitted)


def show(story: Story, tool: str = "refund", **members: Any) -> dict[str, Any]:
    """Tell one row of a tool's ledger."""
    row = ObserveEffect(tool=tool, external_id=fresh("x"), **members)
    return dict(told(ledgers.observe_effects([row], story.gateway)[0]))


def test_each_tool_is_counted_by_what_became_of_its_effects() -> None:
    story = Story.begin()
    register([{"tool": "send:note", "idempotent": True}])
    shown, again, lacking = (sent(story, occurrence=number) for number in range(3))
    for each in (shown, again, again):
        show(story, idempotency_key=each["idempotency_key"])
    show(story, action=OTHER_REFUND)
    show(story, "send:note", action={"tool": "send:note", "args": {}})
    intent = lacking["intent"]
    Incident.objects.create(
        kind="missing", state="open", intent_id=intent, run_id=story_run(intent), opened_at=read_clock()
    )
    (note, refund) = sorted(totals(), key=lambda of: of.tool, reverse=True)
    assert refund == Totals(
        tool="refund", wanted=3, rows=4, happened=2, missing=1, doubled=1, extra=1, undone=0, owed=2
    )
    assert note == Totals(tool="send:note", rows=1, extra=1, owed=1)
    sum_changes()
    assert sorted(totals(), key=lambda of: of.tool, reverse=True) == [note, refund]
    page = totals_of([refund, note])
    assert page.told == (
        "Of what tools' own ledgers show, 2 happened without authority and 1 happened twice"
        " and 1 succeeded and cannot be found."
    )
    assert page.hue == "danger"
    assert [(cell.n, cell.of) for cell in page.lines[0].cells] == [
        ("2", "4"), ("1", "3"), ("1", "4"), ("1", "4"), ("0", "2"),
    ]  # fmt: skip
    assert [cell.has_data for cell in page.lines[1].cells] == [True, False, True, True, True]


def story_run(intent: str) -> Any:
    """The run that an intent belongs to."""
    return Intent.objects.get(id=intent).run_id


def test_what_was_undone_is_of_what_was_to_be_and_what_was_withdrawn_is_neither() -> None:
    story = Story.begin()
    for _ in range(3):
        show(story, action=OTHER_REFUND)
    first, second, _ = Compensation.objects.order_by("id")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE fencing_compensation DISABLE TRIGGER USER")
        cursor.execute("UPDATE fencing_compensation SET state = 'done' WHERE id = %s", [first.id])
        cursor.execute("UPDATE fencing_compensation SET state = 'withdrawn' WHERE id = %s", [second.id])
    (of,) = totals()
    assert (of.undone, of.owed) == (1, 2)


def test_nothing_known_and_nothing_wrong_are_said_apart() -> None:
    assert totals() == []
    assert totals_of([]).told.endswith("no ledger was read.")
    story = Story.begin()
    each = sent(story)
    assert totals_of(totals()).told.endswith("no ledger was read.")
    show(story, idempotency_key=each["idempotency_key"])
    assert totals_of(totals()).told == "Everything fits: 1 row of tools' own ledgers, and all of it was committed."


def test_the_page_asks_as_much_with_many_tools_and_rows_as_with_none() -> None:
    person = User.objects.create_user("rita")
    person.groups.set(GroupRow.objects.filter(name=Group.REVIEWER))
    client = Client()
    client.force_login(person)

    def asked(part: str = "") -> list[str]:
        client.get("/reconciliation")  # a registry is read once
        with CaptureQueriesContext(connection) as queries:
            assert client.get(f"/reconciliation{part}").status_code == 200
        told = [re.sub(r"'[^']*'|[0-9]+", "?", each["sql"]) for each in queries]
        assert not [each for each in told if "fencing_observedeffect" in each]
        return told

    story = Story.begin()
    empty, empty_part = asked(), asked("?part=totals")
    register([{"tool": f"tool-{number}", "idempotent": True} for number in range(8)])
    for number in range(8):
        for invoice in range(3):
            tool = f"tool-{number}"
            show(story, tool, action={"tool": tool, "args": {"invoice": invoice}})
    sent(story)
    assert Counter(asked()) == Counter(empty)
    assert Counter(asked("?part=totals")) == Counter(empty_part)
    assert len(empty_part) < len(empty)
