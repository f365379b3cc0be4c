"""What a planner says to the fence: runs, proposals, restarts, replays, and how it hears of decisions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from urllib.parse import quote

from fencing.client.calls import Call, Json, Talk, members
from fencing.client.objects import Event, Events, Fork, Intent, Reconciled, Replayed, Restarted, Run, Step, read
from fencing.client.polling import LEAST_TURN_S, MAX_WAIT_S, KeyTalks, patient, wait_of
from fencing.client.shells import AsyncShell, SyncShell, asks


class PlannerTalks(KeyTalks):
    """The calls of a planner, written once for both shells."""

    @asks
    def open_run(self, run: str, *, epoch: int | None = None, labels: Mapping[str, str] | None = None) -> Talk[Run]:
        """Open a run, or find it open: repeated, the answer tells its current epoch (N2).

        Whoever retries a request of the outside world uses the same run. Raises `Conflict` (`run_exists`) when it was
        opened with other content.
        """
        body = members(run=run, epoch=epoch, labels=labels)
        return read(Run, (yield from self.asked(Call(method="POST", path="/runs", body=body))))

    @asks
    def get_run(self, run: str) -> Talk[Run]:
        """Read a run as it stands."""
        return read(Run, (yield from self.asked(Call(method="GET", path=f"/runs/{quote(run, safe='')}"))))

    @asks
    def restart(self, run: str, *, expected_epoch: int, reason: str, epoch: int | None = None) -> Talk[Restarted]:
        """Close every older epoch of a run after a restart or a takeover (R2).

        Raises `StaleEpoch` when another planner was first; `current_epoch` of the error tells what is open now.
        """
        body = members(run=run, expected_epoch=expected_epoch, epoch=epoch, reason=reason)
        return read(Restarted, (yield from self.asked(Call(method="POST", path="/epochs", body=body))))

    @asks
    def propose(  # noqa: PLR0913 - the members of a proposal (F1)
        self,
        run: str,
        step: str,
        epoch: int,
        *,
        action: Json = None,
        digest: str | None = None,
        tool: str | None = None,
        branch: str | None = None,
        key: str | None = None,
        occurrence: int | None = None,
        deadline_s: float | None = None,
        context: Json = None,
    ) -> Talk[Step]:
        """Propose a step (F1). What is not proposed cannot be delivered.

        `action`, `digest` and `tool` pin what may be agreed on; `key` and `occurrence` make the invocation key (L1);
        `deadline_s` replaces the tool's; `context` is what the paths are asked to decide on. A step that is committed
        already answers with that commit (R6). Raises `StaleEpoch`, `FutureEpoch`, `Conflict` or `Malformed`.
        """
        body = members(
            run=run,
            step=step,
            epoch=epoch,
            action=action,
            digest=digest,
            tool=tool,
            branch=branch,
            key=key,
            occurrence=occurrence,
            deadline_s=deadline_s,
            context=context,
        )
        return read(Step, (yield from self.asked(Call(method="POST", path="/steps", body=body))))

    @asks
    def open_fork(
        self,
        run: str,
        fork: str,
        branches: Sequence[str],
        *,
        parent: str | None = None,
        deadline_s: float | None = None,
    ) -> Talk[Fork]:
        """Open a fork of two branches or more (B1), on the trunk or in the branch `parent`. Raises `Conflict`."""
        body = members(run=run, fork=fork, branches=list(branches), parent=parent, deadline_s=deadline_s)
        return read(Fork, (yield from self.asked(Call(method="POST", path="/forks", body=body))))

    @asks
    def reconcile(self, run: str, fork: str, winner: str | None) -> Talk[Reconciled]:
        """Let one branch win, or none; the rest lose in the same moment (B2, B4). Raises `Conflict`."""
        body = {"run": run, "fork": fork, "winner": winner}
        return read(Reconciled, (yield from self.asked(Call(method="POST", path="/forks/reconcile", body=body))))

    @asks
    def replay(self, run: str, step: str, *, from_epoch: int, reason: str) -> Talk[Replayed]:
        """Ask for a fresh epoch for one step that was rejected or whose effect failed (R4); propose it there anew.

        Raises `NotRejected`, `StaleEpoch` or `AlreadyCommitted`.
        """
        body = members(run=run, step=step, from_epoch=from_epoch, reason=reason)
        return read(Replayed, (yield from self.asked(Call(method="POST", path="/steps/replay", body=body))))

    @asks
    def get_step(self, run: str, step: str, epoch: int, *, wait_s: float = 0, phase: str | None = None) -> Talk[Step]:
        """Read a step.

        With `wait_s` (up to 30) as soon as it is decided, or has left `phase`, and after that time as it stands (H5).
        """
        return read(Step, (yield from self.asked(step_call(run, step, epoch, wait_s=wait_s, phase=phase))))

    @asks
    def wait_decided(self, run: str, step: str, epoch: int, *, patience_s: float | None = None) -> Talk[Step]:
        """Wait until the fence has decided, by one long poll after the other; the step's own deadline bounds it.

        `patience_s` ends the wait earlier: then the step comes back as it stands, with `is_decided` false.
        """

        def look(wait_s: float) -> Call:
            return step_call(run, step, epoch, wait_s=wait_s)

        def found(answer: Json) -> Step | None:
            seen = read(Step, answer)
            return seen if seen.is_decided else None

        decided, last = yield from patient(self, look, found, patience_s=patience_s)
        return decided or read(Step, last)

    @asks
    def next_events(self, after: str | None = None, *, wait_s: float = MAX_WAIT_S) -> Talk[Events]:
        """Read the next page of events after a cursor, waiting up to `wait_s` for the first; the page may be empty."""

        def look(wait_s: float) -> Call:
            query = members(after=after, wait=wait_of(wait_s))
            return Call(method="GET", path="/events", query=query, wait_s=wait_s)

        def found(answer: Json) -> Events | None:
            page = read(Events, answer)
            return page if page.items else None

        page, last = yield from patient(self, look, found, patience_s=wait_s)
        return page or read(Events, last)

    @asks
    def get_intent(self, intent: str) -> Talk[Intent]:
        """Read an intent: the action that is to be done, its claims, deliveries and outcome."""
        return read(Intent, (yield from self.asked(Call(method="GET", path=f"/intents/{quote(intent, safe='')}"))))


class Planner(PlannerTalks, SyncShell):
    """A planner's client that blocks."""

    def events(self, after: str | None = None, *, wait_s: float = MAX_WAIT_S) -> Iterator[Event]:
        """Follow the events for ever, oldest first; keep an event's `cursor` to go on after a restart."""
        while True:
            page = self.next_events(after, wait_s=max(wait_s, LEAST_TURN_S))
            yield from page.items
            after = _next(page, after)


class AsyncPlanner(PlannerTalks, AsyncShell):
    """A planner's client for asyncio."""

    async def events(self, after: str | None = None, *, wait_s: float = MAX_WAIT_S) -> AsyncIterator[Event]:
        """Follow the events for ever, oldest first; keep an event's `cursor` to go on after a restart."""
        while True:
            page = await self.next_events(after, wait_s=max(wait_s, LEAST_TURN_S))
            for event in page.items:
                yield event
            after = _next(page, after)


def step_call(run: str, step: str, epoch: int, *, wait_s: float = 0, phase: str | None = None) -> Call:
    """The waiting read of one step."""
    path = f"/runs/{quote(run, safe='')}/steps/{quote(step, safe='')}"
    query = members(epoch=epoch, wait=wait_of(wait_s), phase=phase)
    return Call(method="GET", path=path, query=query, wait_s=wait_s)


def _wait(wait_s: float) -> str | None:
    return f"{wait_s:g}" if wait_s else None


def _next(page: Events, after: str | None) -> str | None:
    return page.next or (page.items[-1].cursor if page.items else after)
