"""What the payloads that the audit names touch (T3): for the search by resource, read long after the writing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from fencing.models.actions import Action
from fencing.models.facts import MAX_RESOURCE, lookup_of
from fencing.models.registry import current_registry
from fencing.protocol.actions import resources_of

# Verbs whose rows name a payload, and the member of `after` that does. A vote's digest is that of the fence: where the
# tool has advisory members it is no payload's, and the step is found once it is committed.
DIGESTS: Final = {"commit_step": "payload_digest", "vote": "digest"}


def resources_of_payloads(digests: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Tell what stored actions touch, by payload digest, as the registry stands now."""
    lookup = lookup_of(current_registry())
    found = {}
    for row in Action.objects.filter(payload_digest__in=set(digests)):
        definition = lookup(row.tool)
        if definition is not None and definition.resources:
            touched = resources_of(json.loads(bytes(row.canonical))["args"], definition.resources)
            found[row.payload_digest] = tuple(text.replace("\x00", "␀")[:MAX_RESOURCE] for text in touched)
    return found
