"""What can go wrong between a client and the fence, as exceptions.

Three families: the service said no (`Refused`), nobody knows what it said (`Unreachable`, `BadAnswer`), and the client
itself will not go on (`AlreadySettled`, `OutcomeUnreported`). How a tool ended is a fourth, in `outcomes.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class FenceError(Exception):
    """Anything that this package raises about the fence."""


class Unreachable(FenceError):
    """No answer came: the connection failed, broke or timed out, or a proxy answered in the service's place.

    `sent` is false when the request certainly never left (no connection was opened), true when it may have been
    received and carried out; `attempts` tells how often it was tried.
    """

    def __init__(self, why: str, *, sent: bool, attempts: int) -> None:
        super().__init__(f"{why} (tried {attempts} time{'' if attempts == 1 else 's'})")
        self.why = why
        self.sent = sent
        self.attempts = attempts


class AdmissionLost(Unreachable):
    """An admission was sent and its answer was lost; it is not repeated by machine, and nothing was run.

    The gateway may have opened a delivery that nobody holds (L3, L5). Its lease runs out by itself: until then asking
    again is answered `delivery_in_progress` with `retry_after`; afterwards an idempotent tool gets the next delivery
    with the same idempotency key, and any other tool is `in_doubt` until a person says that nothing was sent.
    """


class BadAnswer(FenceError):
    """The answer is not what the protocol says: no JSON, a missing member, a status that has no meaning here."""


class Refused(FenceError):
    """The service said no, in its own words (H2).

    `code` is the protocol's, `detail` a sentence for a person, `pointer` a JSON Pointer to the culprit, `extras` every
    other member of the problem, `retry_after_s` the seconds after which asking again makes sense.
    """

    def __init__(
        self,
        *,
        status: int,
        code: str,
        detail: str,
        pointer: str | None = None,
        retry_after_s: float | None = None,
        extras: Mapping[str, Any] = NOTHING,
    ) -> None:
        super().__init__(f"{code}: {detail}" if pointer is None else f"{code} at {pointer}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.pointer = pointer
        self.retry_after_s = retry_after_s
        self.extras = extras

    @property
    def current_epoch(self) -> int | None:
        """The epoch that is open, where the refusal is about epochs."""
        value = self.extras.get("current_epoch")
        return value if isinstance(value, int) else None


class UnregisteredSideEffect(FenceError):
    """Code in a branch reached for a tool that may have effects, without a step that is registered for it (B7)."""

    def __init__(self, *, tool: str, branch: str, step: str | None = None) -> None:
        named = "no step" if step is None else f"step {step} is not"
        registered = f"{named} of it is registered" if step is None else f"{named} registered"
        super().__init__(
            f"{tool} in branch {branch}: {registered} for it. Register the step first; the gateway sends it."
        )
        self.tool = tool
        self.branch = branch
        self.step = step


class Malformed(Refused):
    """What was sent has no meaning for the service (400, 413, 422); sending it again changes nothing."""


class NotAllowed(Refused):
    """The key is unknown, or may not do this (H1)."""


class NotFound(Refused):
    """There is no such object."""


class UnknownStep(NotFound):
    """A vote for a step that nobody proposed yet; repeat it once it is proposed (F6)."""


class Conflict(Refused):
    """The state of things, or the same identity with other content, forbids it (409)."""


class StaleEpoch(Conflict):
    """The epoch was closed; `current_epoch` tells the open one (R5)."""


class FutureEpoch(Conflict):
    """Nobody opened that epoch (R5)."""


class AlreadyCommitted(Conflict):
    """The step has a standing commit with another epoch (R5, R6)."""


class AlreadyDecided(Conflict):
    """Somebody decided before; `extras` tell who and when."""


class NotRejected(Conflict):
    """Only a rejected step, or one whose effect failed, can be replayed (R4)."""


class Equivocation(Conflict):
    """This path has voted otherwise before; both votes are stored (F2)."""


class StaleDelivery(Conflict):
    """A newer delivery has taken over; the report is recorded and without effect."""


class OutcomeConflict(Conflict):
    """The report contradicts a settled intent; an incident is open."""


class TryLater(Refused):
    """Not now: too many calls, the database is away, or somebody else is at it. `retry_after_s` tells when."""


class DeliveryInProgress(TryLater):
    """Another delivery of this intent is under way, until its outcome or the end of its lease (L4)."""


class InDoubt(TryLater):
    """Nobody knows whether the effect happened; a person decides (L5, L6)."""


class AttemptedEscape(Refused):
    """The gateway refused an effect that has no authority; it is recorded and counted (L4)."""


class NotCommitted(AttemptedEscape):
    """The step has no commit."""


class Revoked(AttemptedEscape):
    """The commit was taken back, or its grant ended."""


class PayloadMismatch(AttemptedEscape):
    """The action is not the one that the token was given for."""


class AlreadySettled(FenceError):
    """The effect has its outcome already (`admit: false`): nothing must run; `outcome` and `intent` tell it."""

    def __init__(self, *, intent: str | None, outcome: Any) -> None:
        super().__init__(f"The effect is settled already: {getattr(outcome, 'outcome', outcome)}.")
        self.intent = intent
        self.outcome = outcome


class OutcomeUnreported(FenceError):
    """The effect ended, and its outcome could not be told; keep `report` and give it to `Gateway.report` later.

    A report is taken after its lease ran out, too. Untold, the delivery becomes unknown (L5).
    """

    def __init__(self, why: str, report: Any) -> None:
        super().__init__(why)
        self.report = report


BY_CODE: Final[Mapping[str, type[Refused]]] = MappingProxyType(
    {
        "unknown_step": UnknownStep,
        "stale_epoch": StaleEpoch,
        "future_epoch": FutureEpoch,
        "already_committed": AlreadyCommitted,
        "already_decided": AlreadyDecided,
        "not_rejected": NotRejected,
        "equivocation": Equivocation,
        "stale_delivery": StaleDelivery,
        "outcome_conflict": OutcomeConflict,
        "delivery_in_progress": DeliveryInProgress,
        "in_doubt": InDoubt,
        "not_ready": TryLater,
        "not_committed": NotCommitted,
        "revoked": Revoked,
        "grant_expired": Revoked,
        "payload_mismatch": PayloadMismatch,
        "no_token": AttemptedEscape,
        "bad_token": AttemptedEscape,
        "unknown_commit": AttemptedEscape,
        "wrong_epoch": AttemptedEscape,
        "frozen": AttemptedEscape,
    }
)

BY_STATUS: Final[Mapping[int, type[Refused]]] = MappingProxyType(
    {
        400: Malformed,
        401: NotAllowed,
        403: NotAllowed,
        404: NotFound,
        409: Conflict,
        413: Malformed,
        422: Malformed,
        429: TryLater,
        503: TryLater,
    }
)

FORBIDDEN: Final = 403
# A code that means an attempted escape at the gateway, and a fault of form everywhere else (T1, T3).
ESCAPES_WITH_403: Final = frozenset({"unknown_tool", "invalid_args"})


def family(status: int, code: str) -> type[Refused]:
    """Return the exception for a refusal; a code that this version does not know falls back on its status."""
    if status == FORBIDDEN and code in ESCAPES_WITH_403:
        return AttemptedEscape
    return BY_CODE.get(code) or BY_STATUS.get(status, Refused)
