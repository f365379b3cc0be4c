"""A push tool that fails in each way that a call can end, and what the fence must make of each (L5).

All of it happens at once. What follows a fault is read over HTTP, as the step's planner would read it; what the tool
really did is asked of the tool.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from fencing.client import Intent, Path, Planner
from fencing.demo.stage import DemoKeys

ENDS_S: Final = 45.0
PAUSE_S: Final = 0.1
SETTLED: Final = frozenset({"succeeded", "failed", "in_doubt"})

_BUSY: Final = {"status": 409, "pointer": "/code", "equals": "in_progress"}
_EXISTS: Final = {"status": 409, "pointer": "/code", "equals": "exists"}
_POLICY: Final = {
    "grace_s": 0,
    "lease_s": 20,
    "max_deliveries": 8,
    "nothing_done": [425, 429, _BUSY],
    "already_done": [_EXISTS],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fault: what the tool does at each try, how the first try and the effect must end, and how often it happens.

    `do` are words of `fencing.demo.push_tool`.
    """

    name: str
    tool: str
    do: tuple[str, ...]
    first: str
    ends: str
    effects: int

    @property
    def action(self) -> dict[str, Any]:
        """The call that both paths want."""
        return {"tool": self.tool, "args": {"invoice": 9, "case": self.name, "do": list(self.do)}}

    @property
    def step(self) -> str:
        """The step of the run that wants it."""
        return re.sub("[^a-z0-9]+", "-", self.name)

    @property
    def expected(self) -> str:
        """What must be seen, in words."""
        return told(self.first, self.ends, self.effects)


def told(first: str, ends: str, effects: int) -> str:
    """Write what became of a call: how the first try ended, how the effect did, how often it really happened."""
    tries = ends if first == ends else f"{first}, then {ends}"
    return f"{tries} · happened {('never', 'once', 'twice')[min(effects, 2)]}"


def _case(name: str, tool: str, do: str, *ends: str, effects: int = 1) -> Case:
    return Case(name=name, tool=tool, do=tuple(do.split()), first=ends[0], ends=ends[-1], effects=effects)


# No tool fails four times in a row more than once: its circuit breaker would leave it alone, as it should.
CASES: Final = (
    _case("connection refused", "demo_late", "ok", "not_sent", "succeeded"),
    _case("reset before it acted", "demo_pay", "reset_before ok", "unknown", "succeeded"),
    _case("reset after it acted", "demo_pay", "reset_after ok", "unknown", "succeeded"),
    _case("timeout before it acted", "demo_pay", "hang ok", "unknown", "succeeded"),
    _case("timeout after it acted", "demo_pay", "hang_after ok", "unknown", "succeeded"),
    _case("201", "demo_ship", "created", "succeeded"),
    _case("200 with a wrong body", "demo_ship", "wrong_body ok", "unknown", "succeeded"),
    _case("302", "demo_book", "redirect ok", "unknown", "succeeded"),
    _case("408", "demo_book", "timeout_status ok", "unknown", "succeeded"),
    _case("409 in progress", "demo_ship", "in_progress ok", "busy", "succeeded"),
    _case("409 exists", "demo_ship", "reset_after exists", "unknown", "succeeded"),
    _case("422", "demo_ship", "refused", "failed", effects=0),
    _case("425", "demo_ship", "too_early ok", "busy", "succeeded"),
    _case("429", "demo_ship", "busy ok", "busy", "succeeded"),
    _case("500", "demo_book", "broken_after ok", "unknown", "succeeded"),
    _case("504 of a proxy", "demo_book", "proxy ok", "unknown", "succeeded"),
    # A tool that does not know a repetition is not asked twice: a person is.
    _case("reset, and not idempotent", "demo_note", "reset_after", "unknown", "in_doubt"),
    _case("504, and not idempotent", "demo_note", "proxy", "unknown", "in_doubt"),
    _case("200, and not idempotent", "demo_note", "ok", "succeeded"),
    # What no answer can tell, the tool's own ledger does.
    _case("acts at each repetition", "demo_twice", "reset_after ok", "unknown", "succeeded", effects=2),
    _case("says 200 and does nothing", "demo_ship", "forgets", "succeeded", effects=0),
)
TOOLS: Final = tuple(dict.fromkeys(case.tool for case in CASES))
# What the tools' own ledgers must show that no answer told: missing and doubled effects.
SHOWN: Final[Mapping[str, Mapping[str, int]]] = {"demo_ship": {"missing": 1}, "demo_twice": {"doubled": 1}}


