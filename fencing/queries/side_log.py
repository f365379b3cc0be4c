"""The side log, as the API, the pages and the exports show it (S1, S3). Every read is bounded.

A filter may fit few rows of millions. So a part of the list is looked for in so many rows at most: those of the one
filter that an index answers best, newest first. Where that does not fill the part, it ends early and says how far it
looked; its cursor goes on from there.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import connection

from fencing.models import Credential
from fencing.protocol.counting import ADMISSION, ESCAPE_CODES, NOT_REFUSED, STALE, CountedAs, counted_as
from fencing.protocol.errors import Refusal
from fencing.protocol.objects import rfc3339
from fencing.queries.pages import DEFAULT_LIMIT, Filters
from fencing.queries.walks import Key, Walk

Object = dict[str, Any]
Clause = tuple[str, list[Any]]

LOOKED_AT: Final = 20_000
EXPORTED: Final = 2_000
EXPORT_LOOKS_AT: Final = 20_000
# The filters that an index answers in the order of the list, the narrowest first. One of them leads; the others sift.
LEADING: Final = ("run", "attempt", "resource", "key", "person", "tool", "reason")
SIFTING: Final = ("step", "epoch", "path", "seq", "lane", "kind")
COLUMNS: Final = (
    "id", "at", "kind", "reason", "run", "step", "epoch", "path", "attempt", "seq", "lane", "tool", "resources", "by",
    "person", "digest", "detail", "body_sha256", "body_length", "seen_by", "seen_at", "seen_reason",
)  # fmt: skip
ROWS: Final = """
SELECT r.id, r.recorded_at, r.kind, r.reason, r.run, r.step, r.epoch, r.path, r.attempt, r.seq, r.lane, r.tool,
    r.resources, k.name, p.username, r.digest, r.detail, r.body_sha256, r.body_length,
    u.username, a.acknowledged_at, a.reason
  FROM fencing_sidelogrow r
  LEFT JOIN fencing_credential k ON k.id = r.by_id
  LEFT JOIN auth_user p ON p.id = coalesce(r.person_id, k.person_id)
  LEFT JOIN fencing_acknowledgement a ON a.row_id = r.id
  LEFT JOIN auth_user u ON u.id = a.person_id
 WHERE r.id = ANY (%s::uuid[]) ORDER BY r.recorded_at DESC, r.id DESC
