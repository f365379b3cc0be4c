"""Children: watched, started again with patience, stopped in time, never left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fencing.machine.backoff import FIRST_S, HEALTHY_S, LONGEST_S, BackOff
from fencing.machine.children import Child, Program, tail, trim_log
from fencing.machine.signals import SignalPipe
from fencing.machine.supervisor import After, Supervisor, Watched

TOP = Path(__file__).resolve().parent.parent.parent


def a_child(folder: Path, code: str, **options: object) -> Child:
    command = [sys.executable, "-c", code]
    program = Program(
        name="child",
        command=command,
        log=folder / "child.log",
        environment=dict(os.environ),
        folder=folder,
        **options,  # type: ignore[arg-type]
    )
    return Child(program=program)


def wait_for(condition: Callable[[], object], within_s: float = 10.0) -> None:
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process runs: one that ended and was not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_wait_doubles_with_each_death_up_to_a_limit() -> None:
    state = BackOff()
    delays = []
    for _ in range(12):
        state = state.after_death(lived_s=1.0)
        delays.append(state.delay_s)
    assert delays[:4] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S]
    assert delays[-1] == LONGEST_S


def test_a_process_that_was_well_for_a_while_starts_again_at_once() -> None:
    ill = BackOff(deaths=9)
    assert ill.after_death(lived_s=HEALTHY_S).delay_s == FIRST_S


def test_a_child_that_died_is_started_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    child = a_child(tmp_path, "import time; time.sleep(60)")
    supervisor = Supervisor(signals=SignalPipe())
    watched = Watched(child=child, start=child.start)
    supervisor.add(watched)
    first = child.pid
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: not child.is_running)

    def is_back() -> bool:
        supervisor.look_after(watched)
        return child.is_running

    wait_for(is_back)
    assert child.pid != first
    child.stop()
    assert "child ended unexpectedly (signal 9)" in capsys.readouterr().out


def test_a_child_that_cannot_be_started_now_is_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    child = a_child(tmp_path, "import time; time.sleep(60)")
    supervisor, tries = Supervisor(signals=SignalPipe()), iter([True, False, False, True])

    def start() -> None:
        if not next(tries):
            raise OSError(28, "No space left on device")
        child.start()

    watched = Watched(child=child, start=start)
    supervisor.add(watched)
    os.kill(child.pid, signal.SIGKILL)
    wait_for(lambda: not child.is_running)

    def is_back() -> bool:
        supervisor.look_after(watched)
        return child.is_running

    wait_for(is_back)
    child.stop()
    assert capsys.readouterr().out.count("child cannot be started (No space left on device)") == 2


def test_nobody_who_hears_is_no_reason_to_end(tmp_path: Path) -> None:
    code = "from fencing.machine.console import say; say('lost'); print('alive', file=__import__('sys').stderr)"
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-u", "-c", code], cwd=TOP, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (result.returncode, result.stderr.strip()) == (0, "alive")


def test_a_log_that_cannot_be_moved_aside_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "child.log"
    log.write_text("x" * 200)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", refuse)
    trim_log(log, limit=100)
    assert log.stat().st_size == 200


def test_a_child_that_is_done_is_not_started_again(tmp_path: Path) -> None:
    child = a_child(tmp_path, "pass")
    supervisor = Supervisor(signals=SignalPipe())
    watched = Watched(child=child, start=child.start, after=After.DONE)
    supervisor.add(watched)
    wait_for(lambda: not child.is_running)
    supervisor.look_after(watched)
    assert watched.is_done
    assert not child.is_running


def test_a_child_that_does_not_end_when_asked_is_killed(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    child = a_child(tmp_path, deaf, stop_s=0.3)
    child.start()
    wait_for(lambda: "deaf" in child.last_words())
    assert child.stop() is False
    assert not child.is_running


def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = f"""
import os, sys, time
sys.path.insert(0, {str(TOP)!r})
from pathlib import Path
from fencing.machine.children import Child, Program
command = [sys.executable, "-c", "import time; time.sleep(60)"]
folder = Path({str(tmp_path)!r})
child = Child(program=Program(name="c", command=command, log=folder / "log", environment=os.environ, folder=folder))
child.start()
print(child.pid, flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.communicate()
    wait_for(lambda: not is_alive(pid))


def test_a_large_log_moves_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"old\n" * 100)
        trim_log(log, limit=100)
        writer.write(b"new\n")
    assert log.read_text() == "new\n"
    assert log.with_suffix(".log.1").read_text().startswith("old")
    assert tail(log) == "new"


@pytest.mark.parametrize(("before", "stops"), [(signal.SIG_DFL, True), (signal.SIG_IGN, False)])
def test_a_closed_terminal_stops_it_unless_nohup_was_asked_for(before: signal.Handlers, stops: bool) -> None:
    code = f"""
import os, signal, sys
signal.signal(signal.SIGHUP, signal.Handlers({int(before)}))
from fencing.machine.signals import SignalPipe
pipe = SignalPipe()
pipe.listen()
os.kill(os.getpid(), signal.SIGHUP)
pipe.wait(0.2)
print(pipe.stop_signal)
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=True)
    assert (result.stdout.strip() != "None") is stops


def test_chores_are_done_beside_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencing.machine.supervisor.CHORES_EVERY_S", 0.0)
    signals = SignalPipe()

    def chore() -> None:
        signals.stop_signal = signal.SIGTERM

    Supervisor(signals=signals, chores=[chore]).run()
    assert signals.stop_signal is signal.SIGTERM
