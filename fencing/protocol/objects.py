"""The objects that answers carry (protocol, section 15), built from plain values: one form for every call and page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

Object = dict[str, Any]
Row = Mapping[str, Any]

# As the database writes a moment nearly always: what is in UTC already need not become a date in between.
_IN_UTC: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00(?::00)?", re.ASCII)


def rfc3339(at: datetime | str | None) -> str | None:
    """Write a moment in UTC with microseconds and `Z` (N3). Text is a time as PostgreSQL writes it."""
    if at is None:
        return None
    if isinstance(at, str):
        if told := _IN_UTC.fullmatch(at):
            return f"{told[1]}T{told[2]}.{told[3] or '':0<6}Z"
        at = datetime.fromisoformat(at)
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def run_object(
    *, run: str, epoch: int, counter: int, labels: Mapping[str, str], steps: Iterable[Object], forks: Iterable[str]
) -> Object:
    """A run; each of its steps in short (`step, epoch, phase, reason`), newest first, and the names of its forks."""
    return {
        "run": run,
        "epoch": epoch,
        "counter": counter,
        "labels": dict(labels),
        "steps": list(steps),
        "forks": list(forks),
    }


def fork_object(
    *,
    run: str,
    fork: str,
    parent: str | None,
    branches: Iterable[tuple[str, str]],
    winner: str | None,
    deadline_at: datetime | str | None,
) -> Object:
    """A fork with its branches and their states, in the order in which they were named."""
    return {
        "run": run,
        "fork": fork,
        "parent": parent,
        "branches": [{"branch": name, "state": state} for name, state in branches],
        "winner": winner,
        "deadline_at": rfc3339(deadline_at),
    }


def step_object(
    *,
    run: str,
    row: Row,
    votes: Iterable[Row],
    digest: str | None,
    tool: str | None,
    commit: Object | None,
    revoked: Object | None,
    intent: Object | None,
) -> Object:
    """A step, from its row and what was recorded for it. `digest` is the only one on record, else None."""
    return {
        "run": run,
        "step": row["name"],
        "epoch": row["epoch"],
        "branch": row["branch"],
        "tool": tool,
        "key": row["key"] or (commit["key"] if commit else None),
        "phase": row["phase"],
        "reason": row["reason"],
        "digest": digest,
        "deadline_at": rfc3339(row["deadline_at"]),
        "votes": vote_objects(votes),
        "commit": commit,
        "revoked": revoked,
        "intent": intent,
        "correlated": row["is_correlated"],
        "difference": row["difference"],
    }


def vote_objects(votes: Iterable[Row]) -> list[Object]:
    """The votes in the order in which they came; a vote that was sent again with its action (F5) stands once."""
    seen: dict[tuple[str, str | None], Object] = {}
    for vote in votes:
        made = {
            "path": vote["path"],
            "digest": vote["digest"],
            "abstain": vote["abstain"],
            "late": vote["is_late"],
            "received_at": rfc3339(vote["received_at"]),
        }
        seen.setdefault((vote["path"], vote["digest"]), made)
    return list(seen.values())


def commit_object(*, token: str, authority: str, grant: str | None, payload_digest: str, key: str) -> Object:
    """A standing commit."""
    return {"token": token, "authority": authority, "grant": grant, "payload_digest": payload_digest, "key": key}


def outcome_object(*, outcome: str, response: Any, at: datetime | str, by: str | None) -> Object:
    """A recorded outcome: the tool's response as the gateway reported it, and who told it."""
    return {"outcome": outcome, "response": response, "at": rfc3339(at), "by": by}


def intent_object(
    *,
    row: Row,
    run: str,
    action: Any,
    claims: Iterable[Object],
    deliveries: Iterable[Object],
    outcome: Object | None,
    compensation: str | None = None,
) -> Object:
    """An intent with its claims and deliveries. `action` is null until a payload is bound."""
    return {
        "id": row["id"],
        "run": run,
        "key": row["key"],
        "generation": row["generation"],
        "state": row["state"],
        "action": action,
        "payload_digest": row["payload"],
        "claims": list(claims),
        "deliveries": list(deliveries),
        "outcome": outcome,
        "compensation": compensation,
    }


def grant_object(
    *, row: Row, run: str, state: str, issuer: str, approvals: Iterable[Object], review: Object | None = None
) -> Object:
    """A grant: its scope, what is used of it, and who stands for it. `review_due_at` is null where none is owed."""
    return {
        "name": row["name"],
        "run": run,
        "epoch": row["epoch"],
        "step": row["step_name"],
        "tool": row["tool"],
        "path": row["path"],
        "digest": row["digest"],
        "max_uses": row["max_uses"],
        "uses": row["uses"],
        "expires_at": rfc3339(row["expires_at"]),
        "reason": row["reason"],
        "issuer": issuer,
        "approvals": list(approvals),
        "review": review,
        "review_due_at": rfc3339(row["review_due_at"]),
        "state": state,
    }


def freeze_object(
    *,
    freeze: str,
    tool: str | None,
    run: str | None,
    reason: str,
    by: str,
    at: datetime | str,
    answer: Row,
    lifted: Object | None,
) -> Object:
    """A freeze: its scope, who set it, what it stopped and what was out already, and who lifted it (L10).

    Lines of undoings have a `compensation`. `more` counts the lines that are left out of the two lists; `voided` names
    the grants that it ended.
    """
    return {
        "id": freeze,
        "scope": {"tool": tool, "run": run},
        "reason": reason,
        "by": by,
        "at": rfc3339(at),
        "stopped": answer["stopped"],
        "already_out": answer["already_out"],
        "more": answer.get("more", {"stopped": 0, "already_out": 0}),
        "voided": answer.get("voided", []),
        "lifted": lifted,
    }
