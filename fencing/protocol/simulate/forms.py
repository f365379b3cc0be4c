"""Traces as JSON, so that a page can open what the command line found, and play it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from fencing.protocol import objects
from fencing.protocol.actions import Action, ToolLookup, read_action
from fencing.protocol.errors import Refusal
from fencing.protocol.intents import Kind
from fencing.protocol.world import World
from fencing.protocol.world.events import (
    Admit,
    Adopt,
    Approve,
    ApproveUndoing,
    Ask,
    Cast,
    Event,
    Issue,
    LiftFreeze,
    Observe,
    OpenFork,
    Propose,
    Reconcile,
    Record,
    Replay,
    Report,
    ReportUndoing,
    Resolve,
    ResolveUndoing,
    Restart,
    Review,
    Revoke,
    SetFreeze,
    Sweep,
    Waive,
    Work,
)

FORMAT: Final = "fence-trace/1"
MAX_TEXT: Final = 100

KINDS: Final[Mapping[str, type[Any]]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(Propose, Cast, Restart, Replay, Issue, Approve, Revoke, Review, SetFreeze, LiftFreeze),
        *(Work, Sweep, Admit, Report, Resolve),
        *(OpenFork, Reconcile, ReportUndoing, Observe, Adopt, Ask, ApproveUndoing, Waive, Record, ResolveUndoing),
    )
}
"""Every kind of event by the name that it has in a trace."""


class NoTrace(ValueError):
    """The text is no trace of this format."""


def event_form(event: Event) -> dict[str, Any]:
    """Write an event as JSON: its kind, and every member that is not what it is anyway."""
    members = {field.name: (getattr(event, field.name), field.default) for field in fields(event)}
    written = {name: _written(value) for name, (value, default) in members.items() if value != default}
    return {"kind": type(event).__name__.lower(), **written}


def event_text(event: Event) -> str:
    """Tell an event in one line: "cast: production, pay-invoice, 7, refund on …"."""
    form = event_form(event)
    kind, members = form.pop("kind"), {name: value for name, value in form.items() if name != "action"}
    action = getattr(event, "action", None)
    if action is not None:
        members["action"] = json.dumps(form["action"], ensure_ascii=True)
    told = ", ".join(f"{name} {_short(value)}" for name, value in members.items())
    return f"{kind}: {told}" if told else str(kind)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _written(value: object) -> object:
    return json.loads(value.canonical) if isinstance(value, Action) else value


def trace_form(entries: Iterable[tuple[datetime, Event]], **told: object) -> dict[str, Any]:
    """Write what happened when. `told` is what the reader should know: seed, property, sentence."""
    events = [{"at": objects.rfc3339(at), "event": event_form(event)} for at, event in entries]
    return {"format": FORMAT, **told, "events": events}


def read_trace(form: Any, tools: ToolLookup) -> tuple[tuple[datetime, Event], ...]:
    """Read what `trace_form` wrote. Raises `NoTrace` for anything else."""
    if not isinstance(form, dict) or form.get("format") != FORMAT or not isinstance(form.get("events"), list):
        raise NoTrace(f"not of the form {FORMAT}")
    try:
        return tuple((datetime.fromisoformat(each["at"]), _read(each["event"], tools)) for each in form["events"])
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise NoTrace(f"an event is broken: {fault}") from fault


def _read(form: Any, tools: ToolLookup) -> Event:
    members = dict(form)
    kind = KINDS[members.pop("kind")]
    if "action" in members:
        action = read_action(members["action"], tools)
        if isinstance(action, Refusal):
            raise NoTrace(action.detail)
        members["action"] = action
    if "outcome" in members:
        members["outcome"] = Kind(members["outcome"])
    if "branches" in members:
        members["branches"] = tuple(members["branches"])
    event: Event = kind(**members)
    return event


def replayed(entries: Iterable[tuple[datetime, Event]], world: World) -> tuple[World, ...]:
    """Play events on a world; give the worlds from the first, before anything happened, to the last."""
    worlds = [world]
    for at, event in entries:
        worlds.append(worlds[-1].handle(event, at)[0])
    return tuple(worlds)
