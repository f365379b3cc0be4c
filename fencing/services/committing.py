"""The fencer's straight way: commits by agreement, as many as are due, in two statements and one transaction.

Candidates come out of the database under lock (`fence_straight_due`), the pure core decides each, as it decides every
other step, and what it commits is written set-based. Whatever else is due is left as it was for `services.fencing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson
import psycopg
from django.db import connection, transaction

from fencing.models.facts import pure_vote
from fencing.models.fields import uuid7_text
from fencing.models.jsonb import jsonb_text
from fencing.models.registry import known_rules, registry_at
from fencing.protocol import fence, tokens
from fencing.protocol.callers import SYSTEM
from fencing.protocol.tools import Mode
from fencing.services import signals
from fencing.services.signing import signing_key
from fencing.services.taking_back import step_topic
from fencing.services.wakeups import wake
from fencing.services.writes import in_transaction

DUE: Final = "SELECT fence_straight_due(%s)::text"
COMMIT: Final = "SELECT fence_straight_commits(%s::jsonb)"

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of a batch: how many steps were due, and how many of them were committed here."""

    waiting: int
    committed: int


def commit_agreed(limit: int) -> Taken:
    """Commit what is plainly agreed among the first `limit` steps that are due (F4, F9)."""
    return in_transaction(lambda: _commit_agreed(limit))


def _commit_agreed(limit: int) -> Taken:
    answer = _ask(DUE, limit)
    if answer is None:
        return Taken(waiting=0, committed=0)
    found = orjson.loads(answer)
    now = datetime.fromisoformat(found["now"])
    key = signing_key()
    decided: dict[tuple[str, str], dict[str, Any]] = {}
    for row in found["steps"]:
        decision, correlated = _decide(row, now)
        # Two steps that want the same effect share one intent: the careful way gives the second its claim.
        if decision is not None and (row["run_id"], row["key"]) not in decided:
            decided[row["run_id"], row["key"]] = {
                **_written(row, decision, key, now),
                "n": len(decided),
                "at": found["now"],
                "correlated": correlated,
            }
    if decided:
        items = list(decided.values())
        _ask(COMMIT, jsonb_text(items))
        transaction.on_commit(lambda: _tell(items))
    return Taken(waiting=found["waiting"], committed=len(decided))


def _ask(statement: str, argument: object) -> str | None:
    """Ask with a statement that the server keeps prepared; a fault has the class that Django's callers know."""
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        row = cursor.execute(statement, [argument], prepare=True).fetchone()
    return None if row is None else row[0]


def _decide(row: Row, now: datetime) -> tuple[fence.Decision | None, bool]:
    """Have the pure core decide; None for anything but a commit by agreement. With it, whether that is correlated."""
    definition = registry_at(row["registry"]).get(row["tool"])
    if definition is None:
        return None, False
    step = fence.Step(
        step=row["step"],
        epoch=row["epoch"],
        phase=fence.Phase.PROPOSED,
        deadline_at=datetime.fromisoformat(row["deadline_at"]),
        pinned_digest=row["pinned_digest"],
        pinned_payload=row["pinned_payload"],
        pinned_tool=row["pinned_tool"],
        votes=tuple(pure_vote(vote) for vote in row["votes"]),
    )
    rules = known_rules(definition)
    # Without a grant it is an agreement that commits, or nothing does.
    decision = fence.decide(step, rules=rules, grants=(), now=now)
    is_plain = decision.phase is fence.Phase.COMMITTED and decision.digest == row["digest"]
    return (decision if is_plain else None), fence.is_correlated(step, rules)


def _written(row: Row, decision: fence.Decision, key: tokens.SigningKey, now: datetime) -> dict[str, Any]:
    commit_id = uuid7_text()
    claims = tokens.Claims(
        jti=commit_id,
        iat=int(now.timestamp()),
        run=row["run"],
        step=row["step"],
        epoch=row["epoch"],
        tool=row["tool"],
        dig=decision.payload or "",
        key=row["key"],
        auth="agreement",
    )
    return {
        "id": commit_id,
        "intent_id": uuid7_text(),
        "claim_id": uuid7_text(),
        "step_id": row["id"],
        "run_id": row["run_id"],
        "run": row["run"],
        "owner_group": row["owner_group"],
        "step": row["step"],
        "epoch": row["epoch"],
        "registry": row["registry"],
        "tool": row["tool"],
        "payload": decision.payload,
        "digest": row["digest"],
        "key": row["key"],
        "token": tokens.mint(claims, key),
        "kid": key.kid,
        "actor": SYSTEM.actor,
    }


def _tell(items: list[dict[str, Any]]) -> None:
    """Wake who waits for these commits: the push tools' courier first, for it acts."""
    if any(registry_at(each["registry"])[each["tool"]].mode is Mode.PUSH for each in items):
        wake("deliver")
    signals.publish(_topics(items))


def _topics(items: list[dict[str, Any]]) -> set[str]:
    steps = {step_topic(each["run"], each["step"], each["epoch"]) for each in items}
    tools = {f"gateway:{each['tool']}" for each in items}
    return steps | tools | {f"events:{each['owner_group']}" for each in items}
