"""Difference classes: what people are told about a divergence (C5).

Computed after the decision and never used by it: for the fence two digests are equal, or they diverge.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from fencing.protocol.canonical import canonical_bytes
from fencing.protocol.pointers import without

if TYPE_CHECKING:
    from fencing.protocol.actions import Action
    from fencing.protocol.strict_json import Json


class Difference(StrEnum):
    """The classes, in the order in which they are tried."""

    UNICODE_FORM = "same_but_unicode_form"
    NUMBER_OR_STRING = "same_but_number_or_string"
    WHITESPACE = "same_but_whitespace"
    CASE = "same_but_case"
    ARRAY_ORDER = "same_but_array_order"
    NULL_OR_ABSENT = "same_but_null_or_absent"
    OTHER_ARGS = "other_args"
    OTHER_TOOL = "other_tool"


def difference_class(a: Action, b: Action, *, advisory: Sequence[str] = ()) -> Difference | None:
    """Return how two actions differ: the first single normalisation that makes them equal (C5).

    None where the fence sees no difference. `advisory` are the pointers into `args` that the fence leaves out (C6):
    prose that differs too must not hide a small difference elsewhere. The order of the two has no meaning.
    """
    if a.fence_digest == b.fence_digest:
        return None
    if a.tool != b.tool:
        return Difference.OTHER_TOOL
    left, right = (without(dict(action.args), advisory) for action in (a, b))
    for difference, normal in _NORMALISATIONS.items():
        if _written(left, normal) == _written(right, normal):
            return difference
    return Difference.OTHER_ARGS


def _same(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Normal:
    """One normalisation: what it does to every text (names are texts), and what else it does not tell apart."""

    text: Callable[[str], str] = _same
    numbers_are_texts: bool = False
    arrays_are_sorted: bool = False
    nulls_are_absent: bool = False


_NORMALISATIONS: Final[Mapping[Difference, _Normal]] = MappingProxyType(
    {
        Difference.UNICODE_FORM: _Normal(text=lambda text: unicodedata.normalize("NFC", text)),
        Difference.NUMBER_OR_STRING: _Normal(numbers_are_texts=True),
        Difference.WHITESPACE: _Normal(text=lambda text: "".join(text.split())),
        Difference.CASE: _Normal(text=str.casefold),
        Difference.ARRAY_ORDER: _Normal(arrays_are_sorted=True),
        Difference.NULL_OR_ABSENT: _Normal(nulls_are_absent=True),
    }
)


def _written(value: Json, normal: _Normal) -> str:
    """Return the normalised value as a text that is equal exactly for equal ones.

    Not as JSON values: two names that a normalisation makes alike must both still count. An action is at most 64 deep
    (C3), so this may recurse.
    """
    if isinstance(value, str):
        return _quoted(normal.text(value))
    if isinstance(value, dict):
        members = (
            f"{_quoted(normal.text(name))}:{_written(inner, normal)}"
            for name, inner in value.items()
            if not (normal.nulls_are_absent and inner is None)
        )
        return "{" + ",".join(sorted(members)) + "}"
    if isinstance(value, list):
        elements = [_written(inner, normal) for inner in value]
        return "[" + ",".join(sorted(elements) if normal.arrays_are_sorted else elements) + "]"
    number = canonical_bytes(value).decode()
    return _quoted(number) if normal.numbers_are_texts and not isinstance(value, bool | None) else number


def _quoted(text: str) -> str:
    return canonical_bytes(text).decode()
