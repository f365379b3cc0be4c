"""The thirteen scenes, each on invoice nine in a run of its own: what is done, what must be seen, what was seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencing.demo.stage import Refusal, Stage

REFUND: Final = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
HOLD: Final = {"tool": "hold_for_review", "args": {"invoice": 9}}
ASKED: Final = {"request": "The customer asks 42.00 back for invoice nine.", "invoice": 9, "asked_cents": 4200}
TICKET: Final = {"tool": "create_ticket", "args": {"title": "Invoice nine: ask the customer for a receipt."}}
ODD: Final = {**ASKED, "looks_odd": True}
STEP: Final = "refund-invoice-nine"
DECIDED_S: Final = 10.0
AGREED: Final = "committed (agreement)"


@dataclass(slots=True)
class Place:
    """Where a scene plays: the stage, and its own run with one step, whose epoch moves with replays and restarts."""

    stage: Stage
    run: str
    epoch: int = 1

    def open(self, context: Mapping[str, Any] = ASKED, **pinned: Any) -> None:
        """Open the run and propose its step."""
        self.epoch = self.stage.planner.do("open_run", run=self.run)["epoch"]
        self.propose(context, **pinned)

    def propose(self, context: Mapping[str, Any] = ASKED, **pinned: Any) -> None:
        """Propose the step at the place's epoch."""
        self.stage.planner.do("propose", **self.step, context=context, **pinned)

    @property
    def step(self) -> dict[str, Any]:
        """What names the step in each call."""
        return {"run": self.run, "step": STEP, "epoch": self.epoch}

    def both_answer(self) -> None:
        """Have both paths decide."""
        self.stage.replica.do("answer", **self.step)
        self.stage.production.do("answer", **self.step)

    def decided(self) -> dict[str, Any]:
        """Wait for the fence and return the step."""
        step: dict[str, Any] = self.stage.planner.do("wait_decided", **self.step, patience_s=DECIDED_S)
        return step

    def committed_token(self) -> str:
        """Have both paths agree, and return the token."""
        self.both_answer()
        commit = self.decided()["commit"]
        return commit["token"] if commit else ""


