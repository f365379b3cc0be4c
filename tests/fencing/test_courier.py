"""The courier's loop without a database: a desk of the test says what is due, a real server is called."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pytest

from fencing.gateway import courier as loop
from fencing.gateway.dispatching import Taken
from fencing.gateway.outgoing import Callee, Outgoing, OutgoingEffect
from fencing.protocol.policies import Policy
from fencing.protocol.pushing import Ended
from tests.pushing import WAIT_S, courier, eventually, serving

# Longer than anybody waits for what it holds up.
LONG_S: Final = 3 * WAIT_S


def outgoing(url: str, key: str) -> OutgoingEffect:
    return OutgoingEffect(
        intent=key,
        delivery=key,
        number=1,
        callee=Callee(tool="pay", endpoint=f"{url}/pay", credential=None, policy=Policy(timeout_s=5)),
        body=b'{"tool":"pay","args":{}}',
        idempotency_key=key,
        token="t",
    )


@dataclass(kw_only=True)
class Desk:
    """Gives plain looks one after the other, then nothing; the careful way, and what ended, wait until they may."""

    looks: list[Taken]
    rest: list[Outgoing] = field(default_factory=list)
    let: threading.Event = field(default_factory=threading.Event)
    may_settle: threading.Event = field(default_factory=threading.Event)
    asked: list[int] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)

    def take_plain(self, limit: int) -> Taken:
        """Give the next look."""
        del limit
        return self.looks.pop(0) if self.looks else Taken(is_all=True)

    def take(self, limit: int) -> list[Outgoing]:
        """Give the rest, once."""
        self.asked.append(limit)
        assert self.let.wait(LONG_S)
        found, self.rest = self.rest[:limit], self.rest[limit:]
        return found

    def settle(self, ended: Sequence[tuple[Outgoing, Ended]], chance: Sequence[float]) -> list[float]:
        """Remember what ended, once it may."""
        del chance
        assert self.may_settle.wait(LONG_S)
        self.settled += [call.delivery for call, _ in ended]
        return [0.0] * len(ended)


def test_what_is_plain_has_left_before_the_rest_is_judged() -> None:
    with serving() as server:
        desk = Desk(looks=[Taken(calls=(outgoing(server.url, "p"),))], rest=[outgoing(server.url, "r")])
        with courier(desk=desk):
            eventually(lambda: [each["key"] for each in server.ledger.calls] == ["p"])
            desk.let.set()
            desk.may_settle.set()
            eventually(lambda: sorted(desk.settled) == ["p", "r"])


def test_the_rest_has_its_turn_however_much_is_plain() -> None:
    with serving() as server:
        full = [
            Taken(calls=tuple(outgoing(server.url, f"p{look}-{number}") for number in range(loop.BATCH)))
            for look in range(3)
        ]
        desk = Desk(looks=full, rest=[outgoing(server.url, f"r{number}") for number in range(3)])
        desk.let.set()
        desk.may_settle.set()
        with courier(desk=desk):
            eventually(lambda: len(desk.settled) == 3 * loop.BATCH + 3)
    assert len(desk.asked) == 3
    assert all(0 < limit <= loop.BATCH for limit in desk.asked)


def test_who_found_another_worker_taking_looks_again_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOOK_S", 3600.0)
    with serving() as server:
        busy = [Taken(is_all=True, is_busy=True)] * 3
        desk = Desk(looks=[*busy, Taken(calls=(outgoing(server.url, "p"),), is_all=True)])
        desk.may_settle.set()
        with courier(desk=desk):
            eventually(lambda: desk.settled == ["p"])


def test_calls_that_end_hold_up_none_that_begins() -> None:
    with serving() as server:
        desk = Desk(looks=[Taken(calls=(outgoing(server.url, "first"),), is_all=True)])
        with courier(desk=desk) as made:
            eventually(lambda: len(server.ledger.calls) == 1)
            desk.looks.append(Taken(calls=(outgoing(server.url, "second"),), is_all=True))
            made.nudge()
            eventually(lambda: len(server.ledger.calls) == 2)
            assert desk.settled == []
            desk.may_settle.set()
            eventually(lambda: sorted(desk.settled) == ["first", "second"])
