"""Incidents: a person resolves one with a reason (F8, L8)."""

from __future__ import annotations

import uuid
from typing import Any

from fencing.models import Incident
from fencing.models.bodies import incident_bodies
from fencing.models.facts import read_clock
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.services.requests import ResolveIncident
from fencing.services.writes import Writes, in_transaction


def resolve_incident(incident_id: str, request: ResolveIncident, caller: Caller) -> Result:
    """Close an incident (`POST /incidents/{id}/resolve`). The same word again is a duplicate, another too late."""
    return in_transaction(lambda: _resolve(incident_id, request, caller))


def _resolve(incident_id: str, request: ResolveIncident, caller: Caller) -> Result:
    writes = Writes(caller)
    incident = _locked(incident_id)
    result: Result
    if incident is None:
        result = writes.refuse(Refusal(code=Code.NOT_FOUND, detail=f"There is no incident {incident_id}."), "incident")
    elif incident.state == Incident.State.OPEN:
        result = _resolved(incident, request, writes)
    elif incident.resolved_by_id == caller.person_id and incident.resolution == request.reason:
        writes.count("duplicates")
        result = Answer(status=OK, body={**incident_bodies([incident])[0], "duplicate": True})
    else:
        by = incident.resolved_by.get_username() if incident.resolved_by else None
        extras = {"decided_by": by, "decided_at": incident.resolved_at}
        run = incident.run.name if incident.run else None
        refusal = Refusal(code=Code.ALREADY_DECIDED, detail=f"{by} resolved it already.", extras=extras)
        result = writes.refuse(refusal, "incident", run=run)
    writes.send()
    return result


def _locked(incident_id: str) -> Incident | None:
    try:
        return (
            Incident.objects.select_for_update(of=("self",))
            .select_related("run", "step", "owner", "resolved_by")
            .filter(pk=uuid.UUID(incident_id))
            .first()
        )
    except ValueError:
        return None


def _resolved(incident: Incident, request: ResolveIncident, writes: Writes) -> Answer:
    now = read_clock()
    columns: dict[str, Any] = {
        "state": "resolved",
        "resolved_at": now,
        "resolved_by_id": writes.caller.person_id,
        "resolution": request.reason,
    }
    writes.update("incident", str(incident.pk), **columns)
    run = incident.run.name if incident.run else None
    before, after = {"state": "open"}, {"state": "resolved"}
    writes.audit(
        "resolve_incident", "incident", str(incident.pk), run=run, before=before, after=after, reason=request.reason
    )
    body = {**incident_bodies([incident])[0], "state": "resolved"}
    return Answer(status=OK, body=body)


def take_incident(incident_id: str, caller: Caller) -> Result:
    """Make the caller the owner of an open incident. Whoever takes it over from another is told in the audit."""
    return in_transaction(lambda: _change(incident_id, caller, "take_incident", {"owner_id": caller.person_id}))


def note_incident(incident_id: str, note: str, caller: Caller) -> Result:
    """Replace the note of an open incident; what stood there before stays in the audit."""
    return in_transaction(lambda: _change(incident_id, caller, "note_incident", {"note": note}))


def _change(incident_id: str, caller: Caller, verb: str, columns: dict[str, Any]) -> Result:
    writes = Writes(caller)
    incident = _locked(incident_id)
    result: Result
    if incident is None:
        result = writes.refuse(Refusal(code=Code.NOT_FOUND, detail=f"There is no incident {incident_id}."), "incident")
    elif incident.state != Incident.State.OPEN:
        by = incident.resolved_by.get_username() if incident.resolved_by else None
        extras = {"decided_by": by, "decided_at": incident.resolved_at}
        result = writes.refuse(
            Refusal(code=Code.ALREADY_DECIDED, detail=f"{by} resolved it already.", extras=extras), "incident"
        )
    else:
        before = {"owner": incident.owner.get_username() if incident.owner else None, "note": incident.note}
        writes.update("incident", str(incident.pk), **columns)
        after = {"owner": caller.person} if "owner_id" in columns else {"note": columns["note"]}
        before = {name: before[name] for name in after}
        run = incident.run.name if incident.run else None
        writes.audit(verb, "incident", str(incident.pk), run=run, before=before, after=after)
        result = Answer(status=OK, body={**incident_bodies([incident])[0], **after})
    writes.send()
    return result
