"""The start-up check: are the triggers, constraints and indexes that hold the invariants there and on (design 5, 10)?

A schema change that rebuilds a table can lose its triggers, a restore can leave a constraint unvalidated, and whoever
owns a table can switch its triggers off. Each answer here is a sentence for the log; none means that all is well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from fencing.environment import Mode
from fencing.models.deployment import Deployment
from fencing.models.triggers import Guard

# What fires in an ordinary session: "origin" and "always"; not "replica" and "disabled".
FIRES = ("O", "A")

TRIGGERS = """
SELECT trigger.tgname, trigger.tgenabled, function.prosrc, function.proconfig::text,
    obj_description(trigger.oid, 'pg_trigger')
FROM pg_trigger AS trigger JOIN pg_proc AS function ON function.oid = trigger.tgfoid
WHERE trigger.tgrelid = ANY (%s::regclass[]) AND NOT trigger.tgisinternal
"""
# Foreign keys are held by triggers of their own, which only a superuser can switch off.
SILENCED = """
SELECT DISTINCT constraints.conname FROM pg_trigger AS trigger
JOIN pg_constraint AS constraints ON constraints.oid = trigger.tgconstraint
WHERE trigger.tgrelid = ANY (%s::regclass[]) AND trigger.tgisinternal AND trigger.tgenabled <> ALL (%s)
"""
CONSTRAINTS = """
SELECT constraints.conname, constraints.contype, constraints.convalidated, tables.relname,
    (SELECT array_agg(attname::text) FROM pg_attribute
     WHERE attrelid = constraints.conrelid AND attnum = ANY (constraints.conkey))
FROM pg_constraint AS constraints JOIN pg_class AS tables ON tables.oid = constraints.conrelid
WHERE constraints.conrelid = ANY (%s::regclass[])
"""
INDEXES = """
SELECT indexes.relname, state.indisvalid AND state.indisready, state.indisunique, state.indpred IS NOT NULL
FROM pg_index AS state JOIN pg_class AS indexes ON indexes.oid = state.indexrelid
WHERE state.indrelid = ANY (%s::regclass[])
"""
# What one column promises by itself: not to be null, and to be unique.
COLUMNS = """
SELECT tables.relname, columns.attname, columns.attnotnull, EXISTS (
    SELECT FROM pg_index AS state WHERE state.indrelid = tables.oid AND state.indisunique AND state.indisvalid
        AND state.indpred IS NULL AND state.indnkeyatts = 1 AND state.indkey[0] = columns.attnum)
FROM pg_attribute AS columns JOIN pg_class AS tables ON tables.oid = columns.attrelid
WHERE columns.attrelid = ANY (%s::regclass[]) AND columns.attnum > 0 AND NOT columns.attisdropped
"""


def missing_guards(connection: BaseDatabaseWrapper) -> list[str]:
    """Compare the database with what the models declare, and tell what is missing, off or changed.

    Reads the catalogue alone, in a few milliseconds. Every table has to exist: before the first migrate it raises
    `ProgrammingError`.
    """
    declared = list(apps.get_app_config("fencing").get_models())
    tables = [f'"{model._meta.db_table}"' for model in declared]
    with connection.cursor() as cursor:
        cursor.execute(TRIGGERS, [tables])
        triggers = {name: state for name, *state in cursor.fetchall()}
        cursor.execute(SILENCED, [tables, list(FIRES)])
        silenced = [name for (name,) in cursor.fetchall()]
        cursor.execute(CONSTRAINTS, [tables])
        constraints = cursor.fetchall()
        cursor.execute(INDEXES, [tables])
        indexes = {name: tuple(state) for name, *state in cursor.fetchall()}
        cursor.execute(COLUMNS, [tables])
        columns = {(table, column): tuple(state) for table, column, *state in cursor.fetchall()}
        cursor.execute("SELECT current_setting('session_replication_role')")
        ((session,),) = cursor.fetchall()
    answer = [f"foreign key {name} is switched off" for name in silenced]
    if session == "replica":
        answer.append("this role's sessions fire no triggers (session_replication_role is replica)")
    for model in declared:
        answer += _triggers_missing(model, triggers)
        answer += _constraints_missing(model, constraints)
        answer += _indexes_missing(model, indexes)
        answer += _columns_missing(model, columns)
    if settings.FENCE_MODE is Mode.PRODUCTION and Deployment.objects.filter(mode=Mode.LOCAL.value).exists():
        answer.append("the database is recorded as a local one: run `manage.py prepare` with FENCE_MODE=production")
    return answer


def _triggers_missing(model: type[models.Model], found: dict[str, list[Any]]) -> Iterator[str]:
    for guard in getattr(model._meta, "triggers", []):
        compiled = guard.compile(model)
        label = f"trigger {guard.name} on {model._meta.db_table}"
        if compiled.sql.pgid not in found:
            yield f"{label} is missing"
            continue
        enabled, source, settings, comment = found[compiled.sql.pgid]
        if enabled not in FIRES:
            yield f"{label} is switched off"
        # The body is compared as a whole: a function can be replaced without touching its trigger.
        declared = compiled.install_sql.split("$$")[1]
        if (
            source != declared
            or comment != compiled.hash
            or (isinstance(guard, Guard) and "pg_temp" not in (settings or ""))
        ):
            yield f"{label} is not the declared one"


def _constraints_missing(model: type[models.Model], found: list[tuple[Any, ...]]) -> Iterator[str]:
    table = model._meta.db_table
    valid = {name for name, _, is_valid, where, _ in found if where == table and is_valid}
    referring = {
        tuple(columns) for _, kind, is_valid, where, columns in found if where == table and is_valid and kind == "f"
    }
    for constraint in model._meta.constraints:
        if isinstance(constraint, models.CheckConstraint) and constraint.name not in valid:
            yield f"constraint {constraint.name} on {table} is missing or not validated"
    for field in model._meta.concrete_fields:
        is_referring = isinstance(field, models.ForeignKey) and getattr(field, "db_constraint", True)
        if is_referring and (field.column,) not in referring:
            yield f"foreign key of {table}.{field.column} is missing or not validated"


def _indexes_missing(model: type[models.Model], found: dict[str, tuple[Any, ...]]) -> Iterator[str]:
    table = model._meta.db_table
    for unique in model._meta.constraints:
        if isinstance(unique, models.UniqueConstraint):
            wanted = (True, True, unique.condition is not None)
            if found.get(unique.name) != wanted:
                yield f"unique index {unique.name} on {table} is missing, invalid or not the declared one"
    for index in model._meta.indexes:
        if found.get(index.name) != (True, False, index.condition is not None):
            yield f"index {index.name} on {table} is missing, invalid or not the declared one"


def _columns_missing(model: type[models.Model], found: dict[tuple[str, str], tuple[Any, ...]]) -> Iterator[str]:
    table = model._meta.db_table
    for field in model._meta.concrete_fields:
        is_not_null, is_unique = found.get((table, str(field.column)), (False, False))
        if not field.null and not is_not_null:
            yield f"{table}.{field.column} may be null, or is not there"
        if field.unique and not is_unique:
            yield f"unique index of {table}.{field.column} is missing or invalid"
