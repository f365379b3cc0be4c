"""Reading whole ledgers: what a person uploaded, or what a tool lists, matched row by row with progress (L8).

A job works for a moment and hands on. Rows and progress are written in one transaction each batch, so that a worker
that dies leaves nothing counted twice; a row that was matched before is known, and changes nothing. A file is read on
from the byte that the last batch ended at, and never held as a whole.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.db import connection

from fencing.gateway import ledgers
from fencing.gateway.calling import Caller as Courier
from fencing.gateway.calling import Request
from fencing.gateway.ledger_intake import COUNTS, folder
from fencing.models import Ledger
from fencing.models.facts import read_clock, resources_of_payload
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.answers import Answer
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.ledger_files import MEMBERS, BrokenFile, format_of, rows_of
from fencing.protocol.pushing import End
from fencing.services.requests import ObserveEffect
from fencing.services.writes import Writes, in_transaction

BATCH: Final = 500
# Other jobs of this queue (sealing) wait for so long at most.
WORK_S: Final = 2.0
FETCH_S: Final = 20.0
MOST_MISSING: Final = 10_000
GOOD: Final = 200
UNREAD: Final = [Ledger.State.WAITING.value, Ledger.State.MATCHING.value]
_ANY: Final = re.compile(r"(?s).+")
_TEXTS: Final = {
    "external_id": (200, _ANY),
    "idempotency_key": (255, _ANY),
    "digest": (71, re.compile(r"sha256:[0-9a-f]{64}")),
    "occurred_at": (40, re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")),
}

MISSING: Final = """
SELECT i.id, i.run_id, d.payload_id FROM fencing_intent i
JOIN LATERAL (SELECT d.payload_id, d.admitted_at FROM fencing_delivery d WHERE d.intent_id = i.id
    ORDER BY d.number DESC LIMIT 1) d ON true
WHERE i.tool = %(tool)s AND i.state = 'succeeded' AND i.settled_at >= %(from)s AND i.settled_at < %(until)s
  AND d.admitted_at >= %(from)s
  AND NOT EXISTS (SELECT FROM fencing_observedeffect e WHERE e.intent_id = i.id AND e.match = 'intent')
  AND NOT EXISTS (SELECT FROM fencing_incident n WHERE n.kind = 'missing' AND n.intent_id = i.id)
ORDER BY i.id LIMIT %(most)s
"""
WANTED: Final = """
SELECT count(*) FROM fencing_intent i
WHERE i.tool = %(tool)s AND i.state = 'succeeded' AND i.settled_at >= %(from)s AND i.settled_at < %(until)s
"""


def match_some(for_s: float = WORK_S) -> bool:
    """Match rows of a ledger that waits, for a moment; tell whether there is more to do.

    It is the one of which the least was read: nobody's few rows wait behind somebody's million.
    """
    until = time.monotonic() + for_s
    waiting = Ledger.objects.select_related("person").filter(state__in=UNREAD)
    ledger = waiting.order_by("rows", "asked_at", "id").first()
    if ledger is None:
        return False
    try:
        _match(ledger, until)
    except BrokenFile as fault:
        _finish(ledger, "failed", str(fault))
    except OSError as fault:
        _finish(ledger, "failed", f"The file cannot be read ({type(fault).__name__}).")
    return is_any_waiting()


def is_any_waiting() -> bool:
    """Whether any ledger was not read to its end."""
    return Ledger.objects.filter(state__in=UNREAD).exists()


def _match(ledger: Ledger, until: float) -> None:
    rows = _uploaded(ledger) if ledger.source == Ledger.Source.UPLOAD else _fetched(ledger)
    for batch, cursor in rows:
        if not in_transaction(partial(_take, ledger, batch, cursor)) or time.monotonic() > until:
            return
    if ledger.source == Ledger.Source.PULL and ledger.says:
        _finish(ledger, "failed", ledger.says)
        return
    _finish(ledger, "done", ledger.says)


def _uploaded(ledger: Ledger) -> Iterator[tuple[list[Any], str]]:
    written = format_of(ledger.place)
    if written is None:
        return
    with (folder() / ledger.place).open("rb") as file:
        rows = rows_of(file, written, int(ledger.cursor or 0))
        for batch in _batches(rows):
            yield [row for row, _ in batch], str(batch[-1][1])


def _batches(rows: Iterator[tuple[Any, int]]) -> Iterator[list[tuple[Any, int]]]:
    """Group rows. What was read before the file broke is a batch, too."""
    batch: list[tuple[Any, int]] = []
    try:
        for row in rows:
            batch.append(row)
            if len(batch) == BATCH:
                yield batch
                batch = []
    except BrokenFile:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _fetched(ledger: Ledger) -> Iterator[tuple[list[Any], str]]:
    """Give the pages of a tool's list, from the cursor on. What goes wrong is told in `says`, and ends it."""
    definition = registry_at(current_registry()).get(ledger.tool)
    while definition is not None and definition.ledger is not None:
        asked = {"limit": str(BATCH), **({"after": ledger.cursor} if ledger.cursor else {})}
        mark = "&" if "?" in definition.ledger else "?"
        url = f"{definition.ledger}{mark}{urlencode(asked)}"
        ended = asyncio.run(
            _asked_once(Request(url=url, body=None, timeout_s=FETCH_S, credential=definition.credential))
        )
        items = None if ended.body is None else ended.body.get("items")
        if ended.how is not End.ANSWERED or ended.status != GOOD or not isinstance(items, list):
            ledger.says = ended.says or f"The tool's list cannot be read (HTTP {ended.status})."
            return
        following = ended.body.get("next") if ended.body is not None else None
        is_last = not isinstance(following, str) or following == ledger.cursor
        yield items, ledger.cursor if is_last else str(following)
        if is_last:
            return


