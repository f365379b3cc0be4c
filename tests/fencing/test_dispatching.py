"""The straight way of the deliverer: it takes what the careful way would take, leaves the same rows, and nothing else.

What a tool would be sent, and every column of every row, is held against the careful way. What is not plain is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from fencing.gateway import dispatching, ledgers, pace, pushing
from fencing.gateway.dispatching import Taken
from fencing.gateway.outgoing import OutgoingEffect
from fencing.models import Delivery, Intent, SideLogRow, registry
from fencing.protocol.answers import Answer
from fencing.protocol.pushing import End, Ended
from fencing.queries.gateway import wanted
from fencing.services.requests import ObserveEffect
from tests.fencing.conftest import Connect
from tests.fencing.test_straight import TABLES, rows_of
from tests.stories import Action, Story, register, told

pytestmark = pytest.mark.django_db

POLICY: dict[str, Any] = {"grace_s": 0, "lease_s": 20, "timeout_s": 30, "max_deliveries": 4, "nothing_done": [429]}
PAY: dict[str, Any] = {
    "tool": "pay",
    "mode": "push",
    "idempotent": True,
    "endpoint": "https://pay.example.org/pay",
    "credential": "bank",
    "resources": ["/invoice"],
    "policy": POLICY,
}
OK = Ended(how=End.ANSWERED, status=200, body={"id": "eff-1", "n": 1.5})
BUSY = Ended(how=End.ANSWERED, status=429, retry_after="0")


def action_of(tool: str = "pay", invoice: int = 9) -> Action:
    return {"tool": tool, "args": {"invoice": invoice, "text": "ümlaut \u0000"}}


@pytest.fixture
def story() -> Story:
    """A run in epoch 7 with `pay`."""
    story = Story.begin()
    register([PAY])
    return story


@pytest.fixture(autouse=True)
def read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registries of earlier tests were rolled back with them."""
    monkeypatch.setattr(registry, "LATEST_S", -1.0)


def taken_by(take: Callable[[], list[OutgoingEffect]], tool: dict[str, Any]) -> tuple[str, OutgoingEffect]:
    """Tell a story up to the success of its effect; give the run, and what would have been sent."""
    register([tool])
    story = Story()
    story.open()
    story.agree(action=action_of(), key="k-1")
    (call,) = take()
    pushing.settle([(call, OK)], [0.5])
    return story.run, call


def plainly() -> list[OutgoingEffect]:
    taken = dispatching.take_plain(4)
    assert taken.is_all
    return list(taken.calls)


def plainly_or_not() -> list[OutgoingEffect]:
    """Take as the courier does: what is plain, then the rest."""
    plain = dispatching.take_plain(4)
    rest = [] if plain.is_all else [each for each in dispatching.take(4) if isinstance(each, OutgoingEffect)]
    return [*plain.calls, *rest]


@pytest.mark.parametrize(
    "changes", [{}, {"idempotent": False, "credential": None}, {"policy": {**POLICY, "lease_s": 90}}]
)
def test_both_ways_of_taking_send_the_same_and_leave_the_same_rows(story: Story, changes: dict[str, Any]) -> None:
    tool = {**PAY, **changes}
    run, careful = taken_by(lambda: pushing.take(4), tool)
    other_run, plain = taken_by(plainly, tool)
    own = {"intent": "", "delivery": "", "token": "", "idempotency_key": ""}
    assert replace(plain, **own) == replace(careful, **own)  # type: ignore[arg-type]
    of_careful, of_plain = rows_of(run), rows_of(other_run)
    for table in TABLES:
        assert of_plain[table] == of_careful[table], table
    leases = [
        each.lease_until - each.admitted_at
        for each in Delivery.objects.filter(id__in=[careful.delivery, plain.delivery])
    ]
    assert leases[0] == leases[1]


def test_a_lease_that_was_taken_plainly_is_what_the_sweep_looks_at(story: Story) -> None:
    story.agree(action=action_of())
    (call,) = plainly()
    intent, delivery = Intent.objects.get(id=call.intent), Delivery.objects.get(id=call.delivery)
    assert (intent.state, intent.due_at) == ("in_flight", delivery.lease_until)


# ---- what is left to the careful way ----


def tried_before(story: Story) -> str:
    story.agree(action=action_of())
    (call,) = pushing.take(1)
    pushing.settle([(call, BUSY)], [0.0])
    Intent.objects.update(not_before=None)
    return call.intent


def by_a_grant(story: Story) -> str:
    story.go_alone(action=action_of())
    return str(story.step()["intent"]["id"])


def shared_by_two_steps(story: Story) -> str:
    story.agree(action=action_of(), key="k-1")
    story.agree("s2", action_of(), key="k-1")
    return str(story.step()["intent"]["id"])


