"""Reading whole ledgers: what a person uploaded, or what a tool lists, matched row by row with progress (L8).

A job works for a few seconds and hands on. Rows and progress are written in one transaction each batch, so that a
worker that dies leaves nothing counted twice; a row that was matched before is known, and changes nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.db import connection

from fencing.gateway import ledgers
from fencing.gateway.calling import Caller as Courier
from fencing.gateway.calling import Request
from fencing.models import Ledger
from fencing.models.facts import read_clock, resources_of_payload
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.ledger_files import MEMBERS, Format, format_of, rows_of
from fencing.protocol.pushing import End
from fencing.services.requests import ObserveEffect
from fencing.services.writes import Writes, in_transaction

BATCH: Final = 500
COUNTS: Final = ("rows", "matched", "undone", "escapes", "doubled", "known", "refused")
WORK_S: Final = 4.0
FETCH_S: Final = 20.0
MAX_JSON: Final = 64 * 1024 * 1024
MOST_MISSING: Final = 10_000
GOOD: Final = 200
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From when until when a ledger is declared complete."""

    start: datetime
    end: datetime


def folder() -> Path:
    """Where uploaded ledgers lie until they are read."""
    return Path(settings.FENCE_DATA) / "ledgers"


def upload(tool: str, name: str, parts: Iterable[bytes], span: Span | None, caller: Caller) -> Result:
    """Keep a file to be matched. Refuses a name that tells no format."""
    if format_of(name) is None:
        detail = "The file's name ends in .csv, .json, .ndjson or .jsonl: that tells how to read it."
        return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer="/file")
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    place = folder() / f"{uuid.uuid4().hex}.{format_of(name)}"
    size = 0
    with place.open("xb") as file:
        for part in parts:
            size += len(part)
            file.write(part)
    if format_of(name) is Format.JSON and size > MAX_JSON:
        place.unlink()
        detail = "A JSON array of more than 64 MiB is too large to read at once: write one object a line (.ndjson)."
        return Refusal(code=Code.TOO_LARGE, detail=detail, pointer="/file")
    columns = {"file_name": name[:200], "place": place.name, "size": size}
    return in_transaction(lambda: _asked(tool, Ledger.Source.UPLOAD.value, span, caller, columns))


def pull(tool: str, span: Span | None, caller: Caller) -> Result:
    """Have the ledger that a push tool lists be fetched and matched."""
    definition = registry_at(current_registry()).get(tool)
    if definition is None or definition.ledger is None:
        return Refusal(code=Code.INVALID_VALUE, detail=f"The tool {tool} lists no ledger.", pointer="/tool")
    return in_transaction(lambda: _asked(tool, Ledger.Source.PULL.value, span, caller, {}))


def _asked(tool: str, source: str, span: Span | None, caller: Caller, columns: Mapping[str, Any]) -> Answer:
    writes = Writes(caller)
    complete = {} if span is None else {"complete_from": span.start, "complete_until": span.end}
    fresh = dict.fromkeys(COUNTS, 0)
    given = {"file_name": "", "place": "", "size": 0, **columns}
    ledger = writes.insert(
        "ledger", tool=tool, source=source, state="waiting", cursor="", says="", wanted=0, missing=0,
        person_id=caller.person_id, asked_at=read_clock(), **fresh, **given, **complete,
    )  # fmt: skip
    after = {"tool": tool, "source": source, "file": given["file_name"], **complete}
    told = {name: str(value) for name, value in after.items()}
    writes.audit("read_ledger", "ledger", ledger, after=told)
    writes.wake("ledger")
    writes.send()
    return Answer(status=OK, body={"id": ledger})


def match_some(for_s: float = WORK_S) -> bool:
    """Match rows of the oldest ledger that waits, for a few seconds; tell whether there is more to do."""
    until = time.monotonic() + for_s
    ledger = Ledger.objects.select_related("person").filter(finished_at=None).order_by("asked_at", "id").first()
    if ledger is None:
        return False
    try:
        _match(ledger, until)
    except OSError as fault:
        _finish(ledger, "failed", f"The file cannot be read ({type(fault).__name__}).")
    return Ledger.objects.filter(finished_at=None).exists()


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
    with (folder() / ledger.place).open(encoding="utf-8", errors="replace", newline="") as file:
        rows = itertools.islice(rows_of(file, written), ledger.rows, None)
        while batch := list(itertools.islice(rows, BATCH)):
            yield batch, ""


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
