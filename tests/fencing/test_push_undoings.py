"""Undoings that this system calls itself (P5): each end of such a call, leases, caps, freezes, and order (P7).

A courier in a thread calls a real server that keeps a ledger of its own; both are asked what happened.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from fencing.gateway import dispatching, undoing_calls, undoings
from fencing.gateway.acts import Act
from fencing.gateway.outgoing import AGAIN_S, OutgoingUndoing
from fencing.models import (
    Breaker,
    Compensation,
    CompensationDelivery,
    CompensationOutcome,
    CompensationRelease,
    Incident,
    Intent,
    SideLogRow,
)
from fencing.protocol.callers import Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.pushing import End, Ended
from fencing.services.recompute import Tallied, find_faults
from tests.cases.processes import below, kill
from tests.fencing.test_compensating import Undoing
from tests.pushing import LOCAL, Serving, courier, definition, eventually, serving
from tests.raising import nursery
from tests.stories import actor, register


@pytest.fixture(autouse=True)
def dropped() -> Iterator[None]:
    """Let go of connections that were cut with bytes still on their way: their loop ends before they are closed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def db(committed: None) -> None:
    """No transaction around the test: others see what it writes."""


@pytest.fixture
def server(db: None, settings: Settings) -> Iterator[Serving]:
    """A tool that serves on this machine, which the operator allows."""
    settings.FENCE_TOOL_HOSTS = LOCAL
    with serving() as made:
        made.tool.retry_after = "0"
        yield made


def pair(
    server: Serving, name: str = "pay", *, policy: dict[str, Any] | None = None, **members: Any
) -> list[dict[str, Any]]:
    """Define an optimistic tool and `un…`, which undoes it and is what `policy` and `members` are about.

    How that ends stands in the argument `undo` of the effect.
    """
    args = {
        "invoice": {"from": "action", "pointer": "/args/invoice"},
        "undoes": {"from": "response", "pointer": "/id", "default": None},
        "do": {"from": "action", "pointer": "/args/undo"},
    }
    effect = definition(server, optimistic=True, compensator={"tool": f"un{name}", "args": args})
    return [{**effect, "tool": name}, {**definition(server, policy=policy), "tool": f"un{name}", **members}]


@pytest.fixture
def story(server: Serving, valkey: str) -> Iterator[Undoing]:
    """A run in epoch 7. Whatever comes of it, stored states must equal those of the facts."""
    register(pair(server))
    story = Undoing()
    story.second = actor(Role.REVIEWER)
    assert story.open()["status"] == 201
    yield story
    assert list(find_faults(Tallied(), lambda _: None)) == []


def another(story: Undoing) -> Undoing:
    """Another run of the same people."""
    run = Undoing(**{who: getattr(story, who) for who in ("planner", "production", "replica", "reviewer")})
    assert run.open()["status"] == 201
    return run


def owed(story: Undoing, *undo: Any, tool: str = "pay") -> list[str]:
    """Have effects sent from a branch that then loses; give what undoes each, in the order of the effects."""
    steps = [f"{tool}-{number}" for number in range(len(undo))]
    story.fork(f"{tool}-A", f"{tool}-B", fork=tool)
    for step, how in zip(steps, undo, strict=True):
        story.want(step, wanting(step, how, tool), branch=f"{tool}-B")
    sent = Intent.objects.filter(run__name=story.run, tool=tool, state="succeeded")
    with courier():
        eventually(lambda: sent.count() == len(steps))
    return story.in_order(story.reconcile(None, fork=tool)["compensations"])


def wanting(invoice: str, undo: Any, tool: str = "pay") -> dict[str, Any]:
    return {"tool": tool, "args": {"invoice": invoice, "do": "ok", "undo": undo}}


def approved(story: Undoing, *undo: Any, tool: str = "pay") -> list[str]:
    """The same, approved and with tokens."""
    return approve(story, owed(story, *undo, tool=tool))


def approve(story: Undoing, made: list[str]) -> list[str]:
    """Approve undoings of any run, and have their tokens minted."""
    for each in made:
        assert story.approve(each)["state"] == "approved"
    undoings.release_due()
    return made


def kinds(made: str) -> list[str]:
    """How the calls of an undoing ended, in order."""
    found = CompensationOutcome.objects.filter(delivery__compensation_id=made).order_by("recorded_at", "id")
    return list(found.values_list("outcome", flat=True))


def comes_to(story: Undoing, made: str, *states: str) -> None:
    eventually(lambda: story.state(made) in states)


def calls_of(server: Serving, tool: str = "unpay") -> list[dict[str, Any]]:
    return [each for each in server.ledger.calls if f'"tool":"{tool}"' in each["body"]]


