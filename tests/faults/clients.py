"""Those who take steps from proposal to effect and repeat whatever nobody answered, as every client does (N2)."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tests.faults.own import Own, eventually

REFUND: Final = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
OTHER: Final = {"tool": "refund", "args": {"invoice": 9, "cents": 1}}


@dataclass(kw_only=True)
class Ledger:
    """What the tool behind the gateway was asked to do: how often by each idempotency key."""

    calls: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def act(self, key: str) -> None:
        with self.lock:
            self.calls[key] += 1


@dataclass(kw_only=True)
class Client:
    """Takes steps from their proposal to their end, and repeats whatever is not answered."""

    own: Own
    ledger: Ledger
    chance: random.Random
    run: str
    wanted: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def take(self, steps: list[str]) -> None:
        """Bring steps to their ends, beside each other."""
        for step in steps:
            self.wanted[step] = self.chance.choices(["agree", "alone", "diverge"], [8, 1, 1])[0]
            self.propose(step)
        votes = [vote for step in steps for vote in self.votes_on(step)]
        self.chance.shuffle(votes)
        for step, path, action in votes:
            reply = self.own.say(path, "POST /votes", run=self.run, step=step, epoch=1, action=action)
            assert reply.body.get("vote") in {"recorded", "duplicate", "late"}, reply
        for step in steps:
            commit = self.decided(step)
            if commit is not None:
                self.keys[step] = self.effect(commit["token"])

    def propose(self, step: str) -> None:
        place = {"run": self.run, "step": step, "epoch": 1}
        assert self.own.say("planner", "POST /steps", **place, key=step).status in (200, 201)
        if self.wanted[step] == "alone":
            grant = {"name": f"{self.run}.{step}", **place, "tool": "refund", "ttl_s": 600}
            reason = "The replica's host is down since 02:10."
            assert self.own.say("oncall", "POST /grants", **grant, reason=reason).status in (200, 201)

    def votes_on(self, step: str) -> list[tuple[str, str, Any]]:
        """What the paths will say of a step."""
        production = (step, "production", REFUND)
        if self.wanted[step] == "alone":
            return [production]
        return [production, (step, "replica", OTHER if self.wanted[step] == "diverge" else REFUND)]

    def decided(self, step: str) -> Any:
        """Wait for the decision; give the commit."""
        while True:
            body = self.own.say("planner", f"GET /runs/{self.run}/steps/{step}?epoch=1&wait=10").body
            if body["phase"] in ("committed", "rejected"):
                assert (body["phase"] == "rejected") is (self.wanted[step] == "diverge"), body
                return body["commit"]

    def effect(self, token: str) -> str:
        """Have the effect done, as a gateway that repeats what nobody answered; give its idempotency key."""
        while True:
            told = self.own.say("gateway", "POST /gateway/admissions", token=token, action=REFUND).body
            if told.get("admit"):
                self.ledger.act(told["idempotency_key"])
                report = {"intent": told["intent"], "delivery": told["delivery"], "outcome": "succeeded"}
                settled = self.own.say("gateway", "POST /gateway/outcomes", **report)
                assert settled.body.get("state") == "succeeded", settled
                return str(told["idempotency_key"])
            # The answer to an admission was lost with the web process: its lease ends, and the next one is let through.
            assert told.get("code") == "delivery_in_progress", told
            time.sleep(0.3)


def look_at_what_is_left(own: Own, run: str, clients: list[Client], ledger: Ledger) -> None:
    """Each step came to the end that its votes ask for, was decided once, and its effect is out once (I3, N5)."""
    wanted = {step: kind for client in clients for step, kind in client.wanted.items()}
    keys = {step: key for client in clients for step, key in client.keys.items()}
    committed = {step for step, kind in wanted.items() if kind != "diverge"}
    assert set(keys) == committed
    # Each effect has a key of its own, and the tool was asked for it at least once, always by that key.
    assert len(set(keys.values())) == len(committed)
    assert set(ledger.calls) == set(keys.values())
    with own.connect() as database:

        def told(statement: str) -> Counter[str]:
            return Counter(dict(database.execute(statement, [run]).fetchall()))

        assert told(COMMITS) == Counter(committed)
        assert told(VOTES) == Counter({step: 1 if kind == "alone" else 2 for step, kind in wanted.items()})
        assert told(DECIDED) == Counter(wanted.keys())
        assert told(COMMITTING) == Counter(committed)
        assert told(SUCCEEDED) == Counter(committed)
    eventually(lambda: "stored states equal recomputed ones" in own.recompute())
    assert own.say("auditor", "GET /counters").body["i1_divergent_commits"]["n"] == 0


COMMITS: Final = """
SELECT c.step_name, count(*) FROM fencing_commit c JOIN fencing_run r ON r.id = c.run_id WHERE r.name = %s GROUP BY 1
"""
VOTES: Final = """
SELECT s.name, count(*) FROM fencing_vote v JOIN fencing_step s ON s.id = v.step_id
JOIN fencing_run r ON r.id = s.run_id WHERE r.name = %s GROUP BY 1
"""
DECIDED: Final = """
SELECT s.name, count(*) FROM fencing_feedevent f JOIN fencing_step s ON s.id = f.step_id
JOIN fencing_run r ON r.id = s.run_id WHERE r.name = %s AND f.what = 'decided' GROUP BY 1
"""
COMMITTING: Final = """
SELECT c.step_name, count(*) FROM fencing_auditevent a JOIN fencing_commit c ON c.id::text = a.subject
WHERE a.run = %s AND a.verb = 'commit_step' GROUP BY 1
"""
SUCCEEDED: Final = """
SELECT i.key, count(*) FROM fencing_intent i JOIN fencing_run r ON r.id = i.run_id
WHERE r.name = %s AND i.state = 'succeeded' AND i.generation = 1 GROUP BY 1
"""
