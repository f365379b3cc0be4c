"""Incidents, each with an owner, a note and a resolution; and everything about one resource."""

from __future__ import annotations

import uuid
from functools import cache
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import ANY_GROUP, Group, caller_of, open_to, reader_of, why_not
from dashboard.conflicts import changes_between, conflict_page, facts_seen
from dashboard.effect_forms import NoteForm, ResolveForm
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters import effects as presenter
from dashboard.presenters.acts import Act
from dashboard.presenters.lists import Filter, FilterBar, choices, pager
from fencing.api.problems import status_of
from fencing.models import Compensation, Incident
from fencing.models.facts import read_clock
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.masking import mask
from fencing.queries import effects, resources
from fencing.queries import incidents as query
from fencing.services import incidents as service
from fencing.services.requests import ResolveIncident

LIMIT: Final = 50
MAX_NAME: Final = 200
PAGE: Final = Page(title="Incidents", place="incidents", parts={"rows": "dashboard/incidents/rows.html"})
RESOURCE: Final = Page(title="Resource", place="resource")


@open_to(ANY_GROUP)
@require_safe
def incidents(request: HttpRequest) -> HttpResponse:
    """List incidents, newest first; without a filter, those that are open."""
    reader_of(request)
    state = request.GET.get("state", "open")
    wanted = {name: text for name in ("kind", "resource") if (text := _text(request, name))}
    if state in Incident.State.values:
        wanted["state"] = state
    if wanted.get("kind") not in {None, *Incident.Kind.values}:
        del wanted["kind"]
    page = cache(lambda: read_page(request, lambda part: query.list_incident_rows(wanted, part), LIMIT))
    context = {
        "now": read_clock(),
        "sentence": presenter.incidents_sentence(*query.open_counts()),
        "rows": lambda: [(row, presenter.incident_sentence(row)) for row in page()[0]],
        "bar": FilterBar(
            filters=(
                Filter(
                    name="state",
                    label="State",
                    value=state,
                    choices=choices([(each, each) for each in Incident.State.values], state),
                ),
                Filter(
                    name="kind",
                    label="Kind",
                    value=wanted.get("kind", ""),
                    choices=choices(
                        [(each, each.replace("_", " ")) for each in Incident.Kind.values], wanted.get("kind", "")
                    ),
                ),
                Filter(name="resource", label="Resource", value=_text(request, "resource"), hint="9"),
            ),
            clear_url=request.path,
        ),
        "pager": lambda: pager(
            shown=len(page()[0]),
            what="incident" if len(page()[0]) == 1 else "incidents",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=page()[1],
        ),
    }
    return answer(request, "dashboard/incidents.html", PAGE, context)


@open_to(ANY_GROUP)
@require_safe
def incident(request: HttpRequest, incident: uuid.UUID) -> HttpResponse:
    """Show one incident: what it is about, whose it is, and how it is resolved."""
    reader_of(request)
    return _answer(request, incident)


@open_to(Group.REVIEWER, Group.ONCALL)
@require_POST
def take_incident(request: HttpRequest, incident: uuid.UUID) -> HttpResponse:
    """Make oneself its owner."""
    return _done(request, incident, service.take_incident(str(incident), _caller(request)), "It is yours now.")


@open_to(Group.REVIEWER, Group.ONCALL)
@require_POST
def note_incident(request: HttpRequest, incident: uuid.UUID) -> HttpResponse:
    """Write its note anew."""
    form = NoteForm(request.POST)
    if not form.is_valid():
        return _answer(request, incident, note=form, status=422)
    note = form.cleaned_data["note"]
    result = service.note_incident(str(incident), note, _caller(request))
    return _done(request, incident, result, "The note is kept.", typed=note)


@open_to(Group.REVIEWER)
@require_POST
def resolve_incident(request: HttpRequest, incident: uuid.UUID) -> HttpResponse:
    """Close it, with a reason."""
    form = ResolveForm(request.POST)
    if not form.is_valid():
        return _answer(request, incident, resolve=form, status=422)
    reason = form.cleaned_data["reason"]
    result = service.resolve_incident(str(incident), ResolveIncident(reason=reason), caller_of(request, Role.REVIEWER))
    return _done(request, incident, result, "Resolved, for the reason that you gave.", typed=reason)


