"""How a guarded function says what became of its effect: it returns, or raises one of these.

Returning is `succeeded`, and any other exception is `unknown`: only who is sure may say that nothing happened (L5).
"""

from __future__ import annotations

from typing import Any

from fencing.client.objects import Outcome


class ToolOutcome(Exception):
    """A definite outcome other than success."""


class NotSent(ToolOutcome):
    """The tool was never reached: no connection was opened. Nothing was done; the effect may be tried again."""


class Busy(ToolOutcome):
    """The tool took nothing on and asks for patience; `retry_after_s` when it said for how long."""

    def __init__(self, retry_after_s: float | None = None) -> None:
        super().__init__("The tool is busy.")
        self.retry_after_s = retry_after_s


class Failed(ToolOutcome):
    """The tool definitely refused and did nothing; `response` is what it said. It closes the commit (L7).

    Also raised instead of running a guarded function whose effect has failed before; `outcome` is set then.
    """

    def __init__(self, response: Any = None, *, outcome: Outcome | None = None) -> None:
        super().__init__("The effect failed.")
        self.response = response
        self.outcome = outcome


def told(fault: BaseException | None, response: Any) -> tuple[str, Any, float | None]:
    """Classify how a guarded block ended: outcome, response, and the seconds to wait when it is `busy`."""
    match fault:
        case None:
            return "succeeded", response, None
        case NotSent():
            return "not_sent", None, None
        case Busy(retry_after_s=after):
            return "busy", None, after
        case Failed(response=answer):
            return "failed", answer, None
        case _:
            # The kind of the fault helps whoever has to find out; its text may hold what nobody should read.
            return "unknown", {"exception": type(fault).__name__}, None
