"""Ledger rows on the real database: what they are matched with, what follows, and who may adopt an escape (L8)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from fencing.gateway import adopting, ledgers
from fencing.models import Compensation, Incident, ObservedEffect, SideLogRow
from fencing.protocol.callers import Caller, Role
from fencing.queries import compensations as compensation_queries
from fencing.queries import gateway as gateway_queries
from fencing.queries.counters import read_counters
from fencing.queries.pages import Page
from fencing.services.recompute import Tallied, find_faults
from fencing.services.requests import AdoptEffect, ObserveEffect
from tests import factories as make
from tests.factories import fresh
from tests.fencing.beside import at_once, connect_as, held
from tests.fencing.breaking import refused
from tests.fencing.conftest import Connection
from tests.stores import SqlStore
from tests.stories import NOTE, OTHER_REFUND, REFUND, Action, Story, Told, actor, digest, register, told

UNDOABLE: dict[str, Any] = {
    "tool": "refund",
    "idempotent": True,
    "resources": ["/invoice"],
    "compensator": {"tool": "reverse_refund", "args": {"invoice": {"from": "action", "pointer": "/args/invoice"}}},
    "policy": {"grace_s": 0, "lease_s": 1, "max_deliveries": 3, "compensation_approvals": 2},
}


@pytest.fixture
def db(committed: None) -> None:
    """No transaction around the test: others see what it writes."""


@pytest.fixture
def story(db: None, valkey: str) -> Iterator[Story]:
    """A run in epoch 7. Whatever comes of it, stored states must equal those that the facts tell."""
    register()
    story = Story.begin()
    register([UNDOABLE, {"tool": "reverse_refund", "idempotent": True}])
    yield story
    assert list(find_faults(Tallied(), lambda _: None)) == []


def observe(story: Story, action: Action | None = REFUND, *, by: Caller | None = None, **members: Any) -> Told:
    """Tell one row of a tool's ledger."""
    asked: dict[str, Any] = {
        "tool": "refund" if action is None else action["tool"],
        "action": None if action is None else dict(action),
        "external_id": fresh("x"),
    }
    return told(ledgers.observe_effects([ObserveEffect(**asked | members)], by or story.gateway)[0])


def adopt(story: Story, intent: str, incident: str, reason: str = "it is the same refund", **by: Caller) -> Told:
    return told(
        adopting.adopt_effect(intent, AdoptEffect(incident=incident, reason=reason), by.get("by") or story.reviewer)
    )


def deliver(story: Story, token: str, action: Action = REFUND) -> Told:
    admitted = story.admit(token, action)
    assert admitted["admit"] is True
    return admitted


# ---- matching ----


def test_a_row_with_our_key_is_the_intent_s_and_stays_it(story: Story) -> None:
    admitted = deliver(story, story.agree())
    row = {"external_id": "re_1", "idempotency_key": admitted["idempotency_key"]}
    first = observe(story, **row)
    assert (first["status"], first["match"], first["intent"]) == (201, "intent", admitted["intent"])
    again = observe(story, **row)
    assert (again["status"], again["duplicate"], again["effect"]) == (200, True, first["effect"])
    assert not Incident.objects.exists()


def test_a_second_row_of_one_key_is_doubled_and_would_be_undone(story: Story) -> None:
    admitted = deliver(story, story.agree())
    key = admitted["idempotency_key"]
    assert observe(story, idempotency_key=key)["match"] == "intent"
    second = observe(story, idempotency_key=key)
    assert (second["match"], second["intent"]) == ("doubled", admitted["intent"])
    incident = Incident.objects.get()
    assert (incident.kind, str(incident.intent_id), incident.resources) == ("doubled", admitted["intent"], ["9"])
    undo = Compensation.objects.get()
    assert (undo.cause, undo.state, undo.needed) == ("doubled", "proposed", 2)


def test_an_effect_that_nothing_was_committed_for_is_an_escape(story: Story) -> None:
    escape = observe(story)
    assert (escape["status"], escape["match"], escape["intent"]) == (201, "escape", None)
    (undo,), _ = compensation_queries.list_compensations({"resource": "9"}, Page(limit=10), story.reviewer)  # type: ignore[misc]
    assert undo["action"] == {"tool": "reverse_refund", "args": {"invoice": 9}}
    assert undo["digest"] == digest(undo["action"])
    assert (undo["incident"], undo["cause"], undo["state"]) == (escape["incident"], "landed_escape", "proposed")
    assert read_counters()["i2_landed_escapes"] == {"n": 1, "of": 1}


