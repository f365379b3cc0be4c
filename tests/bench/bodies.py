"""What the load says: the six requests of a fenced step, as templates that only numbers and names are put into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STEPS_OF_A_RUN: Final = 10

ACTION: Final = b'{"tool":"bench_refund","args":{"invoice":%d,"cents":%d,"currency":"EUR"}}'
PROPOSAL: Final = b'{"run":"%b","step":"%b","epoch":1,"tool":"bench_refund"}'
VOTE: Final = b'{"run":"%b","step":"%b","epoch":1,"action":%b,"model":"%b","prompt":"%b"}'
ADMISSION: Final = b'{"token":"%b","action":%b}'
OUTCOME: Final = (
    b'{"intent":"%b","delivery":"%b","outcome":"succeeded","response":{"refund_id":"r-%d","state":"booked"}}'
)
WAITING: Final = b"/runs/%b/steps/%b?epoch=1&wait=%d"
# Two models and two prompts: an agreement of paths that share them would be marked as correlated (F10).
MODELS: Final = {"replica": (b"model-b", b"prompt-b"), "production": (b"model-a", b"prompt-a")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A step to be: its run, its name, and the number that makes its action one of its own."""

    run: bytes
    step: bytes
    number: int

    @property
    def action(self) -> bytes:
        """The refund that both paths want."""
        return ACTION % (1 + self.number, 100 + self.number % 9_900)


def proposal(place: Place) -> bytes:
    """The body of `POST /steps`."""
    return PROPOSAL % (place.run, place.step)


def vote(place: Place, path: str) -> bytes:
    """The body of `POST /votes`."""
    return VOTE % (place.run, place.step, place.action, *MODELS[path])


def admission(place: Place, token: bytes) -> bytes:
    """The body of `POST /gateway/admissions`."""
    return ADMISSION % (token, place.action)


def outcome(place: Place, intent: bytes, delivery: bytes) -> bytes:
    """The body of `POST /gateway/outcomes`."""
    return OUTCOME % (intent, delivery, place.number)


def items(each: list[bytes]) -> bytes:
    """Many bodies as one bulk call (H3)."""
    return b'{"items":[' + b",".join(each) + b"]}"
