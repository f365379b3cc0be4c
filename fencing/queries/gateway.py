"""What a pull gateway may deliver now: ready intents whose commit stands."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, Subquery

from fencing.models import Claim, Commit, Compensation, CompensationRelease, Freeze, ObservedEffect, ToolVersion
from fencing.models.facts import read_clock
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.tools import Mode


def wanted(tool: str | None, caller: Caller, *, limit: int = 100, wait: bool = False) -> Result:
    """Ready intents of the pull tools of this key, with the action and the token to ask with; the oldest first.

    It is an offer, not a permission: admission decides (L3). What is frozen is not offered (L10): whoever follows this
    list must not be counted as one who tries. Nor is what happened without authority already, and waits for a person
    (L8).
    """
    tools = _tools(tool, caller)
    now = read_clock()
    ready = Q(intent__state="ready") & (Q(intent__not_before__isnull=True) | Q(intent__not_before__lte=now))
    bound = Q(intent__payload__isnull=True) | Q(intent__payload=F("payload"))
    frozen = Freeze.objects.filter(
        Q(tool__isnull=True) | Q(tool=OuterRef("tool")),
        Q(run__isnull=True) | Q(run=OuterRef("run_id")),
        lifted_at__isnull=True,
    )
    escaped = ObservedEffect.objects.filter(digest=OuterRef("payload_id"), match="escape", is_open=True)
    # What a lost branch committed stands on once the effect may be out (B4), and lets nothing through.
    claimed = Claim.objects.filter(step=OuterRef("step"), intent=OuterRef("intent")).exclude(state="lost")
    commits = (
        Commit.objects.filter(ready, bound, Exists(claimed), ~Exists(frozen), ~Exists(escaped))
        .filter(closed_at__isnull=True, intent__tool__in=tools)
        .select_related("payload")
        .order_by("intent_id", "committed_at")
        .distinct("intent_id")[:limit]
    )
    items = [
        {"intent": str(commit.intent_id), "action": json.loads(bytes(commit.payload.canonical)), "token": commit.token}
        for commit in commits
    ]
    items = [*_undoings(tool, caller, now, limit), *items][:limit]
    pending = tuple(f"gateway:{name}" for name in tools) if wait and not items else ()
    return Answer(status=OK, body={"items": items, "next": None}, pending=pending)


def _undoings(tool: str | None, caller: Caller, now: datetime, limit: int) -> list[dict[str, Any]]:
    """Approved compensations with their tokens; of one run the last effect first, and only that one (P7).

    Whose call it is says the tool's version under which it was proposed: those of a push tool are this system's own.
    """
    mine = Q() if caller.tools is None else Q(payload__tool__in=caller.tools)
    asked = Q() if tool is None else Q(payload__tool=tool)
    versions = ToolVersion.objects.filter(tool=OuterRef("payload__tool"), id__lte=OuterRef("compensation__registry"))
    frozen = Freeze.objects.filter(
        Q(tool__isnull=True) | Q(tool=OuterRef("payload__tool")),
        Q(run__isnull=True) | Q(run=OuterRef("compensation__run_id")),
        lifted_at__isnull=True,
    )
    later = Compensation.objects.filter(
        run_id=OuterRef("compensation__run_id"),
        effect_at__gt=OuterRef("compensation__effect_at"),
        state__in=("approved", "in_flight", "in_doubt"),
    )
    releases = (
        CompensationRelease.objects.annotate(mode=Subquery(versions.order_by("-id").values("mode")[:1]))
        .filter(
            mine,
            asked,
            Q(compensation__not_before__isnull=True) | Q(compensation__not_before__lte=now),
            ~Exists(frozen),
            ~Exists(later),
            compensation__state="approved",
            compensation__round=F("round"),
            mode=Mode.PULL.value,
        )
        .select_related("payload")
        .order_by("released_at", "id")[:limit]
    )
    return [
        {
            "compensation": str(release.compensation_id),
            "action": json.loads(bytes(release.payload.canonical)),
            "token": release.token,
        }
        for release in releases
    ]


def _tools(tool: str | None, caller: Caller) -> list[str]:
    registry = registry_at(current_registry())
    mine = (name for name, definition in registry.items() if definition.mode is Mode.PULL and tool in (None, name))
    return sorted(name for name in mine if caller.tools is None or name in caller.tools)
