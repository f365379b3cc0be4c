"""Health: queues, workers, tickers and sweeps, targets, sealing, database and Valkey, each with what is wrong."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.access import ANY_GROUP, open_to, reader_of
from dashboard.pages import Page, answer
from dashboard.presenters import health as presenter
from dashboard.presenters import notices
from fencing.api.dependencies import check_database, check_redis, queue_depths, redis_facts, workers_seen
from fencing.queries.health import database_state
from fencing.queries.notices import all_places, waiting_tellings
from fencing.queries.noticing import unreachable
from fencing.queries.sealing import sealing_state
from fencing.services.beats import read_beats

PAGE: Final = Page(title="Health", place="health", parts={"parts": "dashboard/health/parts.html"})


@open_to(ANY_GROUP)
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Show how each part is."""
    reader_of(request)
    return answer(request, "dashboard/health.html", PAGE, _context())


def _context() -> dict[str, Any]:
    now = timezone.now()
    workers = cache(workers_seen)
    places = cache(all_places)

    @cache
    def groups() -> list[tuple[str, list[presenter.Part]]]:
        served = {queue for worker in workers() or [] for queue in worker.queues}
        return [
            ("Database", _database()),
            ("Valkey", presenter.valkey(str(check_redis().get("why", "")), redis_facts())),
            ("Queues", presenter.queues(queue_depths(), served)),
            ("Tickers and sweeps", presenter.beats(read_beats(), now)),
            ("Audit", presenter.sealing(sealing_state())),
            ("Notices", presenter.notifying(waiting_tellings(), unreachable())),
        ]

    return {
        "now": now,
        "groups": groups,
        "workers": lambda: workers() or [],
        "places": places,
        "places_sentence": lambda: notices.places_sentence(places(), now),
        "sentence": cache(lambda: presenter.sentence_of([each for _, parts in groups() for each in parts])),
    }


def _database() -> list[presenter.Part]:
    why = str(check_database().get("why", ""))
    try:
        return presenter.database(database_state(), why)
    except Error:
        return presenter.database(None, why or "The database does not answer.")
