"""The desk of the deliverer: what is plain is taken by one statement; `pushing` and `undoing_calls` take the rest.

What is plain stands in `fencing/models/sql/pushes.sql`, and is written as the careful way would write it: most effects
are tried once, for one commit by agreement, and leave milliseconds after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import psycopg
import structlog
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from fencing.gateway import pushing, undoing_calls
from fencing.gateway.outgoing import COURIER, Callee, Outgoing, OutgoingEffect, OutgoingUndoing
from fencing.gateway.pace import push_tools
from fencing.models.fields import uuid7
from fencing.models.registry import hear_registry, newest_registry
from fencing.protocol.pushing import Ended
from fencing.protocol.rules import retries_of
from fencing.protocol.tools import Mode, ToolDefinition

log = structlog.get_logger(__name__)

STATEMENT: Final = "SELECT * FROM fence_straight_pushes(%s::jsonb)"

Row = tuple[Any, ...]


class Told(StrEnum):
    """How a look went, as its first row tells."""

    BUSY = "busy"
    STALE = "stale"
    ALL = "all"
    REST = "rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one look took. `is_all`: nothing that is due was left to the careful way.

    `is_busy`: another worker takes at this very moment, so that nobody looked: look again in a moment.
    """

    calls: tuple[OutgoingEffect, ...] = ()
    is_all: bool = False
    is_busy: bool = False


def take_plain(limit: int) -> Taken:
    """Admit what is plainly due of push tools, `limit` at most, in one statement that is a transaction of its own."""
    registry = newest_registry()
    told, calls = _look(limit, registry)
    if told is Told.STALE:
        registry = hear_registry()
        told, calls = _look(limit, registry)
    return Taken(calls=calls, is_all=told in (Told.ALL, Told.BUSY), is_busy=told is Told.BUSY)


def _look(limit: int, registry: int) -> tuple[Told, tuple[OutgoingEffect, ...]]:
    tools = push_tools(registry)
    asked = {
        "registry": registry,
        "limit": limit,
        "ids": [str(uuid7()) for _ in range(limit)],
        "tools": [_asked(definition) for definition in tools.values()],
        "actor": COURIER.actor,
    }
    try:
        first, *others = ask(STATEMENT, json.dumps(asked))
    except (OperationalError, InterfaceError):
        raise  # nobody could take anything now
    except DatabaseError:
        # A guard found that a fact moved meanwhile: nothing was written, and the careful way reads the facts again.
        log.warning("plain_take_failed", exc_info=True)
        return Told.REST, ()
    return Told(first[0]), tuple(_outgoing(row, tools) for row in others)


def _asked(definition: ToolDefinition) -> dict[str, Any]:
    policy = definition.policy
    return {
        "tool": definition.tool,
        "many": policy.max_in_flight,
        "lease_s": retries_of(definition).lease_s,
        "is_plain": definition.mode is Mode.PUSH and policy.rate_per_s is None,
    }


def ask(statement: str, argument: str) -> list[Row]:
    """Run a statement that the server keeps prepared."""
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        return cursor.execute(statement, [argument], prepare=True).fetchall()


def _outgoing(row: Row, tools: Mapping[str, ToolDefinition]) -> OutgoingEffect:
    _, intent, delivery, tool, token, body, key = row
    callee = Callee.of(tools[tool])
    if callee is None:
        raise AssertionError("a push tool has an endpoint")
    return OutgoingEffect(
        intent=str(intent),
        delivery=str(delivery),
        number=1,
        callee=callee,
        body=bytes(body),
        idempotency_key=key,
        token=token,
    )


def take(limit: int) -> list[Outgoing]:
    """Give what else is to be called now. People decided on undoings: they are few, and go before."""
    undone = undoing_calls.take(limit)
    return [*undone, *pushing.take(limit - len(undone))]


def settle(ended: Sequence[tuple[Outgoing, Ended]], chance: Sequence[float]) -> list[float]:
    """Record how calls ended; give how many seconds each waits for its next try, 0 where it has none.

    Undoings come first, each a transaction that may be repeated; effects are one, and last.
    """
    numbered = [(place, call, end) for place, (call, end) in enumerate(ended)]
    undone = [(place, call, end) for place, call, end in numbered if isinstance(call, OutgoingUndoing)]
    effects = [(place, call, end) for place, call, end in numbered if isinstance(call, OutgoingEffect)]
    pauses = [0.0] * len(ended)
    told = undoing_calls.settle([(call, end) for _, call, end in undone], [chance[place] for place, *_ in undone])
    told += pushing.settle([(call, end) for _, call, end in effects], [chance[place] for place, *_ in effects])
    for (place, *_), pause_s in zip([*undone, *effects], told, strict=True):
        pauses[place] = pause_s
    return pauses
