"""How few questions each call asks the database, over HTTP, in a process that has served a while (design 8).

A question is what a process sends and waits for. The line to the database counts them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from fencing.services.fencing import decide_due
from tests.factories import fresh
from tests.faults.cutting import Cutter
from tests.faults.desk import EPOCH, Desk

pytestmark = pytest.mark.usefixtures("db")

MANY = 60
SINGLE = 1
# The key, and one statement for all items.
BULK = 2
READS = {
    ("planner", "/runs/{run}"): 3,
    ("planner", "/runs?limit=50"): 3,
    ("auditor", "/intents?limit=50"): 10,
    ("auditor", "/side-log?limit=50"): 2,
    ("auditor", "/audit?limit=50"): 2,
    ("auditor", "/incidents?limit=50"): 2,
    ("auditor", "/grants?limit=50"): 3,
    ("auditor", "/counters"): 2,
    ("auditor", "/authority"): 10,
    ("replica", "/tools"): 2,
    ("replica", "/votes/wanted"): 4,
    ("gateway", "/gateway/wanted?tool=refund"): 4,
    ("planner", "/events?limit=500"): 2,
}
Body = dict[str, Any]


class Counting:
    """Makes calls, and tells how many questions each asked."""

    def __init__(self, cutter: Cutter, desk: Desk) -> None:
        self.cutter = cutter
        self.desk = desk

    def get(self, actor: str, path: str) -> tuple[int, Any]:
        self.cutter.count()
        answer = self.desk.get(actor, path)
        assert answer.status_code == 200, answer.text
        return self.cutter.questions, answer.json()

    def post(self, actor: str, path: str, bodies: list[Body]) -> tuple[int, list[Any]]:
        """Send one body alone, several in bulk; every one of them has to be taken."""
        self.cutter.count()
        answer = self.desk.post(actor, path, bodies[0] if len(bodies) == 1 else {"items": bodies})
        questions, told = self.cutter.questions, answer.json()
        results = [told] if len(bodies) == 1 else told["results"]
        assert not any("code" in result for result in results), results
        return questions, results


@pytest.fixture
def counting(cutter: Cutter, desk: Desk, warm: None) -> Counting:
    return Counting(cutter, desk)


@pytest.fixture(scope="module")
def warm(desk: Desk) -> None:
    """Every key is familiar, and each call was made before."""
    for _ in range(2):
        _, admitted = desk.admitted()
        ids = {"intent": admitted["intent"], "delivery": admitted["delivery"]}
        desk.done("gateway", "/gateway/outcomes", {**ids, "outcome": "succeeded"})


def places(desk: Desk, count: int) -> list[Body]:
    """Steps to be, in a run of their own."""
    run = fresh("run")
    desk.done("planner", "/runs", {"run": run, "epoch": EPOCH})
    return [{"run": run, "step": f"s{number}", "epoch": EPOCH} for number in range(1, count + 1)]


def with_actions(steps: list[Body]) -> list[Body]:
    return [
        {**step, "action": {"tool": "refund", "args": {"invoice": number, "cents": 4200}}}
        for number, step in enumerate(steps, 1)
    ]


def decide() -> int:
    """Decide everything that is due; give how many statements that took."""
    try:
        with CaptureQueriesContext(connection) as queries:
            while decide_due():
                pass
        return len(queries)
    finally:
        connections.close_all()


def test_each_fact_of_a_step_is_one_question_and_many_are_hardly_more(counting: Counting) -> None:
    for count, most in ((1, SINGLE), (MANY, BULK)):
        steps = places(counting.desk, count)
        wanted = with_actions(steps)
        asked = {"propose": counting.post("planner", "/steps", steps)[0]}
        for path in ("replica", "production"):
            asked[f"vote of {path}"], _ = counting.post(path, "/votes", wanted)
        counting.desk.decided(steps[0], "committed")
        tokens = [counting.desk.get("planner", f"/runs/{step['run']}/steps/{step['step']}") for step in steps]
        asks = [
            {"action": each["action"], "token": token.json()["commit"]["token"]}
            for each, token in zip(wanted, tokens, strict=True)
        ]
        asked["admit"], admitted = counting.post("gateway", "/gateway/admissions", asks)
        outcomes = [
            {"intent": each["intent"], "delivery": each["delivery"], "outcome": "succeeded"} for each in admitted
        ]
        asked["outcome"], _ = counting.post("gateway", "/gateway/outcomes", outcomes)
        assert asked == dict.fromkeys(asked, most), f"with {count} items"


def test_a_decision_is_a_few_statements_for_any_number_of_steps(counting: Counting) -> None:
    took = []
    with ThreadPoolExecutor(1) as thread:
        thread.submit(decide).result()
        for count in (1, MANY):
            steps = places(counting.desk, count)
            counting.post("planner", "/steps", steps)
            for path in ("replica", "production"):
                counting.post(path, "/votes", with_actions(steps))
            took.append(thread.submit(decide).result())
    one, many = took
    assert many <= one + 2
    assert one <= 12


def test_who_waits_asks_when_it_comes_and_when_it_goes(counting: Counting) -> None:
    (step,) = places(counting.desk, 1)
    counting.post("planner", "/steps", [step])
    questions, told = counting.get("planner", f"/runs/{step['run']}/steps/s1?epoch={EPOCH}&wait=1.5")
    assert told["phase"] == "proposed"
    assert questions <= 6, "the net under lost signals looks once a second, for all who wait"


@pytest.mark.parametrize(("actor", "path"), READS)
def test_a_read_asks_no_more_for_a_full_page_than_for_an_empty_one(counting: Counting, actor: str, path: str) -> None:
    steps = places(counting.desk, MANY)
    counting.post("planner", "/steps", steps)
    counting.post("replica", "/votes", with_actions(steps))
    counting.post("production", "/votes", with_actions(steps))
    counting.desk.decided(steps[0], "committed")
    # A version of the registry is read once by each process, and here other tests made many.
    counting.get(actor, path.format(run=steps[0]["run"]))
    questions, _ = counting.get(actor, path.format(run=steps[0]["run"]))
    # The net under lost signals and the ear for new tools may ask in that moment, too.
    assert questions <= READS[actor, path] + 2
