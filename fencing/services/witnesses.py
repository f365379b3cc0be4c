"""Telling witnesses: the heads of seals go over HTTP to whom the operator names, who keeps them out of our reach (U2).

A witness that is away delays nothing: it gets what it missed when it answers again, in order.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import httpx
import structlog
from django.conf import settings
from django.db.models import Q

from fencing.models import Seal, Witness
from fencing.models.facts import read_clock

log = structlog.get_logger(__name__)

TIMEOUT_S: Final = 3.0
# Heads of one call.
MOST: Final = 500
LONGEST_PAUSE_S: Final = 300
OK: Final = range(200, 300)


def are_behind() -> bool:
    """Tell whether a witness that may be asked now does not have the newest head."""
    urls = settings.FENCE_WITNESSES
    newest = Seal.objects.order_by("-number").values_list("number", flat=True).first() if urls else None
    if newest is None:
        return False
    known = {row.url: row for row in Witness.objects.filter(url__in=urls)}
    return any(url not in known or _is_due(known[url], newest) for url in urls)


def _is_due(row: Witness, newest: int) -> bool:
    return row.number < newest and (row.next_at is None or row.next_at <= read_clock())


def tell_witnesses() -> int:
    """Send each witness the heads that it does not have, some of them at a time; give how many heads were taken."""
    return sum(_tell(url) for url in settings.FENCE_WITNESSES)


def _tell(url: str) -> int:
    Witness.objects.bulk_create([Witness(url=url)], ignore_conflicts=True)
    now = read_clock()
    due = Q(next_at__isnull=True) | Q(next_at__lte=now)
    row = Witness.objects.filter(due, url=url).first()
    if row is None:
        return 0
    seals = Seal.objects.filter(number__gt=row.number).order_by("number").defer("entries", "facets", "moments")[:MOST]
    heads = [seal.pure for seal in seals]
    if not heads:
        return 0
    failure = _send(url, {"heads": [head.as_json() for head in heads]})
    if failure:
        failures = row.failures + 1
        pause = timedelta(seconds=min(2 ** min(failures, 10), LONGEST_PAUSE_S))
        Witness.objects.filter(url=url).update(failure=failure[:200], failures=failures, next_at=now + pause)
        log.warning("witness_failed", url=url, failure=failure, failures=failures)
        return 0
    # Another worker may have told it more meanwhile: never back.
    Witness.objects.filter(url=url, number__lt=heads[-1].number).update(
        number=heads[-1].number, told_at=read_clock(), failure="", failures=0, next_at=None
    )
    return len(heads)


def _send(url: str, body: dict[str, object]) -> str:
    """Send, and give what went wrong; empty where it was taken. No redirect is followed."""
    try:
        answer = httpx.post(url, json=body, timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        return f"{type(fault).__name__}"
    return "" if answer.status_code in OK else f"answered {answer.status_code}"
