"""The way in from `manage.py`: the data folder, the commands of the machine itself, servers for the others."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from fencing.machine.console import complain
from fencing.machine.errors import MachineError
from fencing.machine.folder import DataFolder
from fencing.machine.servers import servers_for_command

TOP = Path(__file__).resolve().parent.parent.parent
# Commands that need neither database nor Redis.
WITHOUT_SERVERS = {
    "check", "collectstatic", "compilemessages", "diffsettings", "findstatic", "gate", "help", "makemessages",
    "permit_proxy", "score", "vote",
    "simulate", "startapp", "startproject", "version",
}  # fmt: skip
ROLE_OF_COMMAND = {"work": "fencer", "grant": "app", "freeze": "app", "lift": "app"}


def main(arguments: Sequence[str], django: Callable[[list[str]], None]) -> int:
    """Run the command in `arguments` (as `sys.argv`) and return the exit code; `django` runs Django's part."""
    try:
        rest, folder = take_data_option(arguments, os.environ)
        os.environ["FENCE_DATA"] = str(folder.path)
        return _run(rest, folder, django)
    except MachineError as error:
        complain(str(error))
        return 1
    except KeyboardInterrupt:
        return 130


def take_data_option(
    arguments: Sequence[str], environment: "os._Environ[str] | dict[str, str]"
) -> tuple[list[str], DataFolder]:
    """Return `arguments` without `--data DIR`, and that folder (else `FENCE_DATA`, else `var` beside manage.py).

    Raises:
        MachineError: `--data` stands without a folder.
    """
    rest: list[str] = []
    chosen = environment.get("FENCE_DATA") or str(TOP / "var")
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--data":
            chosen = next(remaining, "")
        elif argument.startswith("--data="):
            chosen = argument.partition("=")[2]
        else:
            rest.append(argument)
            continue
        if not chosen:
            raise MachineError("--data needs a folder: --data DIR")
    return rest, DataFolder(path=Path(chosen).expanduser().absolute())


def needs_servers(arguments: Sequence[str]) -> bool:
    """Whether the command in `arguments` (as `sys.argv`) works with the database or Redis."""
    command = arguments[1] if len(arguments) > 1 else "help"
    if command.startswith("-") or {"-h", "--help", "--version"} & set(arguments):
        return False
    return command not in WITHOUT_SERVERS


def _run(arguments: list[str], folder: DataFolder, django: Callable[[list[str]], None]) -> int:
    command = arguments[1] if len(arguments) > 1 else ""
    if command == "up":
        from fencing.machine import up  # noqa: PLC0415 (the other commands do not need the supervisor)

        return up.main(arguments[2:], folder)
    if command == "test":
        from fencing.machine import testing  # noqa: PLC0415 (as above)

        return testing.main(arguments[2:], folder)
    if command == "bench":
        from fencing.machine import benching  # noqa: PLC0415 (as above)

        return benching.main(arguments[2:])
    if not needs_servers(arguments):
        django(arguments)
        return 0
    os.environ.setdefault("FENCE_ROLE", ROLE_OF_COMMAND.get(command, "owner"))
    with servers_for_command(folder, os.environ) as variables:
        os.environ.update(variables)
        django(arguments)
    return 0
