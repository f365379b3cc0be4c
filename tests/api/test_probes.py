"""The machine's own pages (H4, K2)."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from fencing.api import dependencies, faults, metrics
from fencing.api.document import EIGHT
from fencing.services.signing import ensure_keys
from tests.api.conftest import Api
from tests.factories import make_side_log_row

CLOSED = "redis://127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test see what another one found."""
    monkeypatch.setattr(metrics.SYSTEM, "_at", -1000.0)
    dependencies._client.cache_clear()  # noqa: SLF001 - as in a process that has just started


def test_a_process_that_answers_is_alive_whatever_else_is_not(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "alive"}


def test_readiness_names_each_dependency(db: None, valkey: str, client: Client) -> None:
    answer = client.get("/readyz")
    checks = answer.json()["checks"]
    assert answer.status_code == 200
    assert (checks["database"]["ok"], checks["redis"]["ok"]) == (True, True)
    # Nobody decides in this test run, and readiness says so without refusing calls.
    assert answer.json()["status"] == "degraded"
    assert "decided" in checks["workers"]["why"]


def test_without_redis_calls_are_taken_and_readiness_tells_what_is_missing(
    db: None, client: Client, settings: Settings
) -> None:
    settings.REDIS_URL = CLOSED
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert "Redis" in answer.json()["checks"]["redis"]["why"]


def test_a_database_whose_guards_are_missing_is_not_ready(db: None, client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fencing_vote DISABLE TRIGGER USER")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "Guards are missing" in answer.json()["checks"]["database"]["why"]
    assert int(answer["Retry-After"]) >= 1


def test_a_read_only_database_is_not_ready(db: None, client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "read-only" in answer.json()["checks"]["database"]["why"]


def test_a_full_disk_that_a_call_ran_into_is_told_for_a_while(
    db: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    recent = faults.Recent()
    monkeypatch.setattr(faults, "RECENT", recent)
    recent.note("is full")
    assert "is full" in client.get("/readyz").json()["checks"]["database"]["why"]


def test_public_keys_are_shown_and_private_ones_never(db: None, client: Client) -> None:
    ensure_keys()
    keys = client.get("/.well-known/jwks.json").json()["keys"]
    assert keys
    assert all(key["kty"] == "OKP" and key["crv"] == "Ed25519" and key["kid"] for key in keys)
    assert all("d" not in key for key in keys)


def test_figures_hold_the_eight_counters_the_ratios_and_how_calls_went(api: Api, valkey: str) -> None:
    make_side_log_row(kind="vote", reason="stale_epoch")
    make_side_log_row(kind="admission", reason="not_committed")
    make_side_log_row(kind="run", reason="run_exists")
    api.get("planner", "/tools")
    text = api.client.get("/metrics").content.decode()
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert {f"fence_{name}_total" for name in EIGHT} <= {key[0] for key in samples}
    assert samples[("fence_stale_rejects_total",)] == 1
    assert samples[("fence_attempted_escapes_total",)] == 1
    assert samples[("fence_refusals_total",)] == 1
    assert samples[("fence_up", ("dependency", "database"))] == 1
    assert any(key[0] == "fence_request_seconds_count" and ("route", "api/v1/tools") in key for key in samples)
    assert ("fence_queue_depth", ("queue", "fence")) in samples


def test_an_address_that_nobody_knows_makes_no_new_figure(api: Api) -> None:
    for number in range(5):
        api.get("planner", f"/nothing-{number}")
    assert "nothing-" not in api.client.get("/metrics").content.decode()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/.well-known/jwks.json"])
def test_the_machines_pages_are_only_read(db: None, client: Client, path: str) -> None:
    answer = client.post(path)
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
