"""`manage.py up` as a person meets it: started, disturbed, killed, started again."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from fencing.machine.folder import DataFolder
from tests.live import START_S, TOP, LiveSystem, bare_environment, free_port, manage

ADDRESS = "SELECT current_database(), current_user"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data folder for this file, so that a test meets what earlier ones left."""
    return tmp_path_factory.mktemp("up")


@pytest.fixture(scope="module")
def system(home: Path) -> Iterator[LiveSystem]:
    """A running system that the tests of this file disturb."""
    with LiveSystem.start(home) as running:
        yield running


def run_of(system: LiveSystem) -> dict[str, Any]:
    """Return what `run.json` tells."""
    run: dict[str, Any] = json.loads((system.data / "run.json").read_text())
    return run


def connect(system: LiveSystem, role: str, **options: Any) -> psycopg.Connection[Any]:
    """Open a connection to the database of `system`."""
    password = DataFolder(path=system.data).secret(role)
    return psycopg.connect(host=run_of(system)["postgres"], dbname="fence", user=role, password=password, **options)


def children_of(pid: int) -> dict[int, str]:
    """Return every process below `pid` with its command line."""
    found: dict[int, str] = {}
    parents = [pid]
    while parents:
        parent = parents.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError):
                for child in map(int, task.read_text().split()):
                    found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                    parents.append(child)
    return found


def process(system: LiveSystem, part: str) -> int:
    """Return the process below `up` whose command line has `part`, 0 where there is none now."""
    below = sorted(children_of(system.process.pid).items())
    return next((pid for pid, command in below if part in command), 0)


def eventually(condition: Callable[[], object], within_s: float = 20.0) -> None:
    """Wait until `condition` holds; an error of a connection counts as not yet."""
    until = time.monotonic() + within_s
    while True:
        with contextlib.suppress(OSError, psycopg.Error, redis.RedisError):
            if condition():
                return
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.05)


def answers(system: LiveSystem) -> bool:
    """Whether the first page comes."""
    with urllib.request.urlopen(f"{system.base_url}/", timeout=5) as response:  # noqa: S310 (our own address)
        return bool(response.status == 200)


def test_it_says_where_it_is_and_tells_the_first_password_once(system: LiveSystem) -> None:
    assert f"ready at {system.base_url}" in system.said()
    assert system.said().count("created the first administrator: admin, password ") == 1
    assert answers(system)


def test_three_roles_share_one_durable_database(system: LiveSystem) -> None:
    for role in ("fence_owner", "fence_app", "fence_fencer"):
        with connect(system, role) as connection:
            assert connection.execute(ADDRESS).fetchone() == ("fence", role)
    with connect(system, "fence_owner") as connection:
        for name, wanted in (("fsync", "on"), ("synchronous_commit", "on"), ("listen_addresses", "")):
            assert connection.execute("SELECT current_setting(%s)", [name]).fetchone() == (wanted,)


def test_no_role_gets_in_without_its_password(system: LiveSystem) -> None:
    for role in ("postgres", "fence_owner"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(host=run_of(system)["postgres"], dbname="fence", user=role, password="guess")


@pytest.mark.parametrize(
    ("part", "role"),
    [("fencing.machine.web", "FENCE_DATABASE_URL_APP"), ("manage.py work", "FENCE_DATABASE_URL_FENCER")],
)
def test_a_process_knows_the_address_of_its_own_role_alone(system: LiveSystem, part: str, role: str) -> None:
    eventually(lambda: process(system, part))
    environment = Path(f"/proc/{process(system, part)}/environ").read_text().split("\0")
    known = {line.partition("=")[0] for line in environment if "postgresql://" in line}
    assert known == {role}


def test_another_command_beside_it_needs_no_setting(system: LiveSystem) -> None:
    shown = system.manage("shell", "-v0", "-c", "from django.db import connection as c; print(c.settings_dict['HOST'])")
    assert shown.stdout.strip() == run_of(system)["postgres"]
    assert run_of(system)["kind"] == "up"


def test_a_second_up_on_the_same_folder_is_told_where_the_first_one_runs(system: LiveSystem) -> None:
    result = manage(system.data, ["up", "--port", str(free_port())], check=False)
    assert result.returncode == 1
    assert f"another up (process {system.process.pid}) runs" in result.stderr
    assert system.base_url in result.stderr
    assert answers(system)


def test_a_database_that_was_killed_comes_back_with_what_it_had_promised(system: LiveSystem) -> None:
    with connect(system, "fence_owner") as connection:
        connection.execute("CREATE TABLE promise (id int)")
        connection.execute("INSERT INTO promise VALUES (1)")
    os.kill(process(system, "bin/postgres -D"), signal.SIGKILL)

    def kept() -> bool:
        with connect(system, "fence_owner", connect_timeout=2) as connection:
            return connection.execute("SELECT id FROM promise").fetchone() == (1,)

    eventually(kept)
    eventually(lambda: answers(system))


@pytest.mark.parametrize("part", ["valkey-server", "manage.py work fence", "fencing.machine.web"])
def test_whatever_else_is_killed_comes_back(system: LiveSystem, part: str) -> None:
    eventually(lambda: process(system, part))
    first = process(system, part)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: process(system, part) not in (0, first))
    eventually(lambda: answers(system))
    with redis.Redis(unix_socket_path=run_of(system)["valkey"]) as client:
        eventually(client.ping)


