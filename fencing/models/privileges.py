"""What the database roles of web and workers may do (design 10): applied anew after every migrate, where they exist.

The owner runs migrations and nothing else. The application reads everything, adds facts, and changes only what its
rules change; the fencer also commits. Neither may delete, empty or alter a table of this app, or switch a trigger off.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.db import connections, models, transaction
from django.db.backends.utils import CursorWrapper

from fencing.models.triggers import mutable_fields

APP = "fence_app"
FENCER = "fence_fencer"

# F9: committing is the fencer's alone; so are taking a use of a grant (G3), and adding agreement to it (F7).
# The workers alone seal (U2), tell witnesses, and say what a verification found.
ROWS_OF_THE_FENCER = frozenset(
    {"fencing_commit", "fencing_grantuse", "fencing_compensationrelease", "fencing_seal", "fencing_witness"}
)
COLUMNS_OF_THE_FENCER = frozenset({("fencing_commit", "authority"), ("fencing_grant", "uses")})
TABLES_OF_THE_FENCER = frozenset({"fencing_witness", "fencing_verification"})
# A5: fragments come in, permits go out and grades are published by the web alone, where a key says who asks. Workers
# read grades again and halt a lane; they never make one.
ROWS_OF_THE_APP = frozenset(
    {
        "fencing_attempt",
        "fencing_attemptepoch",
        "fencing_attemptinput",
        "fencing_fragment",
        "fencing_fragmentlease",
        "fencing_gatereading",
        "fencing_grade",
        "fencing_lanethresholds",
        "fencing_permit",
        "fencing_spend",
    }
)
COLUMNS_OF_THE_APP = frozenset(
    {
        ("fencing_attempt", "epoch"),
        ("fencing_attempt", "state"),
        ("fencing_lane", "published"),
        ("fencing_lane", "thresholds_version"),
    }
)
# Public halves of signing keys: who adds one can sign commits (K2). Whether it is production: who says no is believed.
# Counts are written by triggers and a function that run as the owner.
ROWS_OF_THE_OWNER = frozenset({"fencing_signingkey", "fencing_deployment", "fencing_change", "fencing_total"})
# Django's own: made by migrations, or never deleted because the past refers to it.
READ_ONLY = frozenset({"django_migrations", "django_content_type", "auth_permission"})
NEVER_DELETED = frozenset({"auth_user"})


def grant_to_roles(*, using: str = "default", **_: object) -> None:
    """Give the roles that exist exactly their privileges. A receiver of `post_migrate`; safe to repeat."""
    connection = connections[using]
    with transaction.atomic(using=using), connection.cursor() as cursor:
        # Two migrates at once would update the same rows of the catalogue.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('fence privileges'))")
        columns = _columns(cursor)
        for role in _roles(cursor):
            for statement in _statements(role, columns, str(connection.settings_dict["NAME"])):
                cursor.execute(statement)


def _roles(cursor: CursorWrapper) -> list[str]:
    """Name the roles that exist. One that owns the tables would lose what migrations need, so it is left alone."""
    cursor.execute(
        "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s) AND NOT rolsuper AND rolname <> current_user",
        [[APP, FENCER]],
    )
    return [str(name) for (name,) in cursor.fetchall()]


def _columns(cursor: CursorWrapper) -> dict[str, set[str]]:
    """Name the tables and their columns. In the middle of the migrations some that the models declare are to come."""
    cursor.execute(
        "SELECT table_name, array_agg(column_name::text) FROM information_schema.columns"
        " JOIN information_schema.tables USING (table_schema, table_name)"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE' GROUP BY table_name ORDER BY table_name"
    )
    return {str(table): set(columns) for table, columns in cursor.fetchall()}


def _statements(role: str, tables: dict[str, set[str]], database: str) -> Iterator[str]:
    yield f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}"
    yield f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM {role}"
    yield f"REVOKE CREATE ON SCHEMA public FROM PUBLIC, {role}"
    # A temporary table would hide a real one from functions that trust their caller's search path.
    yield f'REVOKE TEMPORARY ON DATABASE "{database}" FROM PUBLIC, {role}'
    yield f"GRANT USAGE ON SCHEMA public TO {role}"
    yield f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"
    yield f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"
    ours = {model._meta.db_table: model for model in apps.get_app_config("fencing").get_models()}
    for table, columns in tables.items():
        if table in ours:
            yield from _statements_on_ours(role, ours[table], columns)
        elif table not in READ_ONLY:
            rights = "INSERT, UPDATE" if table in NEVER_DELETED else "INSERT, UPDATE, DELETE"
            yield f'GRANT {rights} ON "{table}" TO {role}'


def _statements_on_ours(role: str, model: type[models.Model], existing: set[str]) -> Iterator[str]:
    """Rows may be added, and columns changed, that the triggers let change: both from the one declaration."""
    table = model._meta.db_table
    is_fencer = role == FENCER
    others = ROWS_OF_THE_OWNER | (ROWS_OF_THE_APP if is_fencer else ROWS_OF_THE_FENCER)
    if table not in others:
        yield f'GRANT INSERT ON "{table}" TO {role}'
    mutable = mutable_fields(model)
    columns = [
        f'"{field.column}"'
        for field in model._meta.concrete_fields
        if field.name in mutable
        and field.column in existing
        and table not in ROWS_OF_THE_OWNER
        and (is_fencer or table not in TABLES_OF_THE_FENCER)
        and (table, field.column) not in (COLUMNS_OF_THE_APP if is_fencer else COLUMNS_OF_THE_FENCER)
    ]
    if columns:
        yield f'GRANT UPDATE ({", ".join(columns)}) ON "{table}" TO {role}'
