"""How many statements a call sends to the database: few, and no more for many items than for one (design 8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.api.conftest import REFUND, Api, Reply
from tests.factories import make_incident, make_side_log_row


def statements(call: Callable[[], Reply], status: int = 200) -> int:
    """Count what a call sends, savepoints of the test's own transaction left out."""
    with CaptureQueriesContext(connection) as queries:
        assert call().status_code == status
    return sum("SAVEPOINT" not in query["sql"] for query in queries)


@pytest.fixture
def warm(api: Api, run: str) -> str:
    """A run whose callers' last use is written and whose registry is read, as in a process that has served a while."""
    for who in api.keys:
        api.get(who, "/tools")
    api.post("replica", "/votes", {"run": run, "step": "s1", "epoch": 7, "action": REFUND})
    api.post("gateway", "/gateway/admissions", {"action": REFUND})
    return run


def test_a_vote_a_proposal_and_a_refused_call_are_each_a_handful(api: Api, warm: str) -> None:
    vote = {"run": warm, "step": "s1", "epoch": 7, "action": REFUND}
    assert statements(lambda: api.post("production", "/votes", vote), 201) <= 8
    proposal = {"run": warm, "step": "s2", "epoch": 7, "action": REFUND}
    assert statements(lambda: api.post("planner", "/steps", proposal), 201) <= 8
    early = {"action": REFUND, "run": warm, "step": "s2", "epoch": 7}
    assert statements(lambda: api.post("gateway", "/gateway/admissions", early), 403) <= 8


@pytest.mark.parametrize(
    ("who", "path", "item"),
    [
        ("planner", "/runs", {"run": "{run}-{n}"}),
        ("planner", "/steps", {"run": "{run}", "step": "b{n}", "epoch": 7}),
        ("replica", "/votes", {"run": "{run}", "step": "c{n}", "epoch": 7, "digest": "sha256:" + "a" * 64}),
    ],
)
def test_many_items_cost_no_statement_more_than_a_few(
    api: Api, warm: str, who: str, path: str, item: dict[str, object]
) -> None:
    steps = [{"run": warm, "step": f"c{number}", "epoch": 7} for number in range(60)]
    api.post("planner", "/steps", {"items": steps})

    def items(first: int, last: int) -> dict[str, object]:
        def fill(value: object, number: int) -> object:
            return value.replace("{run}", warm).replace("{n}", str(number)) if isinstance(value, str) else value

        made = [{name: fill(value, number) for name, value in item.items()} for number in range(first, last)]
        return {"items": made}

    few = statements(lambda: api.post(who, path, items(0, 2)))
    many = statements(lambda: api.post(who, path, items(2, 52)))
    assert many <= few + 2


def test_refused_items_are_told_with_one_statement_for_all(api: Api, warm: str) -> None:
    def refused(number: int) -> dict[str, object]:
        return {"items": [{"run": warm, "step": "no name", "epoch": 7}] * number}

    one = statements(lambda: api.post("planner", "/steps", refused(1)))
    assert statements(lambda: api.post("planner", "/steps", refused(200))) == one <= 3


@pytest.mark.parametrize(
    ("who", "path", "most"),
    [
        ("planner", "/runs/{run}", 6),
        ("planner", "/runs/{run}/steps/s1?epoch=7", 5),
        # A walk that skips nothing goes by a snapshot, and tells how far it looked.
        ("auditor", "/side-log", 5),
        ("auditor", "/audit", 2),
        ("auditor", "/incidents", 2),
        ("replica", "/tools", 2),
        ("replica", "/votes/wanted", 6),
        ("auditor", "/counters", 3),
    ],
)
def test_a_read_is_a_handful_however_much_there_is(api: Api, warm: str, who: str, path: str, most: int) -> None:
    for _ in range(30):
        make_side_log_row()
        make_incident()
    assert statements(lambda: api.get(who, path.format(run=warm))) <= most


def test_readiness_is_cheap_enough_to_be_asked_each_second(api: Api, valkey: str) -> None:
    assert statements(lambda: api.client.get("/readyz")) <= 10
