"""A key that floods waits, the others keep their rate, the disk does not fill, and nothing is left untold (H1, N7).

No figure here is a measure of speed: rates are compared with those of a moment before, and loosely.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.factories import fresh
from tests.faults.flooder import ITEMS, RUN
from tests.faults.own import AWAY, Own
from tests.length import long_or
from tests.live import TOP
from tests.playing import Player, Reply

FLOODERS: Final = 8
RATE: Final = 1000
CALM_S: Final = 1.5
# How much slower others may get, beside a flood that was cut. Without a limit it is a hundredth.
KEPT: Final = 0.25
MEGABYTE: Final = 1024 * 1024
ROW_BYTES: Final = 4096
Make = Callable[[], dict[str, Any]]
Heard = dict[str, Any]


@contextlib.contextmanager
def flooding(own: Own, key: str, kind: str) -> Iterator[Heard]:
    """Have another process flood with a key around the block, from when every connection was told to wait."""
    host, _, port = own.live.base_url.removeprefix("http://").partition(":")
    command = [sys.executable, "-m", "tests.faults.flooder", host, port, kind, str(FLOODERS)]
    with subprocess.Popen(command, cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        heard: Heard = {}
        process.stdin.write(f"{key}\n")
        process.stdin.flush()
        until = time.monotonic() + 60
        try:
            while not (heard.get("least_wait") and heard["statuses"]["429"] > 4 * FLOODERS):
                assert time.monotonic() < until, f"nobody told it to wait: {heard}"
                heard.update(json.loads(process.stdout.readline()))
            yield heard
        finally:
            process.stdin.close()
            heard.update(json.loads(process.stdout.read().splitlines()[-1]))


def a_replica(own: Own, *options: str) -> Player:
    """A player who holds one more key of the replica, called `flood`."""
    words = ["--name", fresh("flood"), "--role", "path", "--path", "replica"]
    key = own.live.manage("issue_key", *words, *options).stdout.strip()
    return Player(base_url=own.live.base_url, keys={"flood": key})


def rate_of_others(own: Own, seconds: float) -> float:
    """How many calls a second a planner and production make, one after the other."""
    run, began, calls = fresh("run"), time.monotonic(), 0
    assert own.player.send({"as": "planner", "call": "POST /runs", "body": {"run": run}}).status == 201
    while time.monotonic() - began < seconds:
        place = {"run": run, "step": f"s{calls}", "epoch": 1}
        assert own.player.send({"as": "planner", "call": "POST /steps", "body": place}).status == 201
        vote = {**place, "action": {"tool": "refund", "args": {}}}
        assert own.player.send({"as": "production", "call": "POST /votes", "body": vote}).status == 201
        calls += 2
    return calls / (time.monotonic() - began)


def cold_bytes(own: Own) -> int:
    """What cold storage holds, in blocks of the disk."""
    files = (path for path in (own.live.data / "cold").rglob("*") if path.is_file())
    return sum(-(-path.stat().st_size // ROW_BYTES) * ROW_BYTES for path in files)


def told_of(own: Own, name: str) -> int:
    """How many rows of the side log tell of a run."""
    with own.connect() as database:
        row = database.execute("SELECT count(*) FROM fencing_sidelogrow WHERE run = %s", [name]).fetchone()
    return int(row[0]) if row else 0


@pytest.mark.parametrize("kind", long_or(["mixed"], long=["mixed", "malformed", "unknown", "single"]))
def test_a_replicas_key_that_floods_waits_and_nobody_else_does(kind: str, own: Own) -> None:
    key = a_replica(own, "--rate", str(RATE)).keys["flood"]
    calm, before, cold = rate_of_others(own, CALM_S), told_of(own, RUN), cold_bytes(own)
    with flooding(own, key, kind) as heard:
        beside = rate_of_others(own, CALM_S)
    assert set(heard["statuses"]) <= {"200", "404", "429"}
    assert beside > KEPT * calm, f"{calm:.0f} calls a second before, {beside:.0f} beside the flood"
    # It was refused what it may be at once, and what was under way; each of them is told, and of 429 none (I5, N7).
    under_way = FLOODERS * (1 if kind == "single" else ITEMS)
    assert 2 * RATE <= heard["refused"] <= 2 * RATE + under_way + RATE // 100 * 60
    assert told_of(own, RUN) - before == heard["refused"]
    assert heard["least_wait"] >= 1
    assert cold_bytes(own) - cold < 4 * MEGABYTE


def test_an_equivocating_replica_cannot_fill_the_disk_with_actions(own: Own) -> None:
    place = {"run": fresh("run"), "step": "s1", "epoch": 1}
    assert own.say("planner", "POST /runs", run=place["run"]).status == 201
    assert own.say("planner", "POST /steps", **place).status == 201

    def another() -> dict[str, Any]:
        memo = random.randbytes(60_000).hex()  # noqa: S311 - noise
        return {**place, "action": {"tool": "refund", "args": {"memo": memo}}, "rationale": memo}

    replies = play_until_it_waits(a_replica(own, "--rate", "100"), another)
    assert {reply.status for reply in replies} <= {201, 409, 429}
    with own.connect() as database:
        row = database.execute(SIZE_OF_ACTIONS, [place["run"]]).fetchone()
    assert row is not None
    assert row[0] < 40 * MEGABYTE


SIZE_OF_ACTIONS: Final = """
SELECT sum(octet_length(a.canonical)) FROM fencing_action a JOIN fencing_vote v ON v.payload_id = a.payload_digest
JOIN fencing_run r ON r.id = v.run_id WHERE r.name = %s
"""


def test_a_vote_that_comes_again_with_ever_other_prose_cannot_fill_the_disk(own: Own) -> None:
    place = {"run": fresh("run"), "step": "s1", "epoch": 1}
    assert own.say("planner", "POST /runs", run=place["run"]).status == 201
    assert own.say("planner", "POST /steps", **place).status == 201

    def again() -> dict[str, Any]:
        rationale = random.randbytes(90_000).hex()  # noqa: S311 - noise
        return {**place, "action": {"tool": "refund", "args": {}}, "rationale": rationale}

    cold = cold_bytes(own)
    replies = play_until_it_waits(a_replica(own, "--rate", "100"), again)
    assert {reply.status for reply in replies} == {201, 200, 429}
    assert cold_bytes(own) - cold < 20 * MEGABYTE


def play_until_it_waits(player: Player, make: Make) -> list[Reply]:
    """Vote again and again until it is told to wait for what was refused, and not for the rate."""
    replies: list[Reply] = []
    for _ in range(2000):
        reply = player.send({"as": "flood", "call": "POST /votes", "body": make()})
        replies.append(reply)
        if reply.status == 429 and "refused" in reply.body["detail"]:
            return replies
        if reply.status == 429:
            time.sleep(0.1)
    raise AssertionError("nobody told it to wait")


def test_bodies_without_a_key_cannot_fill_the_memory(own: Own) -> None:
    body = json.dumps({"run": "x" * (30 * MEGABYTE)}).encode()
    own.player.send({"call": "GET /healthz"})
    before = peak_memory(own)

    def shout(_: int) -> int:
        try:
            return own.player.send({"call": "POST /runs", "raw": body.decode()}).status
        except AWAY:
            return 503  # it stopped reading, and hung up on who still wrote

    with ThreadPoolExecutor(24) as threads:
        statuses = Counter(threads.map(shout, range(48)))
    assert set(statuses) <= {401, 503}
    assert statuses[401]
    # Twice, since a body is put together out of its pieces.
    assert peak_memory(own) - before < 2 * 256 * MEGABYTE + 64 * MEGABYTE
    assert own.player.send({"as": "auditor", "call": "GET /tools"}).status == 200


def peak_memory(own: Own) -> int:
    """The most memory that the web process ever had (bytes)."""
    status = Path(f"/proc/{own.part('web')}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