Act = Callable[[Place], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A scene: its name, what it tells, and the words that it must end with."""

    name: str
    tells: str
    expected: tuple[str, ...]
    act: Act


def scene(name: str, *expected: str) -> Callable[[Act], Scene]:
    """Make a scene of a function; its docstring is what the scene tells, and it returns the words that were seen."""

    def make(act: Act) -> Scene:
        return Scene(name=name, tells=act.__doc__ or "", expected=expected, act=act)

    return make


@scene("agreement", AGREED, "refund succeeded")
def agreement(place: Place) -> tuple[str, ...]:
    """Both paths want the same refund; it leaves once."""
    place.open()
    token = place.committed_token()
    sent = place.stage.gateway.do("send", token=token, action=REFUND)
    return (_phase(place.decided()), _ended(sent))


@scene("divergence", "rejected (divergence)", "no token")
def divergence(place: Place) -> tuple[str, ...]:
    """Production wants to hold the invoice, the replica to refund it."""
    place.open(ODD)
    place.both_answer()
    step = place.decided()
    return (_phase(step), "a token" if step["commit"] else "no token")


@scene("early dispatch", "403 not_committed", AGREED)
def early_dispatch(place: Place) -> tuple[str, ...]:
    """One path has voted, and the gateway is asked already."""
    place.open()
    place.stage.replica.do("answer", **place.step)
    early = place.stage.gateway.attempt("early", action=REFUND, **place.step)
    place.stage.production.do("answer", **place.step)
    return (str(early), _phase(place.decided()))


@scene("timeout", "rejected (timeout)", "then a vote: late")
def timeout(place: Place) -> tuple[str, ...]:
    """The replica is silent until the deadline has passed."""
    place.open(deadline_s=1)
    place.stage.production.do("answer", **place.step)
    step = place.decided()
    late = place.stage.replica.do("vote", **place.step, action=REFUND)
    return (_phase(step), f"then a vote: {late['vote']}")


@scene("equivocation", "409 equivocation", "rejected (equivocation)")
def equivocation(place: Place) -> tuple[str, ...]:
    """The replica votes twice, and differently."""
    place.open()
    place.stage.replica.do("answer", **place.step)
    second = place.stage.replica.attempt("vote", **place.step, action=HOLD)
    return (str(second), _phase(place.decided()))


@scene("stale epoch", "409 stale_epoch, open is 2", "rejected (superseded)", f"epoch 2: {AGREED}")
def stale_epoch(place: Place) -> tuple[str, ...]:
    """The planner restarts; a vote of the old epoch comes after that."""
    place.open()
    restarted = place.stage.planner.do("restart", run=place.run, expected_epoch=1, reason="the planner restarted")
    stale = place.stage.replica.attempt("vote", **place.step, action=REFUND)
    old = _phase(place.decided())
    place.epoch = restarted["epoch"]
    place.propose()
    place.both_answer()
    return (f"{stale}, open is {_open_epoch(stale)}", old, f"epoch {place.epoch}: {_phase(place.decided())}")


@scene("replay", "rejected (divergence)", f"epoch 2: {AGREED}")
def replay(place: Place) -> tuple[str, ...]:
    """A diverged step gets a fresh epoch, and fresh votes."""
    place.open(ODD)
    place.both_answer()
    before = _phase(place.decided())
    replayed = place.stage.planner.do("replay", **_replayed(place), reason="a person cleared the doubt")
    place.epoch = replayed["epoch"]
    place.propose()
    place.both_answer()
    return (before, f"epoch {place.epoch}: {_phase(place.decided())}")


@scene("late divergence", "409 equivocation", "rejected (late_divergence)", "403 revoked")
def late_divergence(place: Place) -> tuple[str, ...]:
    """After the commit and before the effect, the replica changes its mind."""
    place.open()
    token = place.committed_token()
    second = place.stage.replica.attempt("vote", **place.step, action=HOLD)
    sent = place.stage.gateway.attempt("send", token=token, action=REFUND)
    return (str(second), _phase(place.decided()), _ended(sent))


@scene("mutated payload", "offline: payload differs", "403 payload_mismatch", "refund succeeded")
def mutated_payload(place: Place) -> tuple[str, ...]:
    """Somebody adds two zeros between the commit and the bank."""
    place.open()
    token = place.committed_token()
    mutated = {"tool": "refund", "args": {"invoice": 9, "cents": 420_000}}
    offline = place.stage.gateway.do("check", token=token, action=mutated)
    refused = place.stage.gateway.attempt("send", token=token, action=mutated)
    sent = place.stage.gateway.do("send", token=token, action=REFUND)
    return (f"offline: {', '.join(offline)} differs", _ended(refused), _ended(sent))


@scene("expired grant", "grant expired", "one vote: proposed", f"both: {AGREED}")
def expired_grant(place: Place) -> tuple[str, ...]:
    """A grant has ended: it lets nothing through, and vetoes nothing."""
    place.open()
    grant = _granted(place, ttl_s=1)
    ended = _grant_state(place, grant, other_than="live")
    place.stage.production.do("answer", **place.step)
    # Time enough for the fence to fall for it, if it would.
    alone = place.stage.planner.do("wait_decided", **place.step, patience_s=0.6)
    place.stage.replica.do("answer", **place.step)
    return (f"grant {ended}", f"one vote: {_phase(alone)}", f"both: {_phase(place.decided())}")


@scene("live grant", "one vote: committed (grant)", "refund succeeded", "grant used_up")
def live_grant(place: Place) -> tuple[str, ...]:
    """Somebody on call lets production act alone, once."""
    place.open()
    grant = _granted(place, ttl_s=60)
    place.stage.production.do("answer", **place.step)
    step = place.decided()
    sent = place.stage.gateway.do("send", token=(step["commit"] or {}).get("token", ""), action=REFUND)
    state = _grant_state(place, grant, other_than="live")
    return (f"one vote: {_phase(step)}", _ended(sent), f"grant {state}")


@scene(
    "lost answer", "no answer", "409 delivery_in_progress", "2 calls with the same key, 1 booked", "refund succeeded"
)
def lost_answer(place: Place) -> tuple[str, ...]:
    """The bank books and its answer is lost; after the lease it is asked again."""
    place.open()
    token = place.committed_token()
    gateway = place.stage.gateway
    before = gateway.do("bank")
    lost = gateway.do("send", token=token, action=REFUND, loses_answer=True)
    at_once = gateway.attempt("send", token=token, action=REFUND)
    sent = gateway.do("send", token=token, action=REFUND, patience_s=DECIDED_S)
    asked = sent["bank"]["asked"][len(before["asked"]) :]
    booked = len(sent["bank"]["booked"]) - len(before["booked"])
    same = "the same key" if len(set(asked)) == 1 else "another key"
    return (
        lost["outcome"],
        str(at_once),
        f"{len(asked)} calls with {same}, {booked} booked",
        _ended(sent),
    )


@scene("lost branch", f"branch B: {AGREED}", "ticket succeeded", "A wins: 1 undoing waits for a person")
def lost_branch(place: Place) -> tuple[str, ...]:
    """A branch opens a ticket on trial and loses; whether the ticket is closed again is for a person to say."""
    planner, fork = place.stage.planner, {"run": place.run, "fork": "how-to-help"}
    place.epoch = planner.do("open_run", run=place.run)["epoch"]
    planner.do("open_fork", **fork, branches=["A", "B"])
    place.propose(branch="B", tool="create_ticket")
    for path in (place.stage.replica, place.stage.production):
        path.do("vote", **place.step, action=TICKET)
    step = place.decided()
    token = (step["commit"] or {}).get("token", "")
    sent = place.stage.gateway.do("open_ticket", token=token, action=TICKET)
    told = planner.do("reconcile", **fork, winner="A")
    waits = f"{len(told['compensations'])} undoing waits for a person"
    return (f"branch B: {_phase(step)}", f"ticket {sent['outcome']}", f"{told['winner']} wins: {waits}")


def _phase(step: Mapping[str, Any]) -> str:
    return f"{step['phase']} ({step['reason']})" if step["reason"] else str(step["phase"])


def _ended(sent: Refusal | Mapping[str, Any]) -> str:
    return str(sent) if isinstance(sent, Refusal) else f"refund {sent['outcome']}"


def _open_epoch(answer: object) -> int | None:
    return answer.current_epoch if isinstance(answer, Refusal) else None


def _replayed(place: Place) -> dict[str, Any]:
    return {"run": place.run, "step": STEP, "from_epoch": place.epoch}


def _granted(place: Place, *, ttl_s: int) -> str:
    """Have a grant issued for production and `refund` in this run, and return its name."""
    name = f"{place.run}-grant"
    reason = "The replica's host does not answer, and the customer waits."
    scope = {"run": place.run, "epoch": place.epoch, "tool": "refund"}
    place.stage.oncall.issue_grant({"name": name, **scope, "ttl_s": ttl_s, "reason": reason})
    return name


def _grant_state(place: Place, name: str, *, other_than: str) -> str:
    """Look at a grant until it is in another state than this one, for as long as a decision may take."""
    until = time.monotonic() + DECIDED_S
    while True:
        state = str(place.stage.oncall.get_grant(name)["state"])
        if state != other_than or time.monotonic() > until:
            return state
        time.sleep(0.1)


SCENES: Final = (
    agreement,
    divergence,
    early_dispatch,
    timeout,
    equivocation,
    stale_epoch,
    replay,
    late_divergence,
    mutated_payload,
    expired_grant,
    live_grant,
    lost_answer,
    lost_branch,
)
