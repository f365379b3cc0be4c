"""The places of the product, in the order in which they stand in the navigation.

A place whose page does not exist in this version is not shown; it appears when its address does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.urls import NoReverseMatch, reverse

BAR: Final = ("overview", "runs", "grants", "compensations")
BAR_SIZE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A page to go to: `says` is the question that it answers; `short` its word on the bar of a phone.

    `within` names the place that it belongs to, where it stands on the list of all pages alone and not on the rail.
    """

    name: str
    label: str
    says: str
    icon: str
    short: str = ""
    within: str = ""

    @property
    def url(self) -> str:
        """Its address; empty where the page does not exist."""
        try:
            return reverse(f"dashboard:{self.name}")
        except NoReverseMatch:
            return ""


def _place(name: str, label: str, icon: str, says: str, short: str = "", *, within: str = "") -> Place:
    return Place(name=name, label=label, icon=icon, says=says, short=short, within=within)


PLACES: Final = (
    _place("overview", "Overview", "inbox", "Is anything waiting for me, and do the rules hold?", short="Inbox"),
    _place("notices", "Notices", "inbox", "Of what I was told, and who has seen it.", within="overview"),
    _place("runs", "Runs", "runs", "What happened, in order, epoch by epoch."),
    _place(
        "divergences",
        "Divergences",
        "divergences",
        "Where the paths disagreed, for review and replay.",
        short="Diverged",
    ),
    _place("grants", "Grants", "grants", "Who may act alone, until when, and what that let through."),
    _place(
        "reviews",
        "Reviews and debts",
        "grants",
        "What another person still has to look at, and who is blocked.",
        within="grants",
    ),
    _place("outages", "Silent paths", "grants", "Which path answers nobody, and what waits for it.", within="grants"),
    _place(
        "freezes", "Freezes", "grants", "What stands still, who stopped it, and what that reached.", within="grants"
    ),
    _place("authority", "Authority", "audit", "Who may do what until when, now and at a past moment.", within="grants"),
    _place("compensations", "Compensations", "undo", "What would be undone, exactly, and who decides.", short="Undo"),
    _place("effects", "Effects", "resource", "What was wanted, what left, and what became of it."),
    _place("doubt", "In doubt", "incidents", "What may have happened, for a person to say.", within="effects"),
    _place(
        "reconciliation",
        "Reconciliation",
        "resource",
        "What tools did by their own account, against what was committed.",
        within="effects",
    ),
    _place("incidents", "Incidents", "incidents", "What left and should not have, and what is open about it."),
    _place("side_log", "Side log", "side-log", "What was refused or ignored, and why."),
    _place("grades", "Grades", "grades", "Lanes, attempts, and the gate with its reasons."),
    _place("resource", "Resource", "resource", "Everything about one invoice, ticket or account."),
    _place("tools", "Tools", "tools", "What each tool is, and what a change would have changed."),
    _place("audit", "Audit", "audit", "Who did what; search it and verify it."),
    _place("people", "People", "people", "Who may act, who could be asked, and how they sign in."),
    _place(
        "keys",
        "Keys",
        "key",
        "Which programs and people the interface opens to, for what, until when.",
        within="people",
    ),
    _place("simulator", "Simulator", "simulator", "Every order of events, against a leaky gateway and this one."),
    _place("log_check", "Log check", "log-check", "Which order of events in your own log broke the first invariant."),
    _place("health", "Health", "health", "Queues, workers, sweeps, the database."),
)


def existing(places: Iterable[Place] = PLACES) -> list[Place]:
    """Give the places whose pages exist."""
    return [place for place in places if place.url]


def on_the_rail() -> list[Place]:
    """Give the places of the rail: those that belong to no other."""
    return [place for place in existing() if not place.within]


def on_the_bar() -> list[Place]:
    """Give the four places of the bar on a phone; beside them stands More. The named ones first, then what exists."""
    places = on_the_rail()
    named = [place for place in places if place.name in BAR]
    others = [place for place in places if place.name not in BAR]
    chosen = [*named, *others][:BAR_SIZE]
    return sorted(chosen, key=places.index)


def where(name: str) -> str:
    """Give the name under which a place stands on the rail and the bar: its own, or that of the place it is within."""
    return next((place.within or place.name for place in PLACES if place.name == name), name)