"""
# What the reader's own transaction wrote is seen by it alone, and is never late.
SNAPSHOT: Final = """
SELECT pg_current_snapshot()::text, coalesce(pg_current_xact_id_if_assigned()::text::bigint, 0), clock_timestamp()
"""
VISIBLE: Final = "pg_visible_in_snapshot(l.transaction::text::xid8, %s::pg_snapshot)"
_SEEN: Final = "(SELECT true FROM fencing_acknowledgement a WHERE a.row_id = l.id LIMIT 1)"
_COUNTED: Final[Mapping[CountedAs, str]] = {
    CountedAs.ATTEMPTED_ESCAPE: "(l.kind = %(admission)s AND l.reason = ANY (%(escapes)s))",
    CountedAs.STALE_REJECT: "l.reason = ANY (%(stale)s)",
    CountedAs.HEARD: "l.reason = ANY (%(heard)s)",
    CountedAs.REFUSAL: "NOT (l.kind = %(admission)s AND l.reason = ANY (%(escapes)s))"
    " AND NOT l.reason = ANY (%(stale)s) AND NOT l.reason = ANY (%(heard)s)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the side log. `late` marks one that was still being written when the walk passed its place."""

    id: uuid.UUID
    at: datetime
    kind: str
    reason: str
    run: str | None
    step: str | None
    epoch: int | None
    path: str | None
    attempt: str | None
    seq: int | None
    lane: str | None
    tool: str | None
    resources: list[str]
    by: str | None
    person: str | None
    digest: str | None
    detail: str
    body_sha256: str | None
    body_length: int | None
    seen_by: str | None
    seen_at: datetime | None
    seen_reason: str | None

    @property
    def counted_as(self) -> CountedAs:
        """Which counter it belongs to (S2)."""
        return counted_as(self.kind, self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the list. `late` rows come first: they committed after the walk passed their place.

    `looked_to` is the moment down to which it looked, where it gave up before it was full.
    """

    rows: tuple[Row, ...]
    late: int
    following: str | None
    looked_to: datetime | None


def read_part(filters: Filters, cursor: str | None, limit: int = DEFAULT_LIMIT) -> Part | Refusal:
    """Read the part of the side log after a cursor, newest first; without one the newest rows."""
    walk = None if cursor is None else Walk.decode(cursor)
    if isinstance(walk, Refusal):
        return walk
    now, own, began = _snapshot()
    wanted, late = _wanted(filters), list[Key]()
    after, room = None if walk is None else walk.last, limit
    if walk is not None:
        began, until = walk.began, walk.until or now
        late = _late(wanted, walk, until, own, limit + 1)
        if len(late) > limit:
            more = Walk(began=began, last=walk.last, seen=walk.seen, until=until, late_last=late[limit - 1])
            return _part(late[:limit], limit, more, None)
        # What was being read is read to its end; whatever came since then comes with the next part.
        now, room = until, limit - len(late)
    keys = _scan(wanted.seen_in(now, own), after, room + 1, LOOKED_AT)
    if len(keys) > room:
        reached, looked_to = (keys[room - 1] if room else after), None
    else:
        reached = _reached(wanted, after, LOOKED_AT)
        looked_to = None if reached is None else reached.at
    ahead = None if reached is None else Walk(began=began, last=reached, seen=now)
    return _part([*late, *keys[:room]], len(late), ahead, looked_to)


def list_side_log(filters: Filters, cursor: str | None, limit: int) -> tuple[list[Object], str | None] | Refusal:
    """One page of the side log as the API answers it, newest first."""
    part = read_part(filters, cursor, limit)
    if isinstance(part, Refusal):
        return part
    return [row_body(row) for row in part.rows], part.following


def read_rows(ids: Sequence[uuid.UUID]) -> list[Row]:
    """Read rows by their ids, newest first. Ids of none are passed over."""
    with connection.cursor() as cursor:
        cursor.execute(ROWS, [[str(each) for each in ids]])
        return [Row(**dict(zip(COLUMNS, found, strict=True))) for found in cursor.fetchall()]


def export_rows(filters: Filters) -> Iterator[list[Row]]:
    """Read every row that fits and was committed when the export began, newest first, a batch at a time.

    No transaction is held open meanwhile, and no more than a batch is in memory: a client may read as slowly as it
    likes. What is acknowledged while it reads may be shown as acknowledged.
    """
    seen, own, _ = _snapshot()
    wanted = _wanted(filters).seen_in(seen, own)
    last: Key | None = None
    while True:
        keys = _scan(wanted, last, EXPORTED, EXPORT_LOOKS_AT)
        if keys:
            yield read_rows([key.id for key in keys])
        last = keys[-1] if len(keys) == EXPORTED else _reached(wanted, last, EXPORT_LOOKS_AT)
        if last is None:
            return


def row_body(row: Row) -> Object:
    """A row as the protocol names its members. `acknowledged` tells who, when and why, or is null."""
    return {
        "id": str(row.id),
        "at": rfc3339(row.at),
        "kind": row.kind,
        "reason": row.reason,
        "counted_as": row.counted_as.value,
        "run": row.run,
        "step": row.step,
        "epoch": row.epoch,
        "path": row.path,
        "attempt": row.attempt,
        "seq": row.seq,
        "lane": row.lane,
        "tool": row.tool,
        "resources": list(row.resources),
        "by": row.by or row.person,
        "person": row.person,
        "digest": row.digest,
        "detail": row.detail,
        "body": None if row.body_sha256 is None else {"sha256": row.body_sha256, "length": row.body_length},
        "acknowledged": None
        if row.seen_by is None or row.seen_at is None
        else {"by": row.seen_by, "at": rfc3339(row.seen_at), "reason": row.seen_reason},
    }


def depth() -> tuple[int, int, dict[str, int]]:
    """How many rows nobody acknowledged, how many there are, and how many of each reason: by running counts."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(jsonb_object_agg(name, count), '{}')::text FROM fence_counts(NULL)")
        ((text,),) = cursor.fetchall()
    counts: dict[str, int] = json.loads(text)
    by_reason: dict[str, int] = {}
    for name, count in counts.items():
        if name.startswith("side_log:"):
            reason = name.split(":")[2]
            by_reason[reason] = by_reason.get(reason, 0) + count
    every = sum(by_reason.values())
    return every - counts.get("acknowledged", 0), every, by_reason


