"""What a scoring worker and a pipeline say to the fence: work, permits, spend, fragments, and the gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fencing.client.calls import Call, Json, Repeat, Talk, members
from fencing.client.objects import AttemptSeen, Fragmented, GateSaid, Leased, Permitted, Spent, read, read_list
from fencing.client.polling import KeyTalks, wait_of
from fencing.client.shells import AsyncShell, SyncShell, asks


class ScorerTalks(KeyTalks):
    """The calls of a scorer's key, written once for both shells."""

    @asks
    def lease(self, lane: str, *, limit: int = 1, wait_s: float = 0) -> Talk[tuple[Leased, ...]]:
        """Take work of a lane, waiting up to `wait_s` (30) seconds for some; perhaps nothing.

        A lost answer is not asked for again: what it held is handed out anew once its lease is over.
        """
        body = members(lane=lane, limit=limit, wait=wait_s or None)
        call = Call(method="POST", path="/fragments/lease", body=body, wait_s=wait_s, repeat=Repeat.UNSENT)
        return read_list(Leased, (yield from self.asked(call)))

    @asks
    def permit(self, attempt: str, epoch: int, seq: int) -> Talk[Permitted]:
        """Ask for the permit of a model call (A6). Raises `StaleEpoch` once the attempt was restarted."""
        body = members(attempt=attempt, epoch=epoch, seq=seq)
        return read(Permitted, (yield from self.asked(Call(method="POST", path="/permits", body=body))))

    @asks
    def spend(self, permit: str, *, tokens_in: int, tokens_out: int, model: str | None = None) -> Talk[Spent]:
        """Report what the model call of a permit used."""
        body = members(permit=permit, tokens_in=tokens_in, tokens_out=tokens_out, model=model)
        return read(Spent, (yield from self.asked(Call(method="POST", path="/permits/spend", body=body))))

    @asks
    def send(
        self,
        attempt: str,
        epoch: int,
        seq: int,
        *,
        body: Json,
        score: float | None = None,
        permit: str | None = None,
    ) -> Talk[Fragmented]:
        """Send a fragment; the first one of its epoch and seq stays. Raises `Refused` where it is rejected (A2)."""
        sent = members(attempt=attempt, epoch=epoch, seq=seq, body=body, score=score, permit=permit)
        return read(Fragmented, (yield from self.asked(Call(method="POST", path="/fragments", body=sent))))

    @asks
    def get_attempt(self, attempt: str) -> Talk[AttemptSeen]:
        """Read an attempt."""
        path = f"/attempts/{quote(attempt, safe='')}"
        return read(AttemptSeen, (yield from self.asked(Call(method="GET", path=path))))


class GateTalks(KeyTalks):
    """The call of a gate's key."""

    @asks
    def read_gate(self, lane: str, *, wait_s: float = 0) -> Talk[GateSaid]:
        """Read the gate of a lane; with `wait_s` (up to 30) as soon as it says something else than wait (A7)."""
        query: Mapping[str, Any] = members(wait=wait_of(wait_s))
        call = Call(method="GET", path=f"/lanes/{quote(lane, safe='')}/gate", query=query, wait_s=wait_s)
        return read(GateSaid, (yield from self.asked(call)))


class Scorer(ScorerTalks, SyncShell):
    """A scorer's client that blocks."""


class AsyncScorer(ScorerTalks, AsyncShell):
    """A scorer's client for asyncio."""


class GateReader(GateTalks, SyncShell):
    """A gate's client that blocks."""


class AsyncGateReader(GateTalks, AsyncShell):
    """A gate's client for asyncio."""
