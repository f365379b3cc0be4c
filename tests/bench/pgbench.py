"""The yardstick in the database: `pgbench` with six bare transactions over the rows of a fenced step.

The tables are copies of the real ones, with their columns, indexes and checks, and without triggers, foreign keys and
locks; each transaction is one prepared statement.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencing.machine.binaries import find_postgres
from tests.bench.system import Measured
from tests.live import bare_environment

SCRIPT: Final = Path(__file__).with_name("bare.sql")
TABLES: Final = (
    "step",
    "vote",
    "action",
    "intent",
    "claim",
    "commit",
    "delivery",
    "outcome",
    "auditevent",
    "feedevent",
)
PREPARE: Final = """
DROP SCHEMA IF EXISTS bare CASCADE;
CREATE SCHEMA bare;
CREATE FUNCTION bare.id(n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$ SELECT lpad(to_hex(n), 32, '0')::uuid $$;
CREATE FUNCTION bare.canonical(n bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
  SELECT ('{"args":{"cents":4200,"currency":"EUR","invoice":' || n || '},"tool":"refund"}')::bytea $$;
CREATE FUNCTION bare.digest(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT 'sha256:' || encode(sha256(int8send(n)), 'hex') $$;
"""
GIVEN: Final = {
    False: {"given": "(SELECT (:first)::bigint AS n) AS given", "these": "id = bare.id((:first)::bigint)"},
    True: {
        "given": "generate_series((:first)::bigint, (:last)::bigint) AS given(n)",
        "these": "id BETWEEN bare.id((:first)::bigint) AND bare.id((:last)::bigint)",
    },
}
HEAD: Final = r"""\set i :i + 1
\set first :client_id * 100000000 + :i * {items}
\set last :first + {items} - 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """What pgbench measured: steps a second, and the mean time of one transaction in milliseconds."""

    rate: float
    transaction_ms: float


def together(parts: Sequence[Bare]) -> Bare:
    """The mean of several windows of the same length."""
    return Bare(
        rate=statistics.mean(part.rate for part in parts),
        transaction_ms=statistics.mean(part.transaction_ms for part in parts),
    )


def run(measured: Measured, *, items: int = 1, clients: int = 8, seconds: float) -> Bare:
    """Measure six bare transactions of `items` steps each, by `clients` connections."""
    with measured.connect() as connection:
        connection.execute(PREPARE.encode())
        for table in TABLES:
            connection.execute(f"CREATE TABLE bare.{table} (LIKE public.fencing_{table} INCLUDING ALL)".encode())
    try:
        return _run(measured, items, clients, seconds)
    finally:
        with measured.connect() as connection:
            connection.execute("DROP SCHEMA IF EXISTS bare CASCADE")


def _run(measured: Measured, items: int, clients: int, seconds: float) -> Bare:
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(script_for(items))
        script.flush()
        command = [
            *(str(find_postgres() / "pgbench"), "--no-vacuum", "--protocol=prepared", f"--client={clients}"),
            *("--jobs=1", f"--time={max(1, round(seconds))}", "--define=i=0", f"--file={script.name}"),
            measured.urls["DATABASE_URL"],
        ]
        done = subprocess.run(command, env=bare_environment(), capture_output=True, text=True, check=False)
    found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"pgbench failed: {done.stderr[-2000:]}")
    scripts = float(found[1])
    return Bare(rate=scripts * items, transaction_ms=1000 * clients / (6 * scripts))


def script_for(items: int) -> str:
    """The script for transactions of `items` steps."""
    text = SCRIPT.read_text(encoding="utf-8")
    for name, words in GIVEN[items > 1].items():
        text = text.replace("{" + name + "}", words)
    return HEAD.replace("{items}", str(items)) + text
