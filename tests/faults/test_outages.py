"""Valkey flushed, stopped, restarted; PostgreSQL restarted, killed, read-only, full (N6, H4).

Allowed ends of a call meanwhile: its own answer, or 503 with Retry-After. Afterwards everything that was acknowledged
is there, everything goes on, and each step comes to its end.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.factories import fresh
from tests.faults.own import AWAY, Own, eventually
from tests.playing import Reply

CALLERS: Final = 3
PAUSE_S: Final = 0.02
Call = tuple[str, str, dict[str, Any]]


@dataclass(kw_only=True)
class Witness:
    """Proposes and votes without repeating anything, and remembers each word that it is told."""

    own: Own
    run: str
    weight: int = 0
    acknowledged: list[Call] = field(default_factory=list)
    refused: list[Call] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0
    slowest_s: float = 0.0

    def go(self, number: int, is_over: threading.Event) -> None:
        """Take one step after another, until it is over."""
        for step in range(10**6):
            for call in self.calls(f"s{number}-{step}"):
                self.send(call)
                if is_over.wait(PAUSE_S):
                    return

    def calls(self, step: str) -> list[Call]:
        """What a step needs. Heavy ones fill a disk."""
        place = {"run": self.run, "step": step, "epoch": 1}
        memo = random.randbytes(self.weight // 2).hex()  # noqa: S311 - noise
        action = {"tool": "refund", "args": {"invoice": 9, "cents": 4200, "memo": memo}}
        votes = [(path, "POST /votes", {**place, "action": action}) for path in ("replica", "production")]
        return [("planner", "POST /steps", {**place, "key": step}), *votes]

    def send(self, call: Call) -> None:
        """Send a call once."""
        actor, what, body = call
        began = time.monotonic()
        try:
            reply = self.own.player.send({"as": actor, "call": what, "body": body})
        except AWAY:
            self.refused.append(call)
            self.unanswered += 1
            return
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        if reply.status in (200, 201):
            self.acknowledged.append(call)
            return
        self.refused.append(call)
        # A vote whose proposal was refused finds no step (F6): its sender repeats both.
        if reply.body["code"] != "unknown_step":
            assert (reply.status, reply.body["code"]) == (503, "unavailable"), reply
            assert int(reply.headers["retry-after"]) >= 1
            self.reasons[reply.body["detail"]] += 1

    def check(self) -> None:
        """All that was acknowledged is on record."""
        with self.own.connect() as database:
            stored = {step: (epoch, votes) for step, epoch, votes in database.execute(STORED, [self.run]).fetchall()}
        for actor, what, body in self.acknowledged:
            assert body["step"] in stored, body
            assert what == "POST /steps" or actor in stored[body["step"]][1], body

    def finish(self) -> None:
        """Repeat what was refused; every step is decided as its votes ask for."""
        for actor, what, body in sorted(self.refused, key=lambda call: call[1]):
            assert self.own.say(actor, what, **body).status in (200, 201)
        voted = {body["step"] for _, what, body in [*self.acknowledged, *self.refused] if what == "POST /votes"}
        complete = [step for step in voted if self.votes_on(step) == {"replica", "production"}]
        eventually(lambda: self.committed() >= set(complete))
        assert complete

    def votes_on(self, step: str) -> set[str]:
        """Which paths have voted on a step."""
        sent = [*self.acknowledged, *self.refused]
        return {actor for actor, what, body in sent if what == "POST /votes" and body["step"] == step}

    def committed(self) -> set[str]:
        """The steps that are committed."""
        with self.own.connect() as database:
            return {step for (step,) in database.execute(COMMITTED, [self.run]).fetchall()}


STORED: Final = """
SELECT s.name, s.epoch, array_remove(array_agg(v.path), NULL) FROM fencing_step s
JOIN fencing_run r ON r.id = s.run_id LEFT JOIN fencing_vote v ON v.step_id = s.id WHERE r.name = %s GROUP BY 1, 2
"""
COMMITTED: Final = """
SELECT c.step_name FROM fencing_commit c JOIN fencing_run r ON r.id = c.run_id WHERE r.name = %s
"""


@pytest.fixture(autouse=True, scope="module")
def stored_states_hold(own: Own) -> Iterator[None]:
    """Whatever went away, what is stored must be what the facts tell."""
    yield
    assert "stored states equal recomputed ones" in own.recompute()


@contextlib.contextmanager
def witnessed(own: Own, weight: int = 0) -> Iterator[Witness]:
    """Have calls come in all the while, and see afterwards that nothing is missing and everything goes on."""
    run, is_over = fresh("run"), threading.Event()
    assert own.say("planner", "POST /runs", run=run).status == 201
    witness = Witness(own=own, run=run, weight=weight)
    with ThreadPoolExecutor(CALLERS) as threads:
        callers = [threads.submit(witness.go, number, is_over) for number in range(CALLERS)]
        try:
            eventually(lambda: len(witness.acknowledged) > CALLERS)
            yield witness
            before = len(witness.acknowledged)
            eventually(lambda: len(witness.acknowledged) > before + 2 * CALLERS)
        finally:
            is_over.set()
            for caller in callers:
                caller.result(60)
    witness.check()
    witness.finish()


def ready(own: Own) -> Reply:
    return own.player.send({"call": "GET /readyz"})


# ---- Valkey: progress pauses, calls are taken ----


def test_a_flushed_valkey_costs_no_call_and_no_decision(own: Own) -> None:
    with witnessed(own) as witness, own.valkey() as valkey:
        for _ in range(5):
            valkey.flushall()
            time.sleep(0.3)
    assert (witness.refused, witness.unanswered) == ([], 0)


def test_a_stopped_valkey_holds_up_decisions_and_no_call(own: Own) -> None:
    with witnessed(own) as witness:
        pid = own.part("valkey")
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(2)
            told = ready(own)
        finally:
            os.kill(pid, signal.SIGCONT)
    assert (witness.refused, witness.unanswered) == ([], 0)
    assert witness.slowest_s < 5
    assert (told.status, told.body["status"]) == (200, "degraded")
    assert "Redis" in told.body["checks"]["redis"]["why"]


def test_a_killed_valkey_costs_no_call_and_no_decision(own: Own) -> None:
    with witnessed(own) as witness:
        before = own.part("valkey")
        assert own.kill("valkey")
        eventually(lambda: own.part("valkey") not in (0, before))
        with own.valkey() as valkey:
            eventually(valkey.ping)
    assert (witness.refused, witness.unanswered) == ([], 0)


# ---- PostgreSQL: calls are told to come back ----


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_restarted_postgres_is_told_and_nothing_acknowledged_is_missing(how: signal.Signals, own: Own) -> None:
    with witnessed(own) as witness:
        before = own.part("postgres")
        os.kill(before, how)
        eventually(lambda: own.part("postgres") not in (0, before))
    assert (set(witness.reasons), witness.unanswered) == ({told_of("is away")}, 0)


def test_a_read_only_postgres_is_told_and_reads_go_on(own: Own) -> None:
    with own.connect("postgres") as database, witnessed(own) as witness:
        set_read_only(database.execute, "on")
        try:
            eventually(lambda: witness.reasons)
            told = ready(own)
            read = own.player.send({"as": "auditor", "call": f"GET /runs/{witness.run}"})
            refused = own.player.send({"as": "replica", "call": "POST /runs", "body": {"run": "x"}})
        finally:
            set_read_only(database.execute, "off")
    assert (set(witness.reasons), witness.unanswered) == ({told_of("is read-only")}, 0)
    assert told.status == 503
    assert "read-only" in told.body["checks"]["database"]["why"]
    assert int(told.headers["retry-after"]) >= 1
    assert read.status == 200
    # A refusal that cannot be told to the side log is not given (N7).
    assert refused.status == 503


def set_read_only(execute: Callable[[Any], object], value: str) -> None:
    execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
    execute("SELECT pg_reload_conf()")


def told_of(why: str) -> str:
    return f"The database {why}. Nothing was decided; send the same call again."


def fill(ballast: Path) -> None:
    """Write until there is no room for a page more."""
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
    with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


def test_a_full_disk_is_told_and_when_there_is_room_again_everything_goes_on(own: Own) -> None:
    if own.disk is None:
        pytest.skip("this process may not mount a small disk, and will not fill the machine's own")
    ballast = own.disk / "ballast"
    with witnessed(own, weight=20_000) as witness:
        try:
            fill(ballast)
            eventually(lambda: witness.reasons[told_of("is full")] > CALLERS)
            told = ready(own)
            # Whatever dies meanwhile is started again, though nothing can be written: no log, no run.json.
            before = own.part("web")
            assert own.kill("web")
            eventually(lambda: own.part("web") not in (0, before) and ready(own).status)
        finally:
            ballast.unlink(missing_ok=True)
    assert set(witness.reasons) <= {told_of("is full"), told_of("is away")}
    assert told.status == 503
    assert "is full" in told.body["checks"]["database"]["why"]
