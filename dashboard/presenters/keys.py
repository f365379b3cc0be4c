"""Keys in words: the sentence that opens one, what was done with it, and what can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.urls import reverse

from dashboard.key_forms import EndForm, RevokeForm, RotateForm, ScopeForm, typed_scope
from dashboard.presenters.acts import Act, Change
from fencing.protocol.callers import Role
from fencing.queries.keys import LIVE, KeyEvent, KeyLine

VERBS: Final = {
    "issue_key": "made",
    "rotate_key": "rotated",
    "change_key": "bound otherwise",
    "end_key": "given an end",
    "revoke_key": "revoked",
}
SCOPED: Final = frozenset({Role.PLANNER, Role.GATEWAY, Role.SCORER})


def sentence(line: KeyLine) -> str:
    """Open a key's page: what it is good for now."""
    if line.state != LIVE:
        at = line.revoked_at if line.revoked_at is not None else line.expires_at
        word = "Revoked" if line.revoked_at is not None else "Ended"
        return f"{word}: this key opens nothing since {_utc(at)}."
    until = f"until {_utc(line.expires_at)}" if line.expires_at else "without an end"
    whose = f"for {line.person}, " if line.person else ""
    if line.rotated_to:
        return f"On its way out: it is good beside {line.rotated_to} {until}."
    return f"Live: it is good {whose}as {line.role} {until}."


def facts(line: KeyLine) -> dict[str, str]:
    """What a form on a key shows of it, for a conflict to lay beside what is new."""
    word, value = line.binding
    told = {
        "state": line.state,
        "ends": _utc(line.expires_at) if line.expires_at else "never",
        "rotated into": line.rotated_to or "not yet",
    }
    return {**told, **({word: value} if word else {})}


def told(event: KeyEvent) -> dict[str, Any]:
    """One line of what was done with a key."""
    details = [f"{word.replace('_', ' ')}: {_plain(value)}" for word, value in (event.after or {}).items()]
    return {
        "at": event.at,
        "what": VERBS.get(event.verb, event.verb.replace("_", " ")),
        "by": event.actor,
        "details": ", ".join(details),
        "reason": event.reason,
    }


def acts(
    line: KeyLine,
    given: Mapping[str, forms.Form],
    *,
    opened: str = "",
    changes: tuple[Change, ...] = (),
    why_not: str = "",
) -> list[Act]:
    """Say what can be done with a live key; nothing with one that is over."""
    if line.state != LIVE:
        return []
    seen = facts(line)

    def act(name: str, opens: str, says: str, form: forms.Form, explains: str, why: str = "", **more: str) -> Act:
        shown = given.get(name, form)
        shown.auto_id = f"{name}_%s"  # several forms of a page have a field of one name
        return Act(
            id=name,
            opens=opens,
            says=says,
            url=reverse(f"dashboard:{more.pop('view')}", args=[line.name]),
            seen=more,
            form=shown,
            explains=explains,
            why_not=why or why_not,
            changes=changes if opened == name else (),
            is_open=opened == name,
            facts=seen,
            must_confirm=True,
        )

    rotated = f"It was rotated already, into {line.rotated_to}." if line.rotated_to else ""
    made = [
        act(
            "rotate", "Rotate…", "Make its successor, and show it once", RotateForm(),
            "The successor has the same role and bindings, another secret and another name. Both are good meanwhile.",
            rotated, view="rotate_key",
        ),
        act(
            "end", "Let it end…", "Let it end then", EndForm(),
            "It ends by itself. An end is never put off: for more time, rotate the key.", view="end_key",
        ),
        act(
            "revoke", "Revoke…", f"Revoke {_short(line.name)} now", RevokeForm(),
            "It opens nothing from the next call on, and never again. What it did stays on record.", view="revoke_key",
        ),
    ]  # fmt: skip
    if Role(line.role) in SCOPED and line.person is None:
        text = _scope_text(line)
        form = ScopeForm(line, initial={"scope": text})
        explains = "It counts from the next call on. Runs stay with the group that they were opened for."
        made.insert(1, act("scope", "Bind it otherwise…", "Store what it is bound to", form, explains,
                           view="change_key", seen=text))  # fmt: skip
    return made


def _scope_text(line: KeyLine) -> str:
    of = {Role.PLANNER: line.group, Role.GATEWAY: line.tools, Role.SCORER: line.lanes}
    return typed_scope(of[Role(line.role)])


def _utc(at: Any) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "never"


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return str(value)


def _short(name: str) -> str:
    return name if len(name) <= 32 else f"{name[:20]}…{name[-8:]}"  # noqa: PLR2004 - what fits a button of a phone
