"""The forms of keys: what an operator types, read into what the services take."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from django import forms

from dashboard.access import groups_of
from fencing.protocol.callers import Role
from fencing.protocol.errors import Refusal
from fencing.protocol.groups import GROUP_OF_ROLE
from fencing.queries.keys import KeyLine
from fencing.services.credentials import DEFAULT_RATE_PER_S, PERSONAL, PERSONAL_LIFE_S, IssueKey
from fencing.services.keys import Scope

HOUR, DAY = 3600, 86_400
# The roles of machines, in the order of a step's way, with what each does.
MACHINES: Final = {
    Role.PLANNER: "Opens runs, proposes steps, replays and restarts. It sees its own runs.",
    Role.PATH: "Votes for one path on what awaits its vote, and sees nothing else of a step before.",
    Role.GATEWAY: "Asks for admission and reports what became of it, for all tools or those that you name.",
    Role.SCORER: "Sends fragments of grades, for all lanes or those that you name.",
    Role.PUBLISHER: "Makes lanes and attempts, and publishes their grades.",
    Role.GATE: "Reads a lane's gate, and nothing else.",
    Role.AUDITOR: "May read everything and change nothing.",
}
LIVES: Final = (
    ("", "no end"),
    (str(DAY), "a day"),
    (str(30 * DAY), "30 days"),
    (str(90 * DAY), "90 days"),
    (str(365 * DAY), "a year"),
)
OVERLAPS: Final = (
    (str(DAY), "a day"),
    (str(HOUR), "an hour"),
    (str(7 * DAY), "a week"),
    (str(30 * DAY), "30 days"),
    ("0", "not at all: the old one ends at once"),
)
ENDS: Final = (
    (str(HOUR), "in an hour"),
    (str(DAY), "in a day"),
    (str(7 * DAY), "in a week"),
    (str(30 * DAY), "in 30 days"),
)
PERSONAL_LIVES: Final = (
    (str(HOUR), "an hour"),
    (str(4 * HOUR), "four hours"),
    (str(PERSONAL_LIFE_S), "twelve hours"),
)
NAMES: Final = {"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}
_SPLIT: Final = re.compile(r"[,\s]+")


class _Reason(forms.Form):
    reason = forms.CharField(
        label="Reason", required=False, max_length=4000, help_text="If there is one to tell: it stands in the audit."
    )


class NewKeyForm(forms.Form):
    """A machine's key of one role, with the bindings that this role has."""

    name = forms.CharField(
        label="Name",
        max_length=200,
        widget=forms.TextInput(attrs=NAMES),
        help_text="Logs, audit and answers show it. Names are never used again.",
    )
    path = forms.CharField(
        label="Path", max_length=200, widget=forms.TextInput(attrs=NAMES), help_text="production, replica, or your own."
    )
    group = forms.CharField(
        label="Group",
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs=NAMES),
        help_text="Planner keys of one group share their runs. Empty: this key alone.",
    )
    tools = forms.CharField(
        label="Tools",
        required=False,
        widget=forms.TextInput(attrs=NAMES),
        help_text="Names, with commas. Empty: every tool.",
    )
    lanes = forms.CharField(
        label="Lanes",
        required=False,
        widget=forms.TextInput(attrs=NAMES),
        help_text="Names, with commas. Empty: every lane.",
    )
    life = forms.ChoiceField(label="It ends after", choices=LIVES, required=False)
    rate = forms.IntegerField(
        label="Calls a second",
        min_value=1,
        max_value=1_000_000,
        initial=DEFAULT_RATE_PER_S,
        help_text="For each web process. Beyond it a call is answered 429.",
    )

    def __init__(self, role: Role, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.role = role
        bound = {"path": Role.PATH, "group": Role.PLANNER, "tools": Role.GATEWAY, "lanes": Role.SCORER}
        for member, of in bound.items():
            if role is not of:
                del self.fields[member]

    def request(self) -> IssueKey:
        """Read what was typed."""
        told = self.cleaned_data
        return IssueKey(
            role=self.role,
            name=told["name"].strip(),
            path=told.get("path", "").strip() or None,
            group=told.get("group", "").strip() or None,
            tools=names_in(told.get("tools", "")),
            lanes=names_in(told.get("lanes", "")),
            expires_in_s=int(told["life"]) if told["life"] else None,
            rate_per_s=told["rate"],
        )


class RotateForm(_Reason):
    """How long the old key stays good beside the new one."""

    overlap = forms.ChoiceField(
        label="Both are good for", choices=OVERLAPS, help_text="Long enough for every machine to get the new one."
    )
    field_order = ("overlap", "reason")


class EndForm(_Reason):
    """When a key ends by itself."""

    ends = forms.ChoiceField(label="It ends", choices=ENDS)
    field_order = ("ends", "reason")


class RevokeForm(_Reason):
    """That a key ends now."""


class ScopeForm(_Reason):
    """Another group, other tools or other lanes."""

    scope = forms.CharField(required=False, widget=forms.TextInput(attrs=NAMES))
    field_order = ("scope", "reason")

    def __init__(self, key: KeyLine, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field, self._is_group = self.fields["scope"], Role(key.role) is Role.PLANNER
        field.label = key.binding[0].capitalize()
        told = {Role.PLANNER: "Planner keys of one group share their runs."}
        field.help_text = told.get(Role(key.role), f"Names, with commas. Empty: all {key.binding[0]}.")
        field.required = self._is_group

    def wanted(self) -> Scope:
        """Read what was typed."""
        typed = str(self.cleaned_data["scope"])
        return typed.strip() if self._is_group else names_in(typed)


class PersonalForm(forms.Form):
    """A key for one's own hand."""

    role = forms.ChoiceField(label="It acts as")
    life = forms.ChoiceField(label="It ends after", choices=PERSONAL_LIVES)

    def __init__(self, person: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["role"].choices = [(role.value, group.value) for role, group in roles_of(person)]  # type: ignore[attr-defined]


def roles_of(person: Any) -> list[tuple[Role, str]]:
    """Give the roles in which a person can have a key of their own, with the groups that they come from."""
    groups = groups_of(person)
    return [(role, GROUP_OF_ROLE[role]) for role in sorted(PERSONAL) if GROUP_OF_ROLE[role] in groups]


def names_in(typed: str) -> tuple[str, ...] | None:
    """Read names with commas or blanks between; None where there are none."""
    names = tuple(dict.fromkeys(name for name in _SPLIT.split(typed) if name))
    return names or None


def typed_scope(scope: Scope) -> str:
    """Write a scope as it is typed."""
    return scope if isinstance(scope, str) else ", ".join(scope or ())


def refuse(form: forms.Form, refusal: Refusal, fields: Iterable[tuple[str, str]] = ()) -> None:
    """Put a refusal where it belongs: to the field of its pointer, else above the form."""
    known = dict(fields)
    member = (refusal.pointer or "").strip("/").partition("/")[0]
    name = known.get(member, member)
    form.add_error(name if name in form.fields else None, refusal.detail)
