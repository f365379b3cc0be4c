"""The straight way: the plain case of each hot call in one statement, for many items of many callers at once.

What is plain stands in `fencing/models/sql/straight.sql`. Here an item is read into what that asks for, or found not to
be plain at once; what the database then leaves out takes the careful way too, which alone judges and refuses. So an
answer of this module is one that the careful way would have given, only sooner.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import orjson
import psycopg
from django.db import DEFAULT_DB_ALIAS, connections

from fencing.models import cold
from fencing.models.fields import uuid7_text
from fencing.models.jsonb import jsonb_text
from fencing.models.registry import known_rules, newest_registry, registry_at
from fencing.protocol import intake, objects
from fencing.protocol.actions import Action, read_action
from fencing.protocol.answers import CREATED, OK, Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.canonical import canonical_bytes
from fencing.protocol.errors import Refusal
from fencing.protocol.fence import UNDECIDED
from fencing.protocol.matching import HURRIED, OutOfAllowance, allowance
from fencing.protocol.rules import retries_of, silence_of
from fencing.services.announcing import announce
from fencing.services.identity import content_digest
from fencing.services.requests import Admit, CastVote, ProposeStep, ReportOutcome

# From how many items on a bulk is worth a statement of its own.
AT_LEAST = 2
# So many actions are known to fit their schema, or not to, before all are forgotten.
MAX_CHECKED: Final = 10_000
# A UUID as this system writes it.
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# A statement that fails takes the transaction with it, so it has to be its own. Tests that roll back lift this.
OUTSIDE_TRANSACTIONS = True

R = TypeVar("R")
Item = dict[str, Any]
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Straight(Generic[R]):
    """The straight way of one call.

    `read` makes an item out of a request, or None where it is not plain; `place` is what no two items of one statement
    may share; `answer` is made of a row that comes back, with the topics to signal; `wakes` tells whether it leaves
    the fencer something to decide.
    """

    statement: str
    read: Callable[[R, Caller], Item | None]
    place: Callable[[Item], object]
    answer: Callable[[Item, Row], tuple[Answer, Sequence[str]]]
    wakes: Callable[[Row], bool] = lambda _row: False


Course = Generator[tuple[str, str], Sequence[Row], list[Answer | None]]


def course(way: Straight[R], requests: Sequence[tuple[R, Caller]]) -> Course:
    """Go the straight way with some requests, each with its caller: yields statements with their parameter for rows.

    Returns an answer for each request, None for what is not plain: nothing was done, go the careful way. Who drives it
    runs each statement outside any transaction, for it is one, and sends no rows for one that failed.
    """
    answers: list[Answer | None] = [None] * len(requests)
    left = []
    signer, signature = None, Item()
    for index, (request, caller) in enumerate(requests):
        item = _read(way, request, caller)
        if item is not None:
            if caller is not signer:  # of a bulk it is the same for all
                signer, signature = caller, _signature(caller)
            left.append({**item, "n": index, **signature})
    topics: set[str] = set()
    has_work = False
    while left:
        batch: dict[object, Item] = {}
        left = [item for item in left if batch.setdefault(way.place(item), item) is not item]
        items = {item["n"]: item for item in batch.values()}
        for row in (yield way.statement, jsonb_text(list(items.values()))):
            answers[row[0]], heard = way.answer(items[row[0]], row)
            topics.update(heard)
            has_work = has_work or way.wakes(row)
    announce(topics, ["fence"] if has_work else [])
    return answers


def _read(way: Straight[R], request: R, caller: Caller) -> Item | None:
    """Read a request; None where it is not plain, or where checking its arguments would keep others waiting."""
    try:
        with allowance(HURRIED):
            return way.read(request, caller)
    except OutOfAllowance:
        return None


def go(way: Straight[R], requests: Sequence[tuple[R, Caller]]) -> list[Answer | None]:
    """Go a course in this thread, with its own connection.

    Where the database refuses or is away, every item that is not known to be done is None. (A connection that was lost
    may have committed before it was: the careful way finds what is on record then, N2.)
    """
    going = course(way, requests)
    try:
        statement, items = next(going)
        while True:
            statement, items = going.send(_call(statement, items))
    except StopIteration as end:
        answers: list[Answer | None] = end.value
        return answers


def first(
    way: Straight[R], requests: Sequence[R], caller: Caller, careful: Callable[[Sequence[R]], list[Result]]
) -> list[Result]:
    """Take what is plain of a bulk the straight way, and the rest the careful way; the results in order.

    A lone request goes the careful way at once: where there are lanes it comes from one. Inside a transaction all do.
    """
    is_inside = OUTSIDE_TRANSACTIONS and connections[DEFAULT_DB_ALIAS].in_atomic_block
    if len(requests) < AT_LEAST or is_inside:
        return careful(requests)
    answers = go(way, [(request, caller) for request in requests])
    rest = [request for request, answer in zip(requests, answers, strict=True) if answer is None]
    told = iter(careful(rest) if rest else ())
    return [next(told) if answer is None else answer for answer in answers]


def _call(statement: str, items: str) -> Sequence[Row]:
    """Run one statement, prepared once for each connection."""
    connection = connections[DEFAULT_DB_ALIAS]
    connection.ensure_connection()
    try:
        with psycopg.Cursor(connection.connection) as cursor:
            return cursor.execute(statement, [items], prepare=True).fetchall()
    except (psycopg.OperationalError, psycopg.InterfaceError):
        connection.close()
        return []
    except psycopg.Error:
        return []


def has_prose(request: object) -> bool:
    """Whether something of a request goes to cold storage, which means files."""
    return getattr(request, "context", None) is not None or getattr(request, "rationale", None) is not None


def keep_prose(request: ProposeStep | CastVote) -> str | None:
    """Put a request's prose into cold storage, and give its reference. What is there already costs a look (C7)."""
    if isinstance(request, ProposeStep):
        return None if request.context is None else cold.put(json.dumps(request.context).encode())
    return None if request.rationale is None else cold.put(request.rationale.encode())


