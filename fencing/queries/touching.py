"""Which runs touched a resource: by what was committed and voted, refused, found in a ledger, or opened as an incident.

The side log, incidents and effects name their resources themselves. Of steps the seals tell (`facets`), so that who
proposes and votes pays for no index.
"""

from __future__ import annotations

from typing import Final

from fencing.models import AuditEvent, Incident, ObservedEffect, Seal, SideLogRow
from fencing.models.touched import DIGESTS, resources_of_payloads

MOST_RUNS: Final = 50
MOST_SEALS: Final = 20


def runs_touching(resource: str) -> list[str]:
    """Name the runs that touched a resource, those of the newest seals first; so many at most."""
    found: list[str | None] = [*_by_seals(resource)]
    refused = SideLogRow.objects.filter(resources__contains=[resource], run__isnull=False)
    found += refused.order_by("-recorded_at").values_list("run", flat=True)[:MOST_RUNS]
    for model in (Incident, ObservedEffect):
        rows = model._default_manager.filter(resources__contains=[resource], run__isnull=False)
        found += rows.order_by("-pk").values_list("run__name", flat=True)[:MOST_RUNS]
    return [run for run in dict.fromkeys(found) if run][:MOST_RUNS]


def _by_seals(resource: str) -> list[str]:
    seals = Seal.objects.filter(facets__contains=[f"resource:{resource}"]).order_by("-number")
    runs: dict[str, None] = {}
    for after, last in seals.values_list("after", "last")[:MOST_SEALS]:
        rows = AuditEvent.objects.filter(pk__gt=after, pk__lte=last, verb__in=DIGESTS).order_by("-pk")
        told = [
            (run, (after or {}).get(DIGESTS[verb])) for run, verb, after in rows.values_list("run", "verb", "after")
        ]
        touched = resources_of_payloads({digest for _, digest in told if digest})
        runs |= {run: None for run, digest in told if run and resource in touched.get(str(digest), ())}
        if len(runs) >= MOST_RUNS:
            break
    return list(runs)
