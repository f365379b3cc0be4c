"""How two versions of a tool differ, in words, and which differences weaken the fence and so wait (T1).

A change that weakens the fence waits for a second administrator. Those that T1 names do, and those that reach the same
by another way. What is harmless is listed here, member by member; whatever is not listed weakens. A doubtful change
counts as one that weakens: it only waits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from fencing.protocol.schema_words import Part, is_same, missing_from, parts_that_differ, schema_parts

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json
    from fencing.protocol.tools import ToolDefinition

MAX_SHOWN: Final = 400
MAX_ADDRESS: Final = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One member in which two versions of a tool differ.

    `pointer` leads to it in the definition; `says` tells the difference as a sentence; `weakens` whether it is one that
    a second administrator has to approve. `was` and `now` are its values in short. `parts` are the places inside a
    schema, a template or hints, in words.
    """

    pointer: str
    says: str
    weakens: bool
    was: str = ""
    now: str = ""
    parts: tuple[Part, ...] = ()


def changes(older: ToolDefinition, newer: ToolDefinition) -> tuple[Change, ...]:
    """Return everything in which `newer` differs from `older`, those that weaken the fence first.

    Raises `ValueError` for definitions of two different tools.
    """
    if older.tool != newer.tool:
        message = f"{older.tool} and {newer.tool} are two tools"
        raise ValueError(message)
    old, new = _members(older.as_json()), _members(newer.as_json())
    names = [*new, *(name for name in old if name not in new)]
    found = [
        replace(change, was=shown(old.get(name)), now=shown(new.get(name)))
        for name in names
        if not is_same(old.get(name), new.get(name))
        for change in _JUDGES.get(name, _unlisted)(name, old.get(name), new.get(name))
    ]
    return tuple(sorted(found, key=lambda change: not change.weakens))


def weakenings(older: ToolDefinition, newer: ToolDefinition) -> tuple[str, ...]:
    """Return, as sentences, the ways in which `newer` fences less than `older`; empty where it does not."""
    return tuple(change.says for change in changes(older, newer) if change.weakens)


Judge = Callable[[str, "Json", "Json"], Iterator[Change]]


def _members(definition: dict[str, Json]) -> dict[str, Json]:
    """Return the members of a definition by pointer, the policy's among them one by one."""
    policy = definition["policy"]
    inner = policy.items() if isinstance(policy, dict) else ()
    outer = {f"/{name}": value for name, value in definition.items() if name != "policy"}
    return {**outer, **{f"/policy/{name}": value for name, value in inner}}


def _unlisted(pointer: str, old: Json, new: Json) -> Iterator[Change]:
    """Judge a member of which nothing is listed: it weakens."""
    says = f"`{pointer}` is {shown(new)} instead of {shown(old)}."
    yield Change(pointer=pointer, says=says, weakens=True)


def _harmless(says: str) -> Judge:
    """Judge a member that decides nothing."""

    def judge(pointer: str, old: Json, new: Json) -> Iterator[Change]:
        yield Change(pointer=pointer, says=says, weakens=False, parts=parts_that_differ(old, new))

    return judge


def _value(words: str) -> Judge:
    """Judge a member of which any other value weakens. `words` take the new and the old value."""

    def judge(pointer: str, old: Json, new: Json) -> Iterator[Change]:
        # Whole: an address that is cut looks like another one.
        says = words.format(new=shown(new, MAX_ADDRESS), old=shown(old, MAX_ADDRESS))
        yield Change(pointer=pointer, says=says, weakens=True)

    return judge


def _flag(*, becomes: str, ends: str) -> Judge:
    """Judge a flag that weakens the fence where it is set."""

    def judge(pointer: str, old: Json, new: Json) -> Iterator[Change]:
        is_set = new not in (False, "side_effecting")
        yield Change(pointer=pointer, says=becomes if is_set else ends, weakens=is_set or old is None)

    return judge


def _number(*, more: str, less: str, weak: str) -> Judge:
    """Judge a number that weakens the fence in one direction: `weak` is "more" or "less"."""

    def judge(pointer: str, old: Json, new: Json) -> Iterator[Change]:
        if not isinstance(old, int) or not isinstance(new, int):
            yield from _unlisted(pointer, old, new)
            return
        way, words = ("more", more) if new > old else ("less", less)
        says = f"{words}: {new:,} instead of {old:,}{_UNITS.get(pointer.rpartition('_')[2], '')}."
        yield Change(pointer=pointer, says=says, weakens=weak in (way, "both"))

    return judge


_UNITS: Final = MappingProxyType({"s": " seconds"})


