"""What `fill` puts into a database is what the services would have written, and nothing is off when it is done."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from pytest_django import Settings

from fencing.environment import Mode
from fencing.filling.filling import Filled
from fencing.filling.loading import loading
from fencing.filling.scenes import EVENTFUL, OPEN
from fencing.gateway.admissions import admit
from fencing.models import Commit, Run, Step, Vote
from fencing.models.guards import missing_guards
from fencing.protocol import tokens
from fencing.protocol.answers import Answer
from fencing.protocol.callers import Role
from fencing.services.credentials import COMMAND_LINE, IssuedKey, IssueKey, authenticate, issue
from fencing.services.recompute import Tallied, find_faults
from fencing.services.requests import Admit
from fencing.services.signing import public_keys

ENDS = {
    ("committed", "agreement"),
    ("committed", "effect_failed"),
    ("committed", "grant"),
    ("exempt", "read_only"),
    ("proposed", None),
    ("rejected", "divergence"),
    ("rejected", "equivocation"),
    ("rejected", "key_conflict"),
    ("rejected", "late_divergence"),
    ("rejected", "path_unavailable"),
    ("rejected", "proposal_mismatch"),
    ("rejected", "superseded"),
    ("rejected", "timeout"),
    ("rejected", "unknown_tool"),
}
INTENTS = {"succeeded", "failed", "cancelled", "ready", "in_flight", "in_doubt"}
# What has to come before what, wherever both are there.
ORDER = """
SELECT s.name, s.epoch FROM fencing_step s
LEFT JOIN fencing_vote v ON v.step_id = s.id LEFT JOIN fencing_commit c ON c.step_id = s.id
LEFT JOIN fencing_delivery d ON d.commit_id = c.id LEFT JOIN fencing_outcome o ON o.delivery_id = d.id
WHERE v.received_at < s.proposed_at OR s.decided_at < s.proposed_at OR c.committed_at <> s.decided_at
   OR d.admitted_at < c.committed_at OR o.recorded_at < d.admitted_at OR NOT v.is_late AND v.received_at > s.decided_at
   OR s.reason = 'timeout' AND s.decided_at < s.deadline_at OR d.lease_until <= d.admitted_at
   OR greatest(s.proposed_at, s.decided_at, v.received_at, d.admitted_at, o.recorded_at) > clock_timestamp()
