"""How many calls of each push tool may begin now: caps, rates and circuit breakers, over all workers.

What undoes an effect is a call like any other: both kinds draw on the same cap, the same rate and the same breaker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from django.db import connection

from fencing.models import Breaker, ToolVersion
from fencing.models.registry import current_registry, registry_at
from fencing.protocol import breakers
from fencing.protocol.breakers import Bucket
from fencing.protocol.pushing import Verdict
from fencing.protocol.tools import ToolDefinition
from fencing.services.writes import Writes

# One at a time takes work: so caps and rates hold over all workers, and two of them never look at the same delivery.
ONE_TAKES: Final = "SELECT pg_try_advisory_xact_lock(x'66656e6365707368'::bigint), clock_timestamp()"  # "fencepsh"
UNDER_WAY: Final = """
SELECT tool, sum(many)::bigint FROM (
    SELECT i.tool, count(*) AS many FROM fencing_intent i
    WHERE i.state = 'in_flight' AND i.tool = ANY (%(tools)s::text[]) GROUP BY 1
    UNION ALL
    SELECT a.tool, count(*) FROM fencing_compensation c JOIN fencing_action a ON a.payload_digest = c.payload_id
    WHERE c.state = 'in_flight' AND a.tool = ANY (%(tools)s::text[]) GROUP BY 1
) AS calls GROUP BY 1
"""


def turn_to_take() -> datetime | None:
    """Have this transaction be the one that takes work; give the moment, None while another worker takes."""
    with connection.cursor() as cursor:
        cursor.execute(ONE_TAKES)
        ((is_mine, now),) = cursor.fetchall()
    moment: datetime | None = now if is_mine else None
    return moment


def push_tools(registry: int | None = None) -> Mapping[str, ToolDefinition]:
    """The tools that are, or were, called by this system, as they are registered now, or at a version of the registry.

    Only caps, rates and breakers are read from this: what is sent where is told by the version of what is sent.
    """
    return _push_tools(current_registry() if registry is None else registry)


@lru_cache(maxsize=4)
def _push_tools(version: int) -> Mapping[str, ToolDefinition]:
    registry = registry_at(version)
    pushed = ToolVersion.objects.filter(mode="push", id__lte=version).order_by("tool").distinct("tool")
    return MappingProxyType({name: registry[name] for name in pushed.values_list("tool", flat=True)})


class Pace:
    """How many calls of each tool may begin, as of `now`; made by who has the turn to take."""

    def __init__(self, tools: Mapping[str, ToolDefinition], now: datetime) -> None:
        self.tools, self.now = tools, now
        self.rows = {row.tool: row for row in Breaker.objects.filter(tool__in=list(tools))}
        with connection.cursor() as cursor:
            cursor.execute(UNDER_WAY, {"tools": list(tools)})
            self.under_way: dict[str, int] = dict(cursor.fetchall())

    def room(self, limit: int) -> dict[str, int]:
        """Say how many of each tool may begin; tools that may not are left out."""
        found = {}
        for name, definition in self.tools.items():
            policy = definition.policy
            many = min(limit, policy.max_in_flight - self.under_way.get(name, 0))
            if policy.rate_per_s is not None:
                many = min(many, int(self._bucket(name, policy.rate_per_s).tokens))
            of_breaker = as_breaker(self.rows.get(name)).room(self.now)
            many = many if of_breaker is None else min(many, of_breaker)
            if many > 0:
                found[name] = many
        return found

    def note(self, begun: Mapping[str, int], writes: Writes) -> None:
        """Write down what begins: it draws on the rate, and may be the one call of an open breaker."""
        for name, many in begun.items():
            policy, columns = self.tools[name].policy, dict[str, Any]()
            if policy.rate_per_s is not None:
                bucket = self._bucket(name, policy.rate_per_s)
                columns |= {"tokens": bucket.tokens - many, "tokens_at": bucket.at}
            breaker = as_breaker(self.rows.get(name))
            if breaker.state is not breakers.State.CLOSED:
                probing = breaker.probe(self.now, policy.timeout_s)
                columns |= {"state": probing.state.value, "until": probing.until}
            if columns:
                write_breaker(name, self.rows.get(name), columns, self.now, writes)

    def _bucket(self, name: str, rate_per_s: int) -> Bucket:
        row = self.rows.get(name)
        if row is None or row.tokens_at is None:
            return Bucket.full(rate_per_s, self.now)
        return Bucket(tokens=row.tokens, at=row.tokens_at).filled(rate_per_s, self.now)


def as_breaker(row: Breaker | None) -> breakers.Breaker:
    """A tool's breaker as the pure core knows it; a tool of which nothing is known is called."""
    if row is None:
        return breakers.Breaker()
    return breakers.Breaker(state=breakers.State(row.state), faults=row.faults, until=row.until)


def write_breaker(tool: str, row: Breaker | None, columns: Mapping[str, Any], now: datetime, writes: Writes) -> None:
    """Write what is known of a tool; whether it is called is told in the audit as well."""
    if row is None:
        writes.insert("breaker", **{**_FRESH, "tool": tool, "changed_at": now, **columns})
    else:
        writes.update("breaker", str(row.id), changed_at=now, **columns)
    before = "closed" if row is None else row.state
    after = columns.get("state", before)
    if before != after:
        says = {"says": columns["says"]} if "says" in columns else {}
        writes.audit("move_breaker", "tool", tool, before={"breaker": before}, after={"breaker": after, **says})


_FRESH: Final[Mapping[str, Any]] = {"state": "closed", "faults": 0, "until": None, "says": "", "tokens": 0.0}


def tell_breakers(told: Iterable[tuple[str, Verdict]], now: datetime, writes: Writes) -> None:
    """Have each tool's breaker hear how its calls ended, in their order; locked last, whatever else is locked."""
    by_tool: dict[str, list[Verdict]] = {}
    for tool, verdict in told:
        by_tool.setdefault(tool, []).append(verdict)
    rows = {row.tool: row for row in Breaker.objects.filter(tool__in=list(by_tool)).select_for_update().order_by("id")}
    for tool, verdicts in sorted(by_tool.items()):
        row = rows.get(tool)
        breaker = before = as_breaker(row)
        for verdict in verdicts:
            breaker = breaker.after(is_fault=verdict.is_fault, now=now)
        if breaker != before:
            says = next((each.says for each in reversed(verdicts) if each.is_fault), "" if row is None else row.says)
            columns = {"state": breaker.state.value, "faults": breaker.faults, "until": breaker.until, "says": says}
            write_breaker(tool, row, columns, now, writes)
