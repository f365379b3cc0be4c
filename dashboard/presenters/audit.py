"""The audit for people: whether it is proven, how far it is sealed, and its rows with links to what they are about."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.urls import NoReverseMatch, reverse

from dashboard.presenters.marks import Hue
from dashboard.presenters.numbers import grouped, plural, seconds
from dashboard.templatetags.links import run_url, step_url
from fencing.models import AuditEvent, Verification
from fencing.protocol.audit_faults import Kind
from fencing.queries.sealing import SealingState

# Above it somebody is told; seconds are usual (U2).
LATE_S: Final = 30.0
LONGEST_VALUE: Final = 120
FAULTS: Final = {
    Kind.EDITED: "a row was edited",
    Kind.DELETED: "a row was deleted",
    Kind.INSERTED: "a row was inserted",
    Kind.REORDERED: "rows changed places",
    Kind.CUT: "the end was cut off",
    Kind.FORKED: "the chain of seals was made anew",
    Kind.BAD_SIGNATURE: "a signature is not good",
    Kind.HEAD_MISSING: "a head is missing outside the database",
    Kind.NOTHING: "there was nothing to verify",
}
PAGES: Final = {
    "attempt": "attempt",
    "compensation": "compensation",
    "freeze": "freeze",
    "grade": "attempt",
    "grant": "grant",
    "key": "key",
    "lane": "lane",
    "person": "person",
    "run": "run",
    "tool": "tool",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One member that an act changed or told: its name, what it was, what it is."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of the audit. `url` leads to what it is about, where that has a page."""

    event: AuditEvent
    url: str
    changes: tuple[Change, ...]
    is_sealed: bool


def lines_of(events: Iterable[AuditEvent], last_sealed: int) -> list[Line]:
    """Prepare rows for the list."""
    return [
        Line(
            event=event,
            url=url_of(event.kind, event.subject),
            changes=tuple(changes_of(event.before, event.after)),
            is_sealed=event.pk <= last_sealed,
        )
        for event in events
    ]


def changes_of(before: Any, after: Any) -> Iterable[Change]:
    """Lay before and after beside each other, member by member."""
    was, now = (value if isinstance(value, Mapping) else {} for value in (before, after))
    for value, is_before in ((before, True), (after, False)):
        if value is not None and not isinstance(value, Mapping):
            text = _text(value)
            yield Change(name="", before=text if is_before else "", after="" if is_before else text)
    for name in dict.fromkeys([*was, *now]):
        yield Change(
            name=str(name).replace("_", " "),
            before=_text(was[name]) if name in was else "",
            after=_text(now[name]) if name in now else "",
        )


def url_of(kind: str, subject: str) -> str:
    """Give the address of what a row is about; empty where it has no page."""
    if kind == "step":
        run, _, rest = subject.partition("/")
        step, _, epoch = rest.rpartition("/")
        return step_url(run, step, int(epoch)) if step and epoch.isdecimal() else ""
    if kind == "run":
        return run_url(subject)
    try:
        return reverse(f"dashboard:{PAGES[kind]}", args=[subject]) if kind in PAGES else ""
    except NoReverseMatch:
        return ""


def proof_sentence(found: Verification | None, running: Verification | None) -> tuple[str, Hue | str]:
    """Say what the last verification found, with its hue."""
    if running is not None:
        share = f"{grouped(running.rows)} rows are good so far"
        return f"Verifying now: {share}, seal {grouped(running.seal)} of {grouped(running.up_to)}.", Hue.WAITING
    if found is None:
        return "Not verified yet: nobody has asked, and the daily verification has not run.", ""
    if found.state == Verification.State.HELD:
        return f"The audit is what was sealed: {plural(found.rows, 'row')} in {plural(found.seal, 'seal')}.", Hue.GOOD
    where = "" if found.fault_row is None else f", at row {found.fault_row}"
    return f"The audit is not what was sealed: {FAULTS[Kind(found.fault_kind)]}{where}. {found.says}", Hue.DANGER


def sealing_sentence(state: SealingState) -> tuple[str, Hue | str]:
    """Say how far sealing is, with its hue."""
    if state.last is None and not state.unsealed:
        return "Nothing was written yet.", ""
    if not state.unsealed:
        return "Everything is sealed.", Hue.GOOD
    rows = plural(state.unsealed, "row waits", "rows wait")
    many = f"{'at least ' if state.is_capped else ''}{rows} for a seal, the oldest for {seconds(state.lag_s)}."
    return many[0].upper() + many[1:], Hue.WAITING if state.lag_s > LATE_S else ""


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"
