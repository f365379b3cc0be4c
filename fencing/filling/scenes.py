"""What may happen to a step, as scenes; each plays one step of a run from its proposal to its end.

`ORDINARY` is what most steps are. `EVENTFUL` are the rest, each with how many of a thousand runs hold it. `OPEN` leave
something for a person or a gateway to do: they stand at the end of the history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencing.filling.stage import Stage
from fencing.gateway.outcomes import resolve_intent
from fencing.models import Incident, SideLogRow, Verdict
from fencing.protocol.errors import Code
from fencing.services.grants import review_grant
from fencing.services.incidents import resolve_incident
from fencing.services.issuing import issue_grant
from fencing.services.requests import (
    AcknowledgeRows,
    DecideGrant,
    IssueGrant,
    ReplayStep,
    ResolveIncident,
    ResolveIntent,
    RestartRun,
)
from fencing.services.runs import restart_run
from fencing.services.side_log import acknowledge
from fencing.services.steps import replay_step
from fencing.services.verdicts import GiveVerdict, give_verdict

Scene = Callable[[Stage, str], None]
# Longer than the shortest deadline, lease and grant: all of them are one second.
OVER_S: Final = 1.02
HOUR_S: Final = 3600.0
DAY_S: Final = 86_400


def refund(stage: Stage, step: str) -> None:
    """Refund an invoice: both paths agree, and it leaves once."""
    _fenced(stage, step, "refund_invoice")


def remind(stage: Stage, step: str) -> None:
    """Send a reminder."""
    _fenced(stage, step, "send_reminder", cents=None, currency=None, text="A friendly reminder of an open invoice.")


def transfer(stage: Stage, step: str) -> None:
    """Book a transfer."""
    _fenced(stage, step, "book_transfer", account="DE89370400440532013000")


def look_up(stage: Stage, step: str) -> None:
    """Read an invoice: no fence for that."""
    stage.propose(step, action=stage.action("look_up_invoice", cents=None, currency=None))


def fail(stage: Stage, step: str) -> None:
    """Have the tool decline definitely (L7)."""
    action = stage.action("book_transfer", account="DE02120300000000202051")
    stage.propose(step, tool="book_transfer")
    stage.agree(step, action)
    stage.deliver(step, action, outcome="failed")


def diverge(stage: Stage, step: str) -> None:
    """Let the paths want different things, and a reviewer say who was right."""
    _diverged(stage, step)
    _judge(stage, step, Verdict.Choice.PRODUCTION_RIGHT, "The customer's contract allows no refund for this.")


def diverge_in_spelling(stage: Stage, step: str) -> None:
    """Let the paths mean the same and write it differently."""
    action = stage.action("send_reminder", cents=None, currency=None, text="Invoice is open.")
    args = action["args"] | {"text": "invoice is open."}
    stage.propose(step)
    stage.vote(step, "replica", action)
    stage.vote(step, "production", {"tool": "send_reminder", "args": args})
    stage.decide()
    _judge(stage, step, Verdict.Choice.SAME_MEANING, "")


def equivocate(stage: Stage, step: str) -> None:
    """Let one path vote twice, and differently (F2)."""
    action = stage.action("refund_invoice")
    stage.propose(step)
    stage.vote(step, "replica", action)
    other = {"tool": "refund_invoice", "args": action["args"] | {"cents": 2400}}
    stage.vote(step, "replica", other, refused=Code.EQUIVOCATION)
    stage.decide()


def mismatch(stage: Stage, step: str) -> None:
    """Let both paths vote for something else than the proposal pinned."""
    action = stage.action("refund_invoice")
    stage.propose(step, action={"tool": "refund_invoice", "args": action["args"] | {"cents": 9900}})
    stage.agree(step, action)


def time_out(stage: Stage, step: str) -> None:
    """Let the replica be silent until the deadline, and speak when it is too late (F7)."""
    action = stage.action("refund_invoice")
    stage.propose(step, deadline_s=1.0)
    stage.vote(step, "production", action, pause_s=0.4)
    time.sleep(OVER_S)
    stage.decide(pause_s=2.0)
    stage.vote(step, "replica", action, pause_s=7.0)


def abstain(stage: Stage, step: str) -> None:
    """Let neither path be able to answer."""
    stage.propose(step, tool="refund_invoice")
    for path in ("replica", "production"):
        stage.vote(step, path, None, abstain="The model's provider answers 529.")
    stage.decide()


def break_glass(stage: Stage, step: str) -> None:
    """Let production act alone under a grant, which another person reviews."""
    _granted(stage, step)


def break_glass_with_witness(stage: Stage, step: str) -> None:
    """Let the other path agree afterwards (F7)."""
    action = _granted(stage, step)
    stage.vote(step, "replica", action, pause_s=1900.0)
    stage.decide()


def diverge_late(stage: Stage, step: str) -> None:
    """Let a path vote again, differently, after the commit and before its effect left (F8)."""
    action = stage.action("refund_invoice")
    stage.propose(step, tool="refund_invoice")
    stage.agree(step, action)
    other = {"tool": "refund_invoice", "args": action["args"] | {"cents": 1}}
    stage.vote(step, "replica", other, refused=Code.EQUIVOCATION)


def diverge_too_late(stage: Stage, step: str) -> None:
    """Let it do so after the effect left: an incident, which a reviewer resolves."""
    _diverged_too_late(stage, step)
    incident = Incident.objects.get(run__name=stage.run)
    reason = ResolveIncident(reason="The refund was due in any case; the replica read an old price list.")
    stage.good(2 * HOUR_S, resolve_incident(str(incident.id), reason, stage.troupe.reviewer))


def call_early(stage: Stage, step: str) -> None:
    """Ask the gateway before anything was decided, and with another payload than the agreed one."""
    action = stage.action("refund_invoice")
    stage.propose(step, tool="refund_invoice")
    stage.vote(step, "replica", action)
    stage.try_without(step, action, Code.NOT_COMMITTED)
    stage.vote(step, "production", action)
    stage.decide()
    greedy = {"tool": "refund_invoice", "args": action["args"] | {"cents": 420_000}}
    stage.try_without(step, greedy, Code.PAYLOAD_MISMATCH, token=stage.token(step))
    stage.deliver(step, action)


def lose_answer(stage: Stage, step: str) -> None:
    """Lose the tool's answer; the repetition with the same key succeeds (L5)."""
    action = stage.action("ship_goods", cents=None, currency=None, parcels=1)
    stage.propose(step, tool="ship_goods")
    stage.agree(step, action)
    stage.report(stage.admit(step, action), "unknown", pause_s=0.9)
    time.sleep(OVER_S)
    admitted = stage.admit(step, action, pause_s=2.0)
    stage.report(admitted, "succeeded", response={"parcel": stage.number()})