def of_a_limited_rate(story: Story) -> str:
    register([{**PAY, "policy": {**POLICY, "rate_per_s": 3}}])
    story.agree(action=action_of())
    return str(story.step()["intent"]["id"])


def of_an_older_version(story: Story) -> str:
    story.agree(action=action_of())
    register([{**PAY, "endpoint": "https://pay.example.org/v2/pay"}])
    return str(story.step()["intent"]["id"])


def of_a_tool_that_others_call_now(story: Story) -> str:
    story.agree(action=action_of())
    register([{**PAY, "mode": "pull", "endpoint": None, "credential": None}])
    return str(story.step()["intent"]["id"])


def behind_an_open_breaker(story: Story) -> str:
    fault = Ended(how=End.NOT_OPENED)
    for number in range(5):
        story.agree(f"b{number}", action_of(invoice=number))
    pushing.settle([(each, fault) for each in pushing.take(5)], [0.0] * 5)
    Intent.objects.update(not_before=None)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE fencing_breaker SET until = clock_timestamp() WHERE state = 'open'")
        assert cursor.rowcount == 1
    return str(Intent.objects.order_by("opened_at", "id")[0].id)


@pytest.mark.parametrize(
    "tell",
    [
        tried_before,
        by_a_grant,
        shared_by_two_steps,
        of_a_limited_rate,
        of_an_older_version,
        of_a_tool_that_others_call_now,
        behind_an_open_breaker,
    ],
)
def test_what_is_not_plain_is_left_to_the_careful_way(story: Story, tell: Callable[[Story], str]) -> None:
    intent = tell(story)
    before = rows_of(story.run)
    assert dispatching.take_plain(16) == Taken()
    assert rows_of(story.run) == before
    assert [each.intent for each in pushing.take(16)] == [intent]


def test_what_is_plain_beside_it_leaves_first(story: Story) -> None:
    left = tried_before(story)
    story.agree("s2", action_of(invoice=2))
    taken = dispatching.take_plain(16)
    assert ([each.intent for each in taken.calls], taken.is_all) == ([story.step("s2")["intent"]["id"]], False)
    assert [each.intent for each in pushing.take(16)] == [left]


# ---- what neither way takes ----


def frozen(story: Story) -> None:
    story.freeze(tool="pay")
    story.agree(action=action_of())


def happened_without_authority(story: Story) -> None:
    row = ObserveEffect(tool="pay", action=dict(action_of()), external_id="x-1")
    assert told(ledgers.observe_effects([row], story.gateway)[0])["match"] == "escape"
    story.agree(action=action_of())


def capped(story: Story) -> None:
    register([{**PAY, "policy": {**POLICY, "max_in_flight": 2}}])
    for number in range(3):
        story.agree(f"c{number}", action_of(invoice=number))
    assert len(dispatching.take_plain(16).calls) == 2


def waiting(story: Story) -> None:
    story.agree(action=action_of())
    (call,) = pushing.take(1)
    pushing.settle([(call, replace(BUSY, retry_after="60"))], [0.0])


def of_a_gateway_outside(story: Story) -> None:
    story.agree()


def taken_back(story: Story) -> None:
    story.agree(action=action_of())
    story.vote(story.third, action_of(invoice=1))


@pytest.mark.parametrize(
    "tell", [frozen, happened_without_authority, capped, waiting, of_a_gateway_outside, taken_back]
)
def test_what_is_held_back_is_not_taken_and_asks_for_no_second_look(
    story: Story, tell: Callable[[Story], None]
) -> None:
    tell(story)
    told_before = SideLogRow.objects.count()
    assert dispatching.take_plain(16) == Taken(is_all=True)
    assert pushing.take(16) == []
    assert SideLogRow.objects.count() == told_before


def test_each_tool_has_its_turn_and_the_oldest_leaves_first(story: Story) -> None:
    register([{**PAY, "tool": name} for name in ("pay", "pay2")])
    for number in range(4):
        story.agree(f"p{number}", action_of(invoice=number))
    story.agree("q", action_of("pay2"))
    taken = dispatching.take_plain(3)
    assert {each.intent for each in taken.calls} == {
        str(story.step(name)["intent"]["id"]) for name in ("p0", "p1", "q")
    }
    assert taken.is_all  # a full look is followed by another


def test_while_another_worker_takes_nobody_else_does(story: Story, connect_as: Connect) -> None:
    story.agree(action=action_of())
    other = connect_as("fence_fencer")
    other.execute(pace.ONE_TAKES)
    assert dispatching.take_plain(16) == Taken(is_all=True, is_busy=True)
    other.rollback()
    assert len(dispatching.take_plain(16).calls) == 1


