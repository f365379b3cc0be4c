"""The counters: n of N, recomputed from the facts, and eight numbers that are never folded together (section 1)."""

from __future__ import annotations

import pytest
from django.db import connection

from fencing.api.document import EIGHT, RATIOS
from fencing.models import Commit, Vote
from fencing.queries.counters import read_counters
from fencing.services import tallies
from tests.api.conftest import REFUND, Api
from tests.factories import make_committed_step, make_effect, make_side_log_row


def test_with_nothing_there_every_ratio_is_of_nothing(db: None) -> None:
    counters = read_counters()
    assert all(counters[name] == {"n": 0, "of": 0} for name in RATIOS)
    assert all(counters[name] == 0 for name in EIGHT)


def test_a_commit_by_agreement_is_counted_and_is_not_divergent(db: None) -> None:
    make_committed_step()
    counters = read_counters()
    assert counters["i1_divergent_commits"] == {"n": 0, "of": 1}
    assert counters["correlated_agreements"] == {"n": 0, "of": 1}


@pytest.mark.parametrize("fault", ["another digest before it", "a path that never voted"])
def test_a_commit_that_should_never_have_been_is_counted_from_the_facts(db: None, fault: str) -> None:
    make_committed_step()
    commit = Commit.objects.get()
    with connection.cursor() as cursor:
        # The guards make such a thing impossible; here they are lifted, to see that the count does not rest on them.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE fencing_vote DISABLE TRIGGER USER")
        if fault.startswith("another"):
            cursor.execute(
                "INSERT INTO fencing_vote SELECT (jsonb_populate_record(v, jsonb_build_object('id', gen_random_uuid(),"
                " 'payload_id', null, 'tool', null, 'digest', 'sha256:' || repeat('f', 64)))).*"
                " FROM fencing_vote v LIMIT 1"
            )
        else:
            cursor.execute("DELETE FROM fencing_vote WHERE path = 'replica'")
    assert Vote.objects.filter(step=commit.step).exists()
    assert read_counters()["i1_divergent_commits"] == {"n": 1, "of": 1}


def test_each_refusal_is_counted_in_one_place_alone(db: None) -> None:
    make_side_log_row(kind="admission", reason="not_committed")
    make_side_log_row(kind="admission", reason="delivery_in_progress")
    make_side_log_row(kind="vote", reason="stale_epoch")
    make_side_log_row(kind="vote", reason="late_vote")
    make_side_log_row(kind="run", reason="run_exists")
    tallies.count("duplicates", 3)
    make_effect(match="escape")
    counters = read_counters()
    assert {name: counters[name] for name in EIGHT} == {
        "retries": 0,
        "duplicates": 3,
        "refusals": 2,
        "stale_rejects": 1,
        "superseded_fragments": 0,
        "attempted_escapes": 1,
        "landed_escapes": 1,
        "zombie_spend": 0,
    }
    assert counters["i2_attempted_escapes"] == {"n": 1, "of": 2}
    assert counters["unacknowledged"] == 5


def test_an_early_call_is_an_attempted_escape_over_all_admissions(api: Api, run: str) -> None:
    refused = api.post("gateway", "/gateway/admissions", {"action": REFUND, "run": run, "step": "s1", "epoch": 7})
    assert (refused.status_code, refused.json()["code"]) == (403, "not_committed")
    lookup = {"tool": "lookup_invoice", "args": {"invoice": 9}}
    assert api.post("gateway", "/gateway/admissions", {"action": lookup}).json() == {"admit": True, "exempt": True}
    counters = api.get("planner", "/counters").json()
    assert counters["i2_attempted_escapes"] == {"n": 1, "of": 2}
    assert (counters["attempted_escapes"], counters["exempt_admissions"], counters["refusals"]) == (1, 1, 0)


def test_a_repeated_call_is_a_duplicate_and_no_refusal(api: Api, run: str) -> None:
    api.post("planner", "/runs", {"run": run, "epoch": 7})
    counters = api.get("replica", "/counters").json()
    assert (counters["duplicates"], counters["refusals"]) == (1, 0)
