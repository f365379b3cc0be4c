"""Read-back: asking a push tool what became of one key (L6, P5). What it says is evidence; a person decides."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from django.conf import settings

from fencing.gateway.acts import Act
from fencing.gateway.calling import Caller as Courier
from fencing.gateway.calling import Request
from fencing.gateway.effects import lock_effects
from fencing.models import Compensation, CompensationDelivery, Delivery, Intent
from fencing.models.registry import registry_at
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.pushing import End, Ended
from fencing.protocol.tools import ToolDefinition
from fencing.services.writes import Writes, in_transaction

LONGEST_S: Final = 10.0
OK: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """What a tool says of one key: that it happened, that it did not, or nothing that can be read (None)."""

    happened: bool | None
    says: str


def read_back(intent_id: str, caller: Caller) -> ReadBack | Refusal:
    """Ask the tool of an intent what became of it, and note in the audit who asked and what was said.

    The call is made outside any transaction. Refuses with `not_found`, and with `not_ready` where nothing was tried or
    the tool offers no read-back.
    """
    found = Intent.objects.filter(id=intent_id).first()
    if found is None:
        return Refusal(code=Code.NOT_FOUND, detail="There is no such intent.")
    definition = None if found.tool is None else registry_at(found.registry).get(found.tool)
    told = _told(definition, Delivery.objects.filter(intent=found).order_by("-number").first())
    if isinstance(told, ReadBack):
        in_transaction(lambda: _noted(str(found.id), told, caller))
    return told


def read_back_undoing(compensation_id: str, caller: Caller) -> ReadBack | Refusal:
    """Ask the tool that a compensation calls what became of its last call, as `read_back` does for an intent."""
    found = Compensation.objects.select_related("payload").filter(id=compensation_id).first()
    if found is None:
        return Refusal(code=Code.NOT_FOUND, detail="There is no such compensation.")
    definition = None if found.payload is None else registry_at(found.registry).get(found.payload.tool)
    # Each approval counts its calls anew; ids grow with time.
    told = _told(definition, CompensationDelivery.objects.filter(compensation=found).order_by("-id").first())
    if isinstance(told, ReadBack):
        in_transaction(lambda: _noted_undoing(compensation_id, told, caller))
    return told


def _told(definition: ToolDefinition | None, last: Delivery | CompensationDelivery | None) -> ReadBack | Refusal:
    if definition is None or definition.read_back is None or last is None:
        return Refusal(code=Code.NOT_READY, detail="This tool tells nobody what became of a key: look there yourself.")
    request = Request(
        url=definition.read_back.replace("{key}", quote(last.idempotency_key, safe="")),
        body=None,
        timeout_s=min(float(definition.policy.timeout_s), LONGEST_S),
        credential=definition.credential,
    )
    return understood(asyncio.run(_asked(request, settings.FENCE_TOOL_HOSTS)))


async def _asked(request: Request, open_hosts: Collection[str]) -> Ended:
    courier = Courier(open_hosts)
    try:
        return await courier.call(request)
    finally:
        await courier.aclose()


def understood(ended: Ended) -> ReadBack:
    """Read an answer: a JSON object with `happened`, true or false, and perhaps the tool's own `external_id`.

    Anything else says nothing: a 404, above all, is also what a wrong address answers.
    """
    if ended.how is not End.ANSWERED:
        return ReadBack(happened=None, says=ended.says or "No answer came.")
    if ended.status != OK or ended.body is None:
        return ReadBack(happened=None, says=f"The answer says nothing that can be read (HTTP {ended.status}).")
    happened, external_id = ended.body.get("happened"), ended.body.get("external_id")
    if not isinstance(happened, bool):
        return ReadBack(happened=None, says="The answer has no member `happened` that is true or false.")
    named = f", as {external_id[:200]}" if isinstance(external_id, str) and external_id else ""
    return ReadBack(
        happened=happened, says=f"The tool says that it {'happened' + named if happened else 'did not happen'}."
    )


def _noted(intent_id: str, told: ReadBack, caller: Caller) -> None:
    writes = Writes(caller)
    facts = lock_effects([intent_id])
    run = next(run for run in facts.runs.values() if run.id == facts.intents[intent_id].run_id)
    writes.audit("read_back", "intent", intent_id, run=run.name, after={"happened": told.happened}, reason=told.says)
    writes.send()


def _noted_undoing(compensation_id: str, told: ReadBack, caller: Caller) -> None:
    writes = Writes(caller)
    act = Act.locked(compensation_id, writes)
    if act is None:
        raise AssertionError("what was asked about is there")
    writes.audit("read_back", "compensation", act.id, run=act.run, after={"happened": told.happened}, reason=told.says)
    writes.send()