def definitions(url: str, late_url: str) -> list[dict[str, Any]]:
    """Define the tools of a server: which of them honour the idempotency key, and which only say so."""

    def one(tool: str) -> dict[str, Any]:
        # A fault of `demo_pay` is that it does not answer; the others have all the time of a slow machine.
        timeout_s = 2 if tool == "demo_pay" else 15
        honours = tool not in ("demo_note", "demo_twice")
        base = late_url if tool == "demo_late" else url
        return {
            "tool": tool,
            "mode": "push",
            "idempotent": tool != "demo_note",
            "endpoint": f"{base}/{'pay' if honours else 'note'}",
            "read_back": f"{base}/effects/{{key}}",
            "ledger": f"{base}/ledger?tool={tool}",
            "resources": ["/invoice"],
            "policy": {**_POLICY, "timeout_s": timeout_s},
        }

    return [one(tool) for tool in TOOLS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A fault as it went."""

    case: Case
    seen: str
    link: str

    @property
    def is_right(self) -> bool:
        """Whether it ended as it must."""
        return self.seen == self.case.expected


@dataclass(slots=True)
class _Play:
    """All faults at once, in a run of their own."""

    planner: Planner
    tool_url: str
    run: str
    cases: Sequence[Case]
    epoch: int = 1
    intents: dict[str, str] = field(default_factory=dict)

    def begin(self, paths: Mapping[str, Path]) -> None:
        """Have both paths agree on each call; the fence commits, and a worker calls."""
        self.epoch = self.planner.open_run(self.run).epoch
        for case in self.cases:
            self.planner.propose(self.run, case.step, self.epoch, tool=case.tool, context={"case": case.name})
            for model, path in paths.items():
                path.vote(self.run, case.step, self.epoch, action=case.action, model=model)

    def wait(self) -> dict[str, Intent]:
        """Look until each effect is known to have ended, or in doubt, for as long as that may take."""
        until = time.monotonic() + ENDS_S
        found: dict[str, Intent] = {}
        is_open = False
        while time.monotonic() < until and len(found) < len(self.cases):
            for case in self.cases:
                intent = None if case.step in found else self._intent(case)
                if intent is not None and intent.state in SETTLED:
                    found[case.step] = intent
                if case.first == "not_sent" and not is_open and "not_sent" in _outcomes(intent):
                    httpx.post(f"{self.tool_url}/open", trust_env=False).raise_for_status()
                    is_open = True
            time.sleep(PAUSE_S)
        return found

    def happened(self) -> Counter[str]:
        """Ask the tool how often it did what."""
        items = httpx.get(f"{self.tool_url}/ledger", params={"limit": "1000"}, trust_env=False).json()["items"]
        return Counter(row["action"]["args"]["case"] for row in items)

    def _intent(self, case: Case) -> Intent | None:
        if case.step not in self.intents:
            step = self.planner.get_step(self.run, case.step, self.epoch)
            if step.intent is None:
                return None
            self.intents[case.step] = step.intent.id
        return self.planner.get_intent(self.intents[case.step])


def fail(base_url: str, keys: DemoKeys, tool_url: str, *, cases: Sequence[Case] = CASES) -> list[Failed]:
    """Let the tool fail in each way, and tell how each ended. Its tools must be registered (`definitions`)."""
    run = f"demo-{secrets.token_hex(3)}-push-tool"
    with (
        Planner(base_url, keys.planner) as planner,
        Path(base_url, keys.production) as production,
        Path(base_url, keys.replica) as replica,
    ):
        play = _Play(planner, tool_url, run, cases)
        play.begin({"generous-rule-1": replica, "careful-rule-1": production})
        ended, happened = play.wait(), play.happened()
        return [_failed(base_url, case, ended.get(case.step), happened[case.name], play) for case in cases]


def _failed(base_url: str, case: Case, ended: Intent | None, effects: int, play: _Play) -> Failed:
    intent = play.intents.get(case.step)
    link = f"{base_url}/effects/{intent}" if intent else f"{base_url}/runs/{play.run}"
    return Failed(case=case, seen=seen_of(ended, effects), link=link)


def seen_of(ended: Intent | None, effects: int) -> str:
    """Write what became of an effect; None for one of which nothing is known when time is up."""
    return "it came to no end" if ended is None else told((_outcomes(ended) or ["?"])[0], ended.state, effects)


def _outcomes(intent: Intent | None) -> list[str]:
    """How each try ended, in order."""
    return [str(each["outcome"]) for each in (intent.deliveries or ())] if intent is not None else []