@open_to(ANY_GROUP)
@require_safe
def resource(request: HttpRequest) -> HttpResponse:
    """Show everything about one resource, who authorised it first."""
    reader_of(request)
    name = _text(request, "q")[:MAX_NAME]
    found = resources.read_resource(name) if name else None
    context = {
        "now": read_clock(),
        "name": name,
        "found": found,
        "sentence": None if found is None else presenter.resource_sentence(found),
        "ledger": [] if found is None else [(row, presenter.MATCHES[row.match]) for row in found.ledger],
        "incidents": [] if found is None else [(row, presenter.incident_sentence(row)) for row in found.incidents],
        "looked_at": resources.LOOKED_AT,
    }
    return answer(request, "dashboard/resource.html", RESOURCE, context)


def _caller(request: HttpRequest) -> Caller:
    """A reviewer acts as one, else on-call does."""
    return caller_of(request, Role.ONCALL if why_not(request.user, Role.REVIEWER) else Role.REVIEWER)


def _done(request: HttpRequest, incident: uuid.UUID, result: Result, told: str, *, typed: str = "") -> HttpResponse:
    if not isinstance(result, Refusal):
        messages.success(request, told)
        return redirect(f"{_url('incident', incident)}#main")
    if result.code is Code.NOT_FOUND:
        raise Http404(result.detail)
    row = _row(incident)
    seen = facts_seen(request)
    if seen:
        page, url = Page(title="Incident", place="incidents"), _url("incident", incident)
        changes = changes_between(seen, _facts(row))
        return conflict_page(request, page, told=result.detail, changes=changes, url=url, typed=typed)
    messages.error(request, f"Nothing was done. {result.detail}")
    return _answer(request, incident, status=status_of(result))


def _answer(
    request: HttpRequest,
    incident: uuid.UUID,
    *,
    note: NoteForm | None = None,
    resolve: ResolveForm | None = None,
    status: int = 200,
) -> HttpResponse:
    row = _row(incident)
    action: Any = None if row.effect is None else effects.action_of(row.effect)
    if action is not None:
        definition = registry_at(current_registry()).get(action["tool"])
        action = action if definition is None else mask(action, definition.sensitive)
    context = {
        "now": read_clock(),
        "row": row,
        "says": presenter.incident_sentence(row),
        "hue": "danger" if row.kind in query.DANGEROUS and row.state == "open" else "waiting",
        "action": action,
        "compensations": Compensation.objects.filter(incident=row).order_by("-proposed_at"),
        "acts": _acts(request, row, note, resolve) if row.state == Incident.State.OPEN else (),
    }
    return answer(request, "dashboard/incident.html", Page(title="Incident", place="incidents"), context, status=status)


def _acts(request: HttpRequest, row: Incident, note: NoteForm | None, resolve: ResolveForm | None) -> tuple[Act, ...]:
    shut = why_not(request.user, Role.REVIEWER)
    others = shut and why_not(request.user, Role.ONCALL)
    facts = _facts(row)
    return (
        Act(
            id="take",
            opens="Take it…",
            says="Make me its owner",
            url=_url("take_incident", row.pk),
            facts=facts,
            explains="Everybody sees that you look after it.",
            why_not=others or ("It is yours already." if row.owner_id == request.user.pk else ""),
        ),
        Act(
            id="note",
            opens="Write a note…",
            says="Keep this note",
            url=_url("note_incident", row.pk),
            facts=facts,
            form=note or NoteForm(initial={"note": row.note}),
            why_not=others,
        ),
        Act(
            id="resolve",
            opens="Resolve…",
            says="Resolve the incident: nobody is paged for it any more",
            url=_url("resolve_incident", row.pk),
            facts=facts,
            form=resolve or ResolveForm(),
            explains="What it is about stays as it is; only the incident is over.",
            why_not=shut,
        ),
    )


def _facts(row: Incident) -> dict[str, str]:
    facts = {"the incident": row.state, "owner": row.owner.get_username() if row.owner else "nobody", "note": row.note}
    if row.state == Incident.State.RESOLVED:
        by = row.resolved_by.get_username() if row.resolved_by else "somebody"
        facts |= {"resolved by": by, "their reason": row.resolution or ""}
    return facts


def _row(incident: uuid.UUID) -> Incident:
    found = query.read_incident_row(incident)
    if found is None:
        raise Http404("There is no such incident.")
    return found


def _url(view: str, incident: uuid.UUID) -> str:
    return reverse(f"dashboard:{view}", args=[incident])


def _text(request: HttpRequest, name: str) -> str:
    # PostgreSQL text holds no U+0000, and nothing that is stored has one.
    return request.GET.get(name, "").strip().replace("\x00", "")
