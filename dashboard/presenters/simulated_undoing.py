"""What happens in a simulated world about forks, ledgers and the undoing of effects, in words."""

from __future__ import annotations

import json
from typing import TypeAlias, assert_never

from fencing.protocol.explain import Part
from fencing.protocol.explain.wording import code, described, name, parts
from fencing.protocol.simulate import stage
from fencing.protocol.world.events import (
    Adopt,
    ApproveUndoing,
    Ask,
    Observe,
    OpenFork,
    Reconcile,
    Record,
    ReportUndoing,
    ResolveUndoing,
    Waive,
)

Words = tuple[Part, ...]
_DIGITS = 12
Undoing: TypeAlias = (
    OpenFork | Reconcile | Observe | Adopt | Ask | ApproveUndoing | Waive | Record | ReportUndoing | ResolveUndoing
)
ByPerson: TypeAlias = Adopt | Ask | ApproveUndoing | Waive | Record | ResolveUndoing


def told(event: Undoing) -> Words:
    """Say what was done."""
    match event:
        case OpenFork():
            where = parts(" in branch ", name(event.parent)) if event.parent else ()
            return parts("opens fork ", name(event.fork), where, " with ", _names(event.branches))
        case Reconcile():
            winner = name(event.winner) if event.winner else "no branch"
            return parts("reconciles ", name(event.fork), ": ", winner, " wins")
        case Observe():
            what = () if event.action is None else described(json.loads(event.action.canonical), stage.tools)
            of = parts(" with the key of ", code(event.of)) if event.of else parts(" without a key")
            return parts("shows ", code(event.external_id), ": ", what or code(event.tool), of)
        case ReportUndoing():
            outcome = event.outcome.value.replace("_", " ")
            return parts(f"reports delivery {event.number} of ", code(event.undoing), f": {outcome}")
        case Adopt() | Ask() | ApproveUndoing() | Waive() | Record() | ResolveUndoing():
            return _by_person(event)
        case _:
            assert_never(event)


def _by_person(event: ByPerson) -> Words:
    match event:
        case Adopt():
            return parts("adopts ", code(event.effect), " for ", code(event.intent))
        case Ask():
            return parts("asks that ", code(event.intent or event.effect or ""), " be undone")
        case ApproveUndoing():
            digest = code(event.digest.removeprefix("sha256:")[:_DIGITS])
            return parts("approves ", code(event.undoing), ", shown as digest ", digest)
        case Waive():
            return parts("lets stand what ", code(event.undoing), " would undo")
        case Record():
            return parts("records that ", code(event.undoing), " was done by hand")
        case ResolveUndoing():
            return parts("says that ", code(event.undoing), " happened" if event.happened else " did not happen")
        case _:
            assert_never(event)


def _names(branches: tuple[str, ...]) -> Words:
    told: list[Words | Part | str] = []
    for branch in branches:
        told += [", ", name(branch)] if told else [name(branch)]
    return parts(*told)
