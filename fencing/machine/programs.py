"""What `up` runs beside the servers: web, workers and two commands that end. Each gets the one role it needs."""

import sys
from collections.abc import Mapping
from pathlib import Path

from fencing.machine.children import Program
from fencing.machine.folder import DataFolder

TOP = Path(__file__).resolve().parent.parent.parent
WEB_MODULE = "fencing.machine.web"
QUEUES = ("fence", "deliver", "default", "notify")
# Where the demonstration's push tool serves. Workers alone may call it: who registers a tool is told otherwise still.
TOOL_HOSTS = "127.0.0.1"
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)
ROLE_VARIABLES = {
    "owner": "DATABASE_URL",
    "app": "FENCE_DATABASE_URL_APP",
    "fencer": "FENCE_DATABASE_URL_FENCER",
}


def for_role(environment: Mapping[str, str], role: str) -> dict[str, str]:
    """Return `environment` with the database address of `role` alone: a process cannot use what it does not know."""
    mine = ROLE_VARIABLES[role]
    url = environment.get(mine) or environment.get("DATABASE_URL", "")
    others = {name: value for name, value in environment.items() if name not in ROLE_VARIABLES.values()}
    return {**others, mine: url, "FENCE_ROLE": role}


def web(folder: DataFolder, environment: Mapping[str, str], host: str, port: int) -> Program:
    """Return the web server."""
    variables = for_role(environment, "app")
    variables.setdefault("FENCE_HOSTS", hosts(host))
    return Program(
        name="web",
        command=[sys.executable, "-m", WEB_MODULE, "--host", host, "--port", str(port)],
        log=folder.log("web"),
        environment=variables,
        folder=TOP,
        stop_s=12.0,
    )


def worker(folder: DataFolder, environment: Mapping[str, str], queue: str) -> Program:
    """Return the worker of `queue`."""
    variables = for_role(environment, "fencer")
    variables.setdefault("FENCE_TOOL_HOSTS", TOOL_HOSTS)
    return Program(
        name=f"worker {queue}",
        command=[sys.executable, str(TOP / "manage.py"), "work", queue],
        log=folder.log(f"worker-{queue}"),
        environment=variables,
        folder=TOP,
        # It ends its job first.
        stop_s=15.0,
    )


def prepare(environment: Mapping[str, str]) -> Program:
    """Return the command that brings the schema up to date; it speaks to the person directly."""
    return _command("prepare", for_role(environment, "owner"), "prepare")


def demo(environment: Mapping[str, str], base_url: str) -> Program:
    """Return the command that plays the demo on an empty database; it speaks to the person directly."""
    return _command("demo", for_role(environment, "owner"), "demo", "--base-url", base_url, "--if-empty")


def hosts(host: str) -> str:
    """Return the host names that a server which listens on `host` answers to."""
    if host in WILDCARDS:
        return "*"
    return ",".join(dict.fromkeys(["localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host]))


def _command(name: str, environment: Mapping[str, str], *arguments: str) -> Program:
    command = [sys.executable, str(TOP / "manage.py"), *arguments]
    return Program(name=name, command=command, log=None, environment=environment, folder=TOP, stop_s=5.0)
