"""A ledger of a million rows (`--long`), or of three thousand: what matching it costs does not grow with it."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from pytest_django import Settings

from fencing.gateway.ledger_intake import keep, upload
from fencing.gateway.ledger_reading import BATCH, match_some
from fencing.models import Ledger
from fencing.protocol.answers import Answer
from fencing.protocol.callers import Caller, Role
from tests.factories import fresh
from tests.length import long_or

ROWS: Final = long_or(3_000, long=1_000_000)
# What matching may hold at once beyond the first batch, however many there are.
MEMORY: Final = 24_000_000
# So many statements a batch takes at most, whatever its rows are.
STATEMENTS: Final = 30
KEYS: Final = """
SELECT i.tool, array_agg(DISTINCT d.idempotency_key ORDER BY d.idempotency_key)
FROM fencing_intent i JOIN fencing_delivery d ON d.intent_id = i.id
WHERE i.state = 'succeeded' GROUP BY 1 ORDER BY count(*) DESC LIMIT 1
"""


@pytest.fixture
def reviewer(db: None, settings: Settings, tmp_path: Path) -> Iterator[Caller]:
    """Somebody, beside the history that the folder was filled with; nothing of the test stays."""
    settings.FENCE_DATA = tmp_path
    with transaction.atomic():
        person = User.objects.create_user(fresh("person"))
        yield Caller(credential_id=None, name="browser", role=Role.REVIEWER, person_id=person.pk, person="x")
        transaction.set_rollback(True)


def table(keys: list[str]) -> Iterator[bytes]:
    """Rows of a tool's ledger, piece by piece: each effect, and all of them again and again."""
    yield b"external_id,idempotency_key\n"
    for number, key in zip(range(ROWS), itertools.cycle(keys), strict=False):
        yield f"re-{number % len(keys)},{key}\n".encode()


def test_many_rows_take_the_memory_of_a_batch_and_the_statements_of_a_row(reviewer: Caller) -> None:
    with connection.cursor() as cursor:
        cursor.execute(KEYS)
        ((tool, keys),) = cursor.fetchall()
    asked = 0

    def count(execute: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return execute(*arguments)

    result = upload(tool, "ledger.csv", keep(table(keys)), None, reviewer)
    assert isinstance(result, Answer)
    assert match_some(0.0)  # the first batch loads what every further one uses
    tracemalloc.start()
    with connection.execute_wrapper(count):
        while match_some():
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    found = Ledger.objects.get(id=str(result.body["id"]))
    assert (found.state, found.rows, found.matched, found.known) == ("done", ROWS, len(keys), ROWS - len(keys))
    assert peak < MEMORY
    assert asked / (ROWS / BATCH) < STATEMENTS