def test_without_a_key_the_oldest_delivery_of_the_payload_is_taken_once(story: Story) -> None:
    first = deliver(story, story.agree("s1"))
    second = deliver(story, story.agree("s2", occurrence=1))
    found = [observe(story) for _ in range(3)]
    assert [each["match"] for each in found] == ["intent", "intent", "escape"]
    assert [each["intent"] for each in found] == [first["intent"], second["intent"], None]


def test_rows_of_one_bulk_never_take_the_same_delivery(story: Story) -> None:
    deliver(story, story.agree())
    rows = [ObserveEffect(tool="refund", action=dict(REFUND), external_id=f"b-{n}") for n in range(3)]
    results = [told(each) for each in ledgers.observe_effects([*rows, rows[0]], story.gateway)]
    assert [each["match"] for each in results] == ["intent", "escape", "escape", "intent"]
    assert results[3]["duplicate"] is True


def test_a_delivery_that_ended_as_busy_does_not_hide_the_one_that_did_it(story: Story) -> None:
    token = story.agree()
    assert "code" not in story.report(deliver(story, token), "busy", retry_after=0)
    admitted = deliver(story, token)
    assert "code" not in story.report(admitted, "succeeded")
    assert observe(story)["intent"] == admitted["intent"]


def test_what_failed_and_stands_in_the_ledger_pages_people(story: Story) -> None:
    admitted = deliver(story, story.agree())
    assert story.report(admitted, "failed")["state"] == "failed"
    row = observe(story, idempotency_key=admitted["idempotency_key"])
    assert row["match"] == "intent"
    assert Incident.objects.get(id=row["incident"]).kind == "outcome_conflict"


def test_a_row_that_tells_nothing_is_refused_and_so_is_one_that_contradicts_itself(story: Story) -> None:
    assert observe(story, None)["code"] == "invalid_value"
    assert observe(story, digest=digest(OTHER_REFUND))["code"] == "digest_mismatch"
    assert observe(story, tool="send_note")["pointer"] == "/action/tool"
    for moment in ("2026-13-01T00:00:00Z", "0001-01-01T00:00:00+23:00"):
        assert observe(story, occurred_at=moment)["pointer"] == "/occurred_at"
    assert observe(story, by=actor(Role.GATEWAY, tools=frozenset({"send_note"})))["code"] == "forbidden_role"
    assert not ObservedEffect.objects.exists()
    assert SideLogRow.objects.filter(kind="effect").count() == 6


def test_a_row_may_have_happened_at_any_offset(story: Story) -> None:
    # PostgreSQL reads none beyond sixteen hours.
    assert "code" not in observe(story, occurred_at="2026-01-02T00:00:00+23:59")
    assert ObservedEffect.objects.get().occurred_at == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def test_one_external_id_with_another_payload_is_a_conflict(story: Story) -> None:
    observe(story, external_id="re_7")
    other = observe(story, OTHER_REFUND, external_id="re_7")
    assert other["code"] == "effect_conflict"
    assert observe(story, None, digest=digest(REFUND), external_id="re_7")["duplicate"] is True


# ---- what an open escape holds back ----


def test_the_very_action_of_an_open_escape_does_not_leave_again(story: Story) -> None:
    observe(story)
    token = story.agree()
    assert story.admit(token)["code"] == "not_ready"
    offered = gateway_queries.wanted("refund", story.gateway)
    assert told(offered)["items"] == []
    assert "code" not in story.admit(story.agree("s2", OTHER_REFUND), OTHER_REFUND)


