"""What a gateway says to the fence: may this leave, and what became of it.

    with gateway.effect(action, token) as effect:
        effect.response = bank.refund(**effect.action["args"], idempotency_key=effect.idempotency_key)

    @gateway.guards("refund")
    def refund(invoice: int, cents: int, idempotency_key: str) -> dict[str, str]: ...

    outcome = refund(token, invoice=9, cents=4200)

Neither runs its code without an admission. An exception inside is reported as `unknown` unless it is `NotSent`, `Busy`
or `Failed`. Nothing is sent again by itself: after a lost answer ask again when `retry_after_s` of the refusal says so,
and the tool is given the same idempotency key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from fencing.client.calls import Call, Talk, members
from fencing.client.effects import Errand, GuardedEffect, admitted, performed, reported
from fencing.client.objects import Admission, Outcome, Report, Settlement, WantedEffect, read_list
from fencing.client.polling import KeyTalks, patient, wait_of
from fencing.client.shells import AsyncShell, SyncShell, asks


class GatewayTalks(KeyTalks):
    """The calls of a gateway, written once for both shells."""

    @asks
    def admit(
        self,
        action: Mapping[str, Any],
        token: str | None = None,
        *,
        run: str | None = None,
        step: str | None = None,
        epoch: int | None = None,
    ) -> Talk[Admission]:
        """Ask whether an action may leave now (L3); `run`, `step` and `epoch` name the step of a call without a token.

        A yes opens a delivery that has to be reported. Never repeated by machine once the request may have left:
        `AdmissionLost` tells what that means. Raises `AttemptedEscape`, `DeliveryInProgress`, `InDoubt`, `TryLater`.
        """
        return (yield from admitted(self, Errand(action=action, token=token, run=run, step=step, epoch=epoch)))

    @asks
    def report(self, report: Report) -> Talk[Settlement]:
        """Tell the outcome of a delivery (`Admission.report` builds one), again if need be (N2).

        Raises `StaleDelivery` or `OutcomeConflict`.
        """
        return (yield from reported(self, report))

    @asks
    def perform(
        self, tool: str, function: Callable[..., Any], token: str | None, args: Mapping[str, Any]
    ) -> Talk[Outcome]:
        """Run a function as the effect `tool(args)` under admission, or return the outcome that is recorded already."""
        return (yield from performed(self, tool, function, token, args))

    @asks
    def wanted(self, *, tool: str | None = None, wait_s: float = 0) -> Talk[tuple[WantedEffect, ...]]:
        """Read what waits for a gateway, waiting up to `wait_s` seconds for the first; perhaps nothing."""

        def look(left_s: float) -> Call:
            query = members(tool=tool, wait=wait_of(left_s))
            return Call(method="GET", path="/gateway/wanted", query=query, wait_s=left_s)

        found, _ = yield from patient(
            self, look, lambda answer: read_list(WantedEffect, answer) or None, patience_s=wait_s
        )
        return found or ()


class Guarded(Protocol):
    """A guarded function: called with its token and the action's arguments by name, it returns the outcome."""

    def __call__(self, token: str | None, /, **args: Any) -> Outcome:
        """Run it under admission; see `perform`."""


class AsyncGuarded(Protocol):
    """A guarded function of the asynchronous client."""

    def __call__(self, token: str | None, /, **args: Any) -> Coroutine[Any, Any, Outcome]:
        """Run it under admission; see `perform`."""


class Effect(GuardedEffect):
    """An effect as a context. Entering it asks for admission, leaving it reports."""

    def __init__(self, gateway: Gateway, errand: Errand) -> None:
        super().__init__(gateway, errand)
        self._gateway = gateway

    def __enter__(self) -> Self:
        self._gateway.run(self.opened())
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, fault: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._gateway.run(self.closed(fault))


class AsyncEffect(GuardedEffect):
    """An effect as an asynchronous context."""

    def __init__(self, gateway: AsyncGateway, errand: Errand) -> None:
        super().__init__(gateway, errand)
        self._gateway = gateway

    async def __aenter__(self) -> Self:
        await self._gateway.run(self.opened())
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, fault: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._gateway.run(self.closed(fault))


class Gateway(GatewayTalks, SyncShell):
    """A gateway's client that blocks."""

    def effect(self, action: Mapping[str, Any], token: str | None = None) -> Effect:
        """Guard a block of code as one effect. Raises `Malformed` for what is no action (C1, C3).

        Entering raises what `admit` raises, and `AlreadySettled` with the outcome where nothing must be run.
        """
        return Effect(self, Errand(action=action, token=token))

    def guards(self, tool: str) -> Callable[[Callable[..., Any]], Guarded]:
        """Guard a function as the only way to a tool: see `perform`."""

        def guard(function: Callable[..., Any]) -> Guarded:
            if inspect.iscoroutinefunction(function):
                raise TypeError("An asynchronous function needs AsyncGateway.")

            def call(token: str | None, /, **args: Any) -> Outcome:
                return self.perform(tool, function, token, args)

            return call

        return guard


class AsyncGateway(GatewayTalks, AsyncShell):
    """A gateway's client for asyncio."""

    def effect(self, action: Mapping[str, Any], token: str | None = None) -> AsyncEffect:
        """Guard a block of code as one effect, with `async with`; see `Gateway.effect`."""
        return AsyncEffect(self, Errand(action=action, token=token))

    def guards(self, tool: str) -> Callable[[Callable[..., Any]], AsyncGuarded]:
        """Guard a function as the only way to a tool: see `perform`."""

        def guard(function: Callable[..., Any]) -> AsyncGuarded:
            def call(token: str | None, /, **args: Any) -> Coroutine[Any, Any, Outcome]:
                return self.perform(tool, function, token, args)

            return call

        return guard