async def _asked_once(request: Request) -> Any:
    courier = Courier(settings.FENCE_TOOL_HOSTS)
    try:
        return await courier.call(request)
    finally:
        await courier.aclose()


def _take(ledger: Ledger, batch: list[Any], cursor: str) -> bool:
    """Match one batch, and write what it came to beside it. False where another worker was here meanwhile."""
    same = Ledger.objects.select_for_update().filter(id=ledger.id, finished_at=None).first()
    if same is None or same.rows != ledger.rows:
        return False
    for name in COUNTS:
        setattr(ledger, name, getattr(same, name))  # a try that was rolled back left its own here
    reader = Caller(
        credential_id=None, name="ledger", role=Role.REVIEWER, person_id=ledger.person_id,
        person=ledger.person.get_username(),
    )  # fmt: skip
    read = [_read(ledger.tool, row) for row in batch]
    good = [each for each in read if isinstance(each, ObserveEffect)]
    results = [*ledgers.observe_effects(good, reader, source=ledger.source)] if good else []
    refused = [each for each in (*read, *results) if isinstance(each, Refusal)]
    found: Counter[str] = Counter()
    for each in results:
        if isinstance(each, Answer):
            found["known" if each.body.get("duplicate") else str(each.body["match"])] += 1
    ledger.rows += len(batch)
    ledger.matched += found["intent"]
    ledger.undone += found["compensation"]
    ledger.escapes += found["escape"]
    ledger.doubled += found["doubled"]
    ledger.known += found["known"]
    ledger.refused += len(refused)
    ledger.says = ledger.says or (f"First refused row: {refused[0].detail}" if refused else "")
    ledger.cursor, ledger.state = cursor, "matching"
    ledger.save(update_fields=[*COUNTS, "says", "cursor", "state"])
    return True


def _read(tool: str, row: Any) -> ObserveEffect | Refusal:
    """Read one row of a file or a list, with the checks of a body of `POST /gateway/effects`."""
    if isinstance(row, Refusal):
        return row
    if not isinstance(row, dict) or not set(row) <= MEMBERS:
        return Refusal(
            code=Code.UNKNOWN_MEMBER, detail=f"A row is an object with members of: {', '.join(sorted(MEMBERS))}."
        )
    if row.get("tool", tool) != tool:
        return Refusal(code=Code.INVALID_VALUE, detail=f"A row is of another tool than {tool}.", pointer="/tool")
    for name, (longest, pattern) in _TEXTS.items():
        text = row.get(name)
        if text is None and name != "external_id":
            continue
        if not isinstance(text, str) or not 0 < len(text) <= longest or "\0" in text or not pattern.fullmatch(text):
            return Refusal(code=Code.INVALID_VALUE, detail=f"`{name}` of a row is no valid text.", pointer=f"/{name}")
    return ObserveEffect(
        tool=tool,
        action=row.get("action"),
        digest=row.get("digest"),
        idempotency_key=row.get("idempotency_key"),
        external_id=row["external_id"],
        occurred_at=row.get("occurred_at"),
    )


def _finish(ledger: Ledger, state: str, says: str) -> None:
    in_transaction(lambda: _finished(ledger, state, says))
    if ledger.place:
        (folder() / ledger.place).unlink(missing_ok=True)


def _finished(ledger: Ledger, state: str, says: str) -> None:
    writes = Writes(Caller(credential_id=None, name="ledger", role=Role.SYSTEM))
    now = read_clock()
    wanted, missing = (0, 0) if state != "done" or ledger.complete_from is None else _find_missing(ledger, now, writes)
    columns: dict[str, Any] = {"state": state, "says": says, "finished_at": now, "wanted": wanted, "missing": missing}
    writes.update("ledger", str(ledger.id), **columns)
    after = {"state": state, "rows": ledger.rows, "escapes": ledger.escapes, "doubled": ledger.doubled}
    writes.audit("finish_ledger", "ledger", str(ledger.id), after={**after, "missing": missing})
    writes.send()


def _find_missing(ledger: Ledger, now: datetime, writes: Writes) -> tuple[int, int]:
    """Open an incident for each effect of the declared span that succeeded and that no ledger shows."""
    given = {
        "tool": ledger.tool, "from": ledger.complete_from, "until": ledger.complete_until, "most": MOST_MISSING,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(WANTED, given)
        ((wanted,),) = cursor.fetchall()
        cursor.execute(MISSING, given)
        lacking = cursor.fetchall()
    note = "It succeeded, and the tool's ledger, declared complete for that time, does not show it."
    for intent, run, payload in lacking:
        columns = {"run_id": str(run), "intent_id": str(intent), "note": note}
        incident = writes.insert(
            "incident", kind="missing", state="open", opened_at=now, resources=resources_of_payload(payload), **columns
        )
        writes.audit("open_incident", "incident", incident, after={"kind": "missing", "intent": str(intent)})
    return int(wanted), len(lacking)
