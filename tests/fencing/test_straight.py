"""The straight way writes what the careful way writes: the same story, told both ways, leaves the same rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from fencing.services import fencing, straight
from fencing.services.committing import Taken
from tests.stories import Story, register

pytestmark = pytest.mark.django_db

TABLES = ("action", "step", "vote", "intent", "claim", "commit", "delivery", "outcome", "auditevent", "feedevent")
# What differs in every telling: ids, moments, and what is made of them.
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
OWN = frozenset(
    {"id", "actor", "owner_group", "transaction", "token", "idempotency_key", "by_id", "run_id", "registry"}
)

REFUND = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
MAIL = {"tool": "mail", "args": {"to": "ann", "text": "Dear Ann"}}
TOOLS: list[dict[str, Any]] = [
    {"tool": "refund", "idempotent": True, "resources": ["/invoice"], "policy": {"deadline_s": 90}},
    {"tool": "mail", "advisory": ["/text"], "policy": {"deadline_s": 300}},
]


def agreement(story: Story) -> None:
    """The plain case from beginning to end, with everything pinned."""
    story.propose("s1", action=REFUND, key="k-1", deadline_s=33.25)
    settle(story, REFUND)


def open_proposal(story: Story) -> None:
    """A proposal that says nothing: the first vote tells the tool, and its deadline counts from the proposal."""
    story.propose("s1")
    settle(story, REFUND)


def prose(story: Story) -> None:
    """Advisory members, a model and a prompt that both paths report, a second effect of the same kind."""
    story.propose("s1", tool="mail", occurrence=3)
    story.vote(story.replica, {**MAIL, "args": {"to": "ann", "text": "Hi"}}, "s1", model="m", prompt="p")
    story.vote(story.production, MAIL, "s1", model="m", prompt="p")
    story.decide()
    deliver(story, MAIL)


def faulty(story: Story) -> None:
    """A vote for a tool that nobody registered is heard, and its step rejected."""
    story.propose("s1")
    for path in (story.replica, story.production):
        story.vote(path, {"tool": "wire", "args": {}}, "s1")
    story.decide()


def divergence(story: Story) -> None:
    """Two paths disagree."""
    story.propose("s1")
    story.vote(story.replica, REFUND, "s1")
    story.vote(story.production, MAIL, "s1")
    story.decide()


def mismatch(story: Story) -> None:
    """The first vote alone contradicts the proposal."""
    story.propose("s1", tool="mail")
    story.vote(story.replica, REFUND, "s1")
    story.decide()


def settle(story: Story, action: dict[str, Any]) -> None:
    story.vote(story.replica, action, "s1")
    story.decide()
    story.vote(story.production, action, "s1")
    story.decide()
    deliver(story, action)


def deliver(story: Story, action: dict[str, Any]) -> None:
    admitted = story.admit(story.token("s1"), action)
    story.report(admitted, "succeeded", response={"refund": "r-1", "n": 1.5})


def rows_of(run: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of a run as text, without what differs in every telling."""
    found = {}
    for table in TABLES:
        columns = [field.column for field in apps.get_model("fencing", table)._meta.concrete_fields]
        with connection.cursor() as cursor:
            names = ", ".join(f'"{column}"' for column in columns)
            cursor.execute(f"SELECT {names} FROM fencing_{table} {where(table)} ORDER BY 1", [run])  # noqa: S608
            found[table] = [plain(dict(zip(columns, row, strict=True)), run) for row in cursor.fetchall()]
        found[table].sort(key=lambda row: str(sorted(row.items(), key=str)) if table == "action" else "")
    return found


def where(table: str) -> str:
    if table == "auditevent":
        return "WHERE run = %s"
    if table == "action":
        return "WHERE %s <> ''"
    return "WHERE run_id = (SELECT id FROM fencing_run WHERE name = %s)"


def plain(row: dict[str, Any], run: str) -> dict[str, Any]:
    kept = {}
    for name, value in row.items():
        is_own = (
            name in OWN
            or name.endswith(("_at", "_until"))
            or name == "at"
            or (name.endswith("_id") and value is not None)
        )
        if name in ("payload_id", "pinned_payload_id"):
            kept[name] = value
        elif is_own:
            kept[name] = value is not None
        else:
            text = bytes(value).hex() if isinstance(value, memoryview) else str(value).replace(run, "RUN")
            kept[name] = re.sub(r"fence-[0-9a-f]{64}", "KEY", UUID.sub("ID", text))
    return kept


@pytest.mark.parametrize("tell", [agreement, open_proposal, prose, faulty, divergence, mismatch])
def test_both_ways_leave_the_same_rows(
    tell: Callable[[Story], None], straight_way: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(TOOLS)
    careful_story, plain_story = Story(), Story()
    with monkeypatch.context() as careful_way:
        careful_way.setattr(straight, "AT_LEAST", 10**9)
        careful_way.setattr(fencing, "commit_agreed", lambda _limit: Taken(waiting=1, committed=0))
        careful_story.open()
        tell(careful_story)
    assert not straight_way
    plain_story.open()
    tell(plain_story)
    careful, plain_case = rows_of(careful_story.run), rows_of(plain_story.run)
    assert straight_way
    assert all(straight_way), "something plain did not go the straight way"
    for table in TABLES:
        assert plain_case[table] == careful[table], table


def test_a_deadline_and_what_is_due_are_the_same(straight_way: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    register(TOOLS)
    spans = []
    for at_least in (10**9, 1):
        monkeypatch.setattr(straight, "AT_LEAST", at_least)
        story = Story()
        story.open()
        story.propose("s1")
        story.vote(story.replica, REFUND, "s1")
        story.decide()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT deadline_at - proposed_at, due_at = deadline_at FROM fencing_step"
                " WHERE run_id = (SELECT id FROM fencing_run WHERE name = %s)",
                [story.run],
            )
            spans.append(cursor.fetchone())
    assert straight_way
    assert spans[0] == spans[1]
    assert spans[0][0].total_seconds() == 90
