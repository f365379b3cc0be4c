"""The browser of the page tests: found, or installed where that is this command's to do, or a sentence on how."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from fencing.machine.console import say
from fencing.machine.errors import MachineError

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
VARIABLE = "FENCE_CHROMIUM"
PROBE_S = 60.0
HOW = (
    "the browser tests need Chromium. Install it (Debian, Ubuntu: apt-get install chromium; Fedora: dnf install "
    f"chromium; macOS: brew install --cask google-chrome), or name one in {VARIABLE}"
)


def ensure_chromium(environment: Mapping[str, str]) -> Path:
    """Return a Chromium that starts; as root on Debian or Ubuntu install it where there is none.

    Raises:
        MachineError: there is none, with a sentence on how to get it.
    """
    found = find_chromium(environment)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(environment)
        found = find_chromium(environment)
    if found is None:
        raise MachineError(HOW)
    return found


def find_chromium(environment: Mapping[str, str]) -> Path | None:
    """Return a Chromium that starts, None where there is none."""
    chosen = environment.get(VARIABLE)
    names = [chosen] if chosen else [*NAMES, str(MAC)]
    return next((Path(path) for name in names if (path := shutil.which(name)) and _starts(path)), None)


def _starts(program: str) -> bool:
    """Whether it runs: Ubuntu's package may be a script that only names another way to install it."""
    try:
        result = subprocess.run([program, "--version"], capture_output=True, timeout=PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def _install(environment: Mapping[str, str]) -> None:
    say("Chromium is missing; installing it with apt-get, which takes a minute …")
    quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-q", "-y", "chromium"]):
        result = subprocess.run(command, capture_output=True, text=True, env=quiet, check=False)
        if result.returncode != 0:
            say("\n".join((result.stdout + result.stderr).strip().splitlines()[-10:]))
