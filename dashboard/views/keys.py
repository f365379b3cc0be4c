"""Keys: those of machines, which administrators make, and each person's own. A key is shown once, where it was made."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard import key_forms
from dashboard.access import (
    ANY_GROUP,
    Group,
    caller_of,
    confirmed_recently,
    groups_of,
    open_to,
    reader_of,
    themself,
    why_not,
)
from dashboard.conflicts import CONFLICT, changes_between, conflict_page, facts_seen, has_room
from dashboard.key_forms import EndForm, NewKeyForm, PersonalForm, RevokeForm, RotateForm, ScopeForm
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters import keys as presenter
from dashboard.presenters.acts import Act, Change
from dashboard.presenters.lists import Filter, FilterBar, choices, pager
from fencing.models.facts import read_clock
from fencing.protocol.callers import KEY_ROLES, Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.queries import keys as query
from fencing.queries.keys import KeyLine
from fencing.services import keys as service
from fencing.services.credentials import IssuedKey, issue

LIMIT: Final = 50
WRONG: Final = 422
STATES: Final = (("live", "live"), ("ended", "ended"), ("revoked", "revoked"))
Forms = dict[str, forms.Form]


@open_to(ANY_GROUP)
@require_safe
def keys(request: HttpRequest) -> HttpResponse:
    """List keys, newest first: an administrator sees all of them, everybody their own."""
    return _list(request)


def _personal_again(request: HttpRequest, typed: QueryDict) -> HttpResponse:
    return _list(request, PersonalForm(request.user, initial=typed.dict()))


@open_to(Group.ONCALL, Group.REVIEWER)
@confirmed_recently("make a key for yourself", show=_personal_again, by_second_factor=True)
@require_POST
def make_personal_key(request: HttpRequest) -> HttpResponse:
    """Make a key for the person's own hand, after a second factor, for twelve hours at most."""
    form = PersonalForm(request.user, request.POST)
    if not form.is_valid():
        return _list(request, form, status=WRONG)
    role = Role(form.cleaned_data["role"])
    caller_of(request, role)  # in production, only with a second factor
    made = service.issue_personal(role, int(form.cleaned_data["life"]), themself(request))
    if isinstance(made, Refusal):
        key_forms.refuse(form, made)
        return _list(request, form, status=WRONG)
    return _shown(request, made, back=reverse("dashboard:keys"))


@open_to(Group.ADMINISTRATOR)
@require_safe
def new_key(request: HttpRequest) -> HttpResponse:
    """Choose what a machine's key may do, then say what it is bound to."""
    role = request.GET.get("role", "")
    if role not in key_forms.MACHINES:
        page = Page(title="New key", place="keys")
        return answer(request, "dashboard/new_key_role.html", page, {"roles": list(key_forms.MACHINES.items())})
    return _new(request, NewKeyForm(Role(role)))


def _new_again(request: HttpRequest, typed: QueryDict) -> HttpResponse:
    return _new(request, NewKeyForm(_role(typed.get("role", "")), initial=typed.dict()))


@open_to(Group.ADMINISTRATOR)
@confirmed_recently("make a key", show=_new_again)
@require_POST
def issue_key(request: HttpRequest) -> HttpResponse:
    """Make a machine's key and show it, this once."""
    caller = caller_of(request, Role.ADMINISTRATOR)
    form = NewKeyForm(_role(request.POST.get("role", "")), request.POST)
    if not form.is_valid():
        return _new(request, form, status=WRONG)
    made = issue(form.request(), caller)
    if isinstance(made, Refusal):
        key_forms.refuse(form, made, (("tool", "tools"), ("lane", "lanes"), ("expires-in", "life")))
        return _new(request, form, status=WRONG)
    return _shown(request, made, back=reverse("dashboard:key", args=[made.name]))


@open_to(ANY_GROUP)
@require_safe
def key(request: HttpRequest, name: str) -> HttpResponse:
    """Show one key: whose it is, what it may, until when, when it was last used, and what was done with it."""
    return _answer(request, _key(request, name))


def _rotate_again(request: HttpRequest, typed: QueryDict, name: str) -> HttpResponse:
    return _answer(request, _key(request, name), {"rotate": RotateForm(initial=typed.dict())}, opened="rotate")