def _list(*, gained: str, lost: str, weak: str) -> Judge:
    """Judge a list whose order says nothing; it weakens where it gains or loses something: `weak` says which."""

    def judge(pointer: str, old: Json, new: Json) -> Iterator[Change]:
        if not isinstance(old, list) or not isinstance(new, list):
            yield from _unlisted(pointer, old, new)
            return
        more, fewer = missing_from(old, new), missing_from(new, old)
        for way, words, which in (("gained", gained, more), ("lost", lost, fewer)):
            if which:
                says = f"{words}: {', '.join(shown(each) for each in which)}."
                yield Change(pointer=pointer, says=says, weakens=weak == way)
        if not more and not fewer:
            yield Change(pointer=pointer, says="The same ones stand in another order.", weakens=False)

    return judge


def _schema(pointer: str, old: Json, new: Json) -> Iterator[Change]:
    """Judge a schema: only the first one is known to let nothing new through."""
    if old is None:
        says = "The arguments are checked by a schema."
        yield Change(pointer=pointer, says=says, weakens=False, parts=schema_parts({}, new))
    elif new is None:
        yield Change(pointer=pointer, says="The arguments are no longer checked by a schema.", weakens=True)
    else:
        says = "The arguments are checked by another schema."
        yield Change(pointer=pointer, says=says, weakens=True, parts=schema_parts(old, new))


def _compensator(pointer: str, old: Json, new: Json) -> Iterator[Change]:
    """Judge a compensator: what is sent to undo an effect is an effect too."""
    was, now = (each.get("tool") if isinstance(each, dict) else None for each in (old, new))
    if now is None:
        says = f"Its effects are undone by a person's hand instead of {was}."
    elif was is None:
        says = f"Its effects are undone by a call of {now} instead of a person's hand."
    else:
        says = f"Its effects are undone by {now} " + (f"instead of {was}." if was != now else "with other arguments.")
    yield Change(pointer=pointer, says=says, weakens=True, parts=parts_that_differ(old, new))


def shown(value: Json, limit: int = MAX_SHOWN) -> str:
    """Write a value inside a sentence: as JSON, cut where it is long."""
    if value is None or value in ([], {}):
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"


_JUDGES: Final = MappingProxyType[str, Judge](
    {
        "/effect": _flag(becomes="It becomes read-only, and skips the fence.", ends="It no longer skips the fence."),
        "/idempotent": _flag(becomes="Its calls are repeated by machine.", ends="Its calls are never repeated."),
        "/optimistic": _flag(
            becomes="It is delivered from undecided branches.", ends="It is delivered from no undecided branch."
        ),
        "/mode": _value("It is called by {new} instead of {old}."),
        "/endpoint": _value("It is called at {new} instead of {old}."),
        "/credential": _value("It is called with the credential {new} instead of {old}."),
        # C6: what the digest leaves out, two paths need not agree on.
        "/advisory": _list(gained="More is advisory", lost="No longer advisory", weak="gained"),
        "/sensitive": _list(gained="Masked from now on", lost="No longer masked", weak="lost"),
        # What people find an effect by; nothing is decided by it.
        "/resources": _list(gained="Found by this too", lost="No longer found by", weak="lost"),
        "/compensator": _compensator,
        "/args_schema": _schema,
        "/hints": _harmless("Its hints changed; nothing is decided by them."),
        # How much at once: it decides nothing.
        "/policy/max_in_flight": _harmless("More or fewer of its calls may be under way at once."),
        "/policy/rate_per_s": _harmless("More or fewer of its calls may begin in a second."),
        "/policy/required_paths": _list(gained="Required too", lost="No longer required", weak="lost"),
        "/policy/trusted_path": _value("{new} is trusted instead of {old}: it gives the payload, and acts alone."),
        # F1: a planner names any deadline it likes, so the tool's own is a habit and no guard.
        "/policy/deadline_s": _number(more="Votes have more time", less="Votes have less time", weak="none"),
        "/policy/grace_s": _number(
            more="A missing path has more time to speak under a grant",
            less="A missing path has less time to speak under a grant",
            weak="less",
        ),
        "/policy/max_grant_ttl_s": _number(more="Grants may live longer", less="Grants live shorter", weak="more"),
        "/policy/grant_approvals": _number(
            more="Grants need more approvals", less="Grants need fewer approvals", weak="less"
        ),
        "/policy/compensation_approvals": _number(
            more="Compensations need more approvals", less="Compensations need fewer approvals", weak="less"
        ),
        # L5: who is called unknown too soon is called again, or resolved by a person, while the first call still acts.
        "/policy/lease_s": _number(
            more="A call has more time to end", less="A call that still acts is given up sooner", weak="less"
        ),
        "/policy/timeout_s": _number(
            more="A push call has more time to end", less="A push call that still acts is given up sooner", weak="less"
        ),
        "/policy/max_deliveries": _number(
            more="More tries by machine before a person is asked",
            less="Fewer tries by machine before a person is asked",
            weak="more",
        ),
        "/policy/nothing_done": _list(
            gained="More answers count as nothing done", lost="No longer counted as nothing done", weak="gained"
        ),
    }
)
"""What is listed of each member. `tests/protocol/test_weakening.py` holds the harmless ones once more, by hand."""
