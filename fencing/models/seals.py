"""The seals over the audit, who else has their heads, and how often all of it was verified (protocol, section 14)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import pgtrigger
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField
from django.contrib.postgres.indexes import GinIndex, GistIndex
from django.db import connection, models
from django.db.models import F, Q
from django.db.models.functions import Length
from django.db.models.lookups import Exact

from fencing.models import fields, triggers
from fencing.models.audit import AuditEvent
from fencing.protocol import seal as protocol
from fencing.protocol.audit_faults import Kind
from fencing.protocol.objects import rfc3339

TABLE: Final = AuditEvent._meta.db_table

# U2: who seals twice what was sealed, or hangs a seal on another than the last one, finds no place in the chain.
CHAIN_GUARD: Final = """
SELECT min('seal_in_its_chain: U2, a seal begins where the one before it ends, and names its hash') INTO wrong
FROM new_rows AS seal
LEFT JOIN LATERAL (SELECT hash, last FROM fencing_seal WHERE number = seal.number - 1 LIMIT 1) AS its ON true
WHERE seal.previous <> coalesce(its.hash, 'sha256:' || repeat('0', 64)) OR seal.after <> coalesce(its.last, 0)
    OR (its.hash IS NULL AND seal.number <> 1);
"""


def text_of(column: str) -> str:
    """Write a column of the audit as the text that is hashed: exactly what is stored, whatever the session's settings.

    A moment is its eight bytes as they go over the wire, microseconds since 2000.
    """
    if column == "at":
        return "encode(timestamptz_send(\"at\"), 'hex')"
    return f'"{column}"::text' if column in ("before", "after") else f'"{column}"'


def hashed_sql() -> str:
    """Write the bytes of a row that are hashed (`protocol.seal.row_bytes`), over the columns of `texts_sql`."""
    names = [f'"{column}"' for column in protocol.COLUMNS]
    lengths = ", ',', ".join(f"octet_length({name})" for name in names)
    return f"concat({lengths}, ';', {', '.join(names)})"


def texts_sql() -> str:
    """Write a query for the rows between two numbers, each column as its text; each is made once (`OFFSET 0`)."""
    texts = ", ".join(f'{text_of(column)} AS "{column}"' for column in protocol.COLUMNS)
    return f"SELECT id, {texts} FROM {TABLE} WHERE id > %s AND id <= %s ORDER BY id OFFSET 0"  # noqa: S608


def texts_of_rows(rows: Sequence[int]) -> dict[int, dict[str, str | None]]:
    """The columns of some rows as exports carry them: JSON as PostgreSQL writes it, moments in RFC 3339."""
    return dict(_texts("id = ANY (%s)", [list(rows)]))


def texts_between(after: int, last: int) -> list[tuple[int, dict[str, str | None]]]:
    """The same of every row between two numbers, in their order."""
    return _texts("id > %s AND id <= %s", [after, last])


def _texts(where: str, values: list[Any]) -> list[tuple[int, dict[str, str | None]]]:
    names = [column for column in protocol.COLUMNS if column != "at"]
    texts = ", ".join(text_of(column) for column in names)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id, at, {texts} FROM {TABLE} WHERE {where} ORDER BY id", values)  # noqa: S608 - our own
        found = cursor.fetchall()
    return [
        (number, {"at": protocol.moment_text(at), **dict(zip(names, values, strict=True))})
        for number, at, *values in found
    ]


# Nothing but what PostgreSQL comes with: a function of ours could be replaced by whoever edits rows.
ENTRIES: Final = f"""
SELECT coalesce(string_agg(
    int8send(id) || sha256(convert_to({hashed_sql()}, 'UTF8')), ''::bytea ORDER BY id), ''::bytea)
FROM ({texts_sql()}) AS texts
"""  # noqa: S608 - names of our own

# The same rows in words, for those who look for them: whom a seal tells of, and of which time.
FACETS: Final = f"""
SELECT actor, role, verb, kind, min("at"), max("at") FROM {TABLE} WHERE id > %s AND id <= %s GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - names of our own

# Payloads that those rows name.
PAYLOADS: Final = f"""
SELECT DISTINCT coalesce(after ->> 'payload_digest', after ->> 'digest') FROM {TABLE}
WHERE id > %s AND id <= %s AND verb = ANY (%s)
"""  # noqa: S608 - names of our own


