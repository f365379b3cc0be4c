"""A database whose clock a test moves, inside its own transaction: everything that reads the clock sees it (N3).

`clock_timestamp()` is found by the search path, so another function of that name before it is what every statement and
every guard calls. Nothing of it outlives the transaction.
"""

from __future__ import annotations

from typing import Final

from django.db import connection

PATH: Final = "moved, pg_catalog, public, pg_temp"
BEGIN: Final = f"""
CREATE SCHEMA moved;
CREATE FUNCTION moved.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.clock_timestamp() + pg_catalog.make_interval(secs =>
        coalesce(nullif(pg_catalog.current_setting('moved.by_s', true), ''), '0')::float8)
$$;
DO $do$ DECLARE its record; BEGIN
  FOR its IN SELECT p.oid::regprocedure AS name FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = 'public' AND EXISTS (SELECT FROM unnest(p.proconfig) AS set(text) WHERE text LIKE 'search_path=%')
  LOOP EXECUTE format('ALTER FUNCTION %s SET search_path = {PATH}', its.name); END LOOP;
END $do$;
SET LOCAL search_path = {PATH};
"""  # noqa: S608 - a name of our own


def begin() -> None:
    """Let the clock of this transaction be moved from now on."""
    with connection.cursor() as cursor:
        cursor.execute(BEGIN)


def move_to(seconds: float) -> None:
    """Let the clock be so many seconds ahead of the real one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('moved.by_s', %s, true)", [str(seconds)])
