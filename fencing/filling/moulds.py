"""Moulds: what a played run wrote, with everything that is its own taken out and a name put in its place.

A mould is text as COPY reads it, one template a table. The names in it: `run`; `u` and `m0`, `m1`, … (the parts of a
key: its random end, and the moment of a beat); `t0`, `z0`, `e0` (that moment in the forms of a column, of JSON and of a
token), with `_900` behind it where it is so many seconds later; `n0` and `a0` (numbers and amounts); `x0`, `d0` (bytes
and their digest); `k0` (an idempotency key); `o0` (a token).
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.apps import apps
from django.db import connection, models

from fencing.filling.stage import FIRST_AMOUNT, FIRST_NUMBER, Stage
from fencing.models.audit import TransactionId
from fencing.protocol.intents import idempotency_key

# What is there before anybody plays, or counts and is no row of a run.
NOT_CAST: Final = frozenset(
    {
        "change",
        "total",
        "credential",
        "signingkey",
        "toolversion",
        "toolchange",
        "toolchangeapproval",
        "tally",
        "deployment",
        "freeze",
        "seal",
        "witness",
        "verification",
        # No run of a mould is forked.
        "branch",
        "fork",
        "forgotten",
        # Grades are beside runs, and no part of one.
        "attempt",
        "attemptepoch",
        "attemptinput",
        "fragment",
        "fragmentlease",
        "gatereading",
        "grade",
        "gradefinding",
        "lane",
        "laneevent",
        "lanethresholds",
        "permit",
        "spend",
    }
)
# Columns whose moment is counted on from another one.
COUNTED_ON: Final = frozenset(
    {"deadline_at", "lease_until", "expires_at", "pending_until", "review_due_at", "not_before", "due_at"}
)
MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)([ T])(\d\d:\d\d:\d\d(?:\.\d{1,6})?)(\+00(?::00)?|Z)")
KEY: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
NULL: Final = r"\N"
Row = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one table: their columns, and a template of the lines that COPY reads."""

    columns: tuple[str, ...]
    lines: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mould:
    """A run that can be cast. Templates are filled in the order in which they stand here."""

    name: str
    steps: int
    beats: tuple[float, ...]
    moments: frozenset[tuple[str, int, int]]  # form, beat, seconds later
    numbers: int
    amounts: int
    blobs: tuple[str, ...]
    keys: tuple[tuple[str, int], ...]
    tokens: tuple[tuple[str, str], ...]
    tables: Mapping[str, Table]


def mould_of(stage: Stage, name: str, first_transaction: int) -> Mould:
    """Read everything that the play on `stage` wrote since the transaction began, and make a mould of it."""
    rows = {model._meta.db_table: _read(model, stage.run, first_transaction) for model in cast_models()}
    return Moulder(stage, rows).mould(name)


def cast_models() -> list[type[models.Model]]:
    """The tables that a run has rows in."""
    found = apps.get_app_config("fencing").get_models()
    return [model for model in found if model._meta.model_name not in NOT_CAST]


def columns_of(model: type[models.Model]) -> tuple[str, ...]:
    """The columns that a cast gives: not those that the database numbers by itself."""
    return tuple(
        str(field.column)
        for field in model._meta.concrete_fields
        if not isinstance(field, models.AutoField) and not isinstance(field.db_default, TransactionId)
    )


def _read(model: type[models.Model], run: str, first_transaction: int) -> list[Row]:
    """The rows of one table as COPY writes them, in the order of their making."""
    columns = columns_of(model)
    table = model._meta.db_table
    everything = {str(field.column) for field in model._meta.concrete_fields}
    of_run = "true"
    if "run_id" in everything:
        of_run = f"(run_id IS NULL OR run_id = (SELECT id FROM fencing_run WHERE name = '{run}'))"  # noqa: S608
    elif "run" in everything:
        of_run = f"(run IS NULL OR run = '{run}')"
    names = ", ".join(f'"{column}"' for column in columns)
    order = str(model._meta.pk.column)
    written = (
        f"COPY (SELECT {names} FROM {table} WHERE xmin::text::bigint >= {first_transaction} AND {of_run}"  # noqa: S608
        f' ORDER BY "{order}") TO STDOUT'
    )
    with connection.cursor() as cursor, cursor.cursor.copy(written) as copy:
        lines = b"".join(bytes(block) for block in copy).decode().splitlines()
    return [dict(zip(columns, line.split("\t"), strict=True)) for line in lines]