def test_a_tool_that_was_registered_a_moment_ago_is_called(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "LATEST_S", 3600.0)
    assert dispatching.take_plain(16).is_all
    register([{**PAY, "tool": "fresh"}])
    story.agree(action=action_of("fresh"))
    assert [each.callee.tool for each in dispatching.take_plain(16).calls] == ["fresh"]


def test_a_guard_that_refuses_leaves_all_to_the_careful_way(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fact that moved between the look and the row: the statement is undone, and the careful way reads anew."""
    story.agree(action=action_of())
    monkeypatch.setattr(dispatching, "STATEMENT", "SELECT 1/0, %s::jsonb")
    with transaction.atomic():
        assert dispatching.take_plain(16) == Taken()
        transaction.set_rollback(True)
    assert len(pushing.take(16)) == 1


# ---- how many statements that takes (design 8) ----


def statements(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Count the statements of the straight way, and those of the ORM."""
    counted: list[str] = []
    ask = dispatching.ask

    def asked(statement: str, argument: str) -> list[tuple[Any, ...]]:
        counted.append(statement)
        return ask(statement, argument)

    with monkeypatch.context() as patch, CaptureQueriesContext(connection) as queries:
        patch.setattr(dispatching, "ask", asked)
        act()
    return len(counted), sum("SAVEPOINT" not in query["sql"] for query in queries)


def test_a_look_is_one_statement_whatever_it_finds(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatching.take_plain(16)  # a process that has read the registry
    monkeypatch.setattr(registry, "LATEST_S", 3600.0)
    assert statements(lambda: dispatching.take_plain(16), monkeypatch) == (1, 0)
    for number in range(12):
        story.agree(f"s{number}", action_of(invoice=number))
    assert statements(lambda: dispatching.take_plain(1), monkeypatch) == (1, 0)
    assert statements(lambda: dispatching.take_plain(16), monkeypatch) == (1, 0)
    assert Delivery.objects.count() == 12


def test_the_careful_way_takes_a_lone_call_in_thirteen(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    pushing.take(1)
    for number in range(12):
        story.agree(f"s{number}", action_of(invoice=number))
    _, one = statements(lambda: pushing.take(1), monkeypatch)
    assert one <= 13


# ---- a tool that changes sides (T1, T5) ----

PULLED: dict[str, Any] = {name: value for name, value in PAY.items() if name not in ("mode", "endpoint", "credential")}


def offered(story: Story) -> list[str]:
    """The invoices whose payment a gateway is offered now."""
    return [str(item["action"]["args"]["invoice"]) for item in told(wanted("pay", story.gateway))["items"]]


def awaited(tool: str, story: Story) -> tuple[str, ...]:
    """What a gateway that asks for a tool, and finds nothing, is woken by."""
    answer = wanted(tool, story.gateway, wait=True)
    assert isinstance(answer, Answer)
    return answer.pending


def called(take: Callable[[], list[OutgoingEffect]]) -> list[str]:
    """The invoices whose payment the courier would call now."""
    return [str(json.loads(call.body)["args"]["invoice"]) for call in take()]


@pytest.mark.parametrize("take", [plainly_or_not, lambda: pushing.take(4)])
def test_what_was_wanted_of_a_pull_tool_stays_with_the_gateway_when_the_tool_is_pushed(
    take: Callable[[], list[OutgoingEffect]],
) -> None:
    register([PULLED])
    story = Story()
    story.open()
    story.agree("s1", action_of(invoice=1), key="k1")
    register([PAY])
    story.agree("s2", action_of(invoice=2), key="k2")
    assert offered(story) == ["1"]
    assert called(take) == ["2"]
    assert offered(story) == ["1"]


@pytest.mark.parametrize("take", [plainly_or_not, lambda: pushing.take(4)])
def test_what_was_wanted_of_a_push_tool_stays_with_the_courier_when_a_gateway_pulls_it(
    story: Story, take: Callable[[], list[OutgoingEffect]]
) -> None:
    story.agree("s1", action_of(invoice=1), key="k1")
    register([PULLED])
    story.agree("s2", action_of(invoice=2), key="k2")
    assert offered(story) == ["2"]
    assert called(take) == ["1"]
    assert offered(story) == ["2"]


def test_a_gateway_that_waits_for_a_tool_hears_of_what_is_left_when_it_is_pushed(story: Story) -> None:
    register([PULLED])
    register([PAY])
    assert awaited("pay", story) == ("gateway:pay",)
    assert awaited("refund", story) == ("gateway:refund",)
    register([{**PAY, "tool": "never_pulled"}])
    assert awaited("never_pulled", story) == ()
