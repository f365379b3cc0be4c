"""What a pull gateway may deliver now: approved undoings, and ready intents whose commit stands."""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, Subquery

from fencing.models import Claim, Commit, Compensation, CompensationRelease, Freeze, ObservedEffect, ToolVersion
from fencing.models.facts import read_clock
from fencing.models.registry import current_registry
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.tools import Mode
from fencing.queries.pages import ALL_AT_ONCE, Cursor, Page

Items = list[dict[str, Any]]


def wanted(tool: str | None, caller: Caller, page: Page = ALL_AT_ONCE, *, wait: bool = False) -> Result:
    """Approved undoings and then ready intents of the pull tools of this key, each with its action and token.

    The oldest come first. A cursor of an undoing has its moment; that of an intent has none.
    It is an offer, not a permission: admission decides (L3). What is frozen is not offered (L10): whoever follows this
    list must not be counted as one who tries. Nor is what happened without authority already, and waits for a person
    (L8).
    """
    moment = "released_at" if page.cursor is not None and page.cursor.at is not None else None
    if (refusal := page.fits(at=moment)) is not None:
        return refusal
    tools = _tools(tool, caller)
    now = read_clock()
    items, following = _undoings(tool, caller, now, page)
    if len(items) < page.limit:
        rest = Page(limit=page.limit - len(items), cursor=_of_intents(page.cursor))
        more, following = _effects(tools, now, rest)
        items = [*items, *more]
    pending = tuple(f"gateway:{name}" for name in tools) if wait and not items else ()
    return Answer(status=OK, body={"items": items, "next": following}, pending=pending)


def _of_intents(cursor: Cursor | None) -> Cursor | None:
    return cursor if cursor is not None and cursor.at is None else None


def _effects(tools: list[str], now: datetime, page: Page) -> tuple[Items, str | None]:
    """Ready intents, each with the token of its first commit that stands.

    Whose call it is says the tool's version under which it was opened: those of a push tool are this system's own.
    """
    versions = ToolVersion.objects.filter(tool=OuterRef("intent__tool"), id__lte=OuterRef("intent__registry"))
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
    after = Q() if page.cursor is None else Q(intent_id__gt=page.cursor.id)
    commits = (
        Commit.objects.annotate(mode=Subquery(versions.order_by("-id").values("mode")[:1]))
        .filter(ready, bound, after, Exists(claimed), ~Exists(frozen), ~Exists(escaped))
        .filter(closed_at__isnull=True, intent__tool__in=tools, mode=Mode.PULL.value)
        .select_related("payload")
        .order_by("intent_id", "committed_at")
        .distinct("intent_id")[: page.limit + 1]
    )
    kept = list(commits)
    last = Cursor(at=None, id=kept[page.limit - 1].intent_id) if len(kept) > page.limit else None
    items = [
        {"intent": str(commit.intent_id), "action": json.loads(bytes(commit.payload.canonical)), "token": commit.token}
        for commit in kept[: page.limit]
    ]
    return items, None if last is None else last.encode()


def _undoings(tool: str | None, caller: Caller, now: datetime, page: Page) -> tuple[Items, str | None]:
    """Approved compensations with their tokens; of one run the last effect first, and only that one (P7).

    Whose call it is says the tool's version under which it was proposed: those of a push tool are this system's own.
    A full page has a cursor, even where no undoing follows: effects may.
    """
    last = page.cursor
    if last is not None and last.at is None:
        return [], None
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
            Q() if last is None else Q(released_at__gt=last.at) | Q(released_at=last.at, pk__gt=last.id),
            ~Exists(frozen),
            ~Exists(later),
            compensation__state="approved",
            compensation__round=F("round"),
            mode=Mode.PULL.value,
        )
        .select_related("payload")
        .order_by("released_at", "id")[: page.limit]
    )
    found = list(releases)
    full = Cursor(at=found[-1].released_at, id=found[-1].pk).encode() if len(found) == page.limit else None
    items = [
        {
            "compensation": str(release.compensation_id),
            "action": json.loads(bytes(release.payload.canonical)),
            "token": release.token,
        }
        for release in found
    ]
    return items, full


def _tools(tool: str | None, caller: Caller) -> list[str]:
    """The tools of this key that gateways pull, or pulled: what was wanted then stays with them (T1)."""
    mine = (name for name in _ever_pulled(current_registry()) if tool in (None, name))
    return sorted(name for name in mine if caller.tools is None or name in caller.tools)


@lru_cache(maxsize=4)
def _ever_pulled(version: int) -> frozenset[str]:
    return frozenset(ToolVersion.objects.filter(mode=Mode.PULL.value, id__lte=version).values_list("tool", flat=True))
