"""People in words: the sentence that opens one, and what an administrator can do about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.urls import reverse

from dashboard.people_forms import AccountForm, GroupsForm, ReasonForm
from dashboard.presenters.acts import Act, Change
from dashboard.presenters.numbers import plural
from fencing.queries.keys import KeyEvent
from fencing.queries.people import PersonLine, PersonPage

VERBS: Final = {
    "make_person": "made",
    "change_groups": "put into other groups",
    "deactivate_person": "deactivated",
    "activate_person": "activated",
    "reset_password": "given a link for a new password",
    "set_password": "set a password by a link",
    "change_password": "changed the password",
    "reset_second_factor": "lost every second factor",
    "add_second_factor": "added a second factor",
    "remove_second_factor": "removed a second factor",
    "make_recovery_codes": "made new recovery codes",
    "use_recovery_code": "used a recovery code",
    "link_account": "linked to an account at the provider",
    "unlink_account": "unlinked from the provider",
    "unlock_person": "unlocked",
    "end_sessions": "signed out",
    "sign_in": "signed in",
    "lock_door": "locked after wrong guesses",
}
FACTORS: Final = {"totp": "authenticator", "webauthn": "passkey"}


def factors(line: PersonLine) -> str:
    """Write the second factors of a person; empty where there is none."""
    return ", ".join(dict.fromkeys(FACTORS.get(kind, kind) for kind in line.second_factors))


def sentence(page: PersonPage) -> str:
    """Open a person's page: whether they can come in, and what for."""
    line = page.line
    if not line.is_active:
        return f"Deactivated: {line.name} cannot sign in. What they did stays under their name."
    if line.state == "waiting":
        return f"Not in yet: {line.name} has no password. Give them a link to set one."
    groups = ", ".join(line.groups) or "no group, so they see nothing"
    with_what = factors(line) or "a password alone"
    return f"Active: {line.name} is in {groups}, and signs in with {with_what}."


def facts(line: PersonLine) -> dict[str, str]:
    """What a form on a person shows of them."""
    return {
        "groups": ", ".join(line.groups) or "none",
        "state": line.state,
        "second factors": factors(line) or "none",
    }


def told(event: KeyEvent) -> dict[str, Any]:
    """One line of what happened to an account."""
    parts = [f"{word.replace('_', ' ')}: {_plain(value)}" for word, value in (event.after or {}).items()]
    parts += [f"before: {_plain(value)}" for value in (event.before or {}).values()]
    return {
        "at": event.at,
        "what": VERBS.get(event.verb, event.verb.replace("_", " ")),
        "by": event.actor,
        "details": ", ".join(parts),
        "reason": event.reason,
    }


def acts(
    page: PersonPage,
    given: Mapping[str, forms.Form],
    *,
    opened: str = "",
    changes: tuple[Change, ...] = (),
    why_not: str = "",
    provider: str = "",
) -> list[Act]:
    """Say what an administrator can do about a person now."""
    line, name = page.line, page.line.name
    groups = ",".join(line.groups)

    def act(act_id: str, opens: str, says: str, view: str, explains: str, form: forms.Form | None = None) -> Act:
        shown = given.get(act_id, ReasonForm() if form is None else form)
        shown.auto_id = f"{act_id}_%s"  # several forms of a page have a field of one name
        return Act(
            id=act_id,
            opens=opens,
            says=says,
            url=reverse(f"dashboard:{view}", args=[name]),
            seen={"seen": groups} if act_id == "groups" else {},
            form=shown,
            explains=explains,
            why_not=why_not,
            changes=changes if opened == act_id else (),
            is_open=opened == act_id,
            facts=facts(line),
            must_confirm=True,
        )

    if not line.is_active:
        explains = "They sign in again with the password, second factor and groups that they had."
        return [act("activate", "Activate…", f"Let {name} in again", "activate_person", explains)]
    ended = _ended(page)
    made = [
        act("groups", "Groups…", "Store the groups", "change_groups",
            "Keys that stood for a group that they leave end at once.", GroupsForm(initial={"groups": line.groups})),
        act("link", "A new password…", "Take the old one away, and show a link once", "reset_password",
            f"You get a link that sets one, good for a day: give it to them yourself. {ended}"),
        act("factor", "Second factor lost…", "Remove every second factor", "reset_second_factor",
            f"Be sure that it is them who asks. Then their password alone opens the door. {ended}"),
        act("deactivate", "Deactivate…", f"Shut {name} out", "deactivate_person",
            f"They cannot sign in any more. {ended} Nothing that they did is removed."),
    ]  # fmt: skip
    if page.sessions:
        made.insert(3, act("sessions", "Sign out…", f"Sign {name} out everywhere", "end_person_sessions", "At once."))
    if page.wrong_guesses:
        told = f"{plural(page.wrong_guesses, 'wrong guess', 'wrong guesses')} are counted against this name now."
        made.insert(0, act("unlock", "Forget the wrong guesses…", "Open the lock", "unlock_person", told))
    if provider and not page.account:
        explains = f"Then {provider} opens this door for them."
        made.append(act("account", "Link an account…", "Link it", "link_person", explains, AccountForm()))
    elif provider:
        made.append(act("account", "Unlink the account…", "Unlink it", "unlink_person", f"{provider} opens no more."))
    return made


def _ended(page: PersonPage) -> str:
    told = [plural(page.sessions, "session")] if page.sessions else []
    told += [plural(len(page.keys), "personal key")] if page.keys else []
    return f"Of theirs, {' and '.join(told)} end at once." if told else ""


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "none"
    return str(value)
