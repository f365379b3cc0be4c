"""`manage.py up`: the whole system on one machine, as children of this process, until Ctrl-C."""

import argparse
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fencing.machine.console import say
from fencing.machine.errors import DiskFull, FolderInUse, MachineError, from_os_error
from fencing.machine.folder import DataFolder, is_disk_low
from fencing.machine.locks import FileLock
from fencing.machine.ports import check_port
from fencing.machine.programs import WEB_MODULE
from fencing.machine.servers import Kind, clear_previous, is_production, runs_servers
from fencing.machine.signals import SignalPipe
from fencing.machine.system import System

LAST_PORT = 65535
COMMAND_S = 60.0
PREVIOUS_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `up`, for our own parser and for Django's."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=port_number, default=8000, help="port to listen on (default: %(default)s)")
    parser.add_argument(
        "--data", metavar="DIR", help="folder of everything that stays (default: FENCE_DATA, else var/)"
    )
    parser.add_argument("--no-demo", action="store_true", help="do not play the demo on an empty database")


def port_number(text: str) -> int:
    """Read a port.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or not 0 < int(text) <= LAST_PORT:
        raise argparse.ArgumentTypeError(f"a port is a number from 1 to {LAST_PORT}")
    return int(text)


def main(arguments: Sequence[str], folder: DataFolder) -> int:
    """Parse `arguments` and run until a signal; return the exit code.

    Raises:
        MachineError: it cannot start, with a sentence on what to do.
    """
    parser = argparse.ArgumentParser(prog="manage.py up", description=__doc__)
    add_arguments(parser)
    options = parser.parse_args(arguments)
    return run(folder, host=options.host, port=options.port, is_demo=not options.no_demo)


def run(folder: DataFolder, *, host: str, port: int, is_demo: bool) -> int:
    """Bring everything up, watch it until a signal, stop it in order, and return the exit code."""
    started = time.monotonic()
    if is_production(os.environ):
        raise MachineError(
            "up makes servers and secrets of its own, which FENCE_MODE=production refuses; unset it, or run "
            "`manage.py prepare`, the web server and `manage.py work QUEUE` each by itself"
        )
    folder.prepare()
    check_disk(folder)
    with FileLock(folder.path / "servers.lock") as lock:
        take_folder(folder, lock)
        previous = folder.read_run()
        wait_for_previous(previous)
        check_port(host, port, patience_s=PREVIOUS_S if previous.get("web") else 0.0)
        clear_previous(folder)
        signals = SignalPipe()
        signals.listen()
        system = System(folder, signals, host, port)
        try:
            system.start(is_demo=is_demo, started=started)
            system.supervisor.run()
        except OSError as error:
            raise from_os_error(error, folder.path) or error from error
        finally:
            system.stop()
    return 0


def check_disk(folder: DataFolder) -> None:
    """Refuse a disk that is as good as full.

    Raises:
        DiskFull: it is.
    """
    if is_disk_low(folder):
        raise DiskFull(folder.path)


def take_folder(folder: DataFolder, lock: FileLock) -> None:
    """Take the right to run the servers of `folder`; wait for a command that runs them only for itself.

    Raises:
        FolderInUse: another `up` has it.
    """
    if lock.take():
        return
    run = folder.read_run()
    if run.get("kind") == Kind.COMMAND and runs_servers(run):
        say(f"another command (process {run['pid']}) uses {folder.path}; waiting for its end …")
    elif run and runs_servers(run):
        where = f" at {run['address']}" if run.get("address") else ""
        raise FolderInUse(
            f"another up (process {run['pid']}) runs with {folder.path}{where}; "
            "stop it, or choose other ones with --data DIR and --port N"
        )
    if not lock.take(wait_s=COMMAND_S if run.get("kind") == Kind.COMMAND else PREVIOUS_S):
        raise FolderInUse(f"another process uses {folder.path}; stop it, or choose --data DIR and --port N")


def wait_for_previous(run: Mapping[str, Any]) -> None:
    """Wait for the web server of an `up` that was killed: it still holds the port for a moment."""
    pid = int(run.get("web") or 0)
    until = time.monotonic() + PREVIOUS_S
    while pid and is_our_web(pid):
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def is_our_web(pid: int) -> bool:
    """Whether process `pid` is a web server of ours (Linux; elsewhere none is recognised)."""
    try:
        return WEB_MODULE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
