"""As whom PostgreSQL runs, and with which programs: every way that this machine allows is tried for real."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from fencing.machine import binaries, places, servers
from fencing.machine.errors import MachineError, ServerMissing
from fencing.machine.folder import DataFolder
from fencing.machine.identity import LAUNCH, Identity, choose_identity, works
from fencing.machine.launch import FORBIDDEN
from fencing.machine.places import Places
from fencing.machine.servers import Servers

IS_ROOT = os.geteuid() == 0
GIVEN_REDIS = {"REDIS_URL": "given"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    """A data folder below a folder that nobody else can enter."""
    tmp_path.chmod(0o700)
    made = DataFolder(path=tmp_path / "data")
    made.prepare()
    yield made
    note = made.path / places.NOTE
    if note.exists():
        shutil.rmtree(note.read_text().strip())


def started(folder: DataFolder) -> Servers:
    """Start PostgreSQL on `folder` as this machine would."""
    running = Servers.plan(folder, GIVEN_REDIS, durable=False)
    running.start()
    return running


def greeting(running: Servers, statement: str) -> object:
    """Run `statement` as the owner role and return its one value."""
    assert running.postgres
    password = running.folder.secret("fence_owner")
    host = str(running.postgres.places.sockets)
    with psycopg.connect(host=host, dbname="fence", user="fence_owner", password=password, autocommit=True) as opened:
        cursor = opened.execute(statement)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def places_of(running: Servers) -> Places:
    assert running.postgres
    return running.postgres.places


def test_root_never_runs_postgresql_as_itself() -> None:
    identity = choose_identity(binaries.find_postgres() / "postgres")
    assert (identity is Identity.PLAIN) is not IS_ROOT


def test_a_start_in_a_closed_folder_leaves_every_file_with_its_owner(folder: DataFolder) -> None:
    running = started(folder)
    try:
        assert greeting(running, "SELECT 1") == 1
        if places_of(running).identity is not Identity.NOBODY:
            assert {path.stat().st_uid for path in folder.path.rglob("*")} == {os.geteuid()}
            assert places_of(running).cluster == folder.cluster
    finally:
        running.stop()


def test_forbidden_name_spaces_are_told_apart_from_every_other_failure() -> None:
    script = f'echo 0 > /proc/sys/user/max_user_namespaces; exec {sys.executable} -I -S {LAUNCH} $$ 9 namespace "$0"'
    # A name space of its own, in which there may be no further one.
    command = ["unshare", "--user", "--map-root-user", "--fork", "sh", "-c", script.replace("$$", "$PPID"), "/bin/true"]
    if subprocess.run([*command[:4], "true"], capture_output=True, check=False).returncode != 0:
        # This machine forbids them itself: that is the case, then.
        assert choose_identity(binaries.find_postgres() / "postgres") is not Identity.NAMESPACE
        return
    assert subprocess.run(command, capture_output=True, check=False).returncode == FORBIDDEN


def test_without_name_spaces_root_runs_it_as_nobody_elsewhere_and_finds_it_again(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not IS_ROOT:
        # Only root can become somebody else.
        monkeypatch.setattr(places, "choose_identity", lambda _: Identity.NOBODY)
        with pytest.raises((MachineError, OSError)):
            started(folder)
        return
    first = started(folder)
    greeting(first, "CREATE TABLE kept (id int)")
    first.stop()
    with monkeypatch.context() as patched:
        patched.setattr(places, "choose_identity", lambda _: Identity.NOBODY)
        second = started(folder)
        try:
            assert greeting(second, "SELECT count(*) FROM kept") == 0
            assert places_of(second).cluster.stat().st_uid == Identity.NOBODY.owner[0]
            assert not works(["/bin/sh", "-c", f"cd {folder.path}"], Identity.NOBODY)
            assert not places_of(second).cluster.is_relative_to(folder.path)
        finally:
            second.stop()
    third = started(folder)
    try:
        assert greeting(third, "SELECT count(*) FROM kept") == 0
    finally:
        third.stop()


def test_a_name_too_long_for_a_socket_moves_the_sockets_and_cleans_up(tmp_path: Path) -> None:
    folder = DataFolder(path=tmp_path / ("long" * 20) / "data")
    folder.prepare()
    running = started(folder)
    sockets = places_of(running).sockets
    try:
        assert greeting(running, "SELECT 1") == 1
        assert len(os.fsencode(sockets)) < 60
        assert sockets.stat().st_mode & 0o777 == 0o700
    finally:
        running.stop()
    assert not sockets.exists()


def test_the_sockets_of_a_killed_process_are_cleaned_up_by_the_next(tmp_path: Path) -> None:
    folder = DataFolder(path=tmp_path / "data")
    folder.prepare()
    left = places.SHORT_PARENT / f"{places.SHORT_PREFIX}left-by-a-test"
    left.mkdir()
    mine = tmp_path / "not-ours"
    mine.mkdir()
    for sockets in (left, mine):
        folder.write_run({"kind": "up", "pid": 0, "postgres": str(sockets)})
        servers.clear_previous(folder)
    assert not left.exists()
    assert mine.exists()


def test_the_programs_of_the_system_are_used_where_the_wheel_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_wheel_folder", lambda _: None)
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres")) or shutil.which("postgres")
    if system:
        assert (binaries.find_postgres() / "postgres").exists()
    else:
        with pytest.raises(ServerMissing, match="apt-get install postgresql"):
            binaries.find_postgres()


def test_where_nothing_fits_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_wheel_folder", lambda _: None)
    monkeypatch.setattr(binaries, "SYSTEM_POSTGRES", ())
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ServerMissing, match="apt-get install postgresql"):
        binaries.find_postgres()
    with pytest.raises(ServerMissing, match="apt-get install redis-server"):
        binaries.find_valkey()


def test_a_program_for_another_processor_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alien = tmp_path / "bin" / "valkey-server"
    alien.parent.mkdir()
    alien.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(57))
    alien.chmod(0o755)
    monkeypatch.setattr(binaries, "_wheel_folder", lambda _: tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ServerMissing):
        binaries.find_valkey()


def test_data_of_another_version_is_not_touched(folder: DataFolder) -> None:
    folder.cluster.mkdir()
    (folder.cluster / "PG_VERSION").write_text("9\n")
    with pytest.raises(ServerMissing, match="the data was made by PostgreSQL 9"):
        Servers.plan(folder, GIVEN_REDIS)
