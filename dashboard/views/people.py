"""People: who is there, and what administrators do about them. Each act is audited; none is anybody's last right."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard import people_forms
from dashboard.access import ANY_GROUP, Group, caller_of, confirmed_recently, groups_of, open_to, reader_of, why_not
from dashboard.conflicts import CONFLICT, changes_between, conflict_page, facts_seen, has_room
from dashboard.door import provider
from dashboard.pages import Page, answer
from dashboard.people_forms import AccountForm, GroupsForm, PersonForm, ReasonForm
from dashboard.presenters import people as presenter
from dashboard.presenters.acts import Act, Change
from fencing.models.facts import read_clock
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.queries import people as query
from fencing.queries.people import PersonPage
from fencing.services import people as service
from fencing.services.people import ChangeGroups, Done, MakePerson

WRONG: Final = 422
Forms = dict[str, forms.Form]
Service = Callable[[str, str, Caller], Done | Refusal]


@open_to(ANY_GROUP)
@require_safe
def people(request: HttpRequest) -> HttpResponse:
    """List everybody with their groups: who could act, and who could be asked."""
    reader_of(request)
    is_administrator = Group.ADMINISTRATOR in groups_of(request.user)
    lines = [(line, presenter.factors(line)) for line in query.list_people()]
    context = {"now": read_clock(), "lines": lines, "is_administrator": is_administrator}
    return answer(request, "dashboard/people.html", Page(title="People", place="people"), context)


@open_to(Group.ADMINISTRATOR)
@require_safe
def person(request: HttpRequest, name: str) -> HttpResponse:
    """Show one person: whether and how they sign in, what they hold, what happened to their account."""
    return _answer(request, _page(name))


@open_to(Group.ADMINISTRATOR)
@require_safe
def new_person(request: HttpRequest) -> HttpResponse:
    """Ask for a name and groups."""
    return _new(request, PersonForm())


def _new_again(request: HttpRequest, typed: QueryDict) -> HttpResponse:
    given = {"name": typed.get("name", ""), "groups": typed.getlist("groups")}
    return _new(request, PersonForm(initial=given))


@open_to(Group.ADMINISTRATOR)
@confirmed_recently("make a person", show=_new_again)
@require_POST
def make_person(request: HttpRequest) -> HttpResponse:
    """Make a person, and show the link by which they set their password, this once."""
    caller, form = caller_of(request, Role.ADMINISTRATOR), PersonForm(request.POST)
    if not form.is_valid():
        return _new(request, form, status=WRONG)
    done = service.make_person(MakePerson(name=form.cleaned_data["name"].strip(), groups=form.wanted()), caller)
    if isinstance(done, Refusal):
        form.add_error("name", done.detail)
        return _new(request, form, status=WRONG)
    return _link_shown(request, done)


def _groups_again(request: HttpRequest, typed: QueryDict, name: str) -> HttpResponse:
    given = {"groups": typed.getlist("groups"), "reason": typed.get("reason", "")}
    return _answer(request, _page(name), {"groups": GroupsForm(initial=given)}, opened="groups")


@open_to(Group.ADMINISTRATOR)
@confirmed_recently("change somebody's groups", show=_groups_again)
@require_POST
def change_groups(request: HttpRequest, name: str) -> HttpResponse:
    """Put a person into exactly the groups that are ticked."""
    caller, form = caller_of(request, Role.ADMINISTRATOR), GroupsForm(request.POST)
    if not form.is_valid():
        return _answer(request, _page(name), {"groups": form}, status=WRONG)
    seen = people_forms.groups_in(request.POST.get("seen", ""))
    wanted = ChangeGroups(name=name, groups=form.wanted(), seen=seen, reason=form.cleaned_data["reason"])
    return _done(request, name, "groups", form, service.change_groups(wanted, caller), "The groups are stored.")


def _act(
    act_id: str, says: str, do: Service, said: str, answers: Callable[[HttpRequest, Done], HttpResponse] | None = None
) -> Callable[..., HttpResponseBase]:
    """Make the posting view of an act that takes a reason and nothing else."""

    def again(request: HttpRequest, typed: QueryDict, name: str) -> HttpResponse:
        return _answer(request, _page(name), {act_id: ReasonForm(initial=typed.dict())}, opened=act_id)

    @open_to(Group.ADMINISTRATOR)
    @confirmed_recently(says, show=again)
    @require_POST
    def view(request: HttpRequest, name: str) -> HttpResponse:
        caller, form = caller_of(request, Role.ADMINISTRATOR), ReasonForm(request.POST)
        if not form.is_valid():
            return _answer(request, _page(name), {act_id: form}, status=WRONG)
        done = do(name, form.cleaned_data["reason"], caller)
        if answers is not None and isinstance(done, Done):
            return answers(request, done)
        return _done(request, name, act_id, form, done, said)

    return view


def _link_shown(request: HttpRequest, done: Done) -> HttpResponse:
    """Show the link in the answer to the form that made it: it is stored nowhere."""
    path = reverse("dashboard:open_password_link", args=[done.name, done.token])
    context = {"name": done.name, "link": request.build_absolute_uri(path), "done": done}
    return answer(request, "dashboard/link_shown.html", Page(title=done.name, place="people"), context)


reset_password = _act("link", "give somebody a new password", service.reset_password, "", _link_shown)
reset_second_factor = _act(
    "factor", "remove somebody's second factors", service.reset_second_factor, "Removed. They set up a new one."
)
deactivate_person = _act("deactivate", "shut somebody out", service.deactivate, "Deactivated: they are out.")
activate_person = _act("activate", "let somebody in again", service.activate, "Activated: they can sign in again.")
end_person_sessions = _act("sessions", "sign somebody out", service.end_sessions, "They are signed out everywhere.")
unlock_person = _act("unlock", "open a lock", service.unlock, "The wrong guesses are forgotten.")
unlink_person = _act("account", "unlink an account", service.unlink_account, "Unlinked.")


def _link_again(request: HttpRequest, typed: QueryDict, name: str) -> HttpResponse:
    return _answer(request, _page(name), {"account": AccountForm(initial=typed.dict())}, opened="account")


@open_to(Group.ADMINISTRATOR)
@confirmed_recently("link an account", show=_link_again)
@require_POST
def link_person(request: HttpRequest, name: str) -> HttpResponse:
    """Let an account at the provider open the door for a person."""
    if settings.FENCE_PROVIDER is None:
        raise Http404("No provider is set up.")
    caller, form = caller_of(request, Role.ADMINISTRATOR), AccountForm(request.POST)
    if not form.is_valid():
        return _answer(request, _page(name), {"account": form}, status=WRONG)
    done = service.link_account(name, provider.provider_id(), form.cleaned_data["account"].strip(), caller)
    return _done(request, name, "account", form, done, "Linked.")


def _page(name: str) -> PersonPage:
    page = query.read_person(name)
    if page is None:
        raise Http404(f"There is no person {name}.")
    return page


def _done(
    request: HttpRequest, name: str, act_id: str, form: forms.Form, done: Done | Refusal, said: str
) -> HttpResponse:
    if not isinstance(done, Refusal):
        messages.success(request, said)
        return redirect("dashboard:person", name)
    page, seen = _page(name), facts_seen(request)
    changes = changes_between(seen, presenter.facts(page.line)) if seen else ()
    if changes and not has_room(_acts(request, page), act_id):
        shown, typed = Page(title=name, place="people"), request.POST.get("reason", "")
        url = reverse("dashboard:person", args=[name])
        return conflict_page(request, shown, told=done.detail, changes=changes, url=url, typed=typed)
    messages.error(request, f"Nothing was done. {done.detail}")
    if done.code is not Code.CHANGED:
        form.add_error(None, done.detail)
        return _answer(request, page, {act_id: form}, status=WRONG)
    return _answer(request, page, {act_id: form}, opened=act_id, changes=changes, status=CONFLICT)


def _acts(request: HttpRequest, page: PersonPage, given: Forms | None = None, **shown: Any) -> list[Act]:
    named = settings.FENCE_PROVIDER.name if settings.FENCE_PROVIDER else ""
    why = why_not(request.user, Role.ADMINISTRATOR)
    return presenter.acts(page, given or {}, why_not=why, provider=named, **shown)


def _new(request: HttpRequest, form: PersonForm, *, status: int = 200) -> HttpResponse:
    context = {"form": form, "why_not": why_not(request.user, Role.ADMINISTRATOR)}
    page = Page(title="New person", place="people")
    return answer(request, "dashboard/new_person.html", page, context, status=status)


def _answer(
    request: HttpRequest,
    page: PersonPage,
    given: Forms | None = None,
    *,
    opened: str = "",
    changes: tuple[Change, ...] = (),
    status: int = 200,
) -> HttpResponse:
    named = settings.FENCE_PROVIDER.name if settings.FENCE_PROVIDER else ""
    context: dict[str, Any] = {
        "now": read_clock(),
        "person": page,
        "factors": presenter.factors(page.line),
        "sentence": presenter.sentence(page),
        "provider": named,
        "acts": _acts(request, page, given, opened=opened, changes=changes),
        "events": cache(lambda: [presenter.told(event) for event in query.read_person_events(page.line.name)]),
    }
    return answer(request, "dashboard/person.html", Page(title=page.line.name, place="people"), context, status=status)
