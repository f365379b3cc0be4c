"""Witnesses (U2): heads go over HTTP to who keeps them, in order; one that is away delays none and misses none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from pytest_django import Settings

from fencing.api.metrics import System
from fencing.models import Seal, Witness
from fencing.protocol import seal as protocol
from fencing.services import sealing, witnesses
from fencing.services.sealing import seal_audit
from fencing.services.signing import SEAL, public_keys
from fencing.services.witnesses import are_behind, tell_witnesses
from tests.audit.conftest import write_rows
from tests.live import free_port


class Keeper:
    """Somebody who keeps heads, and sometimes answers otherwise."""

    def __init__(self) -> None:
        self.heads: list[dict[str, Any]] = []
        self.status = 204
        keeper = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if keeper.status == 204:
                    keeper.heads += body["heads"]
                self.send_response(keeper.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/heads"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def numbers(self) -> list[int]:
        return [head["number"] for head in self.heads]


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    keeper = Keeper()
    yield keeper
    keeper.server.shutdown()
    keeper.server.server_close()


@pytest.fixture
def away(audit: None, keeper: Keeper, settings: Settings) -> str:
    """A witness that does not answer, named before one that does."""
    url = f"http://127.0.0.1:{free_port()}/heads"
    settings.FENCE_WITNESSES = (url, keeper.url)
    return url


def seal_some(count: int) -> None:
    for _ in range(count):
        write_rows(1)
        seal_audit()


def test_a_witness_gets_every_head_once_and_in_order(audit: None, keeper: Keeper, settings: Settings) -> None:
    settings.FENCE_WITNESSES = (keeper.url,)
    assert are_behind() is False
    seal_some(2)
    assert are_behind() is True
    assert tell_witnesses() == 2
    assert are_behind() is False
    assert tell_witnesses() == 0
    seal_some(1)
    tell_witnesses()
    assert keeper.numbers == [1, 2, 3]
    stored = [seal.hash for seal in Seal.objects.order_by("number")]
    assert [protocol.seal_of(head).hash for head in keeper.heads] == stored
    assert all(protocol.is_signed(protocol.seal_of(head), public_keys(SEAL)) for head in keeper.heads)


def test_one_that_is_away_delays_nobody_and_gets_what_it_missed(
    away: str, keeper: Keeper, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witnesses, "MOST", 2)
    seal_some(3)
    tell_witnesses()
    tell_witnesses()
    assert keeper.numbers == [1, 2, 3]
    row = Witness.objects.get(url=away)
    assert (row.number, row.failures, row.failure) == (0, 1, "ConnectError")
    assert row.next_at is not None
    assert are_behind() is False  # it is left alone for a while
    told = {
        sample.labels["witness"]: sample.value
        for metric in System().collect()
        if metric.name == "fence_audit_witness_behind"
        for sample in metric.samples
    }
    assert told == {away: 3, keeper.url: 0}
    Witness.objects.filter(url=away).update(next_at=None)
    assert are_behind() is True


@pytest.mark.parametrize("status", [302, 404, 500])
def test_another_answer_is_a_failure_and_no_redirect_is_followed(
    audit: None, keeper: Keeper, settings: Settings, status: int
) -> None:
    settings.FENCE_WITNESSES = (keeper.url,)
    seal_some(1)
    keeper.status = status
    assert tell_witnesses() == 0
    row = Witness.objects.get()
    assert (row.number, row.failure) == (0, f"answered {status}")
    keeper.status = 204
    Witness.objects.update(next_at=None)
    assert tell_witnesses() == 1
    row.refresh_from_db()
    assert (row.number, row.failure, row.failures) == (1, "", 0)


def test_the_lag_is_told_as_a_metric(audit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "PATIENCE_S", 0.1)
    write_rows(3)

    def told() -> dict[str, float]:
        found = [metric for metric in System().collect() if metric.name.startswith("fence_audit")]
        return {metric.name: metric.samples[0].value for metric in found if metric.samples}

    before = told()
    assert before["fence_audit_unsealed_rows"] == 3
    assert before["fence_audit_sealing_lag_seconds"] > 0
    seal_audit()
    after = told()
    assert (after["fence_audit_unsealed_rows"], after["fence_audit_sealing_lag_seconds"]) == (0, 0)
    assert after["fence_audit_seals"] == 1
