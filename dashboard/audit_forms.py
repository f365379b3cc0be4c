"""What a person looks for in the audit."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.http import QueryDict

from dashboard.presenters.lists import Filter, FilterBar, choices
from dashboard.side_log_forms import AGES, NO_TIME, moment_of, text_of
from fencing.queries.pages import Filters

TEXTS: Final = ("actor", "run", "resource", "kind", "subject", "verb")
KINDS: Final = (
    "step", "commit", "intent", "delivery", "grant", "freeze", "run", "incident", "compensation", "side_log", "tool",
    "key", "person", "verification", "evidence", "prose",
)  # fmt: skip


def wanted(query: QueryDict, now: datetime) -> Filters:
    """Read what an address looks for, and leave out what is nonsense."""
    given: dict[str, object] = {name: text for name in TEXTS if (text := text_of(query, name))}
    _, span = AGES.get(text_of(query, "age"), ("", None))
    if span is not None:
        given["since"] = now - span
    for name, bound in (("from", "since"), ("until", "until")):
        if (moment := moment_of(text_of(query, name))) is not None:
            given[bound] = moment
    return given


def fault_of(query: QueryDict) -> str:
    """Say what was typed wrong; empty where nothing was."""
    typed = [text for name in ("from", "until") if (text := text_of(query, name))]
    return NO_TIME if any(moment_of(text) is None for text in typed) else ""


def bar_of(query: QueryDict, path: str) -> FilterBar:
    """Prepare the filters."""
    value = {name: text_of(query, name) for name in (*TEXTS, "age", "from", "until")}
    kinds = [(kind, kind.replace("_", " ")) for kind in KINDS]
    if value["kind"] and value["kind"] not in KINDS:
        kinds.append((value["kind"], value["kind"]))
    ages = choices([(name, words) for name, (words, _) in AGES.items()], value["age"], everything="all of time")
    return FilterBar(
        filters=(
            Filter(name="actor", label="Who", value=value["actor"], hint="anna"),
            Filter(name="run", label="Run", value=value["run"], hint="run-88"),
            Filter(name="resource", label="Resource", value=value["resource"], hint="9"),
            Filter(name="kind", label="Object", value=value["kind"], choices=choices(kinds, value["kind"])),
            Filter(name="subject", label="Its name", value=value["subject"], hint="night-shift-3"),
            Filter(name="verb", label="What was done", value=value["verb"], hint="issue_grant"),
            Filter(name="age", label="Within", value=value["age"], choices=ages),
            Filter(name="from", label="From (UTC)", value=value["from"], hint="2026-11-30 02:14"),
            Filter(name="until", label="Until (UTC)", value=value["until"], hint="2026-11-30 03:00"),
        ),
        clear_url=path,
    )
