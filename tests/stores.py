"""How a factory's row gets into the database: by the ORM, or by SQL on a connection of some role."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg
from django.db import connection as django_connection
from django.db import models
from django.db.models.expressions import DatabaseDefault
from psycopg import sql
from psycopg.rows import dict_row


class Store(Protocol):
    """Puts rows where a test wants them."""

    def insert(self, row: models.Model, *, once: bool = False) -> None:
        """Add a row; `once` leaves a row of the same identity as it is."""

    def update(self, row: models.Model, **values: object) -> None:
        """Change columns of a row, in the database and in the instance."""


class OrmStore:
    """The default: Django's own connection, inside the test's transaction."""

    def insert(self, row: models.Model, *, once: bool = False) -> None:
        type(row)._default_manager.bulk_create([row], ignore_conflicts=once)

    def update(self, row: models.Model, **values: object) -> None:
        type(row)._default_manager.filter(pk=row.pk).update(**values)
        _remember(row, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStore:
    """Plain statements on a connection of another role. Who commits is the test."""

    connection: psycopg.Connection[Any]

    def insert(self, row: models.Model, *, once: bool = False) -> None:
        values = {
            str(field.column): _adapted(field, getattr(row, field.attname))
            for field in row._meta.concrete_fields
            if not isinstance(getattr(row, field.attname), DatabaseDefault)
            and not (isinstance(field, models.AutoField) and row.pk is None)
        }
        statement = sql.SQL("INSERT INTO {} ({}) VALUES ({}) {} RETURNING *").format(
            sql.Identifier(row._meta.db_table),
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(sql.Placeholder() * len(values)),
            sql.SQL("ON CONFLICT DO NOTHING" if once else ""),
        )
        with self.connection.cursor(row_factory=dict_row) as cursor:
            stored = cursor.execute(statement, list(values.values())).fetchone()
        for field in row._meta.concrete_fields if stored else ():
            if isinstance(getattr(row, field.attname), DatabaseDefault) or field.primary_key:
                setattr(row, field.attname, (stored or {})[str(field.column)])

    def update(self, row: models.Model, **values: object) -> None:
        columns = {row._meta.get_field(name).column: value for name, value in values.items()}  # type: ignore[union-attr]
        statement = sql.SQL("UPDATE {} SET {} WHERE {} = %s").format(
            sql.Identifier(row._meta.db_table),
            sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(str(column))) for column in columns),
            sql.Identifier(str(row._meta.pk.column)),
        )
        plain = [value.pk if isinstance(value, models.Model) else value for value in columns.values()]
        self.connection.execute(statement, [*plain, row.pk])
        _remember(row, values)


ORM = OrmStore()


def _remember(row: models.Model, values: dict[str, object]) -> None:
    for name, value in values.items():
        setattr(row, name, value)


def _adapted(field: models.Field[Any, Any], value: object) -> object:
    if isinstance(field, models.JSONField):
        return None if value is None else json.dumps(value)
    return field.get_db_prep_save(value, connection=django_connection)