class Moulder:
    """Takes out of rows what is their own."""

    def __init__(self, stage: Stage, rows: Mapping[str, list[Row]]) -> None:
        self._stage = stage
        self._rows = rows
        self._beats = stage.beats
        self._ends = [beat.database for beat in self._beats]
        self._bases = self._moments_at_a_beat()
        self._moments: set[tuple[str, int, int]] = set()
        self._literals: dict[str, str] = {}
        self._pattern = re.compile(r"(?!)")
        self._blobs: dict[str, int] = {}

    def mould(self, name: str) -> Mould:
        """Make the mould."""
        keys = self._name_everything()
        commits = self._rows["fencing_commit"]
        tokens = tuple(self._token(row) for row in commits)
        tables = {table: self._table(rows) for table, rows in self._rows.items() if rows}
        return Mould(
            name=name,
            steps=len(self._rows["fencing_step"]),
            beats=tuple(beat.pause_s for beat in self._beats),
            moments=frozenset(self._moments),
            numbers=self._stage.number() - FIRST_NUMBER,
            amounts=self._stage.amount() - FIRST_AMOUNT,
            blobs=tuple(self._blobs),
            keys=keys,
            tokens=tokens,
            tables=tables,
        )

    def _name_everything(self) -> tuple[tuple[str, int], ...]:
        """Give names to run, keys, numbers, digests and tokens; give the idempotency keys' own parts."""
        literal = self._literals
        literal[self._stage.run] = "%(run)s"
        literal |= {str(FIRST_NUMBER + index): f"%(n{index})d" for index in range(100)}
        literal |= {str(FIRST_AMOUNT + index): f"%(a{index})d" for index in range(100)}
        made = sorted(row["id"] for rows in self._rows.values() for row in rows if "id" in row)
        for ordinal, key in enumerate(made):
            milliseconds = int(key.replace("-", "")[:12], 16)
            beat = bisect_left([int(each.machine * 1000) for each in self._beats], milliseconds)
            literal[key] = f"%(m{min(beat, len(self._beats) - 1)})s-7{ordinal:03x}-%(u)s"
        self._compile()
        for row in self._rows["fencing_action"]:
            number = self._blob(row["canonical"])
            literal[row["payload_digest"]] = f"%(d{number})s"
        for number, row in enumerate(self._rows["fencing_commit"]):
            literal[row["token"]] = f"%(o{number})s"
        self._compile()
        keys = []
        for number, row in enumerate(self._rows["fencing_intent"]):
            generation = int(row["generation"])
            literal[idempotency_key(self._stage.run, row["key"], generation)] = f"%(k{number})s"
            keys.append((self._text(row["key"]), generation))
        self._compile()
        return tuple(keys)

    def _compile(self) -> None:
        longest_first = sorted(self._literals, key=len, reverse=True)
        self._pattern = re.compile("|".join(re.escape(each) for each in longest_first))

    def _table(self, rows: Sequence[Row]) -> Table:
        lines = ["\t".join(self._field(column, value) for column, value in row.items()) + "\n" for row in rows]
        return Table(columns=tuple(rows[0]), lines="".join(lines))

    def _field(self, column: str, value: str) -> str:
        if value == NULL:
            return value
        if value.startswith(r"\\x"):
            return f"%(x{self._blob(value)})s"
        return self._text(value, counted_on=column in COUNTED_ON)

    def _blob(self, value: str) -> int:
        """The number of some bytes, which are text in this system: canonical JSON."""
        text = self._text(bytes.fromhex(value.removeprefix(r"\\x")).decode())
        return self._blobs.setdefault(text, len(self._blobs))

    def _text(self, value: str, *, counted_on: bool = False) -> str:
        named = self._pattern.sub(lambda found: self._literals[found[0]], value.replace("%", "%%"))
        return MOMENT.sub(lambda found: self._moment(found, counted_on=counted_on), named)

    def _moment(self, found: re.Match[str], *, counted_on: bool) -> str:
        beat, later = self._place(_read_moment(found[0]), counted_on=counted_on)
        return self._named("z" if found[2] == "T" else "t", beat, later)

    def _named(self, form: str, beat: int, later: int) -> str:
        self._moments.add((form, beat, later))
        name = f"{form}{beat}" + (f"_{later}" if later else "")
        return f"%({name}){'d' if form == 'e' else 's'}"

    def _place(self, moment: datetime, *, counted_on: bool) -> tuple[int, int]:
        """The beat of a moment, and whole seconds after it where it was counted on from that."""
        if counted_on or moment not in self._bases:
            for base in sorted(self._bases, reverse=True):
                later = moment - base
                if later.total_seconds() >= 0 and not later.microseconds:
                    return self._beat_of(base), int(later.total_seconds())
        return self._beat_of(moment), 0

    def _beat_of(self, moment: datetime) -> int:
        return min(bisect_left(self._ends, moment), len(self._ends) - 1)

    def _moments_at_a_beat(self) -> frozenset[datetime]:
        found = set()
        for rows in self._rows.values():
            for row in rows:
                for column, value in row.items():
                    if column.endswith("_at") and column not in COUNTED_ON and value != NULL:
                        found.add(_read_moment(value))
        return frozenset(found)

    def _token(self, row: Row) -> tuple[str, str]:
        """A token's header, and its claims as a template."""
        header, claims, _ = row["token"].split(".")
        said: dict[str, Any] = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        beat, _ = self._place(_read_moment(row["committed_at"]), counted_on=False)
        text = self._text(json.dumps(said, separators=(",", ":")))
        text = text.replace(f'"iat":{said["iat"]}', f'"iat":{self._named("e", beat, 0)}')
        if "exp" in said:
            text = text.replace(f'"exp":{said["exp"]}', f'"exp":{self._end_of_grant(row["grant_id"])}')
        return header, text

    def _end_of_grant(self, grant_id: str) -> str:
        ends = next(row["expires_at"] for row in self._rows["fencing_grant"] if row["id"] == grant_id)
        return self._named("e", *self._place(_read_moment(ends), counted_on=True))


def _read_moment(text: str) -> datetime:
    """Read a moment as PostgreSQL writes it, or as JSON carries it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00") + (":00" if text.endswith("+00") else "")).astimezone(UTC)