class Seal(models.Model):
    """One link of the chain: the rows after the last seal's up to `last`, their root, the signature (U2).

    `entries` are the number and content of each row, 40 bytes each (`protocol.seal`); `facets` and `moments` tell
    whoever searches which seals to look into, so that nothing of the kind costs those who write the audit.
    """

    number = models.BigIntegerField(primary_key=True)
    previous = fields.digest(unique=True)
    hash = fields.digest(unique=True)
    after = models.BigIntegerField()
    last = models.BigIntegerField()
    count = models.IntegerField()
    root = fields.digest()
    sealed_at = models.DateTimeField()
    kid = models.CharField(max_length=64)
    signature = models.CharField(max_length=100)
    # Stored without a try at compression (migration 0020): most of it is hashes.
    entries = models.BinaryField()
    facets = ArrayField(models.TextField())
    moments = DateTimeRangeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(number__gte=1, count__gte=1, last__gt=F("after")), name="seal_of_rows"),
            models.CheckConstraint(
                condition=Exact(Length("entries"), F("count") * protocol.ENTRY), name="seal_has_its_entries"
            ),
        ]
        indexes = [
            models.Index(F("last").desc(), name="seal_of_row"),
            GinIndex(fields=["facets"], name="seal_by_facet"),
            GistIndex(fields=["moments"], name="seal_by_moment"),
        ]
        triggers = [
            *triggers.append_only(),
            triggers.StatementGuard(name="seal_in_its_chain", operation=pgtrigger.Insert, func=CHAIN_GUARD),
        ]

    @functools.cached_property
    def pure(self) -> protocol.Seal:
        """The seal as the core knows it."""
        return protocol.Seal(
            number=self.number,
            previous=self.previous,
            after=self.after,
            last=self.last,
            count=self.count,
            root=self.root,
            at=str(rfc3339(self.sealed_at)),
            kid=self.kid,
            signature=self.signature,
        )


class Witness(models.Model):
    """Somebody outside who keeps the heads of seals: up to which one they said that they have them, or why not."""

    url = models.CharField(max_length=500, primary_key=True)
    number = models.BigIntegerField(default=0)
    told_at = models.DateTimeField(null=True)
    failure = models.CharField(max_length=200, default="")
    failures = models.IntegerField(default=0)
    next_at = models.DateTimeField(null=True)

    class Meta:
        triggers = triggers.kept("number", "told_at", "failure", "failures", "next_at")


class Verification(models.Model):
    """One verification of the whole audit: asked, under way with how far it is, and what it found (U3)."""

    class State(models.TextChoices):
        """How far it is."""

        ASKED = "asked"
        RUNNING = "running"
        HELD = "held"
        FAILED = "failed"

    id = fields.key()
    state = models.CharField(max_length=7, choices=State, default=State.ASKED)
    asked_by = models.CharField(max_length=250)
    asked_at = fields.recorded_at()
    # How far: the last good seal, its last row, and up to which seal it is to go.
    seal = models.BigIntegerField(default=0)
    up_to = models.BigIntegerField(default=0)
    rows = models.BigIntegerField(default=0)
    unsealed = models.BigIntegerField(default=0)
    worked_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    fault_kind = models.CharField(max_length=20, default="", choices=[(kind.value, kind.value) for kind in Kind])
    fault_row = models.BigIntegerField(null=True)
    fault_seal = models.BigIntegerField(null=True)
    says = models.TextField(default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(finished_at__isnull=True, state__in=["asked", "running"])
                | Q(finished_at__isnull=False, state="held", fault_kind="")
                | (Q(finished_at__isnull=False, state="failed") & ~Q(fault_kind="")),
                name="verification_ends_once",
            ),
            # One at a time: who asks while one is under way is shown that one.
            models.UniqueConstraint(
                models.Value(1), condition=Q(finished_at__isnull=True), name="verification_one_open"
            ),
        ]
        indexes = [models.Index(F("asked_at").desc(), F("id").desc(), name="verification_newest")]
        triggers: list[Any] = [
            *triggers.kept(*(
                "state", "seal", "up_to", "rows", "unsealed", "worked_at", "finished_at",
                "fault_kind", "fault_row", "fault_seal", "says",
            )),
            triggers.Unchanged(
                name="verification_stays",
                fields=["state", "fault_kind", "fault_row", "fault_seal", "says", "rows", "finished_at"],
                sentence="I6, what a verification found stays as it is",
                where="OLD.finished_at IS NOT NULL",
            ),
        ]  # fmt: skip
