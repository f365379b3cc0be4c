"""Intents: what is wanted, who wants it, and what became of it (protocol, section 9).

An intent is one wanted effect. Steps claim it; deliveries try it; outcomes settle it. Two questions decide everything:
does anybody with authority still want it (the claims), and may it be out already (the deliveries)? What may be out is
*admitted*: a delivery that is in flight, unknown or succeeded. An admitted effect is never taken back by a machine and
never repeated without authority; what nobody knows goes to a person.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from fencing.protocol.errors import Code, Refusal

BUSY_S = 1.0  # how long to wait where a busy tool did not say
MAX_BUSY_S = 3600.0


class State(StrEnum):
    """Where an intent is. `succeeded` and `failed` are settled; what failed makes way for the next generation (L7)."""

    HELD = "held"
    READY = "ready"
    IN_FLIGHT = "in_flight"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"
    CANCELLED = "cancelled"


SETTLED = frozenset({State.SUCCEEDED, State.FAILED})

TRANSITIONS = MappingProxyType(
    {
        State.HELD: MappingProxyType(
            {
                State.READY: "a claim may act",
                State.CANCELLED: "all claims lost",
                State.IN_DOUBT: "a report contradicts what is recorded, or an unknown delivery may not be repeated",
                State.SUCCEEDED: "an earlier delivery succeeded",
                State.FAILED: "an unknown delivery failed after all",
            }
        ),
        State.READY: MappingProxyType(
            {
                State.IN_FLIGHT: "admitted",
                State.HELD: "no claim may act",
                State.CANCELLED: "all claims lost, not admitted",
                State.IN_DOUBT: "an unknown delivery may not be repeated",
                State.SUCCEEDED: "an earlier delivery succeeded",
                State.FAILED: "an unknown delivery failed after all",
            }
        ),
        State.IN_FLIGHT: MappingProxyType(
            {
                State.SUCCEEDED: "succeeded",
                State.FAILED: "failed",
                State.READY: "not sent, busy, or unknown and repeatable",
                State.IN_DOUBT: "unknown",
                State.CANCELLED: "not admitted after all, and all claims lost",
                State.HELD: "not admitted after all, and no claim may act",
            }
        ),
        State.IN_DOUBT: MappingProxyType(
            {
                State.SUCCEEDED: "a person or a late report says that it happened",
                State.READY: "a person says that it did not happen",
                State.HELD: "it did not happen, and no claim may act",
                State.CANCELLED: "it did not happen, and all claims are lost",
                State.FAILED: "a late report says that it failed",
            }
        ),
        State.CANCELLED: MappingProxyType(
            {
                State.READY: "claimed again",
                State.HELD: "claimed again by a branch that may not act yet",
                State.IN_DOUBT: "a report contradicts a person",
            }
        ),
        State.SUCCEEDED: MappingProxyType({}),
        State.FAILED: MappingProxyType({}),
    }
)


class ClaimState(StrEnum):
    """Whether a step still wants the effect (L2)."""

    OPEN = "open"
    WON = "won"
    LOST = "lost"


class Kind(StrEnum):
    """What became of a delivery. `not_happened` is a person's word alone."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    BUSY = "busy"
    NOT_SENT = "not_sent"
    NOT_HAPPENED = "not_happened"


