"""The data folder: everything that has to stay on one machine, and who may read it.

```
var/
  postgres/     the database cluster
  keys/         signing keys (0600)
  secrets/      passwords of the database roles, Django's key (0600 in a 0700 folder)
  sockets/      private sockets (0700)
  static/       files for browsers, where they are collected (`collectstatic`)
  logs/         what the servers and processes say
  run.json      which servers run now, for the commands beside them; holds no secret
  web.pid       which web process listens, for the `up` that started it
  servers.lock  held by the process that runs the servers
  schema.lock   held while the schema is brought up to date
  users.lock    shared by the commands that use servers of another command
```
"""

import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencing.machine.errors import MachineError, from_os_error

PRIVATE = 0o700
# The database keeps 80 MB of its log ready; with less than this the next hour may end in a full disk.
LEAST_FREE_BYTES = 150 * 1024 * 1024
ROLES = ("fence_owner", "fence_app", "fence_fencer")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataFolder:
    """The folder at `path` (absolute)."""

    path: Path

    @property
    def cluster(self) -> Path:
        """The database cluster, where nothing forces it to another place (`places.py`)."""
        return self.path / "postgres"

    @property
    def sockets(self) -> Path:
        """Folder of the private sockets, where its name is short enough."""
        return self.path / "sockets"

    @property
    def schema_lock(self) -> Path:
        """Held while the schema is brought up to date."""
        return self.path / "schema.lock"

    @property
    def run_file(self) -> Path:
        """The description of the running servers."""
        return self.path / "run.json"

    @property
    def web_file(self) -> Path:
        """The id of the web process that listens."""
        return self.path / "web.pid"

    def prepare(self) -> None:
        """Make the folder and its private parts.

        Raises:
            MachineError: it cannot be written, or the disk is full.
        """
        try:
            for part in (self.path, *(self.path / name for name in ("secrets", "keys", "logs", "sockets", "static"))):
                part.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            for name in ("secrets", "keys"):
                (self.path / name).chmod(PRIVATE)
        except NotADirectoryError as error:
            raise MachineError(f"{self.path} cannot be made: a part of that path is a file") from error
        except FileExistsError as error:
            raise MachineError(f"{error.filename} is a file where a folder has to be") from error
        except OSError as error:
            raise from_os_error(error, self.path) or error from error

    def log(self, name: str) -> Path:
        """The log file of the child called `name`."""
        return self.path / "logs" / f"{name}.log"

    def secret(self, name: str) -> str:
        """Return the secret called `name` and make it, of 256 random bits, where it is missing."""
        path = self.path / "secrets" / name
        try:
            return path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            # Written beside and linked: two processes agree on the one that came first, and no reader sees half.
            draft = path.with_name(f".{name}.{os.getpid()}")
            write_private(draft, secrets.token_hex(32) + "\n")
            try:
                os.link(draft, path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
            return path.read_text(encoding="ascii").strip()

    def read_run(self) -> dict[str, Any]:
        """Return the description of the running servers, empty where there is none."""
        try:
            run: dict[str, Any] = json.loads(self.run_file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return run

    def write_run(self, run: dict[str, Any]) -> None:
        """Replace the description of the running servers in one step."""
        draft = self.run_file.with_name(f".run.{os.getpid()}")
        write_private(draft, json.dumps(run, indent=2) + "\n")
        draft.replace(self.run_file)


def is_disk_low(folder: DataFolder) -> bool:
    """Whether the disk of `folder` is as good as full."""
    return shutil.disk_usage(folder.path).free < LEAST_FREE_BYTES


def write_private(path: Path, text: str) -> None:
    """Write `text` to a new file that only this user can read, through to the disk."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