"""


def rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def test_every_kind_of_end_is_there(filled: Filled) -> None:
    assert Step.objects.count() == filled.steps >= 200
    assert Run.objects.count() == filled.runs > len(EVENTFUL) + len(OPEN)
    assert set(Step.objects.values_list("phase", "reason")) == ENDS
    assert {state for (state,) in rows("SELECT state FROM fencing_intent")} == INTENTS
    for table in ("grantreview", "verdict", "acknowledgement", "incident", "feedevent", "auditevent", "epochopening"):
        assert rows(f"SELECT count(*) FROM fencing_{table}")[0][0] > 0, table  # noqa: S608


def test_stored_states_and_counts_are_those_of_the_facts(db: None) -> None:
    tallied = Tallied()
    assert list(find_faults(tallied)) == []
    assert tallied.steps == Step.objects.count()
    sampled = Tallied()
    assert list(find_faults(sampled, sample=7)) == []
    assert sampled.runs == 7
    assert 7 <= sampled.steps < tallied.steps


def behind_the_guards(statement: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fencing_step DISABLE TRIGGER USER")
        cursor.execute(statement)
        cursor.execute("ALTER TABLE fencing_step ENABLE TRIGGER USER")


def test_a_sample_finds_a_state_that_the_facts_contradict(db: None) -> None:
    wrong = Step.objects.filter(reason="divergence").count()
    behind_the_guards("UPDATE fencing_step SET reason = 'abcd' || reason WHERE reason = 'divergence'")
    try:
        assert len(list(find_faults(Tallied(), sample=Run.objects.count()))) == wrong > 0
    finally:
        behind_the_guards("UPDATE fencing_step SET reason = 'divergence' WHERE reason LIKE 'abcd%'")


def test_moments_stand_in_their_order_and_none_lies_ahead(db: None) -> None:
    assert rows(ORDER) == []
    (span,) = rows("SELECT max(opened_at) - min(opened_at) FROM fencing_run")[0]
    assert span.days > 20


def test_tokens_say_what_their_commit_says_and_those_that_may_be_asked_for_open(db: None) -> None:
    for commit in Commit.objects.select_related("run"):
        header, claims, signature = commit.token.split(".")
        assert header
        assert len(signature) == 86
        said = json.loads(base64.urlsafe_b64decode(claims + "=="))
        assert (said["jti"], said["run"], said["step"]) == (str(commit.id), commit.run.name, commit.step_name)
        assert (said["dig"], said["key"], said["iat"]) == (
            commit.payload_id,
            commit.key,
            int(commit.committed_at.timestamp()),
        )
    waiting = Commit.objects.filter(intent__state="ready", closed_at__isnull=True).select_related("payload")
    assert waiting.exists()
    for commit in waiting:
        assert isinstance(tokens.verify(commit.token, public_keys()), tokens.Claims)
    key = issue(IssueKey(role=Role.GATEWAY, name=f"gateway-{waiting[0].id.hex}"), COMMAND_LINE)
    assert isinstance(key, IssuedKey)
    caller = authenticate(f"Bearer {key.key}")
    request = Admit(action=json.loads(bytes(waiting[0].payload.canonical)), token=waiting[0].token)
    with transaction.atomic():
        admitted = admit([request], caller)[0]  # type: ignore[arg-type]
        transaction.set_rollback(True)
    assert isinstance(admitted, Answer)
    assert admitted.body["admit"] is True


def test_no_two_steps_share_an_effect_unless_they_mean_to(db: None) -> None:
    shared = rows(
        "SELECT i.id FROM fencing_intent i JOIN fencing_claim c ON c.intent_id = i.id GROUP BY 1 HAVING count(*) > 1"
    )
    assert 0 < len(shared) < 20
    assert rows("SELECT idempotency_key FROM fencing_delivery GROUP BY 1 HAVING count(DISTINCT intent_id) > 1") == []


def test_afterwards_nothing_is_off(db: None) -> None:
    assert missing_guards(connection) == []
    with pytest.raises(IntegrityError, match="append_only"), transaction.atomic():
        Vote.objects.update(is_late=True)
    assert rows("SELECT count(*) FROM pg_stat_user_tables WHERE relname = 'fencing_step' AND n_live_tup > 0") == [(1,)]


def _pull_the_plug() -> None:
    raise RuntimeError("the plug was pulled")


def test_a_load_that_breaks_off_leaves_everything_as_it_was(db: None) -> None:
    before = Step.objects.count()
    with pytest.raises(RuntimeError, match="the plug was pulled"), loading(lambda _told: None):
        _pull_the_plug()
    assert Step.objects.count() == before
    assert missing_guards(connection) == []


def test_a_reference_to_nothing_is_found_when_references_come_back(db: None) -> None:
    with pytest.raises(IntegrityError), loading(lambda _told: None), connection.cursor() as cursor:
        cursor.execute("UPDATE fencing_grant SET issuer_id = -1 WHERE id = (SELECT id FROM fencing_grant LIMIT 1)")
    assert missing_guards(connection) == []


def test_a_database_in_use_and_one_in_production_are_left_alone(db: None, settings: Settings) -> None:
    with pytest.raises(CommandError, match="there are runs in this database already"):
        call_command("fill", steps=10)
    settings.FENCE_MODE = Mode.PRODUCTION
    with pytest.raises(CommandError, match="not in production"):
        call_command("fill", steps=10, add=True)
