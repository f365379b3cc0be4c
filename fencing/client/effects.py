"""One guarded effect: admission before it, its outcome after it, and nothing in between without the first.

Written as talks; `gateway.py` gives them their two shells.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencing.client.calls import Apply, Call, Json, Repeat, Talk, members, refusal
from fencing.client.errors import (
    AdmissionLost,
    AlreadySettled,
    BadAnswer,
    FenceError,
    Malformed,
    OutcomeConflict,
    OutcomeUnreported,
    StaleDelivery,
    Unreachable,
)
from fencing.client.objects import Admission, Outcome, Report, Settlement, read
from fencing.client.outcomes import Failed, told
from fencing.client.repetition import ONCE, asked
from fencing.client.shells import Shell
from fencing.protocol.actions import read_action
from fencing.protocol.errors import Refusal

log = logging.getLogger(__name__)
KEY = "idempotency_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What is to be admitted: the action, its token, and for an early call the step that it belongs to."""

    action: Mapping[str, Any]
    token: str | None
    run: str | None = None
    step: str | None = None
    epoch: int | None = None


class GuardedEffect:
    """The course of one effect. It is opened once, by an admission, and closed once, by a report."""

    def __init__(self, shell: Shell, errand: Errand) -> None:
        self.payload, self.action = _canonical(errand.action)
        self.response: Json = None
        self.outcome: Outcome | None = None
        self._shell = shell
        self._errand = replace(errand, action=self.action)
        self._admission: Admission | None = None

    @property
    def admission(self) -> Admission:
        """The gateway's yes. Raises RuntimeError outside the guarded block."""
        if self._admission is None:
            raise RuntimeError("The effect has not been admitted.")
        return self._admission

    @property
    def idempotency_key(self) -> str | None:
        """What the tool must be given, so that a repetition is known as one; None for a read-only tool."""
        return self.admission.idempotency_key

    def opened(self) -> Talk[None]:
        """Ask for admission. Raises `AlreadySettled` where the effect is there already, else what `admitted` raises."""
        if self._admission is not None:
            raise RuntimeError("An effect is entered once; make another one.")
        admission = yield from admitted(self._shell, self._errand)
        if not admission.admit:
            raise AlreadySettled(intent=admission.intent, outcome=admission.outcome)
        self._admission = admission

    def closed(self, fault: BaseException | None) -> Talk[None]:
        """Report how the guarded block ended.

        Raises `OutcomeUnreported`, `StaleDelivery` or `OutcomeConflict` after a success; a block that raised keeps its
        own exception, with a note.
        """
        if self.admission.exempt:
            return
        outcome, response, after = told(fault, self.response)
        report = self.admission.report(outcome, response=response, retry_after_s=after)
        try:
            # Who was interrupted wants to leave: an untold outcome becomes unknown by itself (L5).
            hurried = fault is not None and not isinstance(fault, Exception)
            settlement = yield from reported(self._shell, report, is_hurried=hurried)
        except FenceError as trouble:
            if fault is None:
                raise _unreported(report, trouble) from trouble
            fault.add_note(f"The outcome {outcome!r} was not taken: {trouble}")
            return
        self.outcome = settlement.outcome or Outcome(outcome=outcome, response=response)


def admitted(shell: Shell, errand: Errand) -> Talk[Admission]:
    """Ask the gateway, once: a request that may have left is never repeated by machine (L3).

    Raises `AttemptedEscape` and its kin, `TryLater` and its kin (with `retry_after_s`), `AdmissionLost`, or
    `Unreachable` when nothing was sent. In none of these cases may the effect be carried out.
    """
    body = members(action=errand.action, token=errand.token, run=errand.run, step=errand.step, epoch=errand.epoch)
    call = Call(method="POST", path="/gateway/admissions", body=body, repeat=Repeat.UNSENT)
    try:
        return _whole(read(Admission, (yield from shell.asked(call))))
    except BadAnswer as garbled:
        raise AdmissionLost(str(garbled), sent=True, attempts=1) from garbled
    except Unreachable as lost:
        if lost.sent:
            raise AdmissionLost(lost.why, sent=True, attempts=lost.attempts) from lost
        raise


