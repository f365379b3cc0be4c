"""The gateway's process: the only one that knows the bank, and it asks the fence before each refund."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from fencing.client import Admission, Gateway, TokenDiffers, TryLater, check_token
from fencing.demo.actor import Verbs, serve

PAUSE_S = 0.1


class Bank:
    """A bank that knows a repetition by its idempotency key, and whose answer can get lost on the way."""

    def __init__(self) -> None:
        self.ledger: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.loses_answer = False

    def refund(self, invoice: int, cents: int, idempotency_key: str) -> dict[str, Any]:
        """Book a refund once for each key. Raises ConnectionResetError when the answer gets lost after the booking."""
        self.asked.append(idempotency_key)
        booking = {"refund_id": f"re_{len(self.ledger) + 1}", "invoice": invoice, "cents": cents}
        self.ledger.setdefault(idempotency_key, booking)
        if self.loses_answer:
            self.loses_answer = False
            raise ConnectionResetError("the bank's answer was lost")
        return self.ledger[idempotency_key]


def cast(base_url: str, key: str) -> Verbs:
    """What a gateway can be told to do."""
    gateway = Gateway(base_url, key)
    bank = Bank()
    refund = gateway.guards("refund")(bank.refund)

    def send(token: str, action: Mapping[str, Any], *, patience_s: float = 0, loses_answer: bool = False) -> Any:
        """Refund under admission; with patience, ask again when the fence says when."""
        bank.loses_answer = loses_answer
        until = time.monotonic() + patience_s
        while True:
            try:
                outcome = refund(token, **action["args"])
            except ConnectionResetError:
                return {"outcome": "no answer", "bank": _told(bank)}
            except TryLater as later:
                if time.monotonic() >= until:
                    raise
                time.sleep(max(PAUSE_S, min(later.retry_after_s or 0, until - time.monotonic())))
            else:
                return {"outcome": outcome.outcome, "response": outcome.response, "bank": _told(bank)}

    def early(action: Mapping[str, Any], run: str, step: str, epoch: int) -> Admission:
        """Ask without a token, as a planner does that will not wait for the fence."""
        return gateway.admit(action, run=run, step=step, epoch=epoch)

    def check(token: str, action: Mapping[str, Any]) -> list[str]:
        """Compare token and action offline; return what differs."""
        try:
            check_token(token, action, gateway.signing_keys())
        except TokenDiffers as differs:
            return [each.member for each in differs.differences]
        return []

    return {
        "send": send,
        "open_ticket": partial(_open_ticket, gateway),
        "early": early,
        "check": check,
        "bank": lambda: _told(bank),
    }


def _open_ticket(gateway: Gateway, token: str, action: Mapping[str, Any]) -> Any:
    """Open a ticket under admission: a branch that is not decided may, for it can be closed again."""
    outcome = gateway.perform("create_ticket", lambda **_args: {"ticket": "T-9"}, token, action["args"])
    return {"outcome": outcome.outcome, "response": outcome.response}


def _told(bank: Bank) -> dict[str, Any]:
    return {"asked": bank.asked, "booked": list(bank.ledger)}


if __name__ == "__main__":
    serve(cast)
