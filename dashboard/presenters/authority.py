"""Who may do what, at one moment, as sentences and rows: grants, freezes, people, keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dashboard.presenters.numbers import plural
from fencing.protocol.explain.wording import Part, Sentence, Tone, clock, code, listed, name, parts, strong, times
from fencing.protocol.grants import State
from fencing.queries.authority import Authority, GrantAuthority, KeyAuthority


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """A grant of that moment: what it let act, and who stood for it."""

    grant: GrantAuthority
    words: tuple[Part, ...]
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """A key of that moment: what it was bound to, in words; `who` is the person behind it, if there is one."""

    key: KeyAuthority
    bound: str


def sentence_of(found: Authority) -> Sentence:
    """Say who could do what, in one sentence."""
    live = [each for each in found.grants if each.state is State.LIVE]
    oncall = sum("on-call" in each.roles for each in found.people)
    is_now = found.at == found.now
    when = "Now" if is_now else f"At {clock(found.at, found.now)}"
    verb, did = ("may", "lets") if is_now else ("could", "let")
    if live:
        head = parts(f"{when} ", strong(plural(len(live), "grant")), f" {did} a path act alone")
    else:
        head = parts(f"{when} ", strong("nobody"), f" {verb} act alone")
    people, keys = plural(len(found.people), "person", "people"), plural(len(found.keys), "key")
    rest = f"{_frozen(found, is_now=is_now)}. On call: {oncall} of {people}; open: {keys}."
    return Sentence(tone=Tone.WAITING if live else Tone.NEUTRAL, head=head, rest=parts(rest))


def grants_of(found: Authority) -> list[GrantRow]:
    """Prepare the grants, those that let something through first."""
    ordered = sorted(found.grants, key=lambda each: (each.state is not State.LIVE, each.name))
    return [GrantRow(grant=each, words=_lets(each), by=_stood(each)) for each in ordered]


def keys_of(found: Authority) -> list[KeyRow]:
    """Prepare the keys, each with what it is bound to."""
    return [KeyRow(key=each, bound=_bound(each)) for each in found.keys]


def exact(at: datetime) -> str:
    """Write a moment as its field holds it: in UTC, to the second."""
    return at.strftime("%Y-%m-%dT%H:%M:%S")


def _frozen(found: Authority, *, is_now: bool) -> str:
    if not found.freezes:
        return "nothing stands still" if is_now else "nothing stood still"
    return f"{listed([each.scope for each in found.freezes])} {'is' if is_now else 'was'} frozen"


def _lets(each: GrantAuthority) -> tuple[Part, ...]:
    what = parts(code(each.tool)) if each.tool else parts("whatever it asks for")
    step = parts(" on step ", name(each.step)) if each.step else ()
    pinned = ", one exact digest" if each.digest else ""
    where = parts(" in ", name(each.run), f", epoch {each.epoch}, {times(each.max_uses)}")
    return parts(name(each.path), " alone: ", what, step, pinned, where)


def _stood(each: GrantAuthority) -> str:
    approved = f", approved by {listed(list(each.approved_by))}" if each.approved_by else ""
    return f"issued by {each.issuer}{approved}"


def _bound(each: KeyAuthority) -> str:
    told = [f"the path {each.path}"] if each.path else []
    told += [f"the runs of {each.group}"] if each.group and each.role == "planner" else []
    told += _named("tool", each.tools) + _named("lane", each.lanes)
    return ", ".join(told)


def _named(what: str, names: Iterable[str] | None) -> list[str]:
    known = [] if names is None else list(names)
    return [] if names is None else [f"{what}s {listed(known)}" if known else f"no {what}"]