def reported(shell: Shell, report: Report, *, is_hurried: bool = False) -> Talk[Settlement]:
    """Tell an outcome, again where no answer came (N2).

    A response that cannot be told does not hold back the outcome: the record then says why it is missing.
    """
    repetition = ONCE if is_hurried else shell.repetition
    try:
        return read(Settlement, (yield from asked(_report_call(report), repetition)))
    except (Malformed, TypeError, ValueError) as fault:
        if report.response is None:
            raise
        log.error("The response of delivery %s cannot be recorded: %s", report.delivery, fault)  # noqa: TRY400
        without = replace(report, response={"unrecorded": str(fault)[:500]})
        return read(Settlement, (yield from asked(_report_call(without), repetition)))


def performed(
    shell: Shell, tool: str, function: Callable[..., Any], token: str | None, args: Mapping[str, Any]
) -> Talk[Outcome]:
    """Run a function as the effect `tool(args)`, if and only if the gateway admits it, and report its outcome.

    An effect that is settled already is not run: its recorded outcome is returned, or `Failed` raised. The function is
    given the arguments in canonical form, and the idempotency key where it takes one.
    """
    effect = GuardedEffect(shell, Errand(action={"tool": tool, "args": dict(args)}, token=token))
    takes_key = _checked(function, effect.action["args"])
    try:
        yield from effect.opened()
    except AlreadySettled as settled:
        return _recorded(settled.outcome)
    key = {KEY: effect.idempotency_key} if takes_key else {}
    try:
        effect.response = yield Apply(function, kwargs={**effect.action["args"], **key})
    except BaseException as fault:
        yield from effect.closed(fault)
        raise
    yield from effect.closed(None)
    return effect.outcome or Outcome(outcome="succeeded", response=effect.response)


def _whole(admission: Admission) -> Admission:
    """Believe no yes that names no delivery: without one, nobody would ever hear of the effect."""
    if admission.admit and not admission.exempt and None in {admission.delivery, admission.idempotency_key}:
        raise BadAnswer("An admission without a delivery and its key.")
    return admission


def _canonical(action: Mapping[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """The bytes that were agreed on, and the action that they spell, which the caller can no longer change (C7)."""
    given = read_action(dict(action))
    if isinstance(given, Refusal):
        raise refusal(422, {"code": given.code, "detail": given.detail, "pointer": given.pointer})
    return given.canonical, json.loads(given.canonical)


def _checked(function: Callable[..., Any], args: Mapping[str, Any]) -> bool:
    """Find out before the admission whether the arguments fit (TypeError), and whether the key is taken."""
    signature = inspect.signature(function)
    open_ended = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    takes_key = open_ended or KEY in signature.parameters
    if takes_key and KEY in args:
        raise TypeError(f"The argument {KEY!r} is the fence's to give.")
    signature.bind(**args, **({KEY: ""} if takes_key else {}))
    return takes_key


def _report_call(report: Report) -> Call:
    body = members(
        intent=report.intent,
        compensation=report.compensation,
        delivery=report.delivery,
        outcome=report.outcome,
        response=report.response,
        retry_after=report.retry_after_s,
    )
    return Call(method="POST", path="/gateway/outcomes", body=body)


def _unreported(report: Report, trouble: FenceError) -> FenceError:
    if isinstance(trouble, StaleDelivery | OutcomeConflict):
        return trouble
    return OutcomeUnreported(f"The effect ended as {report.outcome!r}, and nobody was told: {trouble}", report)


def _recorded(outcome: Outcome | None) -> Outcome:
    if outcome is None:
        raise BadAnswer("A settled effect without its outcome.")
    if outcome.outcome != "succeeded":
        raise Failed(outcome.response, outcome=outcome)
    return outcome
