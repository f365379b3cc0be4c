"""How the database is: its version and size, who is connected, the oldest transaction that is open."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

STATE = """
SELECT current_setting('server_version'), pg_database_size(current_database()),
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
    current_setting('max_connections')::int,
    (SELECT extract(epoch FROM clock_timestamp() - min(xact_start)) FROM pg_stat_activity
      WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()),
    (SELECT greatest(0, extract(epoch FROM clock_timestamp() - min(due_at)))
       FROM fencing_step WHERE due_at IS NOT NULL),
    (SELECT count(*) FROM (SELECT FROM fencing_change LIMIT 100001) AS few)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """The database now. `oldest_s`: age of the oldest open transaction; `late_s`: of the oldest step that is due."""

    version: str
    size: int
    connections: int
    most_connections: int
    oldest_s: float
    late_s: float
    unsummed: int


def database_state() -> DatabaseState:
    """Ask the catalogue, and the two indexes whose first row tells whether the work keeps up."""
    with connection.cursor() as cursor:
        cursor.execute(STATE)
        ((version, size, connections, most, oldest, late, unsummed),) = cursor.fetchall()
    return DatabaseState(
        version=version,
        size=size,
        connections=connections,
        most_connections=most,
        oldest_s=float(oldest or 0),
        late_s=float(late or 0),
        unsummed=unsummed,
    )
