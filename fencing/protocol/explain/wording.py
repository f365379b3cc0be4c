"""The words of which sentences are made: marked pieces, lists, times, durations, and actions told in short.

What comes from outside (arguments, reasons, names) is cut and spelt here, so that no sentence carries a character that
deceives or grows without end; escaping is the page's work.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from fencing.protocol.pointers import ABSENT, parts_of, pointer_to, resolve

if TYPE_CHECKING:
    from fencing.protocol.actions import ToolLookup
    from fencing.protocol.tools import ToolDefinition

MAX_TEXT: Final = 40
MAX_MEMBERS: Final = 3
MASKED: Final = "•••"
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_MAX_MARKS: Final = 3


class Mark(StrEnum):
    """How a page may set a piece of a sentence."""

    PLAIN = "plain"
    STRONG = "strong"
    CODE = "code"
    NAME = "name"
    QUOTE = "quote"


class Tone(StrEnum):
    """What a sentence is about. `danger` is kept for what left and should not have, or may have."""

    NEUTRAL = "neutral"
    GOOD = "good"
    WAITING = "waiting"
    REFUSED = "refused"
    DANGER = "danger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a sentence. Its text is safe to read and still has to be escaped."""

    text: str
    mark: Mark = Mark.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """What a person reads first: the verdict, and what explains it."""

    tone: Tone
    head: tuple[Part, ...]
    rest: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """The plain words, as the API and the command line give them."""
        head, rest = ("".join(part.text for part in parts) for parts in (self.head, self.rest))
        return f"{head}: {rest}" if rest else f"{head}."


def parts(*pieces: str | Part | Iterable[Part]) -> tuple[Part, ...]:
    """Join pieces; text of our own is plain."""
    made: list[Part] = []
    for piece in pieces:
        if isinstance(piece, str):
            made += [Part(text=piece)] if piece else []
        elif isinstance(piece, Part):
            made.append(piece)
        else:
            made += piece
    return tuple(made)


def strong(text: str) -> Part:
    """A word that carries the verdict."""
    return Part(text=text, mark=Mark.STRONG)


def code(text: str) -> Part:
    """A tool's name, or another word of the machine."""
    return Part(text=spelt(text), mark=Mark.CODE)


def name(text: str) -> Part:
    """The name of a grant, a path or a person."""
    return Part(text=spelt(text), mark=Mark.NAME)


def quote(text: str) -> Part:
    """Somebody's own words."""
    return Part(text=f"“{spelt(text)}”", mark=Mark.QUOTE)


def spelt(text: str, limit: int = MAX_TEXT) -> str:
    """Write a text from outside in one line: cut, and with every hidden character by its number."""
    shown = "".join(_spelt(text[:limit]))
    return f"{shown}…" if len(text) > limit else shown


def _spelt(text: str) -> Iterable[str]:
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        is_hidden = category in _HIDDEN or character in _BLANK or marks > _MAX_MARKS
        yield f"[U+{ord(character):04X}]" if is_hidden else " " if category == "Zs" else character


def listed(things: Sequence[str]) -> str:
    """Write "a", "a and b", "a, b and c"."""
    if len(things) < 2:  # noqa: PLR2004 - one thing needs no "and"
        return "".join(things)
    return f"{', '.join(things[:-1])} and {things[-1]}"


def uncapital(text: str) -> str:
    """Write a sentence as the rest of another one."""
    return text[:1].lower() + text[1:]


def times(number: int) -> str:
    """Write how often."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def clock(at: datetime, now: datetime) -> str:
    """Write a moment in UTC; with its date where it is not the day of `now`."""
    utc = at.astimezone(UTC)
    day = "" if utc.date() == now.astimezone(UTC).date() else f"{utc:%Y-%m-%d} "
    return f"{day}{utc:%H:%M:%S} UTC"


def duration(span: timedelta) -> str:
    """Write how long something took or takes, as exactly as a person needs it."""
    seconds = max(0.0, span.total_seconds())
    if seconds < 9.95:  # noqa: PLR2004 - beyond it tenths do not matter
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, size, smaller, small in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if whole >= size:
            return _two(whole // size, unit, whole % size // small, smaller)
    return f"{whole} s" if whole < 120 else _two(whole // 60, "min", whole % 60, "s")  # noqa: PLR2004 - two minutes


def _two(number: int, unit: str, rest: int, smaller: str) -> str:
    return f"{number} {unit} {rest} {smaller}" if rest else f"{number} {unit}"


def until(at: datetime, now: datetime) -> str:
    """Write a moment to come and how far it is, or that it is over."""
    return f"{clock(at, now)} (in {duration(at - now)})" if at > now else f"{clock(at, now)}"


# ---- actions ----


def described(action: Any, tools: ToolLookup) -> tuple[Part, ...]:
    """Tell a parsed action in short: its tool, what it touches, and a few more arguments. Sensitive ones are masked."""
    tool, args = str(action["tool"]), action["args"]
    definition = tools(tool)
    resources = () if definition is None else definition.resources
    touched = [(pointer, resolve(args, pointer)) for pointer in resources]
    things = [_member(pointer, value, definition) for pointer, value in touched if value is not ABSENT]
    hidden = {*resources, *(() if definition is None else definition.advisory)}  # prose has its own frame on the page
    rest = [pointer for member in args if (pointer := pointer_to([member])) not in hidden]
    members = [_member(pointer, resolve(args, pointer), definition) for pointer in rest[:MAX_MEMBERS]]
    more = f" and {len(rest) - MAX_MEMBERS} more" if len(rest) > MAX_MEMBERS else ""
    return parts(
        code(tool),
        f" on {listed(things[:MAX_MEMBERS])}" if things else "",
        f" ({', '.join(members)}{more})" if members else "",
    )


def _member(pointer: str, value: Any, definition: ToolDefinition | None) -> str:
    label = spelt(parts_of(pointer)[-1] if pointer else "args", 20)
    is_sensitive = definition is not None and any(_reaches(each, pointer) for each in definition.sensitive)
    return f"{label} {MASKED if is_sensitive else spelt(_text_of(value))}"


def _reaches(sensitive: str, pointer: str) -> bool:
    """Whether showing what stands at `pointer` would show something sensitive: it is inside, or around it."""
    return f"{sensitive}/".startswith(f"{pointer}/") or f"{pointer}/".startswith(f"{sensitive}/")


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return f"of {len(value)} members"
    return json.dumps(value)
