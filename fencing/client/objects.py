"""The objects of the protocol's answers (section 15), as frozen values, and how they are read out of JSON.

A member that this version does not know is left out, so that a newer service can be talked to. Times are aware
datetimes in UTC.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from fencing.client.errors import BadAnswer

T = TypeVar("T")
DECIDED = frozenset({"committed", "rejected", "exempt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run. `epoch` is where new steps are proposed, `counter` the highest number that was given (R1)."""

    run: str
    epoch: int
    counter: int
    labels: Mapping[str, str] | None = None
    steps: tuple[Any, ...] | None = None
    forks: tuple[Any, ...] | None = None
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One vote on a step: a digest, or the reason of an abstention."""

    path: str
    digest: str | None = None
    abstain: str | None = None
    late: bool | None = None
    received_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A standing commit. `token` is for the gateway; `authority` is `agreement`, `grant` or `both` (K1)."""

    token: str
    authority: str
    payload_digest: str
    key: str | None = None
    grant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Why and when a commit was taken back, or closed because its effect failed."""

    reason: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepIntent:
    """The intent that a step has a claim on."""

    id: str
    state: str
    generation: int | None = None
    outcome: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One decision inside a run at one epoch; `reason` says why it is in its `phase`."""

    run: str
    step: str
    epoch: int
    phase: str
    reason: str | None = None
    branch: str | None = None
    tool: str | None = None
    key: str | None = None
    digest: str | None = None
    deadline_at: datetime | None = None
    votes: tuple[Vote, ...] | None = None
    commit: Commit | None = None
    revoked: Taken | None = None
    intent: StepIntent | None = None
    correlated: bool | None = None
    difference: str | None = None
    duplicate: bool = False

    @property
    def is_decided(self) -> bool:
        """Whether the fence has spoken, or does not apply (a read-only tool)."""
        return self.phase in DECIDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A fork: each of its branches as `{branch, state}`, and the winner once it is reconciled."""

    run: str
    fork: str
    branches: tuple[Any, ...]
    parent: str | None = None
    winner: str | None = None
    deadline_at: datetime | None = None
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What a reconciliation did: keys whose intents are cancelled, compensations proposed and withdrawn, by id."""

    fork: str
    winner: str | None = None
    cancelled: tuple[str, ...] = ()
    compensations: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """What opening a fresh epoch closed (R2, R3)."""

    run: str
    epoch: int
    superseded: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()
    voided: tuple[str, ...] = ()
    current_epoch: int | None = None
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The number under which a rejected step may be proposed again (R4)."""

    run: str
    step: str
    epoch: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a step: `decided`, `replayed`, `revoked` or `compensated`, with the step as it is."""

    cursor: str
    at: datetime
    what: str
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """A page of events, oldest first; `next` is where to go on."""

    items: tuple[Event, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A step that awaits this path's vote; `need` is `vote`, or `action` after a vote by digest alone (F5)."""

    run: str
    step: str
    epoch: int
    need: str
    context: Any = None
    tools: Any = None
    deadline_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of a vote: `recorded`, `duplicate` or `late` (F7)."""

    vote: str
    phase: str | None = None
    digest: str | None = None
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an effect ended, and what the tool answered."""

    outcome: str
    response: Any = None
    at: datetime | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one delivery, as a gateway tells it (L5). `retry_after_s` belongs to `busy`."""

    delivery: str
    outcome: str
    intent: str | None = None
    compensation: str | None = None
    response: Any = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a report led to: the state of its intent or compensation, and the outcome once it is settled."""

    id: str
    state: str
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The gateway's yes (`admit`, a delivery and its idempotency key), or the outcome that is there already (L3)."""

    admit: bool
    exempt: bool = False
    intent: str | None = None
    compensation: str | None = None
    delivery: str | None = None
    idempotency_key: str | None = None
    lease_until: datetime | None = None
    outcome: Outcome | None = None

    def report(self, outcome: str, *, response: Any = None, retry_after_s: float | None = None) -> Report:
        """Build the report of this delivery. Raises ValueError where there is none to report on."""
        if self.delivery is None:
            raise ValueError("There is no delivery to report on.")
        return Report(
            delivery=self.delivery,
            outcome=outcome,
            intent=self.intent,
            compensation=self.compensation,
            response=response,
            retry_after_s=retry_after_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The durable record that an effect is wanted."""

    id: str
    run: str
    key: str
    state: str
    generation: int | None = None
    action: Any = None
    payload_digest: str | None = None
    claims: tuple[Any, ...] | None = None
    deliveries: tuple[Any, ...] | None = None
    outcome: Outcome | None = None
    compensation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedEffect:
    """An effect that waits for a gateway: an intent or an approved compensation, with its action and token."""

    action: Mapping[str, Any]
    token: str
    intent: str | None = None
    compensation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A fragment that was handed out to be scored, until `lease_until`; `input` is what its publisher gave."""

    attempt: str
    epoch: int
    seq: int
    lease_until: datetime
    input: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """Leave for one model call."""

    permit: str
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a model call was spent on: `live`, `wasted` or `zombie` (A6)."""

    spend: str
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmented:
    """What became of a fragment: `accept`, or `duplicate`, with `conflict` where the one that stays is another."""

    result: str
    conflict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSeen:
    """An attempt as far as a worker needs it: its one open epoch, and whether it is published."""

    attempt: str
    lane: str
    epoch: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReason:
    """Why the gate says what it says."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSaid:
    """What the gate of a lane says: `pass`, `halt` or `wait`, why, and the digest of the grades that it read (A7)."""

    gate: str
    reasons: tuple[GateReason, ...]
    figures: Mapping[str, Any]
    snapshot: str
    thresholds_version: int


def read(kind: type[T], value: object, where: str = "") -> T:
    """Build `kind` out of JSON. Raises `BadAnswer` that names the place of what is missing or of another type."""
    if not isinstance(value, Mapping):
        raise BadAnswer(f"{kind.__name__}{where} is no object.")
    given = {}
    for name, hint, is_needed in _members(kind):  # type: ignore[arg-type]  # a class can be hashed
        if name in value:
            given[name] = _converted(hint, value[name], f"{where}/{name}")
        elif is_needed:
            raise BadAnswer(f"{kind.__name__} has no member {where}/{name}.")
    return kind(**given)


def read_list(kind: type[T], value: object) -> tuple[T, ...]:
    """Read a list, bare or as the `items` of a page (H6)."""
    items = value.get("items") if isinstance(value, Mapping) else value
    if not isinstance(items, list):
        raise BadAnswer(f"A list of {kind.__name__} was expected.")
    return tuple(read(kind, item, f"/{place}") for place, item in enumerate(items))


@cache
def _members(kind: type[Any]) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple((each.name, hints[each.name], each.default is MISSING) for each in fields(kind))


def _converted(hint: Any, value: Any, where: str) -> Any:
    if hint is Any:
        return value
    if get_origin(hint) in {Union, types.UnionType}:
        inner, *_ = (each for each in get_args(hint) if each is not types.NoneType)
        return None if value is None else _converted(inner, value, where)
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_converted(get_args(hint)[0], item, f"{where}/{place}") for place, item in enumerate(value))
    if is_dataclass(hint) and isinstance(hint, type):
        return read(hint, value, where)
    if hint is datetime and isinstance(value, str):
        return _moment(value, where)
    plain = get_origin(hint) or hint
    if isinstance(value, plain) and not (plain is int and isinstance(value, bool)):
        return value
    raise BadAnswer(f"{where} is {type(value).__name__}; {getattr(hint, '__name__', hint)} was expected.")


def _moment(value: str, where: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise BadAnswer(f"{where} is no RFC 3339 time: {value!r}.") from None
