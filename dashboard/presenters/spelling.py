"""Text from outside, made safe to read: what is invisible, or turns the reading direction, is spelt out.

Escaping is the templates' work. This is about what survives escaping and still deceives: U+202E, zero-width marks,
look-alike hosts, towers of combining marks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# Not printed, or printed as nothing, though Unicode files them under letters, marks or symbols.
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SPELT_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_MAX_MARKS: Final = 3
_BREAKS: Final = {ord("\n"): " ", ord("\t"): " "}
_HOST: Final = re.compile(r"[^\s/@:?#\"'<>()\[\]{}|\\,;]+(?:\.[^\s/@:?#\"'<>()\[\]{}|\\,;.]+)+")
_WORD: Final = re.compile(r"[^\W\d_]+")
# Scripts that are written together in one word by the languages that use them.
_TOGETHER: Final = (
    frozenset({"CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"CJK", "HANGUL"}),
    frozenset({"CJK", "BOPOMOFO"}),
)
# Letters of no script of their own: signs and marks that stand in words of several.
_OF_ANY_SCRIPT: Final = frozenset({"MICRO", "OHM", "FEMININE", "MASCULINE", "MODIFIER", "KATAKANA-HIRAGANA"})
_MAX_HINTS: Final = 4
_SEARCHED: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of text: as it is, or one character spelt by its code point with its name beside it."""

    text: str
    name: str = ""

    @property
    def is_spelt(self) -> bool:
        """Tell whether it stands for a character that would not be seen."""
        return bool(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    """A text from outside: what is shown at once, what waits behind a fold, its length, and what looks deceptive."""

    head: tuple[Piece, ...]
    rest: tuple[Piece, ...]
    length: int
    hints: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Tell whether there is no text at all."""
        return self.length == 0


def pieces_of(text: str) -> tuple[Piece, ...]:
    """Cut a text into stretches that can be read and characters that have to be spelt. Line breaks and tabs stay."""
    if text.isascii() and text.translate(_BREAKS).isprintable():
        return (Piece(text=text),) if text else ()
    found: list[Piece] = []
    plain: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if marks <= _MAX_MARKS and not _is_hidden(character):
            plain.append(character)
            continue
        if plain:
            found.append(Piece(text="".join(plain)))
            plain = []
        found.append(Piece(text=code_point(character), name=_name(character)))
    if plain:
        found.append(Piece(text="".join(plain)))
    return tuple(found)


def spelt(text: str) -> str:
    """Write a text as plain text with its hidden characters spelt: for titles and attributes."""
    return "".join(f"[{piece.text}]" if piece.is_spelt else piece.text for piece in pieces_of(text))


def code_point(character: str) -> str:
    """Name a character by its number: `U+202E`."""
    return f"U+{ord(character):04X}"


def quotation(text: str, limit: int = 600) -> Quotation:
    """Prepare a text from outside; what is longer than `limit` characters is cut at a word and goes behind a fold."""
    cut = len(text)
    if cut > limit:
        space = max(text.rfind(" ", 0, limit), text.rfind("\n", 0, limit))
        cut = space + 1 if space > limit // 2 else limit
    return Quotation(
        head=pieces_of(text[:cut]), rest=pieces_of(text[cut:]), length=len(text), hints=tuple(hints_of(text))
    )


def hints_of(text: str) -> list[str]:
    """Say what a reader's eye would miss: hosts in other letters, and words of two scripts. At most four sentences."""
    searched = text[:_SEARCHED]
    if searched.isascii() and "xn--" not in searched.lower():
        return []
    return list(dict.fromkeys([*_host_hints(searched), *_script_hints(searched)]))[:_MAX_HINTS]


def _host_hints(text: str) -> Iterator[str]:
    for found in _HOST.finditer(text):
        host = found.group()
        if host.isascii() and "xn--" not in host.lower():
            continue
        if host.isascii():
            yield f"the host {spelt(host)} is punycode and reads {spelt(_from_punycode(host))}"
        elif (ascii_form := _to_punycode(host)) is not None:
            yield f"the host {spelt(host)} is {ascii_form} in the address book of the internet"


def _script_hints(text: str) -> Iterator[str]:
    for found in _WORD.finditer(text):
        word = found.group()
        scripts = {} if word.isascii() else dict.fromkeys(_script(letter) for letter in word)
        scripts.pop("", None)
        if len(scripts) > 1 and not any(scripts.keys() <= together for together in _TOGETHER):
            yield f"“{spelt(word)}” mixes {' and '.join(name.capitalize() for name in scripts)} letters"


def _script(letter: str) -> str:
    """Name the script of a letter by the first word of its Unicode name; the standard library has no better source."""
    name = unicodedata.name(letter, "").partition(" ")[0] if unicodedata.category(letter).startswith("L") else ""
    return "" if name in _OF_ANY_SCRIPT else name


def _to_punycode(host: str) -> str | None:
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return None


def _from_punycode(host: str) -> str:
    try:
        return host.encode("ascii").decode("idna")
    except UnicodeError:
        return "nothing that can be read"


def _is_hidden(character: str) -> bool:
    if character in "\n\t ":
        return False
    if character.isascii():
        return not character.isprintable()
    category = unicodedata.category(character)
    # Spaces that look like the plain one, or like none, make two different texts look the same.
    return category in _SPELT_CATEGORIES or category == "Zs" or character in _BLANK or _is_variation(character)


def _is_variation(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def _name(character: str) -> str:
    return unicodedata.name(character, "").lower() or {"Cc": "control character", "Co": "private use"}.get(
        unicodedata.category(character), "unassigned or broken"
    )
