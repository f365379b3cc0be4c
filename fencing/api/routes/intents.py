"""Intents: the durable records that effects are wanted."""

from __future__ import annotations

from collections.abc import Sequence

from ninja import Router

from fencing.api.access import ANY_BUT_PATH
from fencing.api.calls import Names, Read, Write
from fencing.api.document import list_of, ref
from fencing.api.endpoints import read, write
from fencing.api.forms import Form
from fencing.api.params import IntentsQuery, Nothing, listed
from fencing.gateway import adopting, outcomes
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.queries import intents as intent_queries
from fencing.services.requests import AdoptEffect, ResolveIntent

router = Router(tags=["intents"])
REVIEWERS = frozenset({Role.REVIEWER})


def list_intents(asked: IntentsQuery, caller: Caller, _names: Names) -> Result:
    """List intents, newest first."""
    return listed(asked, lambda filters, page: intent_queries.list_intents(filters, page, caller))


def get_intent(_asked: Nothing, caller: Caller, names: Names) -> Result:
    """Read one intent, with its claims, deliveries and outcome."""
    return intent_queries.get_intent(names["intent"], caller)


def resolve_intent(requests: Sequence[ResolveIntent], caller: Caller, names: Names) -> Sequence[Result]:
    """Say, with evidence, whether an effect in doubt happened (L6)."""
    return [outcomes.resolve_intent(names["intent"], request, caller) for request in requests]


def adopt_effect(requests: Sequence[AdoptEffect], caller: Caller, names: Names) -> Sequence[Result]:
    """Say that a landed escape is the very effect that this intent wants: it is not sent again (L8)."""
    return [adopting.adopt_effect(names["intent"], request, caller) for request in requests]


read(
    router,
    "/intents",
    Read(roles=ANY_BUT_PATH, form=Form(IntentsQuery, is_query=True), query=list_intents),
    answer=list_of("intent"),
)
read(
    router,
    "/intents/{intent}",
    Read(roles=ANY_BUT_PATH, form=Form(Nothing, is_query=True), query=get_intent),
    answer=ref("intent"),
)
write(
    router,
    "/intents/{intent}/resolve",
    Write(roles=REVIEWERS, form=Form(ResolveIntent), service=resolve_intent),
    answer=ref("intent"),
)
write(
    router,
    "/intents/{intent}/adopt",
    Write(roles=REVIEWERS, form=Form(AdoptEffect), service=adopt_effect),
    answer=ref("intent"),
)
