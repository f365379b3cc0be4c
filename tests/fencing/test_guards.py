"""The start-up check finds what a schema change, a restore or a hand took away (design 5, 10)."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection, models
from pytest_django import Settings

from fencing.environment import Mode
from fencing.models import Commit
from fencing.models.deployment import record_mode
from fencing.models.guards import missing_guards

pytestmark = pytest.mark.django_db


def trigger_of(model: type[models.Model], name: str) -> str:
    guards = getattr(model._meta, "triggers", [])
    return str(next(guard for guard in guards if guard.name == name).get_pgid(model))


GUARD = trigger_of(Commit, "commit_admissible")
OFF = "trigger commit_admissible on fencing_commit is switched off"
CHANGED = "trigger commit_admissible on fencing_commit is not the declared one"
NOT_UNIQUE = "unique index commit_stands_once on fencing_commit is missing, invalid or not the declared one"
EMPTY = "LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS 'BEGIN RETURN NEW; END'"
FOREIGN_KEY = """
DO $$ DECLARE name text; BEGIN
    SELECT conname INTO STRICT name FROM pg_constraint
    WHERE conrelid = 'fencing_grantuse'::regclass AND contype = 'f' AND conname LIKE 'fencing_grantuse_commit_id_%';
    EXECUTE format('ALTER TABLE fencing_grantuse DROP CONSTRAINT %I', name);
END $$
"""
BREAKS = {
    "a dropped trigger": (
        f"DROP TRIGGER {GUARD} ON fencing_commit",
        "trigger commit_admissible on fencing_commit is missing",
    ),
    "a trigger that is off": (f"ALTER TABLE fencing_commit DISABLE TRIGGER {GUARD}", OFF),
    "a trigger for replicas": (f"ALTER TABLE fencing_commit ENABLE REPLICA TRIGGER {GUARD}", OFF),
    "an emptied function": (f"CREATE OR REPLACE FUNCTION {GUARD}() RETURNS trigger {EMPTY}", CHANGED),
    "a function that trusts its caller's path": (f"ALTER FUNCTION {GUARD}() RESET search_path", CHANGED),
    "a trigger with another condition": (
        f"""
        DROP TRIGGER {GUARD} ON fencing_commit;
        CREATE TRIGGER {GUARD} BEFORE INSERT ON fencing_commit FOR EACH ROW WHEN (false) EXECUTE FUNCTION {GUARD}()
        """,
        CHANGED,
    ),
    "a dropped constraint": (
        "ALTER TABLE fencing_commit DROP CONSTRAINT commit_grant_where_it_rests_on_one",
        "constraint commit_grant_where_it_rests_on_one on fencing_commit is missing or not validated",
    ),
    "a dropped partial unique index": ("DROP INDEX commit_stands_once", NOT_UNIQUE),
    "a unique index that lost its condition": (
        "DROP INDEX commit_stands_once; CREATE UNIQUE INDEX commit_stands_once ON fencing_commit (run_id, step_name)",
        NOT_UNIQUE,
    ),
    "an index that is no longer unique": (
        """
        DROP INDEX commit_stands_once;
        CREATE INDEX commit_stands_once ON fencing_commit (run_id, step_name) WHERE closed_at IS NULL
        """,
        NOT_UNIQUE,
    ),
    "a dropped index": (
        "DROP INDEX step_due",
        "index step_due on fencing_step is missing, invalid or not the declared one",
    ),
    "a dropped foreign key": (FOREIGN_KEY, "foreign key of fencing_grantuse.commit_id is missing or not validated"),
    "a dropped uniqueness": (
        "ALTER TABLE fencing_commit DROP CONSTRAINT fencing_commit_step_id_key",
        "unique index of fencing_commit.step_id is missing or invalid",
    ),
    "a column that may be null": (
        "ALTER TABLE fencing_vote ALTER COLUMN step_id DROP NOT NULL",
        "fencing_vote.step_id may be null, or is not there",
    ),
}


def test_a_migrated_database_lacks_nothing() -> None:
    assert missing_guards(connection) == []


def test_the_migrations_say_what_the_models_say() -> None:
    call_command("makemigrations", "--check", "--dry-run", "--skip-checks", verbosity=1)


@pytest.mark.parametrize("what", BREAKS)
def test_what_is_missing_off_or_changed_is_named(what: str) -> None:
    statement, sentence = BREAKS[what]
    with connection.cursor() as cursor:
        cursor.execute(statement)
    assert missing_guards(connection) == [sentence]


def test_a_process_of_production_finds_that_the_database_was_prepared_for_less(settings: Settings) -> None:
    settings.FENCE_MODE = Mode.PRODUCTION
    assert missing_guards(connection) == [
        "the database is recorded as a local one: run `manage.py prepare` with FENCE_MODE=production"
    ]
    record_mode()
    assert missing_guards(connection) == []
