"""What a person fills in about the side log: what they look for, and why they acknowledge rows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from django import forms
from django.http import QueryDict

from dashboard.grant_forms import reason_field
from dashboard.presenters.lists import Filter, FilterBar, choices
from fencing.protocol.counting import CountedAs
from fencing.protocol.moments import read_moment
from fencing.queries.pages import Filters

MOST_CHOSEN: Final = 100
TEXTS: Final = ("run", "resource", "tool", "by", "step", "path", "attempt", "lane", "kind")
SHOWN: Final = (
    ("run", "Run", ""),
    ("resource", "Resource", "9"),
    ("tool", "Tool", "refund"),
    ("by", "Key or person", ""),
)
CLASSES: Final = MappingProxyType(
    {
        CountedAs.REFUSAL: "refusals",
        CountedAs.ATTEMPTED_ESCAPE: "attempted escapes",
        CountedAs.STALE_REJECT: "stale rejects",
        CountedAs.HEARD: "heard, nothing moved",
    }
)
AGES: Final = MappingProxyType(
    {
        "1h": ("the last hour", timedelta(hours=1)),
        "24h": ("the last 24 hours", timedelta(hours=24)),
        "7d": ("the last 7 days", timedelta(days=7)),
        "30d": ("the last 30 days", timedelta(days=30)),
    }
)
STATES: Final = (("acknowledged", "acknowledged"), ("all", "all rows"))
NO_TIME: Final = "That is no time: write it as 2026-11-30 02:14, in UTC. It was left out."


class AcknowledgeForm(forms.Form):
    """Why rows are acknowledged. Which ones stands on the page, and nowhere else."""

    reason = reason_field("What you found, so that nobody has to look again.")


def text_of(query: QueryDict, name: str) -> str:
    """Read a text; PostgreSQL holds no U+0000, and nothing that is stored has one."""
    return query.get(name, "").strip().replace("\x00", "")


def wanted(query: QueryDict, now: datetime) -> Filters:
    """Read what an address looks for, and leave out what is nonsense. Without a state: what nobody acknowledged."""
    given: dict[str, object] = {name: text for name in (*TEXTS, "reason") if (text := text_of(query, name))}
    state = text_of(query, "state")
    if state != "all":
        given["acknowledged"] = state == "acknowledged"
    if (counter := text_of(query, "class")) in {each.value for each in CLASSES}:
        given["counted_as"] = counter
    _, span = AGES.get(text_of(query, "age"), ("", None))
    if span is not None:
        given["since"] = now - span
    for name, bound in (("from", "since"), ("until", "until")):
        moment = moment_of(text_of(query, name))
        if moment is not None:
            given[bound] = moment
    for name in ("epoch", "seq"):
        if (number := text_of(query, name)).isascii() and number.isdecimal() and len(number) < 16:  # noqa: PLR2004
            given[name] = int(number)
    return given


def fault_of(query: QueryDict) -> str:
    """Say what was typed wrong; empty where nothing was."""
    typed = [text for name in ("from", "until") if (text := text_of(query, name))]
    return NO_TIME if any(moment_of(text) is None for text in typed) else ""


def moment_of(text: str) -> datetime | None:
    """Read a moment in UTC as a person types it; None where it is none."""
    return read_moment(text.removesuffix("Z").removesuffix(" UTC"))


def bar_of(query: QueryDict, reasons: Mapping[str, int], path: str) -> FilterBar:
    """Prepare the filters. `reasons` are those that there are rows of."""
    value = {name: text_of(query, name) for name in ("state", "class", "reason", "age", "from", "until", *TEXTS)}
    known = sorted(reasons, key=lambda reason: (-reasons[reason], reason))
    named = [(reason, f"{reason.replace('_', ' ')} ({reasons[reason]:,})") for reason in known]
    if value["reason"] and value["reason"] not in reasons:
        named.append((value["reason"], value["reason"]))
    ages = [(name, words) for name, (words, _) in AGES.items()]
    classes = [(each.value, words) for each, words in CLASSES.items()]
    also = tuple(
        Filter(name=name, label=name.capitalize(), value=value[name])
        for name in TEXTS
        if value[name] and name not in {each for each, *_ in SHOWN}
    )
    return FilterBar(
        filters=(
            Filter(name="state", label="State", value=value["state"],
                   choices=choices(STATES, value["state"], everything="not acknowledged")),
            Filter(name="class", label="Class", value=value["class"], choices=choices(classes, value["class"])),
            Filter(name="reason", label="Reason", value=value["reason"], choices=choices(named, value["reason"])),
            Filter(name="age", label="Within", value=value["age"],
                   choices=choices(ages, value["age"], everything="all of time")),
            *(Filter(name=name, label=label, value=value[name], hint=hint) for name, label, hint in SHOWN),
            *also,
            Filter(name="from", label="From (UTC)", value=value["from"], hint="2026-11-30 02:14"),
            Filter(name="until", label="Until (UTC)", value=value["until"], hint="2026-11-30 03:00"),
        ),
        clear_url=path,
    )  # fmt: skip


def chosen_rows(values: Sequence[Any]) -> list[uuid.UUID]:
    """Read which rows were chosen, each once and in that order; what is no id is left out."""
    found: dict[uuid.UUID, None] = {}
    for value in values:
        try:
            found[uuid.UUID(str(value))] = None
        except ValueError:
            continue
    return list(found)