NOTHING_DONE = frozenset({Kind.BUSY, Kind.NOT_SENT, Kind.NOT_HAPPENED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One try. `outcome` is the one in effect: None while it is open."""

    number: int
    payload: str
    lease_until: datetime
    outcome: Kind | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody said yet what became of it."""
        return self.outcome is None

    @property
    def may_be_out(self) -> bool:
        """Whether its effect may have happened: in flight, unknown or succeeded."""
        return self.outcome in (None, Kind.UNKNOWN, Kind.SUCCEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """An intent as facts: its claims' states, and its deliveries in the order of their numbers.

    `is_contradicted`: success was reported of a delivery of which nothing had been done, and no person spoke since.
    `is_undone`: a compensation of it is done; `is_being_undone`: one is in flight or in doubt (B6). `is_optimistic`: an
    open claim is that of a standing commit, which an undecided branch has for optimistic tools alone (L2, F4).
    """

    generation: int
    fence_digest: str
    state: State
    claims: tuple[ClaimState, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    not_before: datetime | None = None
    is_undone: bool = False
    is_being_undone: bool = False
    is_contradicted: bool = False
    is_optimistic: bool = False

    @property
    def may_act(self) -> bool:
        """Whether a claim lets the effect leave: one that is won, or an optimistic one that is not lost (L2)."""
        return ClaimState.WON in self.claims or (self.is_optimistic and ClaimState.OPEN in self.claims)

    @property
    def is_wanted(self) -> bool:
        """Whether any claim is not lost."""
        return any(state is not ClaimState.LOST for state in self.claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """What the tool's definition says about trying again (T3, T4)."""

    is_idempotent: bool
    max_deliveries: int = 5
    lease_s: float = 60


def default_key(fence_digest: str, occurrence: int) -> str:
    """Make the invocation key of a step whose planner named none (L1)."""
    return f"{fence_digest}:{occurrence}"


def idempotency_key(run: str, key: str, generation: int) -> str:
    """Make what the tool sees: the same for each delivery of one (run, key, generation), and for no other.

    A hash keeps it short enough for tools that allow 255 characters. The parts cannot run into each other: no
    identifier holds a newline.
    """
    return "fence-" + hashlib.sha256(f"{run}\n{key}\n{generation}".encode()).hexdigest()


def is_admitted(intent: Intent) -> bool:
    """Tell whether the effect may be out: a delivery is in flight, unknown or succeeded.

    What a person adopted is out without any delivery of its own (L8): such an intent has succeeded.
    """
    return intent.state is State.SUCCEEDED or any(delivery.may_be_out for delivery in intent.deliveries)


# ---- claiming (L1, L2) ----


class Claiming(StrEnum):
    """What a step that wants an effect does with the newest generation of its key."""

    OPEN_FIRST = "open_first"
    SHARE = "share"
    REUSE = "reuse"
    OPEN_NEXT = "open_next"
    CONFLICT = "conflict"


def claim(newest: Intent | None, fence_digest: str) -> Claiming:
    """Decide how a step gets its intent (L1, L2, L7, B6): one key serves one effect at a time.

    A key with another digest is a reused idempotency key, and conflicts as long as anybody still wants the first
    effect or it may be out and was not undone.
    """
    if newest is None:
        return Claiming.OPEN_FIRST
    is_over = newest.state is State.FAILED or newest.is_undone
    if newest.fence_digest == fence_digest:
        if is_over:
            return Claiming.OPEN_NEXT
        return Claiming.REUSE if newest.state is State.CANCELLED else Claiming.SHARE
    if (newest.is_wanted or is_admitted(newest)) and not is_over:
        return Claiming.CONFLICT
    return Claiming.OPEN_NEXT


def state_after_claims(intent: Intent) -> State:
    """Give the state of an intent whose claims changed: `cancelled` when none is left and nothing may be out (L2)."""
    if intent.state in (State.IN_FLIGHT, State.IN_DOUBT, *SETTLED):
        return intent.state
    if all(state is ClaimState.LOST for state in intent.claims):
        return intent.state if is_admitted(intent) else State.CANCELLED
    return State.READY if intent.may_act else State.HELD


# ---- admission (L3, L4) ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The permission for one try: its number."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """No try: the effect's outcome is known already."""

    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubtful:
    """No try: what is unknown may not be repeated, and goes to a person (L5)."""


def admit(
    intent: Intent,
    *,
    payload: str,
    retries: Retries,
    has_authority: bool,
    now: datetime,
    has_open_escape: bool = False,
) -> Admitted | Settled | Doubtful | Refusal:
    """Decide on one more try for a commit that stands, whose payload is `payload` (L3, progress part of L4).

    Leases that ran out must have been closed before (`expired_leases`). `has_authority` tells whether any claim may
    still repeat what is unknown (L5). `has_open_escape`: the very action happened without authority, and no person
    said yet what becomes of that (L8).
    """
    if intent.is_being_undone:
        detail = "The effect is being undone: whether it is wanted again is seen when that has ended."
        return Refusal(code=Code.NOT_READY, detail=detail, extras={"retry_after": 5})
    if intent.state in SETTLED:
        return Settled(state=intent.state)
    if intent.state is State.IN_DOUBT:
        return Refusal(
            code=Code.IN_DOUBT,
            detail="Nobody knows whether it happened: a person must say.",
            extras={"retry_after": 60},
        )
    open_until = _open_until(intent)
    if open_until is not None:
        return _in_progress("Another delivery is in flight.", open_until, now)
    if any(each.may_be_out and each.payload != payload for each in intent.deliveries):
        return _in_progress("The same effect left with other prose and is not settled.", intent.not_before or now, now)
    if intent.state is not State.READY:
        return Refusal(code=Code.NOT_READY, detail=f"The effect is {intent.state.value}.", extras={"retry_after": 5})
    if has_open_escape:
        detail = "This very action happened without authority: first a person says what becomes of that."
        return Refusal(code=Code.NOT_READY, detail=detail, extras={"retry_after": 60})
    if intent.not_before is not None and now < intent.not_before:
        return _in_progress("The last delivery is waited for before the next.", intent.not_before, now)
    if not may_repeat(intent, retries, has_authority=has_authority):
        return Doubtful()
    return Admitted(number=max((each.number for each in intent.deliveries), default=0) + 1)


def may_repeat(intent: Intent, retries: Retries, *, has_authority: bool) -> bool:
    """Tell whether a machine may try again (L5). Where nothing is unknown there is nothing to repeat: it may."""
    unknown = sum(1 for each in intent.deliveries if each.outcome is Kind.UNKNOWN)
    if unknown == 0:
        return True
    return retries.is_idempotent and unknown < retries.max_deliveries and has_authority


def expired_leases(intent: Intent, now: datetime) -> tuple[Delivery, ...]:
    """Give the open deliveries whose lease ran out: from now on they are unknown, never failed (L5)."""
    return tuple(each for each in intent.deliveries if each.is_open and now >= each.lease_until)


def _open_until(intent: Intent) -> datetime | None:
    return max((each.lease_until for each in intent.deliveries if each.is_open), default=None)


# ---- outcomes (L5 to L7, and "Outcomes") ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a report does. `is_effective`: it becomes the delivery's outcome. `refusal`: it is recorded and refused.

    `has_conflict` opens an incident; `is_released` says that the effect turned out not to be out, so that what was
    recorded against its commits meanwhile applies now.
    """

    state: State
    is_effective: bool = True
    is_news: bool = True
    refusal: Refusal | None = None
    has_conflict: bool = False
    is_released: bool = False
    not_before: datetime | None = None


def report(
    intent: Intent,
    *,
    number: int,
    outcome: Kind,
    retries: Retries,
    has_authority: bool,
    retry_after_s: float | None,
    now: datetime,
    pause_s: float | None = None,
) -> Recorded:
    """Judge the outcome of the delivery `number` that a gateway reports, or that its lease ran out (`unknown`).

    Outcomes are final but for `unknown`. Success of any delivery settles; a failure settles only where no other
    delivery is unknown; what an older delivery says otherwise comes too late. `pause_s` is the back-off of who calls
    push tools; for pull the lease is the back-off.
    """
    delivery = next(each for each in intent.deliveries if each.number == number)
    is_newest = number == max(each.number for each in intent.deliveries)
    if outcome is delivery.outcome and (is_newest or outcome not in (Kind.FAILED, Kind.UNKNOWN)):
        return Recorded(state=intent.state, is_effective=False, is_news=False)
    if outcome is Kind.SUCCEEDED:
        return _succeeded(intent, delivery)
    if not is_newest:
        return _refused(intent, Code.STALE_DELIVERY, "A newer delivery took over: this report comes too late.")
    if delivery.outcome not in (None, Kind.UNKNOWN):
        contradicts = outcome is not Kind.UNKNOWN and intent.state is State.SUCCEEDED
        return _refused(
            intent,
            Code.OUTCOME_CONFLICT,
            f"It is recorded as {delivery.outcome.value}: the first outcome stays.",
            has_conflict=contradicts,
        )
    if intent.state in SETTLED:
        # An older delivery settled it. This one's own end is recorded; only a failure contradicts a success.
        if intent.state is State.SUCCEEDED and outcome is Kind.FAILED:
            return _refused(intent, Code.OUTCOME_CONFLICT, "The effect is settled as succeeded.", has_conflict=True)
        return Recorded(state=intent.state)
    after = with_outcome(intent, number, outcome)
    if intent.is_contradicted:
        # Somebody says that it happened: whatever became of this try, nothing is sent again by a machine.
        return Recorded(state=State.IN_DOUBT)
    if outcome is Kind.FAILED:
        is_alone = not any(each.outcome is Kind.UNKNOWN for each in after.deliveries)
        return Recorded(state=State.FAILED if is_alone else State.IN_DOUBT)
    not_before = _pause(delivery, outcome, retry_after_s, now, pause_s)
    is_released = not is_admitted(after)
    if is_released:
        return Recorded(state=_at_rest(after), is_released=True, not_before=not_before)
    state = State.READY if may_repeat(after, retries, has_authority=has_authority) else State.IN_DOUBT
    return Recorded(state=state, not_before=not_before)


def resolve(intent: Intent, *, happened: bool, now: datetime) -> Recorded | Refusal:
    """Take a person's word for what nobody knows (L6).

    That nothing happened is not for anybody to say while a delivery is open: it may be acting this very moment.
    """
    if intent.state is not State.IN_DOUBT:
        return Refusal(
            code=Code.NOT_IN_DOUBT, detail=f"The effect is {intent.state.value}: there is no doubt to resolve."
        )
    open_until = _open_until(intent)
    if open_until is not None and not happened:
        return _in_progress("A delivery is open and may be acting: first it ends, or its lease.", open_until, now)
    return Recorded(state=State.SUCCEEDED if happened else _at_rest(intent), is_released=not happened)


def _at_rest(intent: Intent) -> State:
    """The state of an intent of which nothing is out, as its claims say (L2)."""
    if all(state is ClaimState.LOST for state in intent.claims):
        return State.CANCELLED
    return State.READY if intent.may_act else State.HELD


def with_outcome(intent: Intent, number: int, outcome: Kind) -> Intent:
    """Give the intent with one delivery's outcome replaced."""
    deliveries = tuple(
        Delivery(number=each.number, payload=each.payload, lease_until=each.lease_until, outcome=outcome)
        if each.number == number
        else each
        for each in intent.deliveries
    )
    return _with(intent, deliveries=deliveries)


def in_question(intent: Intent) -> tuple[int, ...]:
    """Name the deliveries that a person's word is about: those that may be out, else the last one (L6)."""
    unknown = tuple(each.number for each in intent.deliveries if each.may_be_out)
    return unknown or (max(each.number for each in intent.deliveries),)


def happened(intent: Intent) -> Intent:
    """Give the intent after a person said that it happened: by its last delivery that may have done it."""
    return _with(with_outcome(intent, in_question(intent)[-1], Kind.SUCCEEDED), is_contradicted=False)


def not_happened(intent: Intent) -> Intent:
    """Give the intent after a person said that none of its unknown deliveries happened."""
    for number in in_question(intent):
        intent = with_outcome(intent, number, Kind.NOT_HAPPENED)
    return _with(intent, is_contradicted=False)


def contradicted(intent: Intent) -> Intent:
    """Give the intent after a success was reported that contradicts what is recorded."""
    return _with(intent, is_contradicted=True)


def _succeeded(intent: Intent, delivery: Delivery) -> Recorded:
    if delivery.outcome in (None, Kind.UNKNOWN):
        if intent.state is State.FAILED:
            return _refused(intent, Code.OUTCOME_CONFLICT, "The effect is settled as failed.", has_conflict=True)
        return Recorded(state=State.SUCCEEDED)
    # Somebody said that nothing was done, and now it is said to have happened: never repeat it blindly.
    state = intent.state if intent.state in SETTLED else State.IN_DOUBT
    return _refused(
        _with(intent, state=state),
        Code.OUTCOME_CONFLICT,
        f"It is recorded as {delivery.outcome.value}: the contradiction goes to a person.",
        has_conflict=True,
    )


def _pause(
    delivery: Delivery, outcome: Kind, retry_after_s: float | None, now: datetime, pause_s: float | None
) -> datetime | None:
    """How long the next try waits: the lease is the back-off for what is unknown, the tool's word for busy (L5)."""
    if pause_s is not None:
        own_s = pause_s if retry_after_s is None else max(retry_after_s, 0.0)
        return now + timedelta(seconds=min(own_s, MAX_BUSY_S))
    if outcome is Kind.UNKNOWN:
        return max(delivery.lease_until, now)
    if outcome is Kind.BUSY:
        return now + timedelta(seconds=min(BUSY_S if retry_after_s is None else retry_after_s, MAX_BUSY_S))
    return None


def _refused(intent: Intent, code: Code, detail: str, *, has_conflict: bool = False) -> Recorded:
    return Recorded(
        state=intent.state, is_effective=False, refusal=Refusal(code=code, detail=detail), has_conflict=has_conflict
    )


def _in_progress(detail: str, until: datetime, now: datetime) -> Refusal:
    wait_s = max(1, -(-(until - now) // timedelta(seconds=1)))
    return Refusal(code=Code.DELIVERY_IN_PROGRESS, detail=detail, extras={"retry_after": wait_s})


def _with(
    intent: Intent,
    *,
    deliveries: Sequence[Delivery] | None = None,
    state: State | None = None,
    is_contradicted: bool | None = None,
) -> Intent:
    return replace(
        intent,
        state=intent.state if state is None else state,
        deliveries=intent.deliveries if deliveries is None else tuple(deliveries),
        is_contradicted=intent.is_contradicted if is_contradicted is None else is_contradicted,
    )
