"""`manage.py test`: static checks, then every test, against throw-away servers of their own.

Given arguments go to pytest, and then it alone runs: `manage.py test tests/protocol -k token`.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fencing.machine.chromium import VARIABLE, ensure_chromium
from fencing.machine.console import complain, say, seconds_since
from fencing.machine.errors import MachineError
from fencing.machine.folder import DataFolder
from fencing.machine.identity import Identity, launched

TOP = Path(__file__).resolve().parent.parent.parent
TESTS = TOP / "tests"
BROWSER_TESTS = TESTS / "browser"
# About half of the time of all tests; the other folders, where most new tests go, are the other half.
FIRST = ("browser", "machine", "demo", "client", "protocol", "jobs", "filling", "api")
# Arguments that leave all tests chosen.
WHOLE = frozenset({"--long", "-q", "-v", "-x"})
OUTCOME = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)\b")
TERMINATE = 15
END_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A static check: what it is called and how it is run."""

    name: str
    command: Sequence[str]


def main(arguments: Sequence[str], _folder: DataFolder) -> int:
    """Run the checks and tests that `arguments` ask for and return the exit code."""
    parser = argparse.ArgumentParser(prog="manage.py test", description=__doc__, allow_abbrev=False)
    parser.add_argument("--no-static", action="store_true", help="leave the static checks out")
    options, for_pytest = parser.parse_known_args(arguments)
    environment = {**os.environ}
    with tempfile.TemporaryDirectory(prefix="fence-checks-") as temporary:
        is_static = not (options.no_static or for_pytest)
        failed = run_checks(static_checks(Path(temporary)), environment) if is_static else []
    try:
        if has_browser_tests(for_pytest):
            environment[VARIABLE] = str(ensure_chromium(environment))
    except MachineError as error:
        complain(str(error))
        failed.append("Chromium")
    if failed:
        say(f"failed so far: {', '.join(failed)}")
    code = run_pytest(for_pytest, environment) if names_tests(for_pytest) else run_everything(environment, for_pytest)
    # pytest's closing line stays the last one that a test runner prints.
    return code or (1 if failed else 0)


def static_checks(temporary: Path) -> list[Check]:
    """Return the static checks; the one that needs a database keeps it in `temporary`."""
    tools = Path(sys.executable).parent
    makemigrations = ["makemigrations", "--check", "--dry-run", "--data", str(temporary / "data")]
    return [
        Check(name="ruff check", command=[str(tools / "ruff"), "check", "."]),
        Check(name="ruff format", command=[str(tools / "ruff"), "format", "--check", "."]),
        Check(name="templates", command=[str(tools / "djade"), "--check", "--target-version", "5.2", *templates()]),
        Check(name="mypy", command=[str(tools / "mypy")]),
        Check(name="import-linter", command=[str(tools / "lint-imports"), "--no-cache"]),
        Check(name="migrations", command=[sys.executable, str(TOP / "manage.py"), *makemigrations]),
    ]


def templates() -> list[str]:
    """Return every template, as names below the top folder."""
    return sorted(str(path.relative_to(TOP)) for path in (TOP / "templates").rglob("*.html"))


def run_checks(checks: Sequence[Check], environment: Mapping[str, str]) -> list[str]:
    """Run `checks` beside each other, say how each ended, and return the names of those that failed."""
    failed = []
    started = time.monotonic()
    say(f"static checks: {', '.join(check.name for check in checks)} …")
    running = [(check, _start(check.command, environment, output=subprocess.PIPE)) for check in checks]
    for check, process in running:
        output, _ = process.communicate()
        if process.returncode == 0:
            say(f"  {check.name}: good ({seconds_since(started)})")
            continue
        failed.append(check.name)
        say(f"  {check.name}: FAILED\n{output.decode(errors='replace').rstrip()}")
    return failed


def names_tests(for_pytest: Sequence[str]) -> bool:
    """Whether `for_pytest` chooses tests, or asks pytest for something else than to run all of them."""
    return any(word not in WHOLE for word in for_pytest)


def has_browser_tests(for_pytest: Sequence[str]) -> bool:
    """Whether browser tests exist and `for_pytest` may choose some of them."""
    words = [word.partition("::")[0] for word in for_pytest if not word.startswith("-")]
    paths = [Path(word).resolve() for word in words if Path(word).exists()]
    near = (path.is_relative_to(BROWSER_TESTS) or BROWSER_TESTS.is_relative_to(path) for path in paths)
    chosen = not paths or any(near)
    return chosen and any(BROWSER_TESTS.glob("**/test_*.py"))


def run_everything(environment: Mapping[str, str], options: Sequence[str] = ()) -> int:
    """Run all tests as two pytest processes beside each other, each with servers of its own; return the worse code.

    The first speaks to this terminal; what the second said comes after it, and last of all one closing line of both.
    """
    started = time.monotonic()
    others = sorted(path for path in TESTS.iterdir() if path.name not in FIRST and holds_tests(path))
    halves = [[str(TESTS / name) for name in FIRST], [str(path) for path in others]]
    with tempfile.TemporaryFile() as kept:
        commands = [[sys.executable, "-m", "pytest", *options, *half] for half in halves]
        # Each keeps what it learnt of its own; two that write one cache would spoil it.
        commands[1] += ["-p", "no:cacheprovider"]
        first = _start(commands[0], environment, output=subprocess.PIPE)
        second = _start(commands[1], environment, output=kept)
        lines = list(_echoed(first))
        codes = [first.wait(), second.wait()]
        kept.seek(0)
        say("")
        rest = kept.read().decode(errors="replace").rstrip()
        print(rest, flush=True)
        print(closing_line([lines[-1] if lines else "", rest.rpartition("\n")[2]], seconds_since(started)), flush=True)
    return max(codes, key=lambda code: (code != 0, code))


def holds_tests(path: Path) -> bool:
    """Whether a place below the folder of tests is a test file, or a folder with some."""
    return any(path.glob("**/test_*.py")) if path.is_dir() else path.match("test_*.py")


def closing_line(lines: Sequence[str], took: str) -> str:
    """Add the closing lines of several pytest processes up to one of the same form."""
    counts: dict[str, int] = {}
    for line in lines:
        for number, word in OUTCOME.findall(line):
            counts[word] = counts.get(word, 0) + int(number)
    told = [f"{counts[word]} {word}" for word in sorted(counts, key=lambda word: (word == "passed", word))]
    return f"{', '.join(told) or 'no tests ran'} in {took}"


def _echoed(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Pass on what a process says as it says it, and give its lines."""
    line = b""
    if process.stdout is None:
        return
    while piece := os.read(process.stdout.fileno(), 65536):
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        *ended, line = (line + piece).split(b"\n")
        yield from (each.decode(errors="replace") for each in ended)
    if line:
        yield line.decode(errors="replace")


def run_pytest(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run pytest with its output on this terminal and return its exit code."""
    process = _start([sys.executable, "-m", "pytest", *arguments], environment)
    try:
        return process.wait()
    except KeyboardInterrupt:
        # Ctrl-C reached pytest as well; it stops its servers and removes their folder.
        process.wait(END_S)
        raise


def _start(
    command: Sequence[str], environment: Mapping[str, str], *, output: int | IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        launched(command, Identity.PLAIN, TERMINATE),
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        cwd=TOP,
        env=dict(environment),
    )
