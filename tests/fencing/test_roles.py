"""Design 10: what the roles of web and workers may do, and the ways around a trigger that are closed to them."""

from __future__ import annotations

import psycopg
import pytest
from django.db import connection as django_connection

from fencing.models.privileges import grant_to_roles
from tests import factories as make
from tests.fencing.breaking import allowed, forbidden, refused
from tests.fencing.conftest import Connect, Connection
from tests.stores import SqlStore

ROLES = ("fence_app", "fence_fencer")
both = pytest.mark.parametrize("role", ROLES)

AROUND_A_TRIGGER = [
    "ALTER TABLE fencing_vote DISABLE TRIGGER ALL",
    "ALTER TABLE fencing_vote DISABLE TRIGGER USER",
    "DROP TABLE fencing_vote CASCADE",
    "ALTER TABLE fencing_commit DROP CONSTRAINT commit_grant_where_it_rests_on_one",
    "DROP INDEX commit_stands_once",
    "CREATE TRIGGER mine BEFORE INSERT ON fencing_commit EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE RULE mine AS ON UPDATE TO fencing_vote DO INSTEAD NOTHING",
    "CREATE TABLE mine (id integer)",
    "CREATE SCHEMA mine",
    "CREATE TEMPORARY TABLE fencing_vote (id integer)",
    "CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "SET session_replication_role = replica",
    "SET ROLE fence_owner",
    "GRANT UPDATE ON fencing_vote TO fence_app",
]


@both
@pytest.mark.parametrize("statement", AROUND_A_TRIGGER)
def test_no_role_gets_around_a_trigger(statement: str, role: str, connect_as: Connect) -> None:
    connection = connect_as(role)
    if statement.startswith("GRANT"):
        # PostgreSQL answers a grant without the right to grant with a warning, and grants nothing.
        connection.execute("SELECT 1")
        with forbidden(connection):
            connection.execute(statement)
            connection.execute("UPDATE fencing_vote SET path = 'x'")
        return
    with forbidden(connection):
        connection.execute(statement)


@both
def test_the_trigger_librarys_own_switch_switches_nothing(role: str, connect_as: Connect) -> None:
    connection = connect_as(role)
    store = SqlStore(connection=connection)
    run = make.make_run(epoch=3, store=store)
    names = connection.execute("SELECT array_agg(tgname::text) FROM pg_trigger WHERE NOT tgisinternal").fetchone()
    assert names is not None
    connection.execute("SELECT set_config('pgtrigger.ignore', %s, true)", ["{" + ",".join(names[0]) + "}"])
    with refused(connection, by="run_numbers_grow"):
        store.update(run, counter=1, epoch=1)


def test_a_table_of_the_same_name_elsewhere_deceives_no_guard(owner: Connection, as_owner: SqlStore) -> None:
    step = make.make_step(store=as_owner)
    tool = make.make_tool(store=as_owner)
    action = make.make_action(tool=tool, store=as_owner)
    step = make.make_step(tool=tool, store=as_owner)
    make.make_vote(step=step, action=action, store=as_owner)
    owner.execute("CREATE SCHEMA elsewhere")
    owner.execute("CREATE TABLE elsewhere.fencing_vote AS SELECT * FROM fencing_vote")
    owner.execute("UPDATE elsewhere.fencing_vote SET id = gen_random_uuid()")
    owner.execute("INSERT INTO elsewhere.fencing_vote SELECT * FROM fencing_vote")
    owner.execute("UPDATE elsewhere.fencing_vote SET path = 'replica' WHERE id IN (SELECT id FROM public.fencing_vote)")
    owner.execute("SET LOCAL search_path = elsewhere, public")
    with refused(owner, by="commit_by_agreement"):
        make.make_commit(step=step, action=action, store=as_owner)


@both
def test_a_role_adds_facts_and_reads_everything(role: str, connect_as: Connect) -> None:
    connection = connect_as(role)
    store = SqlStore(connection=connection)
    with allowed(connection):
        step = make.make_step(store=store)
        make.make_votes(step=step, action=make.make_action(tool="refund", store=store), store=store)
        make.make_grant(run=step.run, tool="refund", store=store)
        make.make_acknowledgement(store=store)
        make.make_audit_event(store=store)
        make.make_feed_event(step=step, store=store)
        make.make_incident(step=step, store=store)
        connection.execute("INSERT INTO fencing_tally (name, shard, count) VALUES ('duplicates', 0, 1)")
        connection.execute("UPDATE fencing_tally SET count = count + 1")
        tables = django_connection.introspection.table_names()
        for table in tables:
            connection.execute(psycopg.sql.SQL("SELECT 1 FROM {} LIMIT 1").format(psycopg.sql.Identifier(table)))
        connection.execute("DELETE FROM django_session")
        raise psycopg.Rollback


@both
@pytest.mark.parametrize("table", ["fencing_commit", "fencing_grantuse"])
def test_only_the_fencer_commits(table: str, role: str, owner: Connection) -> None:
    row = owner.execute("SELECT has_table_privilege(%s, %s, 'INSERT')", [role, table]).fetchone()
    assert row == (role == "fence_fencer",)


@both
def test_only_the_owner_publishes_signing_keys(role: str, connect_as: Connect) -> None:
    connection = connect_as(role)
    with forbidden(connection):
        make.make_signing_key(store=SqlStore(connection=connection))
    with forbidden(connection):
        connection.execute("UPDATE fencing_signingkey SET retired_at = now()")


@both
@pytest.mark.parametrize("table", ["django_migrations", "auth_permission", "django_content_type"])
def test_what_migrations_write_is_read_only(table: str, role: str, owner: Connection) -> None:
    for right in ("INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER", "REFERENCES"):
        assert owner.execute("SELECT has_table_privilege(%s, %s, %s)", [role, table, right]).fetchone() == (False,)


@pytest.mark.django_db
def test_privileges_are_exact_however_often_they_are_given() -> None:
    def privileges() -> object:
        with django_connection.cursor() as cursor:
            cursor.execute(
                "SELECT relname, relacl::text FROM pg_class WHERE relname LIKE 'fencing%%' OR relname LIKE 'auth%%'"
                " UNION ALL SELECT attrelid::regclass || '.' || attname, attacl::text FROM pg_attribute"
                " WHERE attacl IS NOT NULL ORDER BY 1"
            )
            return cursor.fetchall()

    before = privileges()
    with django_connection.cursor() as cursor:
        cursor.execute("GRANT ALL ON fencing_vote, fencing_commit TO fence_app")
        cursor.execute("GRANT UPDATE (digest) ON fencing_vote TO fence_fencer")
    assert privileges() != before
    grant_to_roles()
    assert privileges() == before
