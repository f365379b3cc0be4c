"""Calls and replies as values: what is sent, what came back, how a reply is understood. No I/O here.

A *talk* is a generator that yields what it wants done (a `Call`, a `Pause`, …), is given what came of it, and returns
its result. Each operation of the client is written once as a talk; a shell (`shells.py`) carries it out, blocking or
not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeAlias, TypeVar

from fencing.client.errors import NOTHING, BadAnswer, Refused, family

T = TypeVar("T")
Json: TypeAlias = Any
BASE = "/api/v1"
SUCCESSES = range(200, 300)
REDIRECTIONS = range(300, 400)
# Answers of a proxy that got none itself: what became of the request is not known.
NO_WORD_OF_THE_SERVICE = frozenset({502, 504})


class Repeat(Enum):
    """Which call may be sent a second time by machine."""

    ALWAYS = auto()
    """Repetition is harmless (N2)."""
    UNSENT = auto()
    """Only when no connection was opened: a second admission gives no second permission (L3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One HTTP request.

    `path` lies below `/api/v1`, or at the root where `is_rooted`; `wait_s` is the server's part of a waiting read (H5),
    which the shell adds to its own timeout.
    """

    method: str
    path: str
    query: Mapping[str, str | int | float] = field(default_factory=lambda: NOTHING)
    body: Mapping[str, Json] | None = None
    repeat: Repeat = Repeat.ALWAYS
    wait_s: float = 0
    is_rooted: bool = False

    @property
    def target(self) -> str:
        """The path from the root."""
        return self.path if self.is_rooted else BASE + self.path

    def content(self) -> bytes | None:
        """The body as UTF-8 JSON. Raises ValueError or TypeError for what is none (NaN, a lone surrogate)."""
        if self.body is None:
            return None
        return json.dumps(self.body, ensure_ascii=False, allow_nan=False).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Nothing came back. `is_sent` is false only when the request certainly never left."""

    is_sent: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Wait `least_s` seconds and a random share of `spread_s` more; chance is the shell's."""

    least_s: float
    spread_s: float = 0


@dataclass(frozen=True, slots=True)
class Clock:
    """Ask for a monotonic reading in seconds. It measures patience and decides nothing about the fence (N3)."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Run a function of the user; an asynchronous shell awaits its result. What it raises is raised in the talk."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


Wish = Call | Pause | Clock | Apply
Talk = Generator[Wish, Any, T]


def members(**given: Json) -> dict[str, Json]:
    """A body without the members that were not given."""
    return {name: value for name, value in given.items() if value is not None}


def understood(reply: Reply) -> Json:
    """Return the JSON of a success. Raises `Refused` for a refusal, `BadAnswer` for anything else."""
    if reply.status in SUCCESSES:
        try:
            return json.loads(reply.body)
        except ValueError as fault:
            raise BadAnswer(f"A success ({reply.status}) that is no JSON: {fault}.") from None
    if reply.status in REDIRECTIONS:
        raise BadAnswer(f"The answer {reply.status} points elsewhere; is the base address right?")
    raise refusal(reply.status, _problem(reply), retry_after_s(reply))


def refusal(status: int, problem: Mapping[str, Json], asked_s: float | None = None) -> Refused:
    """Build the exception for a problem (RFC 9457), or for one refused item of a bulk answer (H3)."""
    known = {"type", "title", "status", "detail", "code", "pointer", "retry_after"}
    code = str(problem.get("code", "")) or f"http_{status}"
    after = problem.get("retry_after", asked_s)
    return family(status, code)(
        status=status,
        code=code,
        detail=str(problem.get("detail") or problem.get("title") or "no reason was given"),
        pointer=problem.get("pointer"),
        retry_after_s=after if isinstance(after, int | float) else None,
        extras={name: value for name, value in problem.items() if name not in known},
    )


def retry_after_s(reply: Reply) -> float | None:
    """The seconds of `Retry-After`; a date there is left to the caller's own back-off."""
    try:
        return max(0.0, float(reply.headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def _problem(reply: Reply) -> Mapping[str, Json]:
    try:
        problem = json.loads(reply.body)
    except ValueError:
        problem = None
    # A proxy's HTML, say: the status is all that is known.
    return problem if isinstance(problem, dict) else {"detail": f"an answer {reply.status} without a reason"}
