"""The notify job: finds what people have to be told of, asks the groups in turn, sends what is due.

It has a queue and a worker of its own: whatever a target does, nothing else waits for it.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from django.db import connection, transaction

from fencing.jobs.seal import once
from fencing.queries.noticing import Reason, divergences, standing
from fencing.services.notices import Matter, has_due, keep_only, raise_all, spread_due
from fencing.services.telling import AT_ONCE, tell_due
from fencing.services.wakeups import wake

# How often the facts are looked through, by one worker at a time.
LOOK_S = 2.0
RUN_S = 25.0
_looked: list[float] = [-LOOK_S]


def work() -> int:
    """Look, ask and send until nothing is due; give how many tries were made."""
    looked = -LOOK_S

    def meanwhile() -> None:
        nonlocal looked
        if time.monotonic() - looked >= LOOK_S:
            looked = time.monotonic()
            look()
        spread_due()

    with once("notify"):
        return tell_due(_pool(), meanwhile=meanwhile, until=time.monotonic() + RUN_S)


def look() -> None:
    """Raise a notice of what stands and has none, and close those of what is over."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext('fence notices'))")
        ((is_mine,),) = cursor.fetchall()
        if not is_mine:
            return
        raise_all(map(_matter, divergences()))
        found, whole = standing()
        raise_all(map(_matter, found), is_watched=True)
        keep_only({kind: {each.subject for each in found if each.kind is kind} for kind in whole})


def sweep() -> None:
    """Wake the job where something is due, and every few seconds to look through the facts."""
    is_time = time.monotonic() - _looked[0] >= LOOK_S
    if is_time or has_due():
        _looked[0] = time.monotonic()
        wake("notify")


def _matter(reason: Reason) -> Matter:
    return Matter(
        kind=reason.kind, subject=reason.subject, page=reason.page, facts=reason.facts, asked_by=reason.asked_by
    )


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=2 * AT_ONCE, thread_name_prefix="tell")
