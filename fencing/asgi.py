"""The web process: Django's synchronous handler inside the shell that lets reads wait."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import partial

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fencing.settings")
django.setup()

from django.conf import settings  # noqa: E402 - Django must be set up before its models are imported
from django.db import close_old_connections  # noqa: E402

from fencing.api.hub import Hub, Topic  # noqa: E402
from fencing.api.lanes import Lanes, kind_of_steps, kind_of_write  # noqa: E402
from fencing.api.road import Road  # noqa: E402
from fencing.api.routes import gateway, steps  # noqa: E402
from fencing.api.shell import Shell, threads_wanted  # noqa: E402
from fencing.api.threads import Threads  # noqa: E402
from fencing.queries.waiting import moved_steps  # noqa: E402
from fencing.services import straight  # noqa: E402
from fencing.services.tallies import PENDING  # noqa: E402

BACKLOG = 2000
STREAMS = 3
# Pages that take a file, which may be far larger than memory is for: `upload_ledger` reads it while it arrives.
UPLOADS = frozenset({"/reconciliation/upload"})

threads = Threads(count=threads_wanted(), backlog=BACKLOG, name="web")


async def net(topics: Collection[Topic]) -> Collection[str]:
    """Ask the database, in a thread of the pool, which of the steps that are waited for have moved."""
    waited = [(topic.name, topic.seen) for topic in topics if topic.seen is not None]
    return await threads.run(partial(_moved, waited))


def _moved(waited: list[tuple[str, str]]) -> list[str]:
    try:
        return moved_steps(waited)
    finally:
        close_old_connections()


lanes = Lanes(
    road=Road(),
    in_thread=threads.run,
    writes=dict(
        (
            kind_of_write("propose", "/steps", steps.PROPOSE, straight.PROPOSALS),
            kind_of_write("vote", "/votes", steps.VOTE, straight.VOTES),
            kind_of_write("admit", "/gateway/admissions", gateway.ADMIT, straight.ADMISSIONS),
            kind_of_write("report", "/gateway/outcomes", gateway.REPORT, straight.OUTCOMES),
        )
    ),
    steps=kind_of_steps(steps.READ_STEP),
)

application = Shell(
    lanes=lanes,
    hub=Hub(redis_url=settings.REDIS_URL, net=net),
    threads=threads,
    streams=Threads(count=STREAMS, backlog=BACKLOG, name="stream"),
    idle=PENDING.flush,
    uploads=UPLOADS,
)