# ---- what leaves ----


def test_the_approved_bytes_leave_once_with_a_key_and_a_token_of_their_own(story: Undoing, server: Serving) -> None:
    (made,) = approved(story, "created")
    with courier():
        comes_to(story, made, "done")
    (sent,) = calls_of(server)
    row, release = CompensationDelivery.objects.get(), CompensationRelease.objects.get()
    assert sent["body"].encode() == bytes(Compensation.objects.get().payload.canonical)
    assert sent["body"] == '{"args":{"do":"created","invoice":"pay-0","undoes":"eff-1"},"tool":"unpay"}'
    assert (sent["headers"]["fence-token"], sent["headers"]["idempotency-key"]) == (release.token, row.idempotency_key)
    assert (row.by_id, row.payload_id) == (None, release.payload_id)
    told = CompensationOutcome.objects.get()
    assert (told.source, told.outcome, bytes(told.response or b"")) == ("push", "succeeded", b'{"id":"eff-2"}')
    keys = {each["idempotency_key"] for each in server.ledger.effects}
    assert len(keys) == len(server.ledger.effects) == 2, "the effect and its undoing have a key each"


def test_nothing_leaves_before_it_is_approved(story: Undoing, server: Serving) -> None:
    (made,) = owed(story, "ok")
    undoings.release_due()
    assert dispatching.take(16) == []
    with courier():
        time.sleep(0.3)
        assert calls_of(server) == []
        story.approve(made)
        undoings.release_due()
        comes_to(story, made, "done")


ENDS: list[tuple[Any, list[str], str, int]] = [
    # what the tool does, how the calls end, where the compensation is then, and what the tool's ledger shows
    ("no_content", ["succeeded"], "done", 1),
    (["busy", "ok"], ["busy", "succeeded"], "done", 1),
    (["in_progress", "too_early", "ok"], ["busy", "busy", "succeeded"], "done", 1),
    ("refused", ["failed"], "proposed", 0),
    ("reset_before", ["unknown"], "in_doubt", 0),
    ("reset_after", ["unknown"], "in_doubt", 1),
    ("hang", ["unknown"], "in_doubt", 0),
    ("hang_after", ["unknown"], "in_doubt", 1),
    ("half", ["unknown"], "in_doubt", 1),
    ("wrong_body", ["unknown"], "in_doubt", 1),
    ("redirect", ["unknown"], "in_doubt", 0),
    ("timeout_status", ["unknown"], "in_doubt", 1),
    ("exists", ["unknown"], "in_doubt", 0),
    ("broken_before", ["unknown"], "in_doubt", 0),
    ("broken_after", ["unknown"], "in_doubt", 1),
]


def test_each_end_of_a_call_and_none_that_is_unknown_is_called_again(story: Undoing, server: Serving) -> None:
    """All beside each other, each in a run and of a tool of its own: neither order nor a breaker holds one back."""
    names = [f"pay{number}" for number in range(len(ENDS))]
    register([each for name in names for each in pair(server, name)])
    made = [
        each for name, (do, *_) in zip(names, ENDS, strict=True) for each in approved(another(story), do, tool=name)
    ]
    with courier():
        for each, (do, tries, end, _) in zip(made, ENDS, strict=True):
            eventually(lambda each=each, tries=tries: kinds(each) == tries)  # type: ignore[misc]
            assert story.state(each) == end, do
        time.sleep(0.5)
    for each, (do, tries, end, effects) in zip(made, ENDS, strict=True):
        assert (kinds(each), story.state(each)) == (tries, end), do
        key = CompensationDelivery.objects.filter(compensation_id=each).values_list("idempotency_key", flat=True)
        assert sum(row["idempotency_key"] == key.distinct().get() for row in server.ledger.effects) == effects, do


def test_what_a_tool_refused_is_decided_anew_and_called_with_another_key(story: Undoing, server: Serving) -> None:
    (made,) = approved(story, ["refused"])
    with courier():
        comes_to(story, made, "proposed")
    assert story.approve(made)["state"] == "approved"
    undoings.release_due()
    with courier():
        eventually(lambda: len(calls_of(server)) == 2)
        comes_to(story, made, "proposed")
    assert len({each["key"] for each in calls_of(server)}) == 2


def test_a_tool_that_cannot_be_reached_was_sent_nothing_and_is_tried_again_after_a_while(
    story: Undoing, server: Serving
) -> None:
    register(pair(server, endpoint="http://127.0.0.1:9/pay", read_back=None, ledger=None))
    (made,) = approved(story, "ok")
    with courier():
        eventually(lambda: len(kinds(made)) >= 2)
    assert set(kinds(made)) == {"not_sent"}
    assert story.state(made) == "approved"
    first, second = CompensationDelivery.objects.order_by("number")[:2]
    assert (second.admitted_at - first.admitted_at).total_seconds() >= 0.25, "nobody hammers at a shut door"


