"""Taking whole ledgers in: files that people upload, kept until they are read, and lists that tools are asked for (L8).

Nothing is matched here: that is the job of `ledger_reading`, however long it takes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from fencing.models import Ledger
from fencing.models.facts import read_clock
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.ledger_files import format_of
from fencing.services.writes import Writes, in_transaction

COUNTS: Final = ("rows", "matched", "undone", "escapes", "doubled", "known", "refused")
MAX_FILE: Final = 1024 * 1024 * 1024
TOO_LARGE: Final = "A file has at most 1 GiB: write the ledger in several, each with rows of its own."
ARRIVING: Final = ".part"
# A file whose upload or whose process ended half-way: nobody writes to it any more.
STRAY_S: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From when until when a ledger is declared complete."""

    start: datetime
    end: datetime


def folder() -> Path:
    """Where uploaded ledgers lie until they are read."""
    place = Path(settings.FENCE_DATA) / "ledgers"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def keep(parts: Iterable[bytes]) -> Path:
    """Write a file piece by piece, as it arrives, and tell where it lies. What breaks off leaves nothing."""
    place = folder() / f"{uuid.uuid4().hex}{ARRIVING}"
    try:
        with place.open("xb") as file:
            for part in parts:
                file.write(part)
    except BaseException:
        place.unlink(missing_ok=True)
        raise
    return place


def upload(tool: str, name: str, kept: Path, span: Span | None, caller: Caller) -> Result:
    """Have a file be matched that was kept. Refuses a name that tells no format, and what is too large."""
    written = format_of(name)
    if written is None:
        detail = "The file's name ends in .csv, .json, .ndjson or .jsonl: that tells how to read it."
        return Refusal(code=Code.INVALID_VALUE, detail=detail, pointer="/file")
    size = kept.stat().st_size
    if size > MAX_FILE:
        return Refusal(code=Code.TOO_LARGE, detail=TOO_LARGE, pointer="/file")
    place = kept.rename(folder() / f"{uuid.uuid4().hex}.{written}")
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


def remove_strays(now_s: float | None = None) -> int:
    """Remove files whose upload broke off with its process, or that were read to their end. Give how many."""
    before = (time.time() if now_s is None else now_s) - STRAY_S
    old = [each for each in folder().iterdir() if _is_older(each, before)]
    wanted = set(Ledger.objects.filter(finished_at=None, place__in=[each.name for each in old]).values_list("place"))
    strays = [each for each in old if (each.name,) not in wanted]
    for each in strays:
        each.unlink(missing_ok=True)
    return len(strays)


def _is_older(file: Path, than_s: float) -> bool:
    """Whether a file is there and was last written before a moment; another worker may have removed it just now."""
    try:
        return file.stat().st_mtime < than_s
    except FileNotFoundError:
        return False
