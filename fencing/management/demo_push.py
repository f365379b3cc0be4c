"""The demonstration's push tool: served here while it is called, registered, made to fail, its own ledgers read.

What the demonstration may not do over HTTP stands here: registering a tool that serves on this very machine, and having
a ledger fetched in the name of a person.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth import get_user_model

from fencing.demo import DemoKeys, faults
from fencing.demo.stage import END_S, PASSED_ON, TOP
from fencing.gateway import ledger_intake
from fencing.gateway.ledger_intake import Span
from fencing.models import Ledger
from fencing.models.facts import read_clock
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.services.credentials import COMMAND_LINE
from fencing.services.tools import load_definitions

HOST: Final = "127.0.0.1"
READ_S: Final = 45.0
_SAYS: Final = re.compile(r"push tool at (\S+), and later at (\S+)\n")


class NotAsExpected(Exception):
    """The system under the demonstration did something else than it must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where the tool serves: at once, and at an address that refuses connections before it is opened."""

    url: str
    late_url: str


def fail(base_url: str, keys: DemoKeys) -> Iterator[str]:
    """Let a push tool fail in each way, read its ledgers, and tell line by line what became of it.

    Raises:
        NotAsExpected: something ended otherwise than it must; the lines before tell what.
    """
    begun = read_clock()
    with serving() as server:
        loaded = load_definitions(
            faults.definitions(server.url, server.late_url), COMMAND_LINE, plain_http_hosts=frozenset({HOST})
        )
        if isinstance(loaded, Refusal):
            raise NotAsExpected(f"its tools are refused: {loaded.detail}")
        yield f"demo: a push tool fails in {len(faults.CASES)} ways"
        failed = faults.fail(base_url, keys, server.url)
        yield from table(failed)
        wrong = [each.case.name for each in failed if not each.is_right]
        if not wrong:
            yield ""
            for tool in faults.TOOLS:
                line, is_right = _shown(tool, begun)
                yield line
                wrong += [] if is_right else [f"the ledger of {tool}"]
    if wrong:
        raise NotAsExpected(f"otherwise than it must: {', '.join(wrong)}")
    yield f"demo: each ended as it must; see {base_url}/effects, {base_url}/doubt, {base_url}/incidents"


@contextmanager
def serving() -> Iterator[Server]:
    """Serve the tool in a process of its own, which knows nothing of the fence, and end it afterwards."""
    command = [sys.executable, "-m", "fencing.demo.push_tool", "--late", "--prefix", f"{secrets.token_hex(3)}-"]
    environment = {each: os.environ[each] for each in PASSED_ON if each in os.environ}
    process = subprocess.Popen([*command, "--host", HOST], cwd=TOP, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        said = _SAYS.fullmatch(process.stdout.readline() if process.stdout else "")
        if said is None:
            raise NotAsExpected("it does not serve")
        yield Server(url=said[1], late_url=said[2])
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def table(failed: list[faults.Failed]) -> Iterator[str]:
    """Write what became of each fault beside what must have."""
    rows = [("fault", "must end as", "seen", "effect")]
    rows += [
        (each.case.name, each.case.expected, "the same" if each.is_right else each.seen, each.link) for each in failed
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for number, row in enumerate(rows):
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        if number == 0:
            yield "  ".join(["-" * width for width in widths] + ["-" * len(row[3])])


def _shown(tool: str, begun: datetime) -> tuple[str, bool]:
    """Have a tool's own list fetched as one that is complete for the time of the play; tell what it shows."""
    result = ledger_intake.pull(tool, Span(start=begun, end=read_clock()), _reader())
    if isinstance(result, Refusal):
        return f"ledger of {tool}: {result.detail}", False
    row = _read(str(result.body["id"]))
    found = {name: getattr(row, name) for name in ("missing", "doubled", "escapes", "refused", "undone")}
    must = {**dict.fromkeys(found, 0), **faults.SHOWN.get(tool, {})}
    wrong = ", ".join(f"{many} {name}" for name, many in found.items() if many)
    told = f"ledger of {tool}: {row.state}, {row.matched} happened as committed" + (f", {wrong}" if wrong else "")
    return told, row.state == Ledger.State.DONE and found == must


def _read(ledger: str) -> Ledger:
    """Wait until a worker has read it."""
    until = time.monotonic() + READ_S
    while True:
        row = Ledger.objects.get(id=ledger)
        if row.finished_at is not None or time.monotonic() > until:
            return row
        time.sleep(0.1)


def _reader() -> Caller:
    """A reviewer of the demonstration, in whose name ledgers are read. Nobody can sign in as them."""
    person: Any = get_user_model().objects.get_or_create(username="demo-reviewer", defaults={"is_active": False})[0]
    return Caller(
        credential_id=None, name="demo", role=Role.REVIEWER, person_id=person.pk, person=person.get_username()
    )
