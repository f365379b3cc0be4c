"""SQL that ships with the models: functions that lock and read facts in one call, and those that count."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.db import connections

FOLDER = Path(__file__).parent
BEGUN = """
SELECT EXISTS (SELECT FROM fencing_total) OR EXISTS (SELECT FROM fencing_change)
    OR NOT EXISTS (SELECT FROM fencing_step) AND NOT EXISTS (SELECT FROM fencing_sidelogrow)
"""
_READING = re.compile(r"-- reading begins\n(.*?)-- reading ends\n", re.DOTALL)


def install_functions(*, using: str = "default", **_: Any) -> None:
    """Create or replace the functions, after each migrate: they are code, the tables are the schema."""
    facts = (FOLDER / "facts.sql").read_text(encoding="utf-8")
    with connections[using].cursor() as cursor:
        cursor.execute(facts)
        cursor.execute(for_readers(facts))
        for name in ("straight.sql", "pushes.sql", "counts.sql"):
            cursor.execute((FOLDER / name).read_text(encoding="utf-8"))


def begin_counts(*, using: str = "default", **_: Any) -> None:
    """Count what was there before there were counts: after a migration of a database that is in use."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT to_regclass('fencing_total') IS NOT NULL")
        if not cursor.fetchall()[0][0]:
            return
        cursor.execute(BEGUN)
        if not cursor.fetchall()[0][0]:
            cursor.execute("SELECT fence_count_anew()")


def for_readers(text: str) -> str:
    """Give the reading functions once more for answers, under names of their own (`fence_read_…`).

    A volatile function takes a snapshot for each statement, which is what reading after locks needs. Without locks that
    would mix moments; a stable one sees everything as of the statement that called it.
    """
    found = _READING.search(text)
    if found is None:
        raise ValueError("facts.sql marks no part for reading")
    renamed = re.sub(r"\bfence_(facts|intents)\(", r"fence_read_\1(", found[1])
    return renamed.replace("LANGUAGE plpgsql VOLATILE", "LANGUAGE plpgsql STABLE")
