"""The loading session: one transaction of the owner in which guards, references and indexes are off, and on at its end.

Schema changes of PostgreSQL are part of a transaction: nobody else ever sees a table without its guards, and a session
that dies leaves everything as it was. What would have been checked row by row is checked at once: every reference and
every unique index is made anew over all rows, or the transaction fails. What only triggers hold (I1, I2) holds because
the rows are those that the services wrote (`moulds.py`); `manage.py recompute` proves it of what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connection, transaction

from fencing.filling.moulds import Table, cast_models
from fencing.models.guards import missing_guards

MEMORY: Final = "512MB"
Tell = Callable[[str], None]

INDEXES: Final = """
SELECT format('%%I.%%I', n.nspname, c.relname), pg_get_indexdef(i.indexrelid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE i.indrelid = ANY (%s::regclass[])
  AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
ORDER BY 1
"""
# First what refers, then what is referred to: a primary key goes last, and comes back first.
CONSTRAINTS: Final = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE (conrelid = ANY (%s::regclass[]) OR contype = 'f' AND confrelid = ANY (%s::regclass[]))
  AND contype IN ('f', 'u', 'p') ORDER BY array_position(ARRAY['f', 'u', 'p'], contype::text), 1, 2
"""


class GuardsMissing(Exception):
    """Something that holds an invariant did not come back. Nothing was loaded."""


@dataclass(slots=True, kw_only=True)
class Session:
    """Takes lines by table, and copies them in bulks."""

    fresh: frozenset[str]
    _waiting: dict[str, list[str]] = field(default_factory=dict)
    _columns: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def expect(self, tables: Mapping[str, Table]) -> None:
        """Learn the columns of the lines to come."""
        for name, table in tables.items():
            if self._columns.setdefault(name, table.columns) != table.columns:
                raise ValueError(f"two shapes of {name}")

    def add(self, lines: Mapping[str, str]) -> None:
        """Take the lines of a run."""
        for name, text in lines.items():
            self._waiting.setdefault(name, []).append(text)

    def take(self) -> dict[str, bytes]:
        """Hand over what waits, for `copy`."""
        waiting, self._waiting = self._waiting, {}
        return {name: "".join(texts).encode() for name, texts in waiting.items()}

    def copy(self, bulk: Mapping[str, bytes]) -> None:
        """Copy a bulk into the tables."""
        for name, data in bulk.items():
            columns = ", ".join(f'"{column}"' for column in self._columns[name])
            # In a table that was empty: as if it had been vacuumed, so that nobody pays for that later.
            options = "FREEZE" if name in self.fresh else "FREEZE false"
            statement = f"COPY {name} ({columns}) FROM STDIN WITH ({options})"
            with connection.cursor() as cursor, cursor.cursor.copy(statement) as copy:
                copy.write(data)


@contextmanager
def loading(tell: Tell) -> Iterator[Session]:
    """Open the session, and at its end put everything back and check that it is there.

    Raises:
        GuardsMissing: a trigger, constraint or index is not what the models declare.
    """
    tables = loaded_tables()
    with transaction.atomic():
        _execute(f"SET LOCAL maintenance_work_mem = '{MEMORY}'")
        _execute("SET LOCAL lock_timeout = '10s'")
        fresh = _empty_tables(tables)
        for table in tables:
            _execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        indexes, constraints = _rows(INDEXES, [tables]), _rows(CONSTRAINTS, [tables, tables])
        for table, name, _ in constraints:
            _execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        for name, _ in indexes:
            _execute(f"DROP INDEX {name}")
        for table in fresh:
            _execute(f"TRUNCATE {table}")
        yield Session(fresh=fresh)
        _put_back(tables, indexes, constraints, tell)
        tell("counting …")
        _execute("SELECT fence_count_anew()")
        missing = missing_guards(connection)
        if missing:
            raise GuardsMissing(f"nothing was loaded: {'; '.join(missing)}")


def loaded_tables() -> list[str]:
    """The tables that casts fill."""
    return sorted(model._meta.db_table for model in cast_models())


def settle(tell: Tell) -> None:
    """Give the planner its figures, and what was not loaded frozen its vacuum."""
    tell("vacuuming and analysing …")
    for table in loaded_tables():
        _execute(f"VACUUM (FREEZE, ANALYZE) {table}")


def _empty_tables(tables: Sequence[str]) -> frozenset[str]:
    return frozenset(table for table in tables if not _rows(f"SELECT 1 FROM {table} LIMIT 1", []))  # noqa: S608


def _put_back(tables: Sequence[str], indexes: list[Any], constraints: list[Any], tell: Tell) -> None:
    tell(f"building {len(indexes)} indexes, checking {len(constraints)} keys and references …")
    for table, name, definition in reversed(constraints):
        if not definition.startswith("FOREIGN"):
            _execute(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}')
    for _, definition in indexes:
        _execute(definition)
    for table, name, definition in reversed(constraints):
        if definition.startswith("FOREIGN"):
            _execute(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}')
    for table in tables:
        _execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def _rows(statement: str, values: Sequence[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
