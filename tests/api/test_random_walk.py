"""Many actors who do anything at all, at once and over HTTP: nothing breaks, and what came of it holds together.

A seed makes the choices of each actor; the interleaving is chance's.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.actors import player_for
from tests.live import LiveSystem
from tests.playing import Player, Reply, Step, fresh_names

THREADS: Final = 6
CALLS: Final = 60
# What the last calls left due is decided within two ticks.
SETTLED_S: Final = 3
STEPS: Final = ("a", "b", "c")
KEYS: Final = (None, None, "k1", "k2")
ACTIONS: Final = (
    {"tool": "refund", "args": {"invoice": 9, "cents": 1}},
    {"tool": "refund", "args": {"invoice": 9, "cents": 1}},
    {"tool": "refund", "args": {"invoice": 9, "cents": 1}},
    {"tool": "refund", "args": {"invoice": 9, "cents": 2}},
    {"tool": "send_mail", "args": {"to": "a", "subject": "b", "body": "one"}},
    {"tool": "send_mail", "args": {"to": "a", "subject": "b", "body": "two"}},
    {"tool": "send_notification", "args": {"to": "oncall"}},
    {"tool": "lookup_invoice", "args": {"invoice": 9}},
    {"tool": "format_disk", "args": {}},
)
OUTCOMES: Final = ("succeeded", "succeeded", "failed", "unknown", "busy", "not_sent")


@dataclass(kw_only=True)
class Known:
    """What the actors have heard: tokens with their actions, grants, deliveries. Shared, as a rumour is."""

    runs: list[str]
    epochs: dict[str, int]
    tokens: list[tuple[str, Any]] = field(default_factory=list)
    grants: list[str] = field(default_factory=list)
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


@dataclass(kw_only=True)
class Walker:
    """One who does anything."""

    player: Player
    known: Known
    chance: random.Random
    replies: list[tuple[str, Reply]] = field(default_factory=list)

    def walk(self, calls: int) -> list[tuple[str, Reply]]:
        """Do so many things."""
        acts: list[Callable[[], None]] = [
            *[self.agree] * 6,
            *[self.propose] * 4,
            *[self.vote] * 8,
            *[self.look] * 5,
            *[self.admit] * 6,
            *[self.report] * 5,
            self.replay,
            self.restart,
            *[self.grant] * 2,
            self.revoke,
            self.resolve,
        ]
        for _ in range(calls):
            self.chance.choice(acts)()
        return self.replies

    def send(self, actor: str, call: str, **body: Any) -> Reply:
        step: Step = {"as": actor, "call": call, **({"body": body} if body else {})}
        reply = self.player.send(step)
        self.replies.append((f"{actor} {call} {body}", reply))
        return reply

    def place(self) -> dict[str, Any]:
        run = self.chance.choice(self.known.runs)
        epoch = max(1, self.known.epochs[run] + self.chance.choice([0, 0, 0, 0, 0, 1, -1]))
        return {"run": run, "step": self.chance.choice(STEPS), "epoch": epoch}

    def learn(self, reply: Reply, run: str) -> None:
        """Remember an epoch that an answer names."""
        epoch = reply.body.get("current_epoch") or reply.body.get("epoch")
        if isinstance(epoch, int):
            self.known.epochs[run] = epoch

    def propose(self) -> None:
        place = self.place()
        members = {"key": self.chance.choice(KEYS), "deadline_s": self.chance.choice([None, 1, 60])}
        self.learn(self.send("planner", "POST /steps", **place, **members), place["run"])

    def agree(self) -> None:
        """Do all that a commit takes, in the epoch that is known, and look."""
        run = self.chance.choice(self.known.runs)
        place: dict[str, Any] = {"run": run, "step": f"{self.chance.choice(STEPS)}{self.chance.randrange(20)}"}
        place |= {"epoch": self.known.epochs[run]}
        self.send("planner", "POST /steps", **place, key=self.chance.choice(KEYS))
        for path in ("replica", "production"):
            self.send(path, "POST /votes", **place, action=ACTIONS[0])
        self.look_at(place)

    def vote(self) -> None:
        path = self.chance.choice(["production", "production", "replica", "replica", "third"])
        said = self.chance.choice([{"action": self.chance.choice(ACTIONS)}] * 8 + [{"abstain": "no answer"}])
        self.send(path, "POST /votes", **self.place(), **said)

    def look(self) -> None:
        self.look_at(self.place())

    def look_at(self, place: dict[str, Any]) -> None:
        reply = self.send("planner", f"GET /runs/{place['run']}/steps/{place['step']}?wait=0.2")
        body = reply.body
        if reply.status == 200 and body["commit"]:
            assert body["phase"] == "committed", body
            intent = self.send("auditor", f"GET /intents/{body['intent']['id']}").body
            self.known.tokens.append((body["commit"]["token"], intent["action"]))

    def admit(self) -> None:
        if not self.known.tokens:
            return
        token, action = self.chance.choice(self.known.tokens[-20:])
        reply = self.send("gateway", "POST /gateway/admissions", token=token, action=action)
        if reply.status == 200 and reply.body.get("delivery"):
            self.known.deliveries.append(reply.body)
            self.known.keys[reply.body["intent"]].add(reply.body["idempotency_key"])

    def report(self) -> None:
        if not self.known.deliveries:
            return
        delivery = self.chance.choice(self.known.deliveries[-10:])
        place = {"intent": delivery["intent"], "delivery": delivery["delivery"]}
        self.send("gateway", "POST /gateway/outcomes", **place, outcome=self.chance.choice(OUTCOMES))

    def replay(self) -> None:
        place = self.place()
        body = {"run": place["run"], "step": place["step"], "from_epoch": place["epoch"], "reason": "again"}
        self.learn(self.send("planner", "POST /steps/replay", **body), place["run"])

    def restart(self) -> None:
        run = self.chance.choice(self.known.runs)
        body = {"run": run, "expected_epoch": self.known.epochs[run], "reason": "took over"}
        self.learn(self.send("planner", "POST /epochs", **body), run)

    def grant(self) -> None:
        place = self.place()
        scope = self.chance.choice([{"step": place["step"]}, {"tool": "refund"}, {"tool": "send_mail"}])
        body = {"name": fresh_names()["grant"], "run": place["run"], "epoch": place["epoch"], "max_uses": 2}
        reply = self.send("oncall", "POST /grants", **body, **scope, ttl_s=2, reason="replica host is down")
        if reply.status == 201:
            self.known.grants.append(reply.body["name"])

    def revoke(self) -> None:
        if self.known.grants:
            self.send(
                "oncall2", f"POST /grants/{self.chance.choice(self.known.grants)}/revoke", reason="wrong customer"
            )

    def resolve(self) -> None:
        if self.known.deliveries:
            intent = self.chance.choice(self.known.deliveries[-10:])["intent"]
            happened = self.chance.choice([True, False])
            self.send("reviewer", f"POST /intents/{intent}/resolve", happened=happened, evidence="asked the tool")


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_anybody_does_nothing_breaks_and_all_of_it_holds_together(live_system: LiveSystem, seed: int) -> None:
    player = player_for(live_system)
    names = fresh_names()
    runs = [f"{names['run']}-{number}" for number in range(3)]
    for run in runs:
        assert player.send({"as": "planner", "call": "POST /runs", "body": {"run": run}}).status == 201
    known = Known(runs=runs, epochs=dict.fromkeys(runs, 1))
    with ThreadPoolExecutor(THREADS) as threads:
        walkers = [
            Walker(player=player, known=known, chance=random.Random(seed * 100 + number))  # noqa: S311 - a test's dice
            for number in range(THREADS)
        ]
        walks = [threads.submit(walker.walk, CALLS) for walker in walkers]
        replies = [reply for walk in walks for reply in walk.result(240)]
    broken = [f"{told}: {reply}" for told, reply in replies if reply.status >= 500 or not isinstance(reply.body, dict)]
    assert not broken, "\n".join(broken[:5])
    assert known.deliveries, "nothing was ever admitted: the walk shows nothing"
    check_effects(player, known)
    assert player.send({"as": "auditor", "call": "GET /counters"}).body["i1_divergent_commits"]["n"] == 0
    time.sleep(SETTLED_S)
    assert "stored states equal recomputed ones" in live_system.manage("recompute").stdout


def check_effects(player: Player, known: Known) -> None:
    """Every intent has one idempotency key of its own, deliveries in order, and at most one that settled it."""
    assert {len(keys) for keys in known.keys.values()} == {1}
    assert len({key for keys in known.keys.values() for key in keys}) == len(known.keys)
    for run in known.runs:
        for intent in player.send({"as": "auditor", "call": f"GET /intents?run={run}&limit=500"}).body["items"]:
            numbers = [delivery["number"] for delivery in intent["deliveries"]]
            assert numbers == list(range(1, len(numbers) + 1)), intent
            open_ones = [each for each in intent["deliveries"] if each["outcome"] is None]
            assert len(open_ones) <= 1 or intent["state"] in {"succeeded", "failed"}, intent
            if intent["state"] == "failed":
                assert "succeeded" not in [each["outcome"] for each in intent["deliveries"]], intent
