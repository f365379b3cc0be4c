"""`manage.py simulate`: what it prints, that it fails loudly with a trace, and that it starts no server."""

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from fencing.protocol.simulate import stage
from fencing.protocol.simulate.forms import read_trace
from fencing.protocol.simulate.strings import opening, play_again
from tests.protocol.faults import grant_that_beats_a_divergence, replica_alone

TOP = Path(__file__).resolve().parent.parent.parent


def simulate(*words: str, **options: Any) -> str:
    out = StringIO()
    call_command("simulate", *words, stdout=out, stderr=StringIO(), **options)
    return out.getvalue()


def test_it_prints_the_figures_and_what_was_tried() -> None:
    said = simulate("--random", "20", "--seed", "3", "--exhaustive", "2").splitlines()
    assert said[0].startswith("leaky      traces=32 escape_rate=26/32")
    assert "random     seed=3 strings=20 events=" in "\n".join(said)
    assert any(line.startswith("exhaustive length=2 strings=") for line in said)
    assert sum("I4_mixed_grades=no data" in line for line in said) == 2


def test_the_same_seed_prints_the_same() -> None:
    assert simulate("--random", "10", "--seed", "4") == simulate("--random", "10", "--seed", "4")


def test_a_fault_fails_it_with_the_shortest_trace_for_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replica_alone(monkeypatch)
    file = tmp_path / "new" / "trace.json"
    with pytest.raises(CommandError, match=r"I1 fails: .* was committed by agreement without production; the trace is"):
        simulate("--random", "300", "--exhaustive", "3", "--trace", str(file))
    form = json.loads(file.read_text(encoding="utf-8"))
    shown = play_again(read_trace(form, stage.tools), opening())
    assert [violation.property for violation in shown.violations] == [form["property"]]
    assert len(form["events"]) <= 4


def test_a_trace_that_cannot_be_written_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    grant_that_beats_a_divergence(monkeypatch)
    out = StringIO()
    with pytest.raises(CommandError, match="cannot be written"):
        call_command("simulate", "--random", "300", "--trace", str(tmp_path), stdout=out, stderr=StringIO())
    assert '"format": "fence-trace/1"' in out.getvalue()


@pytest.mark.parametrize("words", [("--random", "-1"), ("--random", "x"), ("--exhaustive", "1.5"), ("--seed", "s")])
def test_what_is_no_number_is_told(words: tuple[str, str]) -> None:
    with pytest.raises(CommandError):
        simulate(*words)


def test_it_runs_by_itself_and_starts_no_server(tmp_path: Path) -> None:
    command = [sys.executable, "manage.py", "simulate", "--data", str(tmp_path / "data")]
    ended = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "escape_rate=26/32" in ended.stdout
    assert not (tmp_path / "data").exists()
