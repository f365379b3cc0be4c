"""What the payloads that the audit names touch (T3): for the search by resource, read long after the writing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson
from django.db import connection

from fencing.models.facts import MAX_RESOURCE
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.actions import resources_of

# Verbs whose rows name a payload, and the member of `after` that does. A vote's digest is that of the fence: where the
# tool has advisory members it is no payload's, and the step is found once it is committed.
DIGESTS: Final = {"commit_step": "payload_digest", "vote": "digest"}
# A list of thousands is one parameter: as an `IN` with a place for each it took longer to write than to answer.
STORED: Final = (
    "SELECT payload_digest, tool, canonical FROM fencing_action WHERE payload_digest = ANY (%s) AND tool = ANY (%s)"
)


def resources_of_payloads(digests: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Tell what stored actions touch, by payload digest, as the registry stands now."""
    declared = {name: tool.resources for name, tool in registry_at(current_registry()).items() if tool.resources}
    found = {}
    with connection.cursor() as cursor:
        cursor.execute(STORED, [list(set(digests)), list(declared)])
        rows = cursor.fetchall()
    for digest, tool, canonical in rows:
        touched = resources_of(orjson.loads(canonical)["args"], declared[tool])
        found[digest] = tuple(text.replace("\x00", "␀")[:MAX_RESOURCE] for text in touched)
    return found
