"""When a call is sent again, and after which pause. Decides only; chance and sleeping are the shell's."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from fencing.client.calls import (
    NO_WORD_OF_THE_SERVICE,
    Call,
    Json,
    Lost,
    Pause,
    Repeat,
    Reply,
    Talk,
    retry_after_s,
    understood,
)
from fencing.client.errors import Unreachable

# Too many calls, and the database away: the service itself asks to be asked again (H4).
ASK_AGAIN = frozenset({429, 503})


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """How patient a client is. Every call may be repeated (N2), except an admission whose request may have left (L3).

    At most `tries` in all. The pause starts at `first_s` seconds, grows by `growth` up to `longest_s`, and a share
    `jitter` of it is left to chance, so that clients that failed together do not come back together. A `Retry-After`
    is never undercut; one beyond `longest_s` ends the repetition, and the refusal tells it.
    """

    tries: int = 6
    first_s: float = 0.2
    growth: float = 2.0
    longest_s: float = 10.0
    jitter: float = 0.5

    def pause_after(self, attempt: int, asked_s: float | None) -> Pause | None:
        """The pause after the given attempt (1 is the first), or None when it was the last."""
        if attempt >= self.tries or (asked_s or 0) > self.longest_s:
            return None
        backoff_s = min(self.longest_s, self.first_s * self.growth ** (attempt - 1))
        return Pause(least_s=max(asked_s or 0, backoff_s * (1 - self.jitter)), spread_s=backoff_s * self.jitter)


PATIENT = Repetition()
"""The default: about six seconds of trying."""

ONCE = Repetition(tries=1)
"""No repetition at all."""


def can_repeat(call: Call, heard: Reply | Lost) -> bool:
    """Tell whether sending this call again is harmless and may help."""
    if isinstance(heard, Lost):
        return call.repeat is Repeat.ALWAYS or not heard.is_sent
    return call.repeat is Repeat.ALWAYS and (heard.status in ASK_AGAIN or heard.status in NO_WORD_OF_THE_SERVICE)


def asked(call: Call, repetition: Repetition) -> Talk[Json]:
    """Send a call, again where that is harmless, and return the JSON of its success.

    Raises `Refused`, `Unreachable` or `BadAnswer`.
    """
    for attempt in count(1):
        heard: Reply | Lost = yield call
        asked_s = retry_after_s(heard) if isinstance(heard, Reply) else None
        pause = repetition.pause_after(attempt, asked_s) if can_repeat(call, heard) else None
        if pause is None:
            return _settled(heard, attempt)
        yield pause
    raise AssertionError


def _settled(heard: Reply | Lost, attempts: int) -> Json:
    if isinstance(heard, Lost):
        raise Unreachable(heard.why, sent=heard.is_sent, attempts=attempts)
    if heard.status in NO_WORD_OF_THE_SERVICE:
        raise Unreachable(f"A proxy answered {heard.status}.", sent=True, attempts=attempts)
    return understood(heard)