def _signature(caller: Caller) -> Item:
    return {
        "by_id": str(caller.credential_id),
        "actor": caller.actor,
        "source": caller.address,
        "request": caller.request_id,
    }


def _bytes(data: bytes | None) -> str | None:
    return None if data is None else "\\x" + data.hex()


class Checked:
    """Actions that were checked against their tool's schema: both paths and the gateway name the same one in turn."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], str | None] = {}

    def fault_of(self, action: Action, registry: int) -> str | None:
        """Say why an action can never be committed (F6), as that version of the registry has it."""
        place = registry, action.payload_digest
        try:
            return self._known[place]
        except KeyError:
            fault = intake.fault_of(action, registry_at(registry).get)
        if len(self._known) >= MAX_CHECKED:
            self._known.clear()
        self._known[place] = fault
        return fault


CHECKED: Final = Checked()


def _of_action(action: Action | None) -> Item:
    if action is None:
        return {"payload": None, "canonical": None}
    return {"payload": action.payload_digest, "canonical": _bytes(action.canonical)}


# ---- proposals (F1) ----


def _read_proposal(request: ProposeStep, caller: Caller) -> Item | None:
    if caller.role is not Role.PLANNER or request.branch is not None:
        return None
    registry = newest_registry()
    tools = registry_at(registry).get
    action = None if request.action is None else read_action(request.action, tools, at="/action")
    if isinstance(action, Refusal):
        return None
    if action is not None and (
        request.digest not in (None, action.fence_digest) or request.tool not in (None, action.tool)
    ):
        return None
    tool = request.tool if action is None else action.tool
    is_decided = intake.first_phase(tool, tools)[0] not in UNDECIDED
    if is_decided or intake.check_tool(tool, action, tools) is not None:
        return None
    payload = None if action is None else action.payload_digest
    content = content_digest(
        request, run=None, step=None, epoch=None, action=payload, occurrence=request.occurrence or None
    )
    return {
        "id": uuid7_text(),
        "run": request.run,
        "step": request.step,
        "epoch": request.epoch,
        "registry": registry,
        "digest": request.digest if action is None else action.fence_digest,
        "tool": tool,
        "key": request.key,
        "occurrence": request.occurrence or 0,
        "deadline_s": request.deadline_s,
        "silence_s": silence_of(None if tool is None else tools(tool)),
        "content": content,
        "context_ref": keep_prose(request),
        "group": caller.group,
        **_of_action(action),
    }


def _answer_proposal(item: Item, row: Row) -> tuple[Answer, Sequence[str]]:
    _, deadline = row
    told = {"name": item["step"], "branch": None, "phase": "proposed", "reason": None, "deadline_at": deadline}
    body = objects.step_object(
        run=item["run"],
        row={**told, "epoch": item["epoch"], "key": item["key"], "is_correlated": False, "difference": None},
        votes=(),
        digest=item["digest"],
        tool=item["tool"],
        commit=None,
        revoked=None,
        intent=None,
    )
    definition = None if item["tool"] is None else registry_at(item["registry"]).get(item["tool"])
    return Answer(status=CREATED, body=body), [f"wanted:{path}" for path in known_rules(definition).required_paths]


PROPOSALS: Final = Straight(
    statement="SELECT n, deadline::text FROM fence_straight_steps(%s::jsonb)",
    read=_read_proposal,
    place=lambda item: (item["run"], item["step"]),
    answer=_answer_proposal,
)


# ---- votes (F2) ----


def _read_vote(request: CastVote, caller: Caller) -> Item | None:
    if request.abstain is not None or caller.path is None:
        return None
    registry = newest_registry()
    tools = registry_at(registry).get
    if request.action is None:
        action = None
        if request.digest is None:
            return None
    else:
        read = read_action(request.action, tools, at="/action")
        if isinstance(read, Refusal) or request.digest not in (None, read.fence_digest):
            return None
        action = read
    definition = None if action is None else tools(action.tool)
    return {
        "id": uuid7_text(),
        "run": request.run,
        "step": request.step,
        "epoch": request.epoch,
        "registry": registry,
        "path": caller.path,
        "digest": request.digest if action is None else action.fence_digest,
        "tool": None if action is None else action.tool,
        "fault": None if action is None else CHECKED.fault_of(action, registry),
        "model": request.model,
        "prompt": request.prompt,
        "rationale_ref": keep_prose(request),
        "silence_s": silence_of(definition),
        "required": len(known_rules(definition).required_paths),
        **_of_action(action),
    }


def _answer_vote(item: Item, _row: Row) -> tuple[Answer, Sequence[str]]:
    body = {"vote": "recorded", "phase": "proposed", "digest": item["digest"]}
    return Answer(status=CREATED, body=body), ()


VOTES: Final = Straight(
    statement="SELECT * FROM fence_straight_votes(%s::jsonb)",
    read=_read_vote,
    place=lambda item: (item["run"], item["step"]),
    answer=_answer_vote,
    wakes=lambda row: bool(row[1]),
)


# ---- admissions (L3) ----


def _read_admission(request: Admit, caller: Caller) -> Item | None:
    jti = _jti_of(request.token or "")
    if jti is None:
        return None
    registry = newest_registry()
    tools = registry_at(registry).get
    action = read_action(request.action, tools, at="/action")
    if isinstance(action, Refusal) or (caller.tools is not None and action.tool not in caller.tools):
        return None
    definition = tools(action.tool)
    if definition is None or definition.is_read_only or CHECKED.fault_of(action, registry) is not None:
        return None
    return {
        "id": uuid7_text(),
        "jti": jti,
        "token": request.token,
        "payload": action.payload_digest,
        "registry": registry,
        "tool": action.tool,
        "run": request.run,
        "step": request.step,
        "epoch": request.epoch,
        "lease_s": retries_of(definition).lease_s,
        "tools": None if caller.tools is None else sorted(caller.tools),
    }


def _answer_admission(item: Item, row: Row) -> tuple[Answer, Sequence[str]]:
    _, intent, key, lease_until = row
    body = {
        "admit": True,
        "intent": intent,
        "delivery": item["id"],
        "idempotency_key": key,
        "lease_until": objects.rfc3339(lease_until),
    }
    return Answer(status=OK, body=body), (f"gateway:{item['tool']}",)


ADMISSIONS: Final = Straight(
    statement="SELECT n, intent::text, idempotency_key, lease::text FROM fence_straight_admissions(%s::jsonb)",
    read=_read_admission,
    place=lambda item: item["jti"],
    answer=_answer_admission,
)


# ---- outcomes (L5) ----


def _read_outcome(request: ReportOutcome, caller: Caller) -> Item | None:
    if request.outcome != "succeeded" or request.compensation is not None:
        return None
    if not (_is_uuid(request.intent) and _is_uuid(request.delivery)):
        return None
    return {
        "id": uuid7_text(),
        "intent": request.intent,
        "delivery": request.delivery,
        "response": None if request.response is None else _bytes(canonical_bytes(request.response)),
        "retry_after_s": request.retry_after,
        "tools": None if caller.tools is None else sorted(caller.tools),
        "by": caller.name,
    }


def _answer_outcome(item: Item, row: Row) -> tuple[Answer, Sequence[str]]:
    _, run, key, generation, payload, action, lease_until, at, claims = row
    told = orjson.loads(bytes.fromhex(item["response"][2:])) if item["response"] else None
    parsed = orjson.loads(action)
    body = objects.intent_object(
        row={"id": item["intent"], "key": key, "generation": generation, "state": "succeeded", "payload": payload},
        run=run,
        action=parsed,
        claims=orjson.loads(claims),
        deliveries=[
            {
                "id": item["delivery"],
                "number": 1,
                "lease_until": objects.rfc3339(lease_until),
                "outcome": "succeeded",
            }
        ],
        outcome=objects.outcome_object(outcome="succeeded", response=told, at=at, by=item["by"]),
    )
    return Answer(status=OK, body=body), (f"gateway:{parsed['tool']}",)


OUTCOMES: Final = Straight(
    statement=(
        "SELECT n, run, key, generation, payload, action, lease::text, at::text, claims::text"
        " FROM fence_straight_outcomes(%s::jsonb)"
    ),
    read=_read_outcome,
    place=lambda item: item["intent"],
    answer=_answer_outcome,
)


def _jti_of(token: str) -> str | None:
    """Where a token says that its commit is. Nothing of it is believed: the stored bytes are compared (L3)."""
    try:
        _, claims, _ = token.split(".")
        jti = orjson.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["jti"]
    except (ValueError, TypeError, KeyError):
        return None
    return jti if isinstance(jti, str) and _is_uuid(jti) else None


def _is_uuid(text: str | None) -> bool:
    return text is not None and UUID.fullmatch(text) is not None
