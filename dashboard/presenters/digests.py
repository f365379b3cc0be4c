"""Digests as chips: twelve digits, and a small pattern that makes equal ones look equal before they are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Final

PREFIX: Final = "sha256:"
SHOWN: Final = 12
SIDE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestChip:
    """A digest: its first digits, the whole of it, and the outline of its pattern in a square of 4 units."""

    short: str
    whole: str
    pattern: str


def chip(digest: str) -> DigestChip:
    """Prepare `sha256:` and 64 digits. Any other text keeps its first twelve characters and has no pattern."""
    digits = digest.removeprefix(PREFIX)
    return DigestChip(short=digits[:SHOWN], whole=digest, pattern=pattern(digits))


def pattern(digits: str) -> str:
    """Draw the pattern as an SVG path: one of 65,536.

    All 32 bytes are folded into its 16 cells, so that digests which agree in the twelve digits that are shown, and
    differ behind them, look different.
    """
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        return ""
    if len(data) < SIDE:
        return ""
    cells = reduce(xor, (int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)))
    squares = (divmod(cell, SIDE) for cell in range(SIDE * SIDE) if cells >> cell & 1)
    return "".join(f"M{column} {row}h1v1h-1z" for row, column in squares)
