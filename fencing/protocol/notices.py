"""Notices: of what people are told, who is asked, and when somebody else is asked instead (protocol F8, G6, L6, H1).

A notice is one matter: a kind and a subject, told once while it is open. Here stands what each kind says, whom it asks
first, after how long unseen it goes to the next group, and whether it may wake somebody at night.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from fencing.protocol.explain.wording import Part, Sentence, Tone, code, name, parts, strong
from fencing.protocol.groups import Group

Facts = Mapping[str, str]

MINUTE_S: Final = 60
HOUR_S: Final = 3600
MOST_TRIES: Final = 10
FIRST_PAUSE_S: Final = 15
LONGEST_PAUSE_S: Final = 1800


class Kind(StrEnum):
    """Of what people are told."""

    DIVERGENCE = "divergence"
    LATE_DIVERGENCE = "late_divergence"
    LANDED_ESCAPE = "landed_escape"
    INCIDENT = "incident"
    PENDING_APPROVAL = "pending_approval"
    PENDING_CHANGE = "pending_change"
    PENDING_COMPENSATION = "pending_compensation"
    NO_APPROVER = "no_approver"
    EXPIRING_GRANT = "expiring_grant"
    OVERDUE_REVIEW = "overdue_review"
    DOUBT = "doubt"
    HALTED_LANE = "halted_lane"
    SEALING_LAG = "sealing_lag"
    AUDIT_FAULT = "audit_fault"
    SILENT_PATH = "silent_path"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How people are told of a kind.

    `asks` are the groups in turn: the first at once, each further one when nobody of those before has seen it for
    `unseen_s` seconds. `gathers_s`: what comes within it is told in one message, and the next one no sooner than
    `apart_s` after it. What is not `urgent` waits for the end of a person's quiet hours.
    """

    label: str
    asks: tuple[frozenset[Group], ...]
    unseen_s: int = 10 * MINUTE_S
    is_urgent: bool = True
    gathers_s: int = 0
    apart_s: int = 0


_ONCALL, _REVIEWER, _ADMIN = frozenset({Group.ONCALL}), frozenset({Group.REVIEWER}), frozenset({Group.ADMINISTRATOR})

