"""The side log with a million rows (`--long`), or ten thousand: what a page costs does not grow with them."""

from __future__ import annotations

import time
import tracemalloc
import uuid
from collections.abc import Iterator, Sequence
from typing import Final

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from fencing.api.exporting import side_log_file
from fencing.models.facts import read_clock
from fencing.queries import side_log
from fencing.queries.side_log import Row, read_part, read_rows
from tests.factories import fresh
from tests.length import is_long, long_or

ROWS: Final = long_or(10_000, long=1_000_000)
PAGE_S: Final = 1.0
MOST_QUERIES: Final = 16
SECONDS_PER_MILLION: Final = 240.0
# What a whole export may hold beyond the first megabyte, however many rows it has.
MEMORY: Final = 40_000_000
SMALL_BATCH: Final = 200
# A row as objects, as cells and as text, all at once.
BYTES_A_ROW: Final = 12_000
FILL: Final = """
INSERT INTO fencing_sidelogrow (id, kind, reason, run, step, epoch, tool, resources, detail, recorded_at)
SELECT gen_random_uuid(), (ARRAY['vote', 'step', 'admission'])[1 + n %% 3],
    (ARRAY['stale_epoch', 'late_vote', 'bad_token', 'invalid_args'])[1 + n %% 4], 'many-' || n / 1000, 's' || n %% 7,
    n %% 9, (ARRAY['refund', 'wire', 'send_mail'])[1 + n %% 3], ARRAY['inv-' || n %% 5000],
    'The epoch is closed; this is row ' || n, clock_timestamp() - n * interval '1 second'
FROM generate_series(1, %s) AS n
"""


@pytest.fixture(scope="module")
def many(filled: object, django_db_blocker: object) -> None:
    """So many rows beside what the folder was filled with; the folder's end removes them."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(FILL, [ROWS])
        cursor.execute("ANALYZE fencing_sidelogrow")


@pytest.fixture
def everybody(many: None, db: None) -> Iterator[Client]:
    with transaction.atomic():
        person = User.objects.create_user(fresh("person"))
        person.groups.set(Group.objects.all())
        client = Client()
        client.force_login(person)
        yield client
        transaction.set_rollback(True)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "state=all",
        "state=acknowledged",
        "class=attempted_escape",
        "class=refusal",
        "reason=bad_token&tool=wire",
        "tool=wire&step=s3",
        "resource=inv-77",
        "resource=none-such",
        "run=many-3&reason=late_vote",
        "by=nobody",
        "step=none-such",
        "age=1h",
    ],
)
def test_a_page_is_answered_within_a_second(
    everybody: Client, query: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    started = time.monotonic()
    with django_assert_max_num_queries(MOST_QUERIES):
        assert everybody.get(f"/side-log?{query}").status_code == 200
    assert time.monotonic() - started < PAGE_S or not is_long()


def test_a_walk_costs_as_much_at_its_end_as_at_its_start(everybody: Client) -> None:
    cursor, slowest = None, 0.0
    for _ in range(long_or(5, long=200)):
        started = time.monotonic()
        part = read_part({}, cursor, 500)
        slowest = max(slowest, time.monotonic() - started)
        cursor = part.following  # type: ignore[union-attr]
        assert cursor is not None
    assert slowest < PAGE_S or not is_long()


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_an_export_is_whole_and_takes_no_more_memory_than_a_batch(everybody: Client, form: str) -> None:
    started = time.monotonic()
    answer = side_log_file({}, form, read_clock())
    tracemalloc.start()
    lines = sum(bytes(piece).count(b"many-") for piece in answer)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines == ROWS
    assert peak < MEMORY
    # A small export, on a machine that other tests share, would measure them.
    assert time.monotonic() - started < SECONDS_PER_MILLION or not is_long()


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_an_export_reads_and_holds_a_batch_at_a_time(
    everybody: Client, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With small batches the whole would not fit into what one of them takes, in the suite's form already."""
    batches: list[int] = []

    def counted(ids: Sequence[uuid.UUID]) -> list[Row]:
        batches.append(len(ids))
        return read_rows(ids)

    monkeypatch.setattr(side_log, "read_rows", counted)
    monkeypatch.setattr(side_log, "EXPORTED", SMALL_BATCH)
    answer = side_log_file({"kind": "vote"}, form, read_clock())
    sizes, lines = [], 0
    tracemalloc.start()
    for piece in answer:
        sizes.append(len(piece))
        lines += bytes(piece).count(b"many-")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines == ROWS // 3, "every third is a vote"
    assert max(batches) == SMALL_BATCH
    assert len(batches) >= ROWS // 3 // SMALL_BATCH
    assert sum(sizes) > 10 * max(sizes), "it is sent a batch at a time, too"
    assert peak < SMALL_BATCH * BYTES_A_ROW
