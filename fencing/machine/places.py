"""Where PostgreSQL's programs, cluster and sockets are, so that the identity it runs as can enter them.

Everybody but `nobody` uses the data folder and the programs where they lie. `nobody` may need another folder: the
data folder keeps the name of it in the file `postgres.place`, so that later starts find the same cluster.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fencing.machine.errors import MachineError
from fencing.machine.folder import PRIVATE, DataFolder
from fencing.machine.identity import Identity, choose_identity, works

NOTE = "postgres.place"
ENTERABLE = 0o711
# The kernel's `sun_path` without its closing zero byte.
SOCKET_PATH_LIMIT = 107 if sys.platform == "linux" else 103
SHORT_PARENT, SHORT_PREFIX = Path("/tmp"), "fence-"  # noqa: S108 (mkdtemp makes a private folder in it)
LONGEST_SOCKET_NAME = ".s.PGSQL.5432"
ELSEWHERE = (Path("/var/lib/fence"), Path("/var/tmp/fence"))  # noqa: S108 (a 0711 folder of root inside it)


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Folders that `identity` can enter."""

    identity: Identity
    binaries: Path
    cluster: Path
    sockets: Path


def made_by(folder: DataFolder) -> int:
    """Return the major version of PostgreSQL that made the cluster of `folder`, 0 where there is none."""
    try:
        return int((noted_base(folder) / "postgres" / "PG_VERSION").read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return 0


def noted_base(folder: DataFolder) -> Path:
    """Return the folder that holds the cluster, as an earlier start has noted it, else the data folder."""
    try:
        return Path((folder.path / NOTE).read_text(encoding="utf-8").strip())
    except FileNotFoundError:
        return folder.path


def find_places(folder: DataFolder, binaries: Path) -> Places:
    """Decide where PostgreSQL lives for `folder`, and make or hand over what is needed.

    Raises:
        MachineError: the cluster belongs to another user, or no folder can be entered.
    """
    identity = choose_identity(binaries / "postgres")
    base = _base(folder, identity)
    cluster = base / "postgres"
    if identity is Identity.NOBODY:
        binaries = _enterable_binaries(binaries, base)
    if cluster.exists():
        _take_over(cluster, identity)
    return Places(identity=identity, binaries=binaries, cluster=cluster, sockets=_sockets(folder, base, identity))


def give_to(path: Path, identity: Identity) -> None:
    """Make `path` belong to `identity`, closed to everybody else."""
    if os.geteuid() == 0:
        os.chown(path, *identity.owner)
    path.chmod(PRIVATE if path.is_dir() else 0o600)


def remove_short_sockets(sockets: Path) -> None:
    """Remove a folder of sockets that was made because the data folder's name is too long; leave any other alone."""
    if sockets.parent == SHORT_PARENT and sockets.name.startswith(SHORT_PREFIX):
        shutil.rmtree(sockets, ignore_errors=True)


def _base(folder: DataFolder, identity: Identity) -> Path:
    if (noted := noted_base(folder)) != folder.path:
        return noted
    if identity is not Identity.NOBODY or _open_to_nobody(folder.path):
        return folder.path
    base = _elsewhere(folder.path)
    if folder.cluster.exists():
        shutil.move(folder.cluster, base / "postgres")
    (folder.path / NOTE).write_text(f"{base}\n", encoding="utf-8")
    return base


def _open_to_nobody(path: Path) -> bool:
    """Whether `nobody` can enter `path` once the folder itself lets everybody through (not: look around)."""
    mode = path.stat().st_mode & 0o777
    path.chmod(mode | 0o011)
    if works(["/bin/sh", "-c", 'cd "$0"', str(path)], Identity.NOBODY):
        return True
    path.chmod(mode)
    return False


def _elsewhere(path: Path) -> Path:
    """A folder for the cluster of the data folder at `path` that `nobody` can enter."""
    name = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    for parent in ELSEWHERE:
        parent.mkdir(mode=ENTERABLE, parents=True, exist_ok=True)
        base = parent / name
        base.mkdir(mode=ENTERABLE, exist_ok=True)
        if parent.stat().st_uid == base.stat().st_uid == os.geteuid() and _open_to_nobody(base):
            return base
    raise MachineError(
        "PostgreSQL refuses root, user name spaces are forbidden here, and user nobody can enter none of "
        f"{', '.join(map(str, ELSEWHERE))}. Start as an ordinary user, or set DATABASE_URL."
    )


def _enterable_binaries(binaries: Path, base: Path) -> Path:
    """The programs, copied into `base` where `nobody` cannot enter their folder."""
    if works([str(binaries / "postgres"), "--version"], Identity.NOBODY):
        return binaries
    # The programs find their libraries and templates beside themselves, so the whole installation moves.
    copy = base / f"programs-{hashlib.sha256(str(binaries).encode()).hexdigest()[:12]}"
    if not copy.exists():
        draft = copy.with_name(copy.name + ".new")
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(binaries.parent, draft, ignore=shutil.ignore_patterns("include"))
        draft.rename(copy)
    if not works([str(copy / "bin" / "postgres"), "--version"], Identity.NOBODY):
        raise MachineError(
            f"user nobody cannot run PostgreSQL in {copy}; start as an ordinary user, or set DATABASE_URL"
        )
    return copy / "bin"


def _take_over(cluster: Path, identity: Identity) -> None:
    """Hand a cluster that was last run with another identity to this one."""
    owner = cluster.stat().st_uid
    if owner == identity.owner[0]:
        return
    if os.geteuid() != 0:
        raise MachineError(
            f"{cluster} belongs to another user (id {owner}); start as that user, or choose a folder with --data DIR"
        )
    for path in (cluster, *cluster.rglob("*")):
        os.chown(path, *identity.owner, follow_symlinks=False)


def _sockets(folder: DataFolder, base: Path, identity: Identity) -> Path:
    sockets = folder.sockets if base == folder.path else base / "sockets"
    if len(os.fsencode(sockets / LONGEST_SOCKET_NAME)) > SOCKET_PATH_LIMIT:
        # Found again through run.json, and removed by whoever stops the servers or starts them next.
        sockets = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX, dir=SHORT_PARENT))
    sockets.mkdir(mode=PRIVATE, exist_ok=True)
    give_to(sockets, identity)
    return sockets