PLANS: Final[Mapping[Kind, Plan]] = MappingProxyType(
    {
        Kind.DIVERGENCE: Plan(
            label="divergences, gathered", asks=(_REVIEWER,), is_urgent=False, gathers_s=MINUTE_S, apart_s=15 * MINUTE_S
        ),
        Kind.LATE_DIVERGENCE: Plan(label="late divergence", asks=(_ONCALL | _REVIEWER, _ADMIN)),
        Kind.LANDED_ESCAPE: Plan(label="landed escape", asks=(_ONCALL | _REVIEWER, _ADMIN), unseen_s=5 * MINUTE_S),
        Kind.INCIDENT: Plan(label="another incident", asks=(_REVIEWER, _ONCALL, _ADMIN), unseen_s=30 * MINUTE_S),
        Kind.PENDING_APPROVAL: Plan(label="approval asked for", asks=(_ONCALL, _ADMIN), unseen_s=5 * MINUTE_S),
        Kind.PENDING_CHANGE: Plan(label="change of a tool asked for", asks=(_ADMIN,), is_urgent=False),
        Kind.PENDING_COMPENSATION: Plan(
            label="compensation to decide", asks=(_REVIEWER, _ADMIN), unseen_s=30 * MINUTE_S
        ),
        Kind.NO_APPROVER: Plan(label="nobody may approve", asks=(_ADMIN, _ONCALL), unseen_s=5 * MINUTE_S),
        Kind.EXPIRING_GRANT: Plan(label="grant about to expire", asks=(_ONCALL,)),
        Kind.OVERDUE_REVIEW: Plan(
            label="review overdue", asks=(_ONCALL | _REVIEWER, _ADMIN), unseen_s=4 * HOUR_S, is_urgent=False
        ),
        Kind.DOUBT: Plan(label="effect in doubt", asks=(_REVIEWER, _ONCALL, _ADMIN), unseen_s=15 * MINUTE_S),
        Kind.HALTED_LANE: Plan(label="lane halted", asks=(_REVIEWER, _ONCALL), unseen_s=30 * MINUTE_S, is_urgent=False),
        Kind.SEALING_LAG: Plan(label="sealing of the audit lags", asks=(_ADMIN, _ONCALL)),
        Kind.AUDIT_FAULT: Plan(label="the audit does not verify", asks=(_ADMIN | frozenset({Group.AUDITOR}), _ONCALL)),
        Kind.SILENT_PATH: Plan(label="path silent", asks=(_ONCALL, _ADMIN)),
        Kind.TEST: Plan(label="a test of your own", asks=()),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """When a person is not to be woken: from a time of day to another, in their zone; None where they always may."""

    zone: tzinfo
    begin: time
    end: time


def quiet_until(quiet: Quiet | None, now: datetime) -> datetime | None:
    """Tell when the quiet hours that hold `now` are over; None where it is not quiet."""
    if quiet is None or quiet.begin == quiet.end:
        return None
    here = now.astimezone(quiet.zone)
    clock = here.time().replace(tzinfo=None)
    is_over_midnight = quiet.begin > quiet.end
    inside = (clock >= quiet.begin or clock < quiet.end) if is_over_midnight else quiet.begin <= clock < quiet.end
    if not inside:
        return None
    day = here.date() + timedelta(days=1 if is_over_midnight and clock >= quiet.begin else 0)
    return datetime.combine(day, quiet.end, tzinfo=quiet.zone).astimezone(now.tzinfo)


def told_at(kind: Kind, quiet: Quiet | None, now: datetime) -> datetime:
    """Tell when a person is told of a kind: now, or at the end of their quiet hours."""
    end = None if PLANS[kind].is_urgent else quiet_until(quiet, now)
    return now if end is None else max(now, end)


def gathered_until(plan: Plan, now: datetime, last: datetime | None) -> datetime:
    """Tell when what gathers from `now` on is told; `last` is when something of the kind was told before."""
    soonest = now + timedelta(seconds=plan.gathers_s)
    return soonest if last is None else max(soonest, last + timedelta(seconds=plan.apart_s))


def pause_s(failures: int) -> int:
    """How long a target that failed so many times in a row is left alone (seconds)."""
    pause: int = FIRST_PAUSE_S * 2 ** min(20, max(0, failures - 1))
    return min(LONGEST_PAUSE_S, pause)


def sentence_of(kind: Kind, facts: Facts, count: int = 1) -> Sentence:
    """Say what a notice tells. Names and codes alone: what people and agents wrote stands behind the link."""
    tone, head, rest = _said(kind, facts, count)
    return Sentence(tone=tone, head=parts(*head), rest=parts(*rest))


Piece = str | Part | tuple[Part, ...]
Said = tuple[Tone, tuple[str | Part, ...], tuple[Piece, ...]]


def _said(kind: Kind, facts: Facts, count: int) -> Said:  # noqa: PLR0912 - one branch a kind
    match kind:
        case Kind.DIVERGENCE:
            steps = "A step diverged" if count == 1 else f"{count} steps diverged"
            rest: tuple[Piece, ...] = (*_step(facts, ": "), "nothing left by it, and a reviewer judges it.")
            return Tone.REFUSED, (strong(steps),), rest
        case Kind.LATE_DIVERGENCE:
            late = "another digest came after the commit, and the effect may be out"
            return Tone.WAITING, (strong("Late divergence"),), (late, _where(facts), ".")
        case Kind.LANDED_ESCAPE:
            told = "an effect that nobody authorized is in the ledger"
            return Tone.DANGER, (strong("Landed escape"),), (told, _of_tool(facts), ".")
        case Kind.INCIDENT:
            what = facts.get("what", "something happened").replace("_", " ")
            return Tone.WAITING, (strong("Incident"),), (what, _where(facts), ".")
        case Kind.PENDING_APPROVAL:
            return Tone.WAITING, (strong("Approval asked for"),), (_what(facts), _by(facts), _until(facts), ".")
        case Kind.PENDING_CHANGE:
            told = "it weakens the fence, and a second administrator decides. "
            return Tone.WAITING, (strong("Change of a tool"),), (told, _what(facts), _by(facts), ".")
        case Kind.PENDING_COMPENSATION:
            waits = " waits to be undone or left"
            return Tone.WAITING, (strong("Compensation"),), ("an effect", _of_tool(facts), waits, _where(facts), ".")
        case Kind.NO_APPROVER:
            told = "no active person may approve it. "
            return Tone.DANGER, (strong("Nobody can approve"),), (told, _what(facts), _by(facts), ".")
        case Kind.EXPIRING_GRANT:
            return Tone.WAITING, (strong("A grant ends soon"),), (_what(facts), _until(facts), ".")
        case Kind.OVERDUE_REVIEW:
            told = "another person owes it a look, and its issuer gets no further grant. "
            return Tone.WAITING, (strong("Review overdue"),), (told, _what(facts), _by(facts), ".")
        case Kind.DOUBT:
            doubt: tuple[Piece, ...] = (
                "nobody knows whether the effect",
                _of_tool(facts),
                " happened",
                _where(facts),
                ".",
            )
            return Tone.WAITING, (strong("Effect in doubt"),), doubt
        case Kind.HALTED_LANE:
            lane = (" ", name(facts["lane"])) if "lane" in facts else ()
            return Tone.REFUSED, (strong("Lane halted"), *lane), ("nothing is published until a reviewer resumes it.",)
        case Kind.SEALING_LAG:
            lag = f"the oldest row has waited {facts['lag']} for its seal" if "lag" in facts else "rows wait for seals"
            return Tone.DANGER, (strong("Sealing lags"),), (lag, ".")
        case Kind.AUDIT_FAULT:
            fault = facts.get("fault", "fault").replace("_", " ")
            return (
                Tone.DANGER,
                (strong("The audit does not verify"),),
                (f"{fault} at row {facts.get('row', 'unknown')}.",),
            )
        case Kind.SILENT_PATH:
            path = (" ", name(facts["path"])) if "path" in facts else ()
            steps = f"{facts.get('steps', 'some')} steps wait for it, and time out one by one."
            return Tone.WAITING, (strong("Silent path"), *path), (steps,)
        case Kind.TEST:
            return Tone.NEUTRAL, (strong("A test"),), ("you asked for it; nothing happened.",)
    assert_never(kind)


def _where(facts: Facts) -> tuple[Part, ...]:
    """At the end of a sentence: on which step, in which run."""
    step = parts(" on step ", name(facts["step"])) if "step" in facts else ()
    return parts(step, " in ", name(facts["run"])) if "run" in facts else step


def _step(facts: Facts, end: str) -> tuple[Part, ...]:
    """Before a sentence: which step it is about."""
    if "step" not in facts:
        return ()
    run = parts(" in ", name(facts["run"])) if "run" in facts else ()
    return parts("step ", name(facts["step"]), run, end)


def _of_tool(facts: Facts) -> tuple[Part, ...]:
    return parts(" of ", code(facts["tool"])) if "tool" in facts else ()


def _what(facts: Facts) -> tuple[Part, ...]:
    named = parts(" ", name(facts["name"])) if "name" in facts else ()
    return parts(facts.get("what", "it").replace("_", " "), named)


def _by(facts: Facts) -> tuple[Part, ...]:
    return parts(", asked for by ", name(facts["by"])) if "by" in facts else ()


def _until(facts: Facts) -> tuple[Part, ...]:
    return parts(f", over at {facts['until']}") if "until" in facts else ()
