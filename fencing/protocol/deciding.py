"""Deciding on what would undo an effect: who may, on what was shown, and what a report of it does (P2 to P6).

The states and what may follow each stand in `compensations`; how claims move them in `undoing`. Here people decide, and
one approval becomes one delivery: its own key, its own lease, and no repetition by a machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fencing.protocol.compensations import State
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.intents import BUSY_S, MAX_BUSY_S, Delivery, Kind

UNDONE_BY_HAND = "It is undone by hand: record what was done, or let the effect stand."


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """That one person approved, in this round."""

    person: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Who decided, and when: what a second person is told."""

    by: str | None
    at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """A compensation as facts. `approvals` are those of the round that is open; `digest` is None where it is manual.

    `is_known`: the effect that it undoes is known to have happened. `barred` are the people behind a grant that let the
    effect through, `requester` who asked for it.
    """

    state: State
    digest: str | None
    needed: int
    approvals: tuple[Approval, ...] = ()
    is_known: bool = True
    requester: int | None = None
    barred: frozenset[int] = frozenset()
    decided: Decided = Decided(by=None, at=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """One more approval; `is_last` is the one that decides."""

    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Same:
    """The same person's same word, heard before (N2, P3)."""


def approve(undoing: Undoing, *, person: int, digest: str) -> Approved | Same | Refusal:
    """Judge one person's approval of exactly this digest (P2, P3, P4)."""
    mine = next((each for each in undoing.approvals if each.person == person), None)
    if mine is not None and mine.digest == digest:
        return Same()
    refusal = _undecided(undoing) or _not_held(undoing) or _known(undoing) or why_not(undoing, person)
    if refusal is not None:
        return refusal
    if digest != undoing.digest:
        return changed(undoing)
    return Approved(is_last=len(undoing.approvals) + 1 >= undoing.needed)


def why_not(undoing: Undoing, person: int) -> Refusal | None:
    """Say why a person may not approve, whatever it is that they saw (P3). The button tells the same."""
    if undoing.requester == person:
        return Refusal(code=Code.OWN_REQUEST, detail="You asked for this: another person approves it.")
    if person in undoing.barred:
        detail = "A grant that you issued or approved let this effect through: another person decides on its undoing."
        return Refusal(code=Code.OWN_GRANT, detail=detail)
    return None


def may_not_approve(undoing: Undoing, person: int) -> Refusal | None:
    """Say why a person cannot approve now, apart from the digest that they saw; None where they can."""
    refusal = _undecided(undoing) or _not_held(undoing) or _known(undoing) or why_not(undoing, person)
    if refusal is None and undoing.digest is None:
        return Refusal(code=Code.CHANGED, detail=UNDONE_BY_HAND)
    if refusal is None and any(each.person == person for each in undoing.approvals):
        return Refusal(code=Code.ALREADY_DECIDED, detail="You approved it already: another person does, too.")
    return refusal


def waive(undoing: Undoing, *, digest: str | None) -> Refusal | None:
    """Judge a person's word that the effect stands (P6); None is yes. It names what was seen, as an approval does."""
    refusal = _undecided(undoing, or_held=True)
    return refusal or (changed(undoing) if digest != undoing.digest else None)


def record(undoing: Undoing) -> Refusal | None:
    """Judge a person's word that they undid it by hand (P6); None is yes."""
    if undoing.digest is not None:
        detail = "A compensator undoes it: approve its call, or let the effect stand."
        return Refusal(code=Code.HAS_COMPENSATOR, detail=detail)
    return _undecided(undoing) or _not_held(undoing) or _known(undoing)


def resolve(undoing: Undoing) -> Refusal | None:
    """Judge a person's word about an act in doubt (P5); None is yes."""
    if undoing.state is State.IN_DOUBT:
        return None
    return Refusal(code=Code.NOT_IN_DOUBT, detail=f"It is {undoing.state.value}: there is no doubt to resolve.")


def changed(undoing: Undoing) -> Refusal:
    """Refuse a decision on something else than what would be sent now (P2)."""
    if undoing.digest is None:
        return Refusal(code=Code.CHANGED, detail=UNDONE_BY_HAND, pointer="/digest")
    detail = "What would be sent is not what you saw: nothing is decided. Look again."
    return Refusal(code=Code.CHANGED, detail=detail, pointer="/digest", extras={"digest": undoing.digest})


def _undecided(undoing: Undoing, *, or_held: bool = False) -> Refusal | None:
    if undoing.state in (State.PROPOSED, State.HELD):
        return None
    del or_held
    by = undoing.decided.by
    detail = f"It is {undoing.state.value} already" + (f", by {by}." if by else ".")
    extras = {"decided_by": by, "decided_at": undoing.decided.at}
    return Refusal(code=Code.ALREADY_DECIDED, detail=detail, extras=extras)


def _not_held(undoing: Undoing) -> Refusal | None:
    if undoing.state is not State.HELD:
        return None
    return Refusal(code=Code.HELD, detail="A branch that is not decided yet may still want the effect: first that.")


def _known(undoing: Undoing) -> Refusal | None:
    if undoing.is_known:
        return None
    detail = "Whether the effect happened is not known yet: first the fact, then the undoing."
    return Refusal(code=Code.OUTCOME_UNKNOWN, detail=detail)


# ---- the one delivery of an approval (P5, P7) ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The permission for one try: its number."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """No try: it is undone already."""


def admit(
    state: State,
    deliveries: Sequence[Delivery],
    *,
    is_behind: bool,
    not_before: datetime | None,
    now: datetime,
) -> Admitted | Done | Refusal:
    """Decide on a try of an approval that stands. `is_behind`: a later effect of the run is undone first (P7)."""
    if state is State.DONE:
        return Done()
    if state is State.IN_DOUBT:
        detail = "Nobody knows whether it was undone: a person must say."
        return Refusal(code=Code.IN_DOUBT, detail=detail, extras={"retry_after": 60})
    if state is State.IN_FLIGHT:
        until = max((each.lease_until for each in deliveries if each.is_open), default=now)
        return _in_progress("Another delivery is in flight.", until, now)
    if is_behind:
        detail = "A later effect of the run is undone first: they are taken back in reverse order."
        return Refusal(code=Code.NOT_READY, detail=detail, extras={"retry_after": 5})
    if not_before is not None and now < not_before:
        return _in_progress("The tool was busy: it is waited for.", not_before, now)
    return Admitted(number=max((each.number for each in deliveries), default=0) + 1)


def _in_progress(detail: str, until: datetime, now: datetime) -> Refusal:
    wait_s = max(1, -(-(until - now) // timedelta(seconds=1)))
    return Refusal(code=Code.DELIVERY_IN_PROGRESS, detail=detail, extras={"retry_after": wait_s})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a report does. `state` is None where the compensation stays as it is."""

    state: State | None = None
    is_effective: bool = True
    is_news: bool = True
    refusal: Refusal | None = None
    has_conflict: bool = False
    not_before: datetime | None = None


def report(
    state: State,
    delivery: Delivery,
    *,
    is_newest: bool,
    outcome: Kind,
    retry_after_s: float | None,
    now: datetime,
    pause_s: float | None = None,
    is_contradicted: bool = False,
) -> Recorded:
    """Judge what became of a delivery (P5, and "Outcomes"): `FAILED` puts it back, and who may say where is `undoing`.

    A failure, or a person's word that nothing happened, gives `State.PROPOSED`; claims may make it held or withdrawn.
    `pause_s` is the back-off of who calls push tools, for what was not sent or found the tool busy.
    A success that contradicts what is recorded puts what is not settled in doubt: approved again, it would be undone
    twice. `is_contradicted`: there was one, and no person has said since what is true.
    """
    if outcome is delivery.outcome:
        return Recorded(is_effective=False, is_news=False)
    if delivery.outcome not in (None, Kind.UNKNOWN):
        contradicts = Kind.SUCCEEDED in (outcome, delivery.outcome) and outcome is not Kind.UNKNOWN
        detail = f"It is recorded as {delivery.outcome.value}: the first outcome stays."
        refusal = Refusal(code=Code.OUTCOME_CONFLICT, detail=detail)
        doubt = _doubt(state, outcome)
        return Recorded(state=doubt, is_effective=False, refusal=refusal, has_conflict=contradicts)
    if not is_newest or state not in (State.IN_FLIGHT, State.IN_DOUBT):
        refusal = Refusal(code=Code.STALE_DELIVERY, detail="A newer approval took over: this report comes too late.")
        doubt, is_success = _doubt(state, outcome), outcome is Kind.SUCCEEDED
        return Recorded(state=doubt, is_effective=False, refusal=refusal, has_conflict=is_success)
    match outcome:
        case Kind.SUCCEEDED:
            return Recorded(state=State.DONE)
        case Kind.UNKNOWN:
            return Recorded(state=State.IN_DOUBT)
        case _ if is_contradicted:
            return Recorded(state=State.IN_DOUBT)
        case Kind.BUSY | Kind.NOT_SENT if state is State.IN_FLIGHT:
            return Recorded(state=State.APPROVED, not_before=_not_before(outcome, retry_after_s, pause_s, now))
        case _:
            return Recorded(state=State.PROPOSED)


def _not_before(outcome: Kind, retry_after_s: float | None, pause_s: float | None, now: datetime) -> datetime | None:
    """How long a repetition waits: the tool's own word, else the back-off; a gateway that sent nothing asks at once."""
    if pause_s is None and outcome is Kind.NOT_SENT:
        return None
    wait_s = (BUSY_S if pause_s is None else pause_s) if retry_after_s is None else retry_after_s
    return now + timedelta(seconds=min(wait_s, MAX_BUSY_S))


def _doubt(state: State, outcome: Kind) -> State | None:
    """What a success that comes too late makes of a compensation: None where it is settled, or in doubt already."""
    is_settled = state in (State.DONE, State.WAIVED, State.WITHDRAWN, State.IN_DOUBT)
    return None if outcome is not Kind.SUCCEEDED or is_settled else State.IN_DOUBT
