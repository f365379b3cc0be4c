"""Intents, as the API and the pages show them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.db.models import Exists, OuterRef, QuerySet

from fencing.models import Claim, Intent
from fencing.models.bodies import intent_bodies
from fencing.models.facts import Facts
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import Object
from fencing.queries.pages import Filters, Page, keep
from fencing.queries.sensitive import masked_for

COLUMNS = {"key": "key", "state": "state", "run": "run__name", "tool": "tool"}
OF_STEPS = {"step": "step__name", "epoch": "step__epoch"}


def list_intents(filters: Filters, page: Page, caller: Caller) -> tuple[list[Object], str | None] | Refusal:
    """One page of intents, newest first."""
    if (refusal := page.fits(at="opened_at")) is not None:
        return refusal
    wanted = Intent.objects.filter(**keep(filters, COLUMNS), **_own(caller))
    if of_steps := keep(filters, OF_STEPS):
        # A join with several claims would show an intent twice.
        wanted = wanted.filter(Exists(Claim.objects.filter(intent=OuterRef("pk"), **of_steps)))
    # Out of the index alone: rows are read for the page, not for what was passed over on the way to it.
    chosen, following = page.of(wanted.only("id", "opened_at"))
    whole = _whole().in_bulk([intent.pk for intent in chosen])
    return _bodies([whole[intent.pk] for intent in chosen], caller), following


def get_intent(intent_id: str, caller: Caller) -> Result:
    """One intent, with its claims, deliveries and outcome."""
    try:
        intent = _whole().filter(pk=uuid.UUID(intent_id), **_own(caller)).first()
    except ValueError:
        intent = None
    if intent is None:
        return Refusal(code=Code.NOT_FOUND, detail=f"There is no intent {intent_id}.")
    return Answer(status=OK, body=_bodies([intent], caller)[0])


def _own(caller: Caller) -> dict[str, str]:
    """A planner sees the intents of its group's runs (H1)."""
    return {"run__owner_group": caller.group} if caller.role is Role.PLANNER else {}


def _whole() -> QuerySet[Intent]:
    return Intent.objects.select_related("run", "payload").prefetch_related("commits__payload")


def _bodies(found: Sequence[Intent], caller: Caller) -> list[Object]:
    bodies = intent_bodies(found, Facts.of_intents([str(intent.id) for intent in found]))
    return masked_for(caller, bodies)