def doubt(stage: Stage, step: str) -> None:
    """Lose the answer of a tool that must not be asked twice; a reviewer finds out (L6)."""
    intent = _doubted(stage, step)
    request = ResolveIntent(happened=True, evidence="The bank's statement of this morning lists it.")
    stage.good(5 * HOUR_S, resolve_intent(intent, request, stage.troupe.reviewer))


def replay(stage: Stage, step: str) -> None:
    """Replay a step on which the paths disagreed; in its fresh epoch they agree (R4)."""
    _diverged(stage, step)
    again = ReplayStep(run=stage.run, step=step, from_epoch=1, reason="The price list was corrected.")
    epoch = stage.good(1200.0, replay_step(again, stage.planner))["epoch"]
    action = stage.action("refund_invoice")
    stage.propose(step, epoch=epoch, tool="refund_invoice")
    stage.agree(step, action, epoch=epoch)
    stage.deliver(step, action, epoch=epoch)


def restart(stage: Stage, step: str) -> None:
    """Restart the planner in the middle of a step, and decide it in the new epoch (R2, R3). Ends a run."""
    action = stage.action("refund_invoice")
    stage.propose(step, tool="refund_invoice")
    stage.vote(step, "replica", action)
    again = RestartRun(run=stage.run, expected_epoch=1, reason="The planner's host was replaced.")
    epoch = stage.good(30.0, restart_run(again, stage.planner))["epoch"]
    stage.vote(step, "production", action, refused=Code.STALE_EPOCH)
    stage.propose(step, epoch=epoch, tool="refund_invoice")
    stage.agree(step, action, epoch=epoch)
    stage.deliver(step, action, epoch=epoch)


def conflict(stage: Stage, step: str) -> None:
    """Use an invocation key for a second and different effect (L1)."""
    key = f"{stage.run}-once"
    action = stage.action("refund_invoice")
    stage.propose(step, tool="refund_invoice", key=key)
    stage.agree(step, action)
    stage.deliver(step, action)
    other = stage.action("refund_invoice")
    stage.propose(f"{step}-again", tool="refund_invoice", key=key)
    stage.agree(f"{step}-again", other)


def share(stage: Stage, step: str) -> None:
    """Want the same effect in two steps: it leaves once, and both get its outcome."""
    action = stage.action("refund_invoice")
    for name in (step, f"{step}-retried"):
        stage.propose(name, tool="refund_invoice")
        stage.agree(name, action)
    stage.deliver(step, action)
    stage.admit(f"{step}-retried", action)


def misspell(stage: Stage, step: str) -> None:
    """Let both paths name a tool that nobody registered (F6)."""
    stage.propose(step)
    stage.agree(step, stage.action("refnud_invoice"))


# ---- what is still open ----


def await_votes(stage: Stage, step: str) -> None:
    """Nobody has voted yet."""
    stage.propose(step, deadline_s=DAY_S)


