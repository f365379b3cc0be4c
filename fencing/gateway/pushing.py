"""Push delivery in the database: taking what is due, and writing down what became of it (T5, L5).

`take` admits deliveries of push tools as admission does for gateways, in one short transaction, and gives what is to
be called; `settle` records how calls ended. Between the two no transaction is open: who calls may die at any moment,
and then the lease alone says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from django.db import connection

from fencing.gateway import admissions
from fencing.gateway.effects import Effect, claimants, lock_effects
from fencing.models import Breaker, Commit, ToolVersion
from fencing.models.facts import Facts, lock_steps, lookup_of
from fencing.models.registry import current_registry, registry_at
from fencing.protocol import breakers, intents, pushing
from fencing.protocol.actions import Action, read_action
from fencing.protocol.answers import Answer
from fencing.protocol.breakers import Bucket
from fencing.protocol.callers import Caller, Role
from fencing.protocol.canonical import canonical_bytes
from fencing.protocol.errors import Refusal
from fencing.protocol.policies import Policy
from fencing.protocol.pushing import Ended, Verdict
from fencing.protocol.tools import ToolDefinition
from fencing.services.requests import Admit
from fencing.services.writes import LostRace, Writes, in_transaction

COURIER: Final = Caller(credential_id=None, name="deliverer", role=Role.SYSTEM)

# One at a time takes work: so caps and rates hold over all workers, and two of them never look at the same intent.
ONE_TAKES: Final = "SELECT pg_try_advisory_xact_lock(x'66656e6365707368'::bigint), clock_timestamp()"  # "fencepsh"

# Ready intents of push tools, so many of each, the oldest first and each tool in its turn; with the commit that is
# delivered. What a freeze stops, and what happened without authority already, is passed over (L8, L10).
DUE: Final = """
SELECT due.intent_id, due.commit_id, due.tool FROM (
    SELECT i.id AS intent_id, k.id AS commit_id, asked.tool,
        row_number() OVER (PARTITION BY asked.tool ORDER BY i.opened_at, i.id) AS place
    FROM unnest(%s::text[], %s::int[]) AS asked(tool, many)
    JOIN LATERAL (
        SELECT a.id, a.run_id, a.opened_at, a.payload_id FROM fencing_intent a
        WHERE a.tool = asked.tool AND a.state = 'ready' AND (a.not_before IS NULL OR a.not_before <= clock_timestamp())
          AND (SELECT v.mode FROM fencing_toolversion v
            WHERE v.tool = a.tool AND v.id <= a.registry ORDER BY v.id DESC LIMIT 1) = 'push'
          AND NOT EXISTS (SELECT FROM fencing_freeze f WHERE f.lifted_at IS NULL
            AND (f.tool IS NULL OR f.tool = a.tool) AND (f.run_id IS NULL OR f.run_id = a.run_id))
          AND EXISTS (SELECT FROM fencing_commit c WHERE c.intent_id = a.id AND c.closed_at IS NULL
            AND (a.payload_id IS NULL OR a.payload_id = c.payload_id)
            AND NOT EXISTS (SELECT FROM fencing_observedeffect e
              WHERE e.digest = c.payload_id AND e.match = 'escape' AND e.is_open))
        ORDER BY a.opened_at, a.id LIMIT asked.many
    ) i ON true
    JOIN LATERAL (
        SELECT c.id FROM fencing_commit c WHERE c.intent_id = i.id AND c.closed_at IS NULL
          AND (i.payload_id IS NULL OR i.payload_id = c.payload_id) ORDER BY c.committed_at, c.id LIMIT 1
    ) k ON true
) due ORDER BY due.place, due.tool LIMIT %s
"""
IN_FLIGHT: Final = """
SELECT i.tool, count(*) FROM fencing_intent i
WHERE i.state = 'in_flight' AND i.tool = ANY (%s::text[]) GROUP BY 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A delivery that was admitted and is to be called now. `body` are the committed bytes, never another spelling."""

    intent: str
    delivery: str
    number: int
    tool: str
    endpoint: str
    credential: str | None
    body: bytes
    idempotency_key: str
    token: str
    timeout_s: float
    policy: Policy


def take(limit: int) -> list[Outgoing]:
    """Admit what is due of push tools, `limit` at most, and give what is to be called."""
    tools = push_tools()
    return in_transaction(lambda: _take(limit, tools)) if tools else []


def push_tools(registry: int | None = None) -> Mapping[str, ToolDefinition]:
    """The tools that are, or were, called by this system, as they are registered now, or at a version of the registry.

    Only caps, rates and breakers are read from this: what is sent where is told by each intent's own version.
    """
    return _push_tools(current_registry() if registry is None else registry)


@lru_cache(maxsize=4)
def _push_tools(version: int) -> Mapping[str, ToolDefinition]:
    registry = registry_at(version)
    pushed = ToolVersion.objects.filter(mode="push", id__lte=version).order_by("tool").distinct("tool")
    return MappingProxyType({name: registry[name] for name in pushed.values_list("tool", flat=True)})


def _take(limit: int, tools: Mapping[str, ToolDefinition]) -> list[Outgoing]:
    with connection.cursor() as cursor:
        cursor.execute(ONE_TAKES)
        ((is_mine, now),) = cursor.fetchall()
        if not is_mine:
            return []
        pace = _Pace(tools, now)
        room = pace.room(limit)
        cursor.execute(DUE, [list(room), list(room.values()), limit])
        due = [(str(intent), str(commit), str(tool)) for intent, commit, tool in cursor.fetchall()]
    if not due:
        return []
    writes = Writes(COURIER)
    taken = _admitted(due, writes)
    pace.note(Counter(each.tool for each in taken), writes)
    writes.send()
    return taken


def _admitted(due: Sequence[tuple[str, str, str]], writes: Writes) -> list[Outgoing]:
    """Judge each as admission does; what is refused stays where it is, and is told to nobody: nobody asked."""
    commits = {
        str(commit.id): commit
        for commit in Commit.objects.select_related("run", "payload").filter(id__in=[each[1] for each in due])
    }
    places = [(commit.run.name, commit.step_name) for commit in commits.values()]
    facts = lock_steps(places + claimants([each[0] for each in due]), strength="admit")
    found = []
    for intent_id, commit_id, _ in due:
        commit = commits[commit_id]
        facts.lock_intents(ids=[intent_id])
        admitted = _admit(commit, facts, writes)
        if admitted is not None:
            found.append(admitted)
    return found


def _admit(commit: Commit, facts: Facts, writes: Writes) -> Outgoing | None:
    body = bytes(commit.payload.canonical)
    action = read_action(json.loads(body), lookup_of(facts.registry))
    if not isinstance(action, Action):
        raise LostRace("a stored action is none")
    call = admissions.Call(
        request=Admit(action=None, token=commit.token, run=commit.run.name, step=commit.step_name, epoch=commit.epoch),
        action=action,
        commit=commit,
    )
    step = admissions.judged(call, facts, writes)
    if isinstance(step, Refusal):
        return None
    effect = Effect(facts.intents[str(commit.intent_id)], facts, writes)
    if any(claim["step_id"] not in facts.steps for claim in effect.intent.row["claims"]):
        raise LostRace("a step claimed the intent meanwhile")
    definition = effect.definition
    if definition is None or definition.endpoint is None:
        return None
    effect.expire_leases()
    answer = admissions.deliver(step, effect)
    if not isinstance(answer, Answer) or not answer.body.get("admit"):
        return None
    return Outgoing(
        intent=str(answer.body["intent"]),
        delivery=str(answer.body["delivery"]),
        number=effect.intent.row["deliveries"][-1]["number"],
        tool=definition.tool,
        endpoint=definition.endpoint,
        credential=definition.credential,
        body=body,
        idempotency_key=str(answer.body["idempotency_key"]),
        token=commit.token,
        timeout_s=float(definition.policy.timeout_s),
        policy=definition.policy,
    )


class _Pace:
    """How many calls of each tool may begin now: caps, rates and circuit breakers, over all workers."""

    def __init__(self, tools: Mapping[str, ToolDefinition], now: datetime) -> None:
        self.tools, self.now = tools, now
        self.rows = {row.tool: row for row in Breaker.objects.filter(tool__in=list(tools))}
        with connection.cursor() as cursor:
            cursor.execute(IN_FLIGHT, [list(tools)])
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


def settle(ended: Sequence[tuple[Outgoing, Ended]], chance: Sequence[float]) -> list[float]:
    """Record how calls ended. Gives for each how many seconds its intent waits for the next try, 0 where it has none.

    `chance` spreads the tries of many. An answer that comes when another delivery took over is a stale one, recorded
    and without effect (L5); a late success settles.
    """
    return in_transaction(lambda: _settle(ended, chance)) if ended else []


def _settle(ended: Sequence[tuple[Outgoing, Ended]], chance: Sequence[float]) -> list[float]:
    writes = Writes(COURIER)
    facts = lock_effects(sorted({call.intent for call, _ in ended}))
    verdicts = [pushing.classify(end, call.policy, now=facts.now) for call, end in ended]
    pauses = [
        _record(call, verdict, luck, facts, writes)
        for (call, _), verdict, luck in zip(ended, verdicts, chance, strict=True)
    ]
    _tell_breakers([(call.tool, verdict) for (call, _), verdict in zip(ended, verdicts, strict=True)], facts, writes)
    writes.send()
    return pauses


def _record(call: Outgoing, verdict: Verdict, chance: float, facts: Facts, writes: Writes) -> float:
    effect = Effect(facts.intents[call.intent], facts, writes)
    pause_s = pushing.pause_s(call.number, chance)
    recorded = effect.record(
        call.number,
        verdict.kind,
        source="push",
        response=None if verdict.response is None else canonical_bytes(verdict.response),
        retry_after_s=verdict.wait_s,
        pause_s=pause_s,
        evidence=verdict.says,
    )
    if recorded.refusal is not None:
        subject = {"run": effect.run.name, "tool": call.tool, "resources": []}
        writes.refuse(recorded.refusal, "outcome", **subject)
        return 0.0
    if recorded.state is not intents.State.READY or recorded.not_before is None:
        return 0.0
    return max((recorded.not_before - facts.now).total_seconds(), 0.0)


def _tell_breakers(told: Iterable[tuple[str, Verdict]], facts: Facts, writes: Writes) -> None:
    by_tool: dict[str, list[Verdict]] = {}
    for tool, verdict in told:
        by_tool.setdefault(tool, []).append(verdict)
    rows = {row.tool: row for row in Breaker.objects.filter(tool__in=list(by_tool)).select_for_update().order_by("id")}
    for tool, verdicts in sorted(by_tool.items()):
        row = rows.get(tool)
        breaker = before = as_breaker(row)
        for verdict in verdicts:
            breaker = breaker.after(is_fault=verdict.is_fault, now=facts.now)
        if breaker != before:
            says = next((each.says for each in reversed(verdicts) if each.is_fault), "" if row is None else row.says)
            columns = {"state": breaker.state.value, "faults": breaker.faults, "until": breaker.until, "says": says}
            write_breaker(tool, row, columns, facts.now, writes)