def test_what_was_wanted_again_meanwhile_is_sent_again_once_it_is_undone(story: Undoing, server: Serving) -> None:
    (made,) = approved(story, "slow:0.6")
    with courier():
        comes_to(story, made, "in_flight")
        story.want("again", wanting("pay-0", "slow:0.6"))
        comes_to(story, made, "done")
        eventually(lambda: story.step("again")["intent"]["state"] == "succeeded")
    assert story.step("again")["intent"]["generation"] == 2
    done = [each["action"]["tool"] for each in server.ledger.effects]
    assert (done.count("pay"), done.count("unpay")) == (2, 1)


# ---- leases, and who dies ----


def taken() -> OutgoingUndoing:
    (one,) = undoing_calls.take(16)
    assert dispatching.take(16) == [], "it is given to nobody else"
    return one


def expire() -> None:
    """Let the leases of undoings run out now, as time would."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fencing_compensationdelivery DISABLE TRIGGER USER")
        cursor.execute("UPDATE fencing_compensationdelivery SET lease_until = clock_timestamp()")
        cursor.execute("ALTER TABLE fencing_compensationdelivery ENABLE TRIGGER USER")
        cursor.execute("UPDATE fencing_compensation SET due_at = clock_timestamp() WHERE state = 'in_flight'")
    undoings.sweep_compensations()


OK = Ended(how=End.ANSWERED, status=200, body={"id": "late"})


def test_a_lease_that_ran_out_goes_to_a_person_and_a_late_success_settles(story: Undoing, server: Serving) -> None:
    (made,) = approved(story, "ok")
    one = taken()
    expire()
    assert (story.state(made), kinds(made)) == ("in_doubt", ["unknown"])
    assert dispatching.take(16) == []
    dispatching.settle([(one, OK)], [0.5])
    assert (story.state(made), kinds(made)) == ("done", ["unknown", "succeeded"])


def test_who_wakes_with_a_success_after_a_person_decided_puts_it_in_doubt_again(
    story: Undoing, server: Serving
) -> None:
    (made,) = approved(story, "ok")
    one = taken()
    expire()
    assert story.say(made, happened=False)["state"] == "proposed"
    dispatching.settle([(one, OK)], [0.5])
    assert story.state(made) == "in_doubt"
    assert SideLogRow.objects.filter(kind="outcome", reason="outcome_conflict").count() == 1
    assert Incident.objects.get().kind == "outcome_conflict"


@pytest.mark.parametrize("status", [200, 422, 429, 500])
def test_an_end_that_is_told_again_changes_nothing(story: Undoing, server: Serving, status: int) -> None:
    (made,) = approved(story, "ok")
    one, end = taken(), Ended(how=End.ANSWERED, status=status, body={})
    dispatching.settle([(one, end)], [0.5])
    before = story.state(made), list(Breaker.objects.values_list("tool", "faults"))
    dispatching.settle([(one, end)], [0.5])
    assert (story.state(made), list(Breaker.objects.values_list("tool", "faults"))) == before
    assert len(kinds(made)) == 1


def test_a_worker_killed_inside_its_calls_is_followed_by_nobody(story: Undoing, server: Serving) -> None:
    """Killed before the tool acted, and after: the next worker asks nobody, and a person finds what the tool knows."""
    register(pair(server, policy={"timeout_s": 30}))
    before, after = approve(story, [*owed(story, "hang"), *owed(another(story), "hang_after")])
    with nursery("deliver") as mother:
        eventually(lambda: len(calls_of(server)) == 2, within_s=30)
        assert (story.state(before), story.state(after)) == ("in_flight", "in_flight")
        born = below(mother.pid, "nursery")
        kill(born)
        eventually(lambda: below(mother.pid, "nursery") not in ([], born))
        expire()
        assert (story.state(before), story.state(after)) == ("in_doubt", "in_doubt")
        time.sleep(1.5)  # longer than a courier looks by itself
    assert len(calls_of(server)) == 2
    assert sum(each["action"]["tool"] == "unpay" for each in server.ledger.effects) == 1
    assert story.say(before, happened=False)["state"] == "proposed"
    assert story.say(after, happened=True)["state"] == "done"


# ---- caps, rates, breakers: one for both kinds ----


def test_a_cap_holds_over_effects_and_what_undoes_them(story: Undoing, server: Serving) -> None:
    register(pair(server, policy={"max_in_flight": 2}))
    approved(story, "ok")
    for number in range(3):
        story.agree(f"own{number}", {"tool": "unpay", "args": {"invoice": f"own{number}"}})
    first = dispatching.take(16)
    assert [type(each).__name__ for each in first] == ["OutgoingUndoing", "OutgoingEffect"]
    assert dispatching.take(16) == []
    dispatching.settle([(each, OK) for each in first], [0.0, 0.0])
    assert [type(each).__name__ for each in dispatching.take(16)] == ["OutgoingEffect"] * 2


def test_a_rate_and_an_open_breaker_hold_undoings_back(story: Undoing, server: Serving) -> None:
    register(pair(server, policy={"rate_per_s": 1}))
    approve(story, [*owed(story, "ok"), *owed(another(story), "ok")])
    assert len(undoing_calls.take(16)) == 1
    assert undoing_calls.take(16) == []
    of_tool = Breaker.objects.filter(tool="unpay")
    of_tool.update(tokens=1.0, state="open", faults=5, until=timezone.now() + timedelta(hours=1))
    assert undoing_calls.take(16) == []
    of_tool.update(state="closed", until=None, faults=0)
    assert len(undoing_calls.take(16)) == 1


def test_calls_that_undo_open_the_breaker_of_their_tool(story: Undoing, server: Serving) -> None:
    approve(story, [each for _ in range(5) for each in owed(another(story), "broken_before")])
    with courier():
        eventually(lambda: Breaker.objects.filter(tool="unpay", state="open").exists())
    assert "HTTP 500" in Breaker.objects.get(tool="unpay").says


# ---- what holds calls back ----


def test_approvals_that_are_refused_again_and_again_hold_up_no_other(
    story: Undoing, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, free = approve(story, owed(story, "ok") + owed(another(story), "ok"))
    judged = undoings.judged
    refusal = Refusal(code=Code.NOT_READY, detail="")

    def judge(request: Any, action: Any, made: str, writes: Any) -> Any:
        return judged(request, action, made, writes) if made == free else (Act.locked(made, writes), refusal)

    with monkeypatch.context() as patched:
        patched.setattr(undoings, "judged", judge)
        assert undoing_calls.take(1) == []
        assert [each.compensation for each in undoing_calls.take(1)] == [free]
    time.sleep(AGAIN_S)
    assert [each.compensation for each in undoing_calls.take(1)] == [stuck]


def test_a_freeze_holds_an_undoing_back_without_a_word_in_the_side_log(story: Undoing, server: Serving) -> None:
    (made,) = approved(story, "ok")
    scopes: list[dict[str, Any]] = [{"tool": "unpay"}, {"run": story.run}, {}]
    for scope in scopes:
        frozen = story.freeze(**scope)
        assert dispatching.take(16) == []
        story.lift(frozen)
    assert not SideLogRow.objects.exists()
    with courier():
        comes_to(story, made, "done")


def test_effects_of_a_run_are_undone_in_reverse_order(story: Undoing, server: Serving) -> None:
    made = approved(story, "slow:0.2", "ok", "slow:0.1")
    with courier():
        for each in made:
            comes_to(story, each, "done")
    undone = [each["action"]["args"]["invoice"] for each in server.ledger.effects if each["action"]["tool"] == "unpay"]
    assert undone == ["pay-2", "pay-1", "pay-0"]


def test_an_approval_that_lapsed_is_not_called(story: Undoing, server: Serving) -> None:
    (made,) = approved(story, "ok")
    story.fork("D", "E", fork="later")
    story.want("d", wanting("pay-0", "ok"), branch="D")
    assert story.state(made) == "held"
    assert dispatching.take(16) == []
    story.reconcile("E", fork="later")
    assert (story.state(made), dispatching.take(16)) == ("proposed", [])


# ---- what a winner repeats ----


def test_what_a_loser_began_and_nobody_knows_is_repeated_by_the_winners_commit(story: Undoing, server: Serving) -> None:
    """The loser's commit is the older one and stands on, for it may be out: it lets nothing through all the same."""
    story.fork("A", "B")
    story.want("b", wanting("shared", "ok"), branch="B")
    (first,) = dispatching.take(16)
    dispatching.settle([(first, Ended(how=End.LOST))], [0.0])
    story.want("a", wanting("shared", "ok"), branch="A")
    story.reconcile("A")
    with courier():
        eventually(lambda: story.step("a")["intent"]["state"] == "succeeded")
    (sent,) = calls_of(server, "pay")
    assert (sent["key"], sent["headers"]["fence-token"]) == (first.idempotency_key, story.token("a"))
    assert not Compensation.objects.exists()