def await_replica(stage: Stage, step: str) -> None:
    """One path has voted, the other is waited for."""
    stage.propose(step, deadline_s=DAY_S)
    stage.vote(step, "production", stage.action("refund_invoice"))
    stage.decide()


def await_gateway(stage: Stage, step: str) -> None:
    """Committed, and nobody has fetched it."""
    action = stage.action("refund_invoice")
    stage.propose(step, tool="refund_invoice")
    stage.agree(step, action)


def await_outcome(stage: Stage, step: str) -> None:
    """At the tool, for up to an hour."""
    action = stage.action("book_transfer", account="DE89370400440532013000")
    stage.propose(step, tool="book_transfer")
    stage.agree(step, action)
    stage.admit(step, action)


def await_resolution(stage: Stage, step: str) -> None:
    """In doubt: a person has to say whether it happened."""
    _doubted(stage, step)


def await_reviewer(stage: Stage, step: str) -> None:
    """An incident that nobody has resolved."""
    _diverged_too_late(stage, step)


def await_verdict(stage: Stage, step: str) -> None:
    """A divergence that nobody has judged."""
    _diverged(stage, step)


ORDINARY: Final[tuple[Scene, ...]] = (refund, remind, transfer, look_up)
EVENTFUL: Final[Mapping[Scene, int]] = {
    fail: 40,
    diverge: 60,
    diverge_in_spelling: 25,
    equivocate: 6,
    mismatch: 12,
    time_out: 30,
    abstain: 8,
    break_glass: 10,
    break_glass_with_witness: 4,
    diverge_late: 5,
    diverge_too_late: 2,
    call_early: 15,
    lose_answer: 20,
    doubt: 4,
    replay: 20,
    restart: 20,
    conflict: 6,
    share: 30,
    misspell: 3,
}
OPEN: Final[Mapping[Scene, int]] = {
    await_votes: 12,
    await_replica: 9,
    await_gateway: 8,
    await_outcome: 3,
    await_resolution: 2,
    await_reviewer: 2,
    await_verdict: 7,
}


def acknowledge_all(stage: Stage) -> None:
    """Let on-call acknowledge what the run has in the side log."""
    ids = [str(row) for row in SideLogRow.objects.filter(run=stage.run).values_list("id", flat=True)]
    if ids:
        request = AcknowledgeRows(ids=tuple(ids), reason="Seen; nothing to do.")
        stage.good(HOUR_S, acknowledge(request, stage.troupe.oncall))


# ---- parts of scenes ----


def _fenced(stage: Stage, step: str, tool: str, **args: Any) -> None:
    action = stage.action(tool, **args)
    stage.propose(step, tool=tool)
    stage.agree(step, action)
    stage.deliver(step, action)


def _diverged(stage: Stage, step: str) -> None:
    action = stage.action("refund_invoice")
    stage.propose(step)
    stage.vote(step, "replica", action)
    held = {"tool": "hold_order", "args": {"invoice": action["args"]["invoice"], "why": "It was refunded before."}}
    stage.vote(step, "production", held)
    stage.decide()


def _judge(stage: Stage, step: str, verdict: Verdict.Choice, note: str) -> None:
    given = GiveVerdict(run=stage.run, step=step, epoch=1, verdict=verdict, note=note, seen=None)
    stage.good(3 * HOUR_S, give_verdict(given, stage.troupe.reviewer))


def _granted(stage: Stage, step: str) -> dict[str, Any]:
    action = stage.action("refund_invoice")
    stage.propose(step, tool="refund_invoice", deadline_s=600)
    name = f"{stage.run}-{step}-alone"
    grant = IssueGrant(
        name=name,
        run=stage.run,
        epoch=1,
        step=step,
        tool="refund_invoice",
        path="production",
        ttl_s=900,
        reason="The replica's provider is down, and this customer is on the telephone.",
    )
    stage.good(40.0, issue_grant(grant, stage.troupe.oncall))
    stage.vote(step, "production", action)
    stage.decide()
    stage.deliver(step, action)
    reviewed = DecideGrant(reason="One refund, of the right amount, to the right customer.")
    stage.good(2 * HOUR_S, review_grant(name, reviewed, stage.troupe.second_oncall))
    return action


def _diverged_too_late(stage: Stage, step: str) -> None:
    action = stage.action("refund_invoice")
    stage.propose(step, tool="refund_invoice")
    stage.agree(step, action)
    stage.deliver(step, action)
    other = {"tool": "refund_invoice", "args": action["args"] | {"cents": 1}}
    stage.vote(step, "replica", other, refused=Code.EQUIVOCATION)


def _doubted(stage: Stage, step: str) -> str:
    action = stage.action("book_transfer", account="DE02120300000000202051")
    stage.propose(step, tool="book_transfer")
    stage.agree(step, action)
    admitted = stage.admit(step, action)
    stage.report(admitted, "unknown")
    return str(admitted["intent"])