@open_to(ANY_GROUP)
@confirmed_recently("rotate the key", show=_rotate_again)
@require_POST
def rotate_key(request: HttpRequest, name: str) -> HttpResponse:
    """Make the successor of a key and show it, this once."""
    line, form = _key(request, name), RotateForm(request.POST)
    if not form.is_valid():
        return _answer(request, line, {"rotate": form}, status=WRONG)
    told = form.cleaned_data
    wanted = service.RotateKey(name=name, overlap_s=int(told["overlap"]), reason=told["reason"])
    made = service.rotate(wanted, _caller(request, line))
    if isinstance(made, Refusal):
        return _refused(request, name, made, "rotate", form)
    return _shown(request, made, back=reverse("dashboard:key", args=[made.name]), old=name)


def _scope_again(request: HttpRequest, typed: QueryDict, name: str) -> HttpResponse:
    line = _key(request, name)
    return _answer(request, line, {"scope": ScopeForm(line, initial=typed.dict())}, opened="scope")


@open_to(Group.ADMINISTRATOR)
@confirmed_recently("bind the key otherwise", show=_scope_again)
@require_POST
def change_key(request: HttpRequest, name: str) -> HttpResponse:
    """Bind a key to another group, other tools or other lanes."""
    caller, line = caller_of(request, Role.ADMINISTRATOR), _key(request, name)
    form = ScopeForm(line, request.POST)
    if not form.is_valid():
        return _answer(request, line, {"scope": form}, status=WRONG)
    seen_text = request.POST.get("seen", "")
    seen = seen_text if Role(line.role) is Role.PLANNER else key_forms.names_in(seen_text)
    wanted = service.ChangeScope(name=name, scope=form.wanted(), seen=seen, reason=form.cleaned_data["reason"])
    done = service.change_scope(wanted, caller)
    if isinstance(done, Refusal):
        return _refused(request, name, done, "scope", form)
    messages.success(request, "Stored. It counts from the key's next call on.")
    return redirect("dashboard:key", name)


def _end_again(request: HttpRequest, typed: QueryDict, name: str) -> HttpResponse:
    return _answer(request, _key(request, name), {"end": EndForm(initial=typed.dict())}, opened="end")


@open_to(ANY_GROUP)
@confirmed_recently("let the key end", show=_end_again)
@require_POST
def end_key(request: HttpRequest, name: str) -> HttpResponse:
    """Let a key end by itself, sooner than it would."""
    line, form = _key(request, name), EndForm(request.POST)
    if not form.is_valid():
        return _answer(request, line, {"end": form}, status=WRONG)
    told = form.cleaned_data
    wanted = service.EndKey(name=name, in_s=int(told["ends"]), reason=told["reason"])
    done = service.end(wanted, _caller(request, line))
    if isinstance(done, Refusal):
        return _refused(request, name, done, "end", form)
    messages.success(request, "Stored: it ends by itself.")
    return redirect("dashboard:key", name)


def _revoke_again(request: HttpRequest, typed: QueryDict, name: str) -> HttpResponse:
    return _answer(request, _key(request, name), {"revoke": RevokeForm(initial=typed.dict())}, opened="revoke")


@open_to(ANY_GROUP)
@confirmed_recently("revoke the key", show=_revoke_again)
@require_POST
def revoke_key(request: HttpRequest, name: str) -> HttpResponse:
    """End a key now. Repeating it changes nothing."""
    line, form = _key(request, name), RevokeForm(request.POST)
    if not form.is_valid():
        return _answer(request, line, {"revoke": form}, status=WRONG)
    done = service.revoke(name, _caller(request, line), form.cleaned_data["reason"])
    if isinstance(done, Refusal):
        return _refused(request, name, done, "revoke", form)
    messages.success(request, "Revoked. It opens nothing any more, from this moment on.")
    return redirect("dashboard:key", name)


def _is_administrator(request: HttpRequest) -> bool:
    return Group.ADMINISTRATOR in groups_of(request.user)


def _role(text: str) -> Role:
    if text not in key_forms.MACHINES:
        raise Http404("No machine has a key of that role.")
    return Role(text)


def _key(request: HttpRequest, name: str) -> KeyLine:
    line = query.read_key(name)
    if line is None:
        raise Http404(f"There is no key {name}.")
    if line.person != request.user.get_username() and not _is_administrator(request):
        raise PermissionDenied("This key is not yours. Machines' keys are for the group administrator.")
    return line


def _caller(request: HttpRequest, line: KeyLine) -> Caller:
    is_own = line.person == request.user.get_username()
    return themself(request) if is_own else caller_of(request, Role.ADMINISTRATOR)


