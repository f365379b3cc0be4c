"""The branch-side client: code that speculates reaches for a tool only through a step that it registered (B7).

    branch = Branch(planner, run="order-7", name="A", epoch=1, read_only={"lookup_invoice"})
    branch.register("notify", {"tool": "send_notification", "args": {"to": "oncall"}})
    branch.reach("send_notification", step="notify")   # fine: the fence decides, and the gateway sends it
    branch.reach("delete_invoice")                      # raises UnregisteredSideEffect

It stands beside the gateway, which refuses the same in any case; here the mistake is told where it is made, before
anything is asked of a tool. Every tool that is not named as one that only reads may have effects.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from fencing.client.errors import UnregisteredSideEffect
from fencing.client.objects import Step
from fencing.client.planner import Planner

F = TypeVar("F", bound=Callable[..., Any])


class Branch:
    """One branch of a run, as the code in it sees the fence. It is for one thread at a time."""

    def __init__(self, planner: Planner, *, run: str, name: str, epoch: int, read_only: Iterable[str] = ()) -> None:
        self.planner, self.run, self.name, self.epoch = planner, run, name, epoch
        self._read_only = frozenset(read_only)
        self._registered: dict[str, str] = {}

    def register(self, step: str, action: Mapping[str, Any], **members: Any) -> Step:
        """Propose a step in this branch: from now on code may reach for its tool as that step."""
        proposed = self.planner.propose(self.run, step, self.epoch, action=action, branch=self.name, **members)
        self._registered[step] = str(action["tool"])
        return proposed

    def reach(self, tool: str, step: str | None = None) -> None:
        """Say that code is about to call a tool, as a step where one is named.

        Raises:
            UnregisteredSideEffect: no step of this branch is registered for that tool, or not that one.
        """
        if tool in self._read_only:
            return
        tools = self._registered.values() if step is None else (self._registered.get(step),)
        if tool not in tools:
            raise UnregisteredSideEffect(tool=tool, branch=self.name, step=step)

    def guards(self, tool: str) -> Callable[[F], F]:
        """Guard a function that calls a tool: it runs only where a step of this branch is registered for it."""

        def guard(function: F) -> F:
            if inspect.iscoroutinefunction(function):

                @wraps(function)
                async def later(*args: Any, **named: Any) -> Any:
                    self.reach(tool)
                    return await function(*args, **named)

                return later  # type: ignore[return-value]  # it is called as the function was

            @wraps(function)
            def call(*args: Any, **named: Any) -> Any:
                self.reach(tool)
                return function(*args, **named)

            return call  # type: ignore[return-value]  # the same

        return guard
