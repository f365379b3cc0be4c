"""I6: facts never change and never go, whoever types the statement."""

from __future__ import annotations

import psycopg
import pytest
from django.apps import apps
from django.db import models
from psycopg import sql

from fencing.models.triggers import mutable_fields
from tests.fencing.breaking import forbidden, refused
from tests.fencing.conftest import Connect, Connection
from tests.fencing.scenes import everything
from tests.stores import SqlStore

APPEND_ONLY = (
    "tellingtry",
    "sighting",
    "noticeitem",
    "acknowledgement",
    "action",
    "attemptepoch",
    "attemptinput",
    "auditevent",
    "compensationapproval",
    "compensationdelivery",
    "compensationoutcome",
    "compensationrelease",
    "delivery",
    "epochopening",
    "feedevent",
    "forgotten",
    "fragment",
    "fragmentlease",
    "gatereading",
    "grade",
    "gradefinding",
    "grantapproval",
    "grantrefusal",
    "grantreview",
    "grantuse",
    "laneevent",
    "lanethresholds",
    "outcome",
    "permit",
    "seal",
    "sidelogrow",
    "spend",
    "toolchangeapproval",
    "toolversion",
    "verdict",
    "vote",
)
KEPT = (
    "telling",
    "quiethours",
    "target",
    "notice",
    "attempt",
    "breaker",
    "branch",
    "claim",
    "commit",
    "compensation",
    "credential",
    "deployment",
    "fork",
    "freeze",
    "grant",
    "incident",
    "intent",
    "ledger",
    "lane",
    "observedeffect",
    "run",
    "signingkey",
    "step",
    "toolchange",
    "verification",
    "witness",
)
ROLES = ("fence_app", "fence_fencer")


def model_of(name: str) -> type[models.Model]:
    return apps.get_model("fencing", name)


def identifier(text: str | None) -> sql.Identifier:
    return sql.Identifier(str(text))


def touching(table: str, column: str) -> sql.Composed:
    return sql.SQL("UPDATE {} SET {} = {}").format(identifier(table), identifier(column), identifier(column))


OTHER_VALUES = {
    "uuid": "gen_random_uuid()",
    "bigint": "7777777",
    "integer": "7777777",
    "smallint": "7777",
    "boolean": "NOT {column}",
    "timestamp with time zone": "timestamptz '2001-01-01'",
    "jsonb": """'{{"other": true}}'""",
    "bytea": "'other'",
    "ARRAY": "ARRAY['other']",
    "double precision": "7777.7",
    "numeric": "7777.7",
}


def fixed_columns(name: str) -> list[str]:
    model = model_of(name)
    mutable = mutable_fields(model)
    return [str(field.column) for field in model._meta.concrete_fields if field.name not in mutable]


def changing(connection: Connection, table: str, column: str) -> sql.Composed:
    """Write an update of every row's `column` to a value that no test has given it."""
    (kind,) = connection.execute(
        "SELECT data_type FROM information_schema.columns WHERE table_name = %s AND column_name = %s", [table, column]
    ).fetchone() or ("",)
    other = sql.SQL(OTHER_VALUES.get(kind, "'other'")).format(column=identifier(column))
    return sql.SQL("UPDATE {} SET {} = {}").format(identifier(table), identifier(column), other)


def test_every_table_but_the_counts_is_append_only_or_kept() -> None:
    every = {str(model._meta.model_name) for model in apps.get_app_config("fencing").get_models()}
    assert every == {*APPEND_ONLY, *KEPT, "tally", "change", "total"}


@pytest.mark.parametrize("name", APPEND_ONLY)
def test_even_the_owner_cannot_change_or_delete_a_fact(name: str, owner: Connection, as_owner: SqlStore) -> None:
    everything(as_owner)
    table = model_of(name)._meta.db_table
    with refused(owner, by="append_only"):
        owner.execute(touching(table, str(model_of(name)._meta.pk.column)))
    with refused(owner, by="append_only"):
        owner.execute(sql.SQL("DELETE FROM {}").format(identifier(table)))


@pytest.mark.parametrize("name", KEPT)
def test_even_the_owner_cannot_delete_what_facts_refer_to(name: str, owner: Connection, as_owner: SqlStore) -> None:
    everything(as_owner)
    with refused(owner, by="kept"):
        owner.execute(sql.SQL("DELETE FROM {}").format(identifier(model_of(name)._meta.db_table)))


@pytest.mark.parametrize("name", [*APPEND_ONLY, *KEPT])
def test_even_the_owner_cannot_empty_a_table(name: str, owner: Connection) -> None:
    table = model_of(name)._meta.db_table
    with refused(owner, by="never_truncated", on=table):
        owner.execute(sql.SQL("TRUNCATE {} CASCADE").format(identifier(table)))


@pytest.mark.parametrize("name", KEPT)
def test_even_the_owner_cannot_change_a_fixed_column(name: str, owner: Connection, as_owner: SqlStore) -> None:
    everything(as_owner)
    assert fixed_columns(name)
    for column in fixed_columns(name):
        with refused(owner, by="fixed"):
            owner.execute(changing(owner, model_of(name)._meta.db_table, column))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", APPEND_ONLY)
def test_web_and_workers_may_not_even_try_to_change_a_fact(name: str, role: str, connect_as: Connect) -> None:
    connection = connect_as(role)
    model = model_of(name)
    for field in model._meta.concrete_fields:
        with forbidden(connection):
            connection.execute(touching(model._meta.db_table, str(field.column)))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", [*APPEND_ONLY, *KEPT, "tally"])
def test_web_and_workers_may_not_delete_or_empty_a_table(name: str, role: str, connect_as: Connect) -> None:
    connection = connect_as(role)
    for statement in ("DELETE FROM {}", "TRUNCATE {}", "TRUNCATE {} CASCADE"):
        with forbidden(connection):
            connection.execute(sql.SQL(statement).format(identifier(model_of(name)._meta.db_table)))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", KEPT)
def test_web_and_workers_may_not_even_try_to_change_a_fixed_column(name: str, role: str, connect_as: Connect) -> None:
    connection = connect_as(role)
    for column in fixed_columns(name):
        with forbidden(connection):
            connection.execute(touching(model_of(name)._meta.db_table, column))


def test_the_scene_has_a_row_in_every_table(owner: Connection, as_owner: SqlStore) -> None:
    everything(as_owner)
    for name in [*APPEND_ONLY, *KEPT]:
        statement = sql.SQL("SELECT count(*) FROM {}").format(identifier(model_of(name)._meta.db_table))
        row: psycopg.rows.TupleRow | None = owner.execute(statement).fetchone()
        assert row is not None
        assert row[0] > 0, name