# ---- the search ----


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A search: what the index is entered by, and what sifts the rows that it gives."""

    lead: Clause
    sift: Clause

    def seen_in(self, snapshot: str, own: int) -> _Wanted:
        """The same, among the rows that a snapshot shows."""
        text, values = self.sift
        return _Wanted(lead=self.lead, sift=(f"{text} AND ({VISIBLE} OR l.transaction = %s)", [*values, snapshot, own]))

    def late(self, seen: str, until: str, own: int) -> _Wanted:
        """The same, among the rows that `until` shows and `seen` did not."""
        (lead, led), (text, values) = self.lead, self.sift
        _, high, between = seen.split(":")
        hidden = "(transaction >= %s OR transaction = ANY (%s)) AND transaction <> %s"
        numbers = [int(each) for each in between.split(",")] if between else []
        return _Wanted(
            lead=(f"{lead} AND {hidden}", [*led, int(high), numbers, own]),
            sift=(f"{text} AND {VISIBLE}", [*values, until]),
        )


def _wanted(filters: Filters) -> _Wanted:
    given = {**filters, **_caller(filters.get("by"))}
    leader = next((name for name in LEADING if name in given), None)
    lead = [_equal(leader, given[leader], "")] if leader else []
    lead += [(f"recorded_at {sign} %s", [given[name]]) for name, sign in (("since", ">="), ("until", "<="))
             if name in given]  # fmt: skip
    sift = [_equal(name, given[name], "l.") for name in (*LEADING, *SIFTING) if name in given and name != leader]
    if "acknowledged" in given:
        sift.append((f"{_SEEN} IS {'NOT ' if given['acknowledged'] else ''}NULL", []))
    if "counted_as" in given:
        sift.append(_counting(CountedAs(str(given["counted_as"]))))
    return _Wanted(lead=_joined(lead), sift=_joined(sift))


def _equal(name: str, value: object, prefix: str) -> Clause:
    if name == "resource":
        return f"{prefix}resources @> ARRAY[%s]::text[]", [value]
    if name == "key":
        return f"{prefix}by_id = %s", [value]
    if name == "person":
        return f"{prefix}person_id = %s", [value]
    return f"{prefix}{name} = %s", [value]


def _caller(name: object) -> Filters:
    """Who a name means: a key by its name, a person by theirs. A name of nobody finds nothing."""
    if name is None:
        return {}
    key = Credential.objects.filter(name=name).values_list("pk", flat=True).first()
    if key is not None:
        return {"key": key}
    person = User.objects.filter(username=name).values_list("pk", flat=True).first()
    return {"person": -1 if person is None else person}


def _counting(counter: CountedAs) -> Clause:
    named = {"admission": ADMISSION, "escapes": list(ESCAPE_CODES), "stale": list(STALE), "heard": list(NOT_REFUSED)}
    text, values = _COUNTED[counter], []
    while "%(" in text:
        before, _, rest = text.partition("%(")
        word, _, after = rest.partition(")s")
        values.append(named[word])
        text = f"{before}%s{after}"
    return text, values


def _joined(clauses: Sequence[Clause]) -> Clause:
    texts = [text for text, _ in clauses] or ["true"]
    return " AND ".join(texts), [value for _, values in clauses for value in values]


def _snapshot() -> tuple[str, int, datetime]:
    """What this statement sees: the snapshot, the number of the reader's own transaction (or 0), and the moment."""
    with connection.cursor() as cursor:
        cursor.execute(SNAPSHOT)
        ((text, own, now),) = cursor.fetchall()
    return text, own, now


def _scan(wanted: _Wanted, after: Key | None, limit: int, looks_at: int) -> list[Key]:
    """The places of the rows that fit, below `after`."""
    (lead, led), (sift, sifted) = wanted.lead, wanted.sift
    below, key = _below(after)
    statement = (
        "SELECT l.recorded_at, l.id FROM ("  # noqa: S608 - our own names, values as parameters
        f"SELECT * FROM fencing_sidelogrow WHERE {lead} AND {below}"
        f" ORDER BY recorded_at DESC, id DESC LIMIT {looks_at}) l"
        f" WHERE {sift} ORDER BY l.recorded_at DESC, l.id DESC LIMIT %s"
    )
    return _keys(statement, [*led, *key, *sifted, limit])


def _reached(wanted: _Wanted, after: Key | None, looks_at: int) -> Key | None:
    """The place at which a search of so many rows stopped; None where it came to the end."""
    lead, led = wanted.lead
    below, key = _below(after)
    statement = (
        f"SELECT recorded_at, id FROM fencing_sidelogrow WHERE {lead} AND {below}"  # noqa: S608 - the same
        f" ORDER BY recorded_at DESC, id DESC OFFSET {looks_at - 1} LIMIT 1"
    )
    found = _keys(statement, [*led, *key])
    return found[0] if found else None


def _late(wanted: _Wanted, walk: Walk, until: str, own: int, limit: int) -> list[Key]:
    """The places, above where the walk stands, of rows that it could not see when it passed them."""
    late = wanted.late(walk.seen, until, own)
    (lead, led), (sift, sifted) = late.lead, late.sift
    below, key = _below(walk.late_last)
    statement = (
        "SELECT l.recorded_at, l.id FROM ("  # noqa: S608 - the same
        f"SELECT * FROM fencing_sidelogrow WHERE {lead} AND recorded_at <= %s AND (recorded_at, id) > (%s, %s)"
        f" AND {below}) l WHERE {sift} ORDER BY l.recorded_at DESC, l.id DESC LIMIT %s"
    )
    return _keys(statement, [*led, walk.began, walk.last.at, walk.last.id, *key, *sifted, limit])


def _below(after: Key | None) -> Clause:
    return ("true", []) if after is None else ("(recorded_at, id) < (%s, %s)", [after.at, after.id])


def _keys(statement: str, values: Sequence[Any]) -> list[Key]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return [Key(at=at, id=row_id) for at, row_id in cursor.fetchall()]


def _part(keys: Sequence[Key], late: int, following: Walk | None, looked_to: datetime | None) -> Part:
    found = {row.id: row for row in read_rows([key.id for key in keys])} if keys else {}
    rows = tuple(found[key.id] for key in keys)
    return Part(rows=rows, late=late, following=None if following is None else following.encode(), looked_to=looked_to)