def _list(request: HttpRequest, form: PersonalForm | None = None, *, status: int = 200) -> HttpResponse:
    reader_of(request)
    is_administrator = _is_administrator(request)
    asked = {name: request.GET.get(name, "").strip() for name in ("role", "state", "name", "person")}
    if not is_administrator:
        asked["person"] = request.user.get_username()
    lines, following = read_page(request, lambda page: query.list_keys(asked, page), LIMIT)
    context = {
        "now": read_clock(),
        "lines": lines,
        "is_administrator": is_administrator,
        "bar": _bar(asked, request.path) if is_administrator else None,
        "is_filtered": is_administrator and any(asked.values()),
        "personal": _personal_act(request, form),
        "pager": pager(
            shown=len(lines),
            what="key" if len(lines) == 1 else "keys",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=following,
        ),
    }
    return answer(request, "dashboard/keys.html", Page(title="Keys", place="keys"), context, status=status)


def _bar(asked: dict[str, str], path: str) -> FilterBar:
    roles = choices([(role.value, role.value) for role in sorted(KEY_ROLES)], asked["role"], everything="every role")
    states = choices(STATES, asked["state"], everything="every state")
    return FilterBar(
        filters=(
            Filter(name="state", label="State", value=asked["state"], choices=states),
            Filter(name="role", label="Role", value=asked["role"], choices=roles),
            Filter(name="name", label="Name begins with", value=asked["name"]),
            Filter(name="person", label="Person", value=asked["person"]),
        ),
        clear_url=path,
    )


def _personal_act(request: HttpRequest, form: PersonalForm | None) -> Act:
    roles = key_forms.roles_of(request.user)
    reasons = [why_not(request.user, role) for role, _ in roles] or [
        "Personal keys are for the groups on-call and reviewer; you are in neither."
    ]
    return Act(
        id="personal",
        opens="A key for yourself…",
        says="Make it, and show it once",
        url=reverse("dashboard:make_personal_key"),
        form=form or PersonalForm(request.user),
        explains=(
            "For commands that you run by hand. It acts under your name, takes a second factor to make (outside "
            "production mode, without one, your password), and lives twelve hours at most."
        ),
        why_not="" if "" in reasons else reasons[0],
        is_open=form is not None,
        must_confirm=True,
    )


def _new(request: HttpRequest, form: NewKeyForm, *, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "role": form.role,
        "does": key_forms.MACHINES[form.role],
        "why_not": why_not(request.user, Role.ADMINISTRATOR),
    }
    page = Page(title=f"New key of the role {form.role}", place="keys")
    return answer(request, "dashboard/new_key.html", page, context, status=status)


def _shown(request: HttpRequest, made: IssuedKey, *, back: str, old: str = "") -> HttpResponse:
    """Show a key in the answer to the form that made it: it is stored nowhere, not even in the session."""
    context = {"now": read_clock(), "made": made, "back": back, "old": query.read_key(old) if old else None}
    return answer(request, "dashboard/key_shown.html", Page(title=made.name, place="keys"), context)


def _refused(request: HttpRequest, name: str, refusal: Refusal, act: str, form: forms.Form) -> HttpResponse:
    line, seen = _key(request, name), facts_seen(request)
    changes = changes_between(seen, presenter.facts(line)) if seen else ()
    if changes and refusal.code is Code.CHANGED and not has_room(_acts(request, line), act):
        page, typed = Page(title=name, place="keys"), request.POST.get("reason", "")
        url = reverse("dashboard:key", args=[name])
        return conflict_page(request, page, told=refusal.detail, changes=changes, url=url, typed=typed)
    messages.error(request, f"Nothing was done. {refusal.detail}")
    if refusal.code is not Code.CHANGED:
        key_forms.refuse(form, refusal, (("overlap", "overlap"), ("in", "ends")))
        return _answer(request, line, {act: form}, status=WRONG)
    return _answer(request, line, {act: form}, opened=act, changes=changes, status=CONFLICT)


def _acts(request: HttpRequest, line: KeyLine, given: Forms | None = None, **shown: Any) -> list[Act]:
    is_own = line.person == request.user.get_username()
    why = "" if is_own else why_not(request.user, Role.ADMINISTRATOR)
    return presenter.acts(line, given or {}, why_not=why, **shown)


def _answer(
    request: HttpRequest,
    line: KeyLine,
    given: Forms | None = None,
    *,
    opened: str = "",
    changes: tuple[Change, ...] = (),
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {
        "now": read_clock(),
        "key": line,
        "sentence": presenter.sentence(line),
        "acts": _acts(request, line, given, opened=opened, changes=changes),
        "events": cache(lambda: [presenter.told(event) for event in query.read_key_events(line.name)]),
    }
    return answer(request, "dashboard/key.html", Page(title=line.name, place="keys"), context, status=status)