def test_a_killed_supervisor_leaves_nothing_running_and_the_next_start_keeps_the_data(
    system: LiveSystem, home: Path
) -> None:
    eventually(lambda: process(system, "manage.py work default"))
    before = children_of(system.process.pid)
    assert len(before) > 6
    system.process.kill()
    system.process.wait()
    port = int(system.base_url.rpartition(":")[2])
    with LiveSystem.start(home, port=port) as second:
        # The kernel told them; web and workers finish what is at hand, and the new ones do not wait for that.
        eventually(lambda: not [command for pid, command in before.items() if Path(f"/proc/{pid}").exists()])
        assert "created the first administrator" not in second.said()
        with connect(second, "fence_owner") as connection:
            assert connection.execute("SELECT id FROM promise").fetchone() == (1,)
        assert second.stop() == 0
    assert "the data stays in" in second.said()
    assert not (home / "data" / "run.json").exists()
    assert not list((home / "data" / "sockets").iterdir())


def test_a_command_alone_starts_the_servers_for_its_own_duration(home: Path) -> None:
    data = home / "data"
    shown = manage(data, ["shell", "-v0", "-c", "from django.db import connection as c; print(c.ensure_connection())"])
    assert shown.stdout.strip() == "None"
    assert not (data / "run.json").exists()
    assert not (data / "postgres" / "postmaster.pid").exists()


def test_a_taken_port_is_told_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = manage(tmp_path / "data", ["up", "--port", str(port)], check=False)
    assert result.returncode == 1
    assert f"port {port} on 127.0.0.1 is taken by another program; choose a free one with --port N" in result.stderr
    assert not (tmp_path / "data" / "postgres").exists()


def test_a_port_that_another_program_takes_meanwhile_is_told_and_its_answers_are_not_taken_for_ours(
    tmp_path: Path,
) -> None:
    port = free_port()
    command = [sys.executable, "manage.py", "up", "--no-demo", "--port", str(port), "--data", str(tmp_path / "data")]
    process = subprocess.Popen(command, cwd=TOP, env=bare_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    # It has looked at the port, and will bind it once its database runs.
    assert b"PostgreSQL" in process.stdout.readline()
    with HTTPServer(("127.0.0.1", port), AnswersAll) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        try:
            said, complaint = process.communicate(timeout=START_S)
        finally:
            other.shutdown()
            process.kill()
    assert process.returncode == 1
    taken = f"port {port} on 127.0.0.1 is taken by another program; choose a free one with --port N"
    assert taken in complaint.decode()
    assert b"ready at" not in said


class AnswersAll(BaseHTTPRequestHandler):
    """Another program on the port, which answers whatever it is asked."""

    def do_GET(self) -> None:
        """Say that all is well."""
        self.send_response(HTTPStatus.OK)
        self.end_headers()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [(["--host", "192.0.2.1"], "cannot listen on 192.0.2.1"), (["--port", "70000"], "a port is a number from 1 to")],
)
def test_an_address_that_cannot_be_listened_on_is_told(tmp_path: Path, options: list[str], complaint: str) -> None:
    result = manage(tmp_path / "data", ["up", *options], check=False)
    assert result.returncode in (1, 2)
    assert complaint in result.stderr


def test_a_full_disk_is_told_before_anything_is_started(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "fence", disk], capture_output=True, check=False)
    if mounted.returncode != 0:
        # Without the right to mount there is no small disk here; what the error says is tested in test_folder.
        return
    try:
        result = manage(disk / "data", ["up"], check=False)
    finally:
        subprocess.run(["umount", disk], check=True)
    assert result.returncode == 1
    assert "is full; free some space" in result.stderr


@pytest.mark.parametrize("command", ["up", "migrate"])
def test_production_makes_no_servers_of_its_own(tmp_path: Path, command: str) -> None:
    production = {**bare_environment(), "FENCE_MODE": "production"}
    words = [sys.executable, "manage.py", command, "--data", str(tmp_path / "data")]
    result = subprocess.run(words, cwd=TOP, env=production, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "production" in result.stderr
    assert not (tmp_path / "data").exists()
