"""The net under lost signals: which of the steps that reads wait for have moved. One statement for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.db import connection

from fencing.protocol.identifiers import is_identifier

EPOCH_DIGITS: Final = 18  # what a bigint certainly holds


def moved_steps(waited: Iterable[tuple[str, str]]) -> list[str]:
    """Of pairs (topic `step:<run>/<step>/<epoch>`, phase seen), the topics whose step is in another phase now."""
    known = [(topic, *parts, seen) for topic, seen in waited if (parts := _parts(topic)) is not None]
    if not known:
        return []
    columns = [list(column) for column in zip(*known, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT w.topic FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[])"
            " AS w(topic, run, step, epoch, seen)"
            " JOIN fencing_run r ON r.name = w.run"
            " JOIN fencing_step s ON s.run_id = r.id AND s.name = w.step AND s.epoch = w.epoch"
            " WHERE s.phase <> w.seen",
            columns,
        )
        return [topic for (topic,) in cursor.fetchall()]


def _parts(topic: str) -> tuple[str, str, int] | None:
    kind, _, rest = topic.partition(":")
    run, _, rest = rest.partition("/")
    step, _, epoch = rest.partition("/")
    is_step = (
        kind == "step"
        and is_identifier(run)
        and is_identifier(step)
        and epoch.isdecimal()
        and len(epoch) <= EPOCH_DIGITS
    )
    return (run, step, int(epoch)) if is_step else None
