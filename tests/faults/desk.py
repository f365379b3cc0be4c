"""Everybody's seat at a web process on the test database: who speaks, and the chapters that a call needs before it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
from django.db import connections

from fencing.protocol.callers import Role
from fencing.services.fencing import decide_due
from tests.api.serving import Web
from tests.factories import fresh
from tests.section15 import may
from tests.stories import REFUND

ROLES: Final = {
    "planner": Role.PLANNER,
    "stranger": Role.PLANNER,
    "production": Role.PATH,
    "replica": Role.PATH,
    "third": Role.PATH,
    "gateway": Role.GATEWAY,
    "scorer": Role.SCORER,
    "publisher": Role.PUBLISHER,
    "gate": Role.GATE,
    "auditor": Role.AUDITOR,
    "oncall": Role.ONCALL,
    "oncall2": Role.ONCALL,
    "reviewer": Role.REVIEWER,
}
EPOCH: Final = 7
MOST_BATCHES: Final = 100


def who(call: str) -> str:
    """Somebody who may make a call."""
    return next(actor for actor, role in ROLES.items() if may(call, role))


@dataclass(kw_only=True)
class Desk:
    """Speaks to `web` as whoever holds one of the `keys`. Its `worker` has a connection of its own to the database."""

    web: Web
    keys: dict[str, str]
    worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _clients: dict[str, httpx.Client] = field(default_factory=dict)

    def get(self, actor: str, path: str) -> httpx.Response:
        """Read something."""
        return self._client(actor).get(path)

    def post(self, actor: str, path: str, body: object) -> httpx.Response:
        """Send something."""
        return self._client(actor).post(path, json=body)

    def post_raw(self, actor: str, path: str, raw: bytes) -> httpx.Response:
        """Send bytes as they are."""
        return self._client(actor).post(path, content=raw, headers={"Content-Type": "application/json"})

    def done(self, actor: str, path: str, body: object) -> dict[str, Any]:
        """Send something that must succeed."""
        answer = self.post(actor, path, body)
        assert answer.status_code in (200, 201), (path, body, answer.text)
        told: dict[str, Any] = answer.json()
        return told

    def _client(self, actor: str) -> httpx.Client:
        if actor not in self._clients:
            self._clients[actor] = self.web.client(self.keys[actor])
        return self._clients[actor]

    def close(self) -> None:
        """End all connections."""
        self.worker.submit(connections.close_all)
        self.worker.shutdown()
        for client in self._clients.values():
            client.close()

    # ---- chapters ----

    def open(self) -> dict[str, Any]:
        """Open a run in epoch 7, and give the place of a step in it."""
        run = fresh("run")
        self.done("planner", "/runs", {"run": run, "epoch": EPOCH})
        return {"run": run, "step": "s1", "epoch": EPOCH}

    def proposed(self, **members: Any) -> dict[str, Any]:
        """Propose a step in a run of its own."""
        place = self.open()
        self.done("planner", "/steps", {**place, **members})
        return place

    def vote(self, place: dict[str, Any], *paths: str, action: Any = REFUND) -> None:
        """Let paths want an action."""
        for path in paths:
            self.done(path, "/votes", {**place, "action": action})

    def committed(self, action: Any = REFUND) -> tuple[dict[str, Any], str]:
        """Have a step agreed and committed; give its place and token."""
        place = self.proposed()
        self.vote(place, "replica", "production", action=action)
        return place, str(self.decided(place, "committed")["commit"]["token"])

    def decided(self, place: dict[str, Any], phase: str) -> dict[str, Any]:
        """Let the fencer decide, and give the step, which must be in a phase then."""
        self.worker.submit(decided_in_full).result(30)
        step = self.step(place)
        assert step["phase"] == phase, step
        return step

    def step(self, place: dict[str, Any]) -> dict[str, Any]:
        """Read a step, as its planner does."""
        step: dict[str, Any] = self.get("planner", f"/runs/{place['run']}/steps/s1").json()
        return step

    def admitted(self, action: Any = REFUND) -> tuple[dict[str, Any], dict[str, Any]]:
        """Have an effect under way; give its step's place and what the gateway was told."""
        place, token = self.committed(action)
        return place, self.done("gateway", "/gateway/admissions", {"token": token, "action": action})

    def granted(self, place: dict[str, Any], tool: str = "refund") -> str:
        """Have on-call issue a grant for a step's run."""
        name = fresh("grant")
        members = {"run": place["run"], "epoch": place["epoch"], "tool": tool, "ttl_s": 60}
        reason = "The replica's host is down since 02:10."
        self.done("oncall", "/grants", {"name": name, **members, "reason": reason})
        return name


def decided_in_full() -> None:
    """Decide until nothing is due."""
    for _ in range(MOST_BATCHES):
        if not decide_due():
            return
    raise AssertionError("the fencer does not come to an end")
