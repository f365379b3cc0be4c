"""A fingerprint of what the fence rests on: what a call changed, and what it left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.db import connection
from psycopg import sql

from fencing import models

CORE: Final = (
    *("Run", "EpochOpening", "Step", "Vote", "Action", "Grant", "GrantApproval", "GrantUse", "Commit", "Intent"),
    *("Claim", "Delivery", "Outcome", "Incident", "ToolVersion", "SigningKey", "Acknowledgement", "AuditEvent"),
    "FeedEvent",
)


PRINT: Final = sql.SQL("SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM {} t")


def state() -> dict[str, str]:
    """A fingerprint of each table that the fence rests on."""
    prints = {}
    with connection.cursor() as cursor:
        for name in CORE:
            table = getattr(models, name)._meta.db_table
            cursor.execute(PRINT.format(sql.Identifier(table)))
            prints[name] = str(cursor.fetchone())
    return prints


def changed(before: Mapping[str, str]) -> set[str]:
    """The tables that are not as they were."""
    return {name for name, print_ in state().items() if print_ != before[name]}
