"""Reading the members of an object one by one, each with its type, its range and its place (C3, N8)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn, TypeVar

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.identifiers import is_identifier
from fencing.protocol.pointers import is_pointer, pointer_to

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json

_Choice = TypeVar("_Choice", bound=StrEnum)


class Unfit(Exception):
    """Raised while an object is read; whoever reads the whole catches it and returns its `refusal`."""

    def __init__(self, code: Code, detail: str, pointer: str) -> None:
        super().__init__(detail)
        self.refusal = Refusal(code=code, detail=detail, pointer=pointer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """An object that is being read, and the JSON Pointer to it.

    Every method raises `Unfit` with the place where a member is not what it must be; an absent one gives its default.
    """

    value: dict[str, Json]
    at: str

    @classmethod
    def of(cls, value: Json, *, at: str, known: Collection[str]) -> Members:
        """Begin to read `value`: an object with no member that is not `known`."""
        if not isinstance(value, dict):
            raise Unfit(Code.INVALID_VALUE, "This must be an object.", at)
        members = cls(value=value, at=at)
        for name in value:
            if name not in known:
                raise Unfit(Code.UNKNOWN_MEMBER, "There is no such member here.", members.place_of(name))
        return members

    def place_of(self, *parts: str | int) -> str:
        """Return the pointer to a member, or to something inside it."""
        return self.at + pointer_to(parts)

    def refuse(self, detail: str, *parts: str | int, code: Code = Code.INVALID_VALUE) -> NoReturn:
        """Raise `Unfit` at the member that `parts` lead to."""
        raise Unfit(code, detail, self.place_of(*parts))

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a member that is true or false."""
        value = self.value.get(name, default)
        return value if isinstance(value, bool) else self.refuse("This must be true or false.", name)

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """Return a member that is an integer of `low` to `high`."""
        value = self.value.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(f"This must be an integer of {low} to {high}.", name)
        return value

    def choice(self, name: str, default: _Choice) -> _Choice:
        """Return a member that is one of the values of an enum, that of `default`."""
        kind, value = type(default), self.value.get(name, default.value)
        if not isinstance(value, str) or value not in set(kind):
            self.refuse(f"This must be one of {', '.join(kind)}.", name)
        return kind(value)

    def identifier(self, name: str, default: str | None = None) -> str:
        """Return a member that is an identifier (N1); without a default it must be there."""
        value = self.value.get(name, default)
        if not is_identifier(value):
            self.refuse("This must be an identifier.", name, code=Code.INVALID_IDENTIFIER)
        return value

    def optional_identifier(self, name: str) -> str | None:
        """Return a member that is an identifier; None where it is absent or null."""
        return None if self.value.get(name) is None else self.identifier(name)

    def text(self, name: str) -> str | None:
        """Return a member that is a string; None where it is absent or null."""
        value = self.value.get(name)
        return value if value is None or isinstance(value, str) else self.refuse("This must be a string.", name)

    def mapping(self, name: str) -> dict[str, Json]:
        """Return a member that is an object; an empty one where it is absent."""
        value = self.value.get(name, {})
        return value if isinstance(value, dict) else self.refuse("This must be an object.", name)

    def identifiers(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return a member that is a list of different identifiers, at least one."""
        found = self._distinct(name, default, is_identifier, Code.INVALID_IDENTIFIER, "This must be an identifier.")
        return found or self.refuse("At least one is needed.", name)

    def pointers(self, name: str) -> tuple[str, ...]:
        """Return a member that is a list of different JSON Pointers, none of them to the whole; empty where absent."""
        detail = "This must be a JSON Pointer to a member, such as `/invoice`."
        return self._distinct(name, (), _is_inner_pointer, Code.INVALID_VALUE, detail)

    def _distinct(
        self, name: str, default: tuple[str, ...], is_fit: Callable[[object], bool], code: Code, detail: str
    ) -> tuple[str, ...]:
        value = self.value.get(name, list(default))
        if not isinstance(value, list):
            self.refuse("This must be an array.", name)
        found: list[str] = []
        for index, element in enumerate(value):
            if not isinstance(element, str) or not is_fit(element):
                self.refuse(detail, name, index, code=code)
            if element in found:
                self.refuse("This stands here twice.", name, index)
            found.append(element)
        return tuple(found)


def _is_inner_pointer(text: object) -> bool:
    """Whether `text` points at a part: to the whole of the arguments nothing that a tool declares may apply."""
    return text != "" and is_pointer(text)
