"""Casts: a mould filled with names, ids, times, numbers, digests and tokens of its own."""

from __future__ import annotations

import base64
import hashlib
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import accumulate
from operator import itemgetter
from typing import Any, Final

from fencing.filling.moulds import Mould
from fencing.protocol.intents import idempotency_key

MICRO: Final = 1_000_000
VARIANTS: Final = 24
# No pause becomes so short that a deadline, which is one second at least, is met after all.
SHORTEST, LONGEST = 0.75, 1.7
SIGNATURES: Final = 512
NAME: Final = re.compile(r"%\((\w+)\)[sd]")
Sign = Callable[[bytes], bytes]


class Caster:
    """Casts of one mould. With `sign`, tokens are signed in earnest; else they only look it, and open nothing."""

    def __init__(self, mould: Mould, rng: random.Random, sign: Sign | None = None) -> None:
        self.mould = mould
        self.rng = rng
        self.sign = sign
        self._rhythms = [self._rhythm() for _ in range(VARIANTS)]
        self._signatures = [_base64(self.rng.randbytes(64)) for _ in range(SIGNATURES)]
        self._minutes: dict[int, str] = {}
        self._fill = {name: _filler(table.lines) for name, table in mould.tables.items()}

    @property
    def longest_us(self) -> int:
        """Microseconds that a cast takes at most, from its first moment to its last."""
        return max(rhythm[-1] for rhythm in self._rhythms)

    def cast(
        self, run: str, begins_us: int, first_number: int, *, without: frozenset[str] = frozenset()
    ) -> dict[str, str]:
        """Make the lines of a run, by table. `begins_us` is microseconds since 1970."""
        mould, rng = self.mould, self.rng
        tail = rng.getrandbits(60)
        values: dict[str, Any] = {"run": run, "u": f"b{tail >> 48:03x}-{tail & 0xFFFFFFFFFFFF:012x}"}
        rhythm = rng.choice(self._rhythms)
        for beat, offset in enumerate(rhythm):
            key = f"{(begins_us + offset) // 1000:012x}"
            values[f"m{beat}"] = f"{key[:8]}-{key[8:]}"
        for form, beat, later in mould.moments:
            name = f"{form}{beat}_{later}" if later else f"{form}{beat}"
            values[name] = self._moment(form, begins_us + rhythm[beat] + later * MICRO)
        for index in range(mould.numbers):
            values[f"n{index}"] = first_number + index
        for index in range(mould.amounts):
            values[f"a{index}"] = 100 + rng.getrandbits(15)
        for index, blob in enumerate(mould.blobs):
            data = (blob % values).encode()
            values[f"x{index}"] = r"\\x" + data.hex()
            values[f"d{index}"] = f"sha256:{hashlib.sha256(data).hexdigest()}"
        for index, (key, generation) in enumerate(mould.keys):
            values[f"k{index}"] = idempotency_key(run, key % values, generation)
        for index, (header, claims) in enumerate(mould.tokens):
            values[f"o{index}"] = self._token(header, claims % values)
        return {name: fill(values) for name, fill in self._fill.items() if name not in without}

    def _rhythm(self) -> list[int]:
        pauses = (int(pause * MICRO * self.rng.uniform(SHORTEST, LONGEST)) for pause in self.mould.beats)
        # Two calls never end at once.
        return list(accumulate(pause + 1000 for pause in pauses))

    def _moment(self, form: str, us: int) -> str | int:
        seconds, micro = divmod(us, MICRO)
        if form == "e":
            return seconds
        minute, second = divmod(seconds, 60)
        text = self._minutes.get(minute)
        if text is None:
            text = self._minutes[minute] = datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%d %H:%M:")
        if form == "z":
            return f"{text[:10]}T{text[11:]}{second:02d}.{micro:06d}Z"
        return f"{text}{second:02d}.{micro:06d}+00"

    def _token(self, header: str, claims: str) -> str:
        said = f"{header}.{_base64(claims.encode())}"
        if self.sign is None:
            return f"{said}.{self.rng.choice(self._signatures)}"
        return f"{said}.{_base64(self.sign(said.encode()))}"


def _filler(template: str) -> Callable[[dict[str, Any]], str]:
    """Compile a template of many names: filled by position, it takes half the time that it takes by name."""
    parts = NAME.split(template)
    names, positional = parts[1::2], "%s".join(parts[::2])
    if len(names) == 1:
        return lambda values: positional % values[names[0]]
    choose = itemgetter(*names)
    return lambda values: positional % choose(values)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
