"""The bench's machinery, with a handful of steps: every figure is measured and printed. Nothing here is timed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import groups, machine
from tests.bench.__main__ import MEASUREMENTS
from tests.bench.report import Figure, Raw, as_json, table
from tests.bench.system import Measured, NotDurable
from tests.bench.wire import Unexpected, expect, text_of
from tests.live import TOP, LiveSystem, bare_environment

# The rows of the table, as the first words of the figures.
ASKED = (
    "one by one, of pgbench with six bare transactions",
    "one by one, of a bare handler with one row a request",
    "one by one, 8 planners",
    "bulk, 2 items a call",
    "bulk, 20 items a call",
    "second vote to decision read, idle, median",
    "second vote to decision read, idle, 99th",
    "second vote to decision read, at 100 steps/s, 99th",
    "commit to a push tool's receipt, idle, median",
    "commit to a push tool's receipt, beside 4 calls of 30 s, median",
    "votes while 20 planners wait, of the rate without them",
    "database connections in all meanwhile",
    "one by one with",
    "a sweep with nothing due",
    "memory after",
)


def run_bench(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", "bench", *options]
    return subprocess.run(
        command, cwd=TOP, env=bare_environment(), capture_output=True, text=True, timeout=400, check=False
    )


def test_every_figure_is_measured_and_printed(live_system: LiveSystem, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    done = run_bench("--tiny", "--on", str(live_system.data), "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    whole = json.loads(file.read_text())
    names = [figure["name"] for figure in whole["figures"]]
    for words in ASKED:
        assert any(name.startswith(words) for name in names), f"no figure {words!r} among {names}"
    assert all(figure["value"] > 0 for figure in whole["figures"]), "no figure came to nothing"
    assert all(name in done.stdout for name in names)
    assert set(whole["more"]) == set(MEASUREMENTS)
    spent = whole["more"]["one_by_one"]["cpu_ms_per_step"]
    assert {"web", "workers", "postgres", "valkey", "load", "all"} <= set(spent)
    assert spent["web"] > 0
    assert spent["postgres"] > 0
    assert "fsync on, synchronous_commit on" in whole["machine"]["PostgreSQL"]
    table_of_all = done.stdout[done.stdout.rindex("figure  ") :].splitlines()[2:]
    is_ratio = ["%" in re.split(r"  +", line)[1] for line in table_of_all]
    assert is_ratio == sorted(is_ratio, reverse=True), "ratios stand first"


def test_a_system_that_forgets_or_is_not_there_is_not_measured(
    live_system: LiveSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_bench("--tiny", "--on", str(tmp_path))
    assert done.returncode == 1
    assert "no `up` runs with" in done.stdout
    measured = Measured.running(live_system.data)
    monkeypatch.setattr(Measured, "settings", lambda _self: dict.fromkeys(("fsync", "full_page_writes"), "on") | OFF)
    with pytest.raises(NotDurable, match="synchronous_commit"):
        measured.check_durable()


OFF = {"synchronous_commit": "off"}


def test_processes_are_told_apart_by_what_they_do(live_system: LiveSystem) -> None:
    measured = Measured.running(live_system.data)
    assert {"web", "workers", "postgres", "valkey", "up"} == set(groups.members(measured.up))
    assert all(each.resident >= each.proportional > 0 for each in groups.memory(measured.up).values())
    before = groups.cpu_seconds(measured.up)
    assert all(used >= 0 for used in groups.spent(before, groups.cpu_seconds(measured.up)).values())
    assert machine.pace() > 0


@pytest.mark.parametrize(
    ("value", "is_cost", "verdict"),
    [(79.9, False, "MISSED"), (80, False, "good"), (95, False, "aim"), (80.1, True, "MISSED"), (80, True, "good")],
)
def test_a_figure_says_whether_it_is_reached(value: float, verdict: str, *, is_cost: bool) -> None:
    aim = 60 if is_cost else 95
    figure = Figure(
        name="votes", value=value, unit="%", least=80, aim=aim, is_cost=is_cost, raws=[Raw(what="raw", value=1234.5)]
    )
    assert figure.verdict == verdict
    assert verdict in table([figure])
    assert "raw: 1,234" in table([figure])
    assert as_json([figure])[0]["verdict"] == verdict


def test_an_answer_that_says_something_else_ends_the_load() -> None:
    assert text_of(b'{"a": 1, "token": "x.y.z"}', b"token") == b"x.y.z"
    expect(b'{"admit": true}', b'"admit":true')
    with pytest.raises(Unexpected, match="no text 'token'"):
        text_of(b'{"token": null}', b"token")
    with pytest.raises(Unexpected, match="admit"):
        expect(b'{"admit": false}', b'"admit":true')


def test_the_command_tells_its_options() -> None:
    done = run_bench("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in MEASUREMENTS)
