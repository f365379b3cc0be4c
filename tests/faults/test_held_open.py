"""A transaction held open under the feed and under every list (design 10): nothing skipped, nothing told twice.

Numbers and moments are handed out before a commit. What commits late must still come to who follows the feed, and must
move nothing under the eyes of who walks a list.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

import psycopg
import pytest

from fencing.models import FeedEvent, Grant, Step
from tests import factories as make
from tests.faults.desk import Desk
from tests.fencing.beside import connect_as
from tests.length import long_or
from tests.stores import SqlStore

pytestmark = pytest.mark.usefixtures("db")

EVENTS: Final = long_or(60, long=2000)
WRITERS: Final = 4
EVENT: Final = "INSERT INTO fencing_feedevent (what, run_id, step_id, owner_group) VALUES ('decided', %s, %s, %s)"
Connection = psycopg.Connection[Any]
Add = Callable[[SqlStore], object]


def follow(desk: Desk, after: str, seen: list[str], is_over: threading.Event) -> None:
    """Follow the feed from a cursor on, a few lines at a time, until it is over and nothing more comes."""
    while True:
        was_over = is_over.is_set()
        page = desk.get("planner", f"/events?after={after}&limit=7").json()
        seen += [item["cursor"] for item in page["items"]]
        after = page["next"]
        if was_over and not page["items"]:
            return


def newest(desk: Desk) -> str:
    page = desk.get("planner", "/events?limit=500").json()
    while page["items"]:
        page = desk.get("planner", f"/events?limit=500&after={page['next']}").json()
    return str(page["next"])


def test_the_feed_tells_every_event_once_and_in_one_order_while_transactions_are_held_open(desk: Desk) -> None:
    steps = [desk.proposed() for _ in range(5)]
    rows = list(Step.objects.filter(run__name__in=[each["run"] for each in steps]).select_related("run"))
    last = FeedEvent.objects.order_by("-id").values_list("id", flat=True).first() or 0
    # Taken before anybody writes: what is committed while a follower starts would be behind its cursor.
    after, is_over, seen = newest(desk), threading.Event(), list[str]()

    def write(seed: int) -> None:
        """Open a transaction, number some events, dawdle, number more, commit."""
        chance = random.Random(seed)  # noqa: S311 - a test's dice
        with connect_as("fence_owner") as connection:
            for _ in range(EVENTS // WRITERS // 2):
                for _ in range(2):
                    step = chance.choice(rows)
                    connection.execute(EVENT, [step.run_id, step.id, step.run.owner_group])
                    time.sleep(chance.choice([0, 0, 0.01, 0.05]))
                connection.commit()

    with ThreadPoolExecutor(WRITERS + 2) as threads:
        followers = [threads.submit(follow, desk, after, seen, is_over)]
        for writing in [threads.submit(write, seed) for seed in range(WRITERS)]:
            writing.result(120)
        is_over.set()
        followers[0].result(60)
    stored = FeedEvent.objects.filter(id__gt=last).order_by("transaction", "id")
    assert seen == [f"{event.transaction}-{event.id}" for event in stored]
    assert len(seen) >= EVENTS // 2


def test_an_event_waits_for_every_older_transaction_and_is_told_then(desk: Desk) -> None:
    after = newest(desk)
    with connect_as("fence_owner") as older:
        older.execute("SELECT pg_current_xact_id()")
        place, _ = desk.committed()
        assert desk.get("planner", f"/events?after={after}").json()["items"] == []
        older.commit()
    (event,) = desk.get("planner", f"/events?after={after}").json()["items"]
    assert event["step"]["run"] == place["run"]


# ---- lists ----


def a_step(store: SqlStore) -> Step:
    return make.make_step(run=make.make_run(store=store), store=store)


def a_grant(store: SqlStore) -> Grant:
    return make.make_grant(run=make.make_run(store=store), tool=make.make_tool(store=store), store=store)


LISTS: Final[dict[str, Add]] = {
    "/runs": lambda store: make.make_run(store=store),
    "/side-log": lambda store: make.make_side_log_row(store=store),
    "/audit": lambda store: make.make_audit_event(store=store),
    "/incidents": lambda store: make.make_incident(store=store),
    "/grants": a_grant,
    "/intents": lambda store: make.make_intent(step=a_step(store), digest=make.NO_DIGEST, store=store),
}


def identity(item: dict[str, Any]) -> str:
    return next(str(item[name]) for name in ("id", "sequence", "name", "run") if item.get(name) is not None)


def walk(desk: Desk, path: str, limit: int) -> Iterator[list[str]]:
    """Walk a list from its newest row to its end, page by page."""
    address = f"{path}?limit={limit}"
    while address:
        page = desk.get("auditor", address).json()
        yield [identity(item) for item in page["items"]]
        address = page["next"] and f"{path}?limit={limit}&cursor={page['next']}"


@pytest.mark.parametrize("path", LISTS)
def test_a_walk_shows_what_was_there_once_whatever_commits_under_it(path: str, desk: Desk) -> None:
    add = LISTS[path]
    with ExitStack() as open_ones:
        held = [open_ones.enter_context(connect_as("fence_owner")) for _ in range(3)]
        with connect_as("fence_owner") as quick:
            for number in range(12):
                # Committed rows and rows that are not, of moments and numbers between each other.
                add(SqlStore(connection=held[number % 3]))
                add(SqlStore(connection=quick))
                quick.commit()
        there = set(next(walk(desk, path, 500)))
        seen: list[str] = []
        for number, page in enumerate(walk(desk, path, 5)):
            seen += page
            if number < len(held):
                held[number].commit()
    assert len(seen) == len(set(seen)), "a row was shown twice"
    assert there <= set(seen), "a row that was there was skipped"
    # Whoever begins anew sees everything.
    whole = [row for page in walk(desk, path, 7) for row in page]
    assert len(whole) == len(set(whole)) >= len(there) + 12


def test_the_lists_of_this_test_are_those_of_the_document(desk: Desk) -> None:
    """What pages by keyset has `cursor` among its parameters: a new list comes with rows to hold open under it."""
    paths = desk.get("auditor", "/openapi.json").json()["paths"]
    keyset = {
        path.removeprefix("/api/v1")
        for path, methods in paths.items()
        if any(each["name"] == "cursor" for each in methods.get("get", {}).get("parameters", ()))
    }
    assert set(LISTS) | WITHOUT_ROWS_HERE >= keyset, keyset


# Lists of work are read by who does it, the oldest first: a row that comes late is found by the next reading.
WORK: Final = {"/votes/wanted", "/gateway/wanted"}
# Tools change by people alone, a few a day; freezes as seldom.
WITHOUT_ROWS_HERE: Final = {"/tools", "/freezes", "/compensations", "/lanes"} | WORK
