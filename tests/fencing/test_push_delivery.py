"""Push tools, called for real: each end of a call, retries, leases and breakers (L5).

A courier in a thread calls a real server that keeps a ledger of its own; both are asked what happened.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from fencing.gateway import admissions, dispatching, ledgers, pushing
from fencing.gateway.outgoing import AGAIN_S, OutgoingEffect
from fencing.models import AuditEvent, Breaker, Delivery, Incident, Intent, Outcome, SideLogRow
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.pushing import End, Ended
from fencing.services.recompute import Tallied, find_faults
from fencing.services.requests import ObserveEffect
from tests.fencing.beside import at_once
from tests.length import long_or
from tests.pushing import Serving, courier, definition, eventually, expire, let_go
from tests.stories import Story, register, told

ROUNDS = long_or(6, long=40)
SLOW = long_or(40, long=200)


@pytest.fixture(autouse=True)
def dropped() -> Iterator[None]:
    """Let go of connections that were cut."""
    yield
    let_go()


@pytest.fixture
def db(committed: None) -> None:
    """No transaction around the test: others see what it writes."""


@pytest.fixture
def story(db: None, server: Serving, valkey: str) -> Iterator[Story]:
    """A run in epoch 7, with `pay` and `note`. Whatever comes of it, stored states must equal those of the facts."""
    story = Story.begin()
    register([definition(server), definition(server, "note")])
    yield story
    assert list(find_faults(Tallied(), lambda _: None)) == []


def wanted(story: Story, do: Any = "ok", tool: str = "pay", step: str = "s1", **args: Any) -> str:
    """Commit one effect; give its intent."""
    story.agree(step, {"tool": tool, "args": {"invoice": step, "do": do, **args}})
    return str(story.step(step)["intent"]["id"])


def state(intent: str) -> str:
    return Intent.objects.get(id=intent).state


def comes_to(intent: str, *states: str) -> None:
    eventually(lambda: state(intent) in states)


def kinds(intent: str) -> list[str]:
    """How each try of an intent ended, in order; a person's word and a lease's end among them."""
    return list(
        Outcome.objects.filter(delivery__intent_id=intent)
        .order_by("recorded_at", "id")
        .values_list("outcome", flat=True)
    )


# ---- what leaves ----


def test_the_committed_bytes_leave_once_with_key_and_token(story: Story, server: Serving) -> None:
    intent = wanted(story, "created", b=1, a=2)
    with courier():
        comes_to(intent, "succeeded")
    (sent,) = server.ledger.calls
    token = story.token()
    assert sent["body"] == '{"args":{"a":2,"b":1,"do":"created","invoice":"s1"},"tool":"pay"}'
    assert sent["headers"]["fence-token"] == token
    assert sent["headers"]["idempotency-key"] == Delivery.objects.get().idempotency_key
    assert sent["headers"]["content-type"] == "application/json"
    body = story.intent({"intent": intent})
    assert (body["outcome"]["response"], body["outcome"]["by"]) == ({"id": "eff-1"}, None)
    assert Delivery.objects.get().by_id is None


def test_a_credential_goes_with_the_call_and_into_nothing_else(
    story: Story, server: Serving, tmp_path: Path, settings: Settings
) -> None:
    secret = "s3cr3t-of-the-bank"
    settings.FENCE_CREDENTIALS = tmp_path
    (tmp_path / "bank").write_text(f"{secret}\n")
    server.tool.secret = secret
    register([definition(server, credential="bank")])
    with courier():
        comes_to(wanted(story), "succeeded")
    with connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT count(*) FROM "{table}" AS r WHERE r::text LIKE %s', [f"%{secret}%"])  # noqa: S608
            assert cursor.fetchone() == (0,), table


def test_without_its_credential_a_tool_is_not_called(story: Story, server: Serving) -> None:
    register([definition(server, credential="nobody-knows-it")])
    intent = wanted(story)
    with courier():
        eventually(lambda: "not_sent" in kinds(intent))
    assert server.ledger.calls == []
    assert "nobody-knows-it is not there" in str(Outcome.objects.first().evidence)  # type: ignore[union-attr]


# ---- how calls end ----

ENDS: list[tuple[Any, list[str], str, int]] = [
    # what the tool does, how the tries end, where the intent is then, and what its ledger shows
    (["reset_before", "ok"], ["unknown", "succeeded"], "succeeded", 1),
    (["reset_after", "ok"], ["unknown", "succeeded"], "succeeded", 1),
    (["hang", "ok"], ["unknown", "succeeded"], "succeeded", 1),
    (["hang_after", "ok"], ["unknown", "succeeded"], "succeeded", 1),
    (["half", "ok"], ["unknown", "succeeded"], "succeeded", 1),
    ("no_content", ["succeeded"], "succeeded", 1),
    ("big_number", ["succeeded"], "succeeded", 1),
    (["wrong_body", "ok"], ["unknown", "succeeded"], "succeeded", 1),
    (["wrong_shape", "ok"], ["unknown", "succeeded"], "succeeded", 1),
    (["wrong_type", "ok"], ["unknown", "succeeded"], "succeeded", 1),
    (["redirect", "ok"], ["unknown", "succeeded"], "succeeded", 1),
    (["timeout_status", "ok"], ["unknown", "succeeded"], "succeeded", 1),
    (["in_progress", "ok"], ["busy", "succeeded"], "succeeded", 1),
    (["too_early", "busy", "ok"], ["busy", "busy", "succeeded"], "succeeded", 1),
    (["broken_before", "ok"], ["unknown", "succeeded"], "succeeded", 1),
    (["broken_after", "proxy", "ok"], ["unknown", "unknown", "succeeded"], "succeeded", 1),
    ("refused", ["failed"], "failed", 0),
    (["broken_after", "refused"], ["unknown", "failed"], "in_doubt", 1),
    ("exists", ["unknown"] * 4, "in_doubt", 0),
    ("broken_before", ["unknown"] * 4, "in_doubt", 0),
]


def test_each_end_of_a_call_of_an_idempotent_tool(story: Story, server: Serving) -> None:
    """All beside each other: a breaker would hold them back, so each has a tool of its own."""
    server.tool.retry_after = "0"
    register([{**definition(server), "tool": f"pay{number}"} for number in range(len(ENDS))])
    intents = [wanted(story, do, f"pay{number}", f"e{number}") for number, (do, *_) in enumerate(ENDS)]
    with courier():
        for intent, (do, tries, end, _) in zip(intents, ENDS, strict=True):
            comes_to(intent, end)
            assert kinds(intent) == tries, do
    for intent, (do, _, _, effects) in zip(intents, ENDS, strict=True):
        key = Delivery.objects.filter(intent_id=intent).values_list("idempotency_key", flat=True).distinct().get()
        assert sum(row["idempotency_key"] == key for row in server.ledger.effects) == effects, do


def test_what_is_unknown_of_a_tool_that_is_not_idempotent_goes_to_a_person_at_once(
    story: Story, server: Serving
) -> None:
    intents = [wanted(story, do, "note", do) for do in ("reset_after", "broken_before", "hang", "wrong_type")]
    busy = wanted(story, ["busy", "ok"], "note", "b")
    with courier():
        for intent in intents:
            comes_to(intent, "in_doubt")
        comes_to(busy, "succeeded")
    assert len(server.ledger.calls) == 6  # four once, one twice: busy says that nothing was done
    assert [kinds(intent) for intent in intents] == [["unknown"]] * 4


def test_a_tool_that_cannot_be_reached_was_sent_nothing_and_is_tried_again(story: Story, server: Serving) -> None:
    register([{**definition(server, "note"), "endpoint": "http://127.0.0.1:9/note", "read_back": None, "ledger": None}])
    intent = wanted(story, "ok", "note")
    with courier():
        eventually(lambda: len(kinds(intent)) >= 2)
        assert set(kinds(intent)) == {"not_sent"}
        assert state(intent) in ("ready", "in_flight")


def test_what_was_never_sent_is_taken_back_by_a_late_divergence(story: Story, server: Serving) -> None:
    register([{**definition(server), "endpoint": "http://127.0.0.1:9/pay", "read_back": None, "ledger": None}])
    intent = wanted(story)
    with courier():
        eventually(lambda: "not_sent" in kinds(intent))
    story.vote(story.third, {"tool": "pay", "args": {"invoice": "other"}})
    assert story.step()["revoked"]["reason"] == "late_divergence"
    assert state(intent) == "cancelled"
    with courier():
        time.sleep(0.3)
    assert server.ledger.calls == []


def test_a_busy_tool_is_left_for_as_long_as_it_says(story: Story, server: Serving) -> None:
    intent = wanted(story, ["busy:1", "ok"])
    began = time.monotonic()
    with courier():
        comes_to(intent, "succeeded")
    assert time.monotonic() - began >= 1.0


# ---- leases ----


def test_who_stalls_wakes_to_a_delivery_that_another_took_over(story: Story, server: Serving) -> None:
    register([definition(server, policy={"lease_s": 1, "timeout_s": 1})])
    intent = wanted(story)
    (stalled,) = pushing.take(10)  # a worker that takes, and then sleeps
    assert pushing.take(10) == []
    expire(stalled.delivery)
    (second,) = pushing.take(10)
    assert (second.number, second.idempotency_key) == (2, stalled.idempotency_key)

    pushing.settle([(stalled, Ended(how=End.LOST))], [0.5])
    assert SideLogRow.objects.filter(reason="stale_delivery").count() == 1
    assert state(intent) == "in_flight"
    pushing.settle([(second, Ended(how=End.LOST))], [0.5])
    # A late success settles, whoever tells it.
    pushing.settle([(stalled, Ended(how=End.ANSWERED, status=200, body={"id": "late"}))], [0.5])
    assert state(intent) == "succeeded"


def test_a_worker_that_dies_inside_a_call_leaves_it_to_the_lease(story: Story, server: Serving) -> None:
    one, other = wanted(story), wanted(story, "ok", "note", "n")
    taken = {each.intent: each for each in pushing.take(10)}
    for each in taken.values():
        expire(each.delivery)  # nobody ever tells what became of them
    assert (state(one), state(other)) == ("ready", "in_doubt")
    with courier():
        comes_to(one, "succeeded")
    assert len(server.ledger.effects) == 1


def test_two_couriers_call_nothing_twice(story: Story, server: Serving) -> None:
    intents = [wanted(story, "ok", "note", f"n{number}") for number in range(24)]
    with courier(), courier(), courier():
        for intent in intents:
            comes_to(intent, "succeeded")
    assert len(server.ledger.calls) == 24
    assert sorted(row["action"]["args"]["invoice"] for row in server.ledger.effects) == sorted(
        f"n{number}" for number in range(24)
    )


# ---- races ----


def take_all() -> list[OutgoingEffect]:
    """Take as a courier does: what is plain, and then the rest."""
    return [*dispatching.take_plain(16).calls, *pushing.take(16)]


def test_a_call_beside_a_divergent_vote_leaves_or_loses_its_commit(story: Story, server: Serving) -> None:
    other = {"tool": "pay", "args": {"invoice": "other"}}
    for number in range(ROUNDS):
        step = f"r{number}"
        intent = wanted(story, step=step)
        taken, _ = at_once(take_all, partial(vote, story, other, step))
        revoked = story.step(step)["revoked"]
        if taken:
            assert ([each.intent for each in taken], state(intent), revoked) == ([intent], "in_flight", None)
        else:
            assert (state(intent), revoked["reason"]) == ("cancelled", "late_divergence")
    assert Incident.objects.filter(kind="late_divergence").count() == Intent.objects.filter(state="in_flight").count()


def vote(story: Story, action: Any, step: str) -> list[OutgoingEffect]:
    story.vote(story.third, action, step)
    return []


def test_a_call_beside_a_freeze_is_stopped_or_told_as_out(story: Story, server: Serving) -> None:
    for number in range(ROUNDS):
        step = f"f{number}"
        intent = wanted(story, step=step)
        told_: list[Any] = []
        taken, _ = at_once(take_all, partial(freeze, story, told_))
        (frozen,) = told_
        out = [each["intent"] for each in frozen["already_out"]]
        assert (intent in out, state(intent)) == ((True, "in_flight") if taken else (False, "ready"))
        assert take_all() == []
        story.lift(frozen)
        assert len(take_all()) == (0 if taken else 1)


def freeze(story: Story, answers: list[Any]) -> list[OutgoingEffect]:
    answers.append(story.freeze(tool="pay"))
    return []


# ---- caps, rates, breakers ----


def test_a_cap_holds_over_all_workers_and_holds_up_no_other_tool(story: Story, server: Serving) -> None:
    register([definition(server, policy={"max_in_flight": 2}), definition(server, "note")])
    for number in range(5):
        wanted(story, "slow:0.3", step=f"p{number}")
    fast = wanted(story, "ok", "note", "fast")
    first = pushing.take(16)
    assert sorted(each.callee.tool for each in first) == ["note", "pay", "pay"]
    assert pushing.take(16) == []
    done = [(each, Ended(how=End.ANSWERED, status=200, body={})) for each in first]
    pushing.settle(done, [0.0] * 3)
    assert state(fast) == "succeeded"
    assert len(pushing.take(16)) == 2


def test_calls_that_take_long_hold_up_no_other(story: Story, server: Serving) -> None:
    register([definition(server, policy={"max_in_flight": SLOW, "timeout_s": 60}), definition(server, "note")])
    for number in range(SLOW):
        wanted(story, "slow:30", step=f"p{number}")
    with courier():
        eventually(lambda: len(server.ledger.calls) == SLOW)
        comes_to(wanted(story, "ok", "note", "fast"), "succeeded")
        assert Intent.objects.filter(tool="pay", state="in_flight").count() == SLOW
        server.hurry()
        eventually(lambda: not Intent.objects.exclude(state="succeeded").exists())


def test_effects_that_are_refused_again_and_again_hold_up_no_other(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, judged = {wanted(story, step=f"s{n}", n=n) for n in range(3)}, admissions.judged
    free = wanted(story, step="free", n=9)
    refusal = Refusal(code=Code.NOT_READY, detail="")
    with monkeypatch.context() as patched:
        patched.setattr(
            admissions,
            "judged",
            lambda call, facts, writes: judged(call, facts, writes) if call.request.step == "free" else refusal,
        )
        assert pushing.take(3) == []
        assert [each.intent for each in pushing.take(3)] == [free]
    assert pushing.take(3) == []
    time.sleep(AGAIN_S)
    assert {each.intent for each in pushing.take(3)} == stuck


def test_a_rate_lets_no_more_begin_than_it_says(story: Story, server: Serving) -> None:
    register([definition(server, policy={"rate_per_s": 3})])
    for number in range(8):
        wanted(story, step=f"p{number}")
    assert len(pushing.take(16)) == 3
    assert len(pushing.take(16)) == 0
    time.sleep(0.4)
    assert len(pushing.take(16)) == 1


def test_a_tool_that_breaks_opens_its_breaker_and_another_goes_on(story: Story, server: Serving) -> None:
    register([definition(server, policy={"max_deliveries": 50}), definition(server, "note")])
    for number in range(8):
        wanted(story, "broken_before", step=f"p{number}")
    with courier():
        eventually(lambda: Breaker.objects.filter(tool="pay", state="open").exists())
        calls = len(server.ledger.calls)
        comes_to(wanted(story, "ok", "note", "n"), "succeeded")
        assert len([each for each in server.ledger.calls if each["target"] == "/pay"]) <= calls + 1
    row = Breaker.objects.get(tool="pay")
    assert "HTTP 500" in row.says
    opened = AuditEvent.objects.filter(verb="move_breaker", subject="pay").first()
    assert opened is not None
    assert (opened.after or {}).get("breaker") == "open"


def test_a_breaker_closes_when_its_one_call_is_answered(story: Story, server: Serving) -> None:
    for number in range(6):
        wanted(story, ["broken_before", "ok"], step=f"p{number}")
    with courier():
        eventually(lambda: Breaker.objects.filter(tool="pay", state="open").exists())
        eventually(lambda: not Intent.objects.exclude(state="succeeded").exists())
    assert Breaker.objects.get(tool="pay").state == "closed"


# ---- what holds calls back ----


def test_a_freeze_and_an_open_escape_hold_calls_back_without_a_word_in_the_side_log(
    story: Story, server: Serving
) -> None:
    frozen = story.freeze(tool="pay")
    wanted(story)
    action = {"tool": "note", "args": {"invoice": "e", "do": "ok"}}
    row = ObserveEffect(tool="note", action=action, external_id="x-1")
    assert told(ledgers.observe_effects([row], story.gateway)[0])["match"] == "escape"
    story.agree("e", action)
    assert pushing.take(16) == []
    assert not SideLogRow.objects.exists()
    story.lift(frozen)
    assert [each.callee.tool for each in pushing.take(16)] == ["pay"]


def test_a_tool_that_became_a_push_tool_is_called_for_what_was_proposed_since(story: Story, server: Serving) -> None:
    register([{"tool": "late", "idempotent": True, "policy": {"grace_s": 0}}])
    story.agree("old", {"tool": "late", "args": {}})
    register([{**definition(server), "tool": "late"}])
    new = wanted(story, tool="late", step="new")
    assert [each.intent for each in pushing.take(16)] == [new]