def test_a_hand_at_the_database_cannot_deliver_beside_an_escape(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    make.make_effect(store=as_fencer, digest=commit.payload_id)
    with refused(fencer, by="delivery_beside_no_escape"):
        make.make_delivery(commit=commit, store=as_fencer)


def test_a_pull_tool_is_never_called_without_a_gateway_s_key(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    with refused(fencer, by="delivery_by_a_key"):
        make.make_delivery(commit=commit, store=as_fencer, by_id=None)


def test_an_effect_is_not_hung_on_another_run_s_delivery(fencer: Connection, as_fencer: SqlStore) -> None:
    delivery = make.make_delivery(commit=make.make_committed_step(store=as_fencer), store=as_fencer)
    other = make.make_committed_step(store=as_fencer)
    with refused(fencer, by="effect_of_its_delivery"):
        make.make_effect(
            store=as_fencer, match="intent", is_open=False, delivery=delivery, intent=other.intent, run=other.run
        )


# ---- adopting ----


def test_a_reviewer_adopts_an_escape_and_the_effect_is_not_sent_again(story: Story) -> None:
    escape = observe(story)
    token = story.agree()
    intent = str(story.step()["intent"]["id"])
    adopted = adopt(story, intent, escape["incident"])
    assert (adopted["status"], adopted["state"]) == (200, "succeeded")
    assert adopted["outcome"]["by"] == story.reviewer.person
    assert Compensation.objects.get().state == "withdrawn"
    assert Incident.objects.get().state == "resolved"
    assert read_counters()["landed_escapes"] == 1  # it stays one
    settled = story.admit(token)
    assert (settled["admit"], settled["outcome"]["outcome"]) == (False, "succeeded")
    assert adopt(story, intent, escape["incident"])["duplicate"] is True
    late = adopt(story, intent, escape["incident"], by=actor(Role.REVIEWER))
    assert (late["code"], late["decided_by"]) == ("already_decided", story.reviewer.person)


def test_only_the_very_same_action_is_adopted(story: Story) -> None:
    escape = observe(story, OTHER_REFUND)
    story.agree()
    answer = adopt(story, str(story.step()["intent"]["id"]), escape["incident"])
    assert (answer["code"], answer["pointer"]) == ("payload_mismatch", "/incident")


def test_nothing_is_adopted_while_a_delivery_may_be_out(story: Story) -> None:
    admitted = deliver(story, story.agree())
    observe(story)  # this one is the delivery's
    escape = observe(story)
    assert adopt(story, admitted["intent"], escape["incident"])["code"] == "outcome_unknown"
    assert "code" not in story.report(admitted, "succeeded")
    assert adopt(story, admitted["intent"], escape["incident"])["code"] == "already_decided"


def test_what_is_no_escape_is_not_adopted(story: Story) -> None:
    story.agree()
    intent = str(story.step()["intent"]["id"])
    assert adopt(story, intent, "no-such")["code"] == "not_found"
    assert adopt(story, "no-such", "no-such")["code"] == "not_found"


def test_an_escape_is_adopted_once_whoever_asks(story: Story) -> None:
    escape = observe(story)
    story.agree("s1")
    story.agree("s2", occurrence=1)
    places = [str(story.step(step)["intent"]["id"]) for step in ("s1", "s2")]
    ends = at_once(*(partial(adopt, story, each, escape["incident"]) for each in places))
    assert sorted(str(end.get("code", end.get("state"))) for end in ends) == ["already_decided", "succeeded"]


# ---- races ----


def test_a_delivery_that_begins_beside_its_ledger_row_is_found_or_held_back(story: Story) -> None:
    """The row must be the delivery's, or the delivery must find the escape: never both an escape and a delivery."""
    for round_ in range(6):
        token = story.agree(f"r{round_}", occurrence=round_)
        told_of, admitted = at_once(lambda: observe(story), partial(story.admit, token))
        if told_of["match"] == "escape":
            assert admitted["code"] == "not_ready"
            ObservedEffect.objects.filter(id=told_of["effect"]).update(is_open=False)
        else:
            assert told_of["intent"] == admitted["intent"]


def test_an_escape_waits_for_admissions_that_are_under_way(story: Story) -> None:
    token = story.agree()
    with held() as start:
        admitted = story.admit(token)
        row = start(lambda: observe(story))
        assert not row.done()
    assert row.result(15)["intent"] == admitted["intent"]


def test_two_that_tell_of_one_key_at_once_make_one_effect_and_one_doubled(story: Story) -> None:
    key = deliver(story, story.agree())["idempotency_key"]
    found = at_once(*(lambda: observe(story, idempotency_key=key) for _ in range(4)))
    assert sorted(each["match"] for each in found) == ["doubled", "doubled", "doubled", "intent"]


def test_an_escape_of_a_tool_that_nobody_registered_is_one_too(story: Story) -> None:
    row = observe(story, {"tool": "ghost", "args": {}}, external_id="g-1")
    assert row["match"] == "escape"
    assert Compensation.objects.get().payload_id is None
    with transaction.atomic(), connect_as("fence_app") as app:
        assert app.execute("SELECT count(*) FROM fencing_incident WHERE kind = 'landed_escape'").fetchone() == (1,)


def test_a_note_without_compensator_is_undone_by_hand(story: Story) -> None:
    observe(story, NOTE)
    (undo,), _ = compensation_queries.list_compensations({}, Page(limit=10), story.reviewer)  # type: ignore[misc]
    assert (undo["action"], undo["digest"]) == (None, None)
