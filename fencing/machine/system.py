"""The parts of a running system in the order in which they start, and in which they stop."""

import contextlib
import os
import time
import urllib.error
import urllib.request
from typing import Any

from fencing.machine import programs
from fencing.machine.children import Child, Program
from fencing.machine.console import address, say, seconds_since
from fencing.machine.errors import MachineError
from fencing.machine.folder import DataFolder, is_disk_low
from fencing.machine.locks import FileLock
from fencing.machine.ports import check_port
from fencing.machine.postgres import identity_note
from fencing.machine.servers import Kind, Servers, secret_key
from fencing.machine.signals import SignalPipe
from fencing.machine.supervisor import After, Supervisor, Watched

ANSWER_S = 60.0
POLL_S = 0.03
SERVER_ERROR = 500


class System:
    """Servers, schema, web, workers and demo of one data folder."""

    def __init__(self, folder: DataFolder, signals: SignalPipe, host: str, port: int) -> None:
        self._folder = folder
        self._host, self._port = host, port
        self._signals = signals
        self._servers: Servers | None = None
        self._environment: dict[str, str] = {}
        self._is_disk_low = False
        self.supervisor = Supervisor(signals=signals, chores=[self._look_at_disk])

    @property
    def base_url(self) -> str:
        """Where a browser on this machine finds it."""
        return address(self._host, self._port)

    def start(self, *, is_demo: bool, started: float) -> None:
        """Start everything; returns early when a signal to stop comes.

        Raises:
            MachineError: a part does not come up.
        """
        servers = self._start_servers()
        for step in (self._prepare_beside_web, self._wait_for_answer, self._start_workers):
            if self._signals.stop_signal is not None:
                return
            step()
        if self._signals.stop_signal is None:
            self._write_run(servers)
            say(f"ready at {self.base_url} ({seconds_since(started)}); Ctrl-C stops everything")
            if is_demo and (programs.TOP / "fencing" / "demo" / "__init__.py").exists():
                self._watch(programs.demo(self._environment, self.base_url), After.DONE)

    def stop(self) -> None:
        """Stop everything in order: what takes work in, what does it, what holds it."""
        if self._servers is None:
            return
        say("stopping …")
        self.supervisor.stop(["demo"])
        self.supervisor.stop(["web"])
        self.supervisor.stop([f"worker {queue}" for queue in programs.QUEUES])
        self._servers.stop()
        self._folder.run_file.unlink(missing_ok=True)
        self._folder.web_file.unlink(missing_ok=True)
        say(f"stopped; the data stays in {self._folder.path}")

    def _start_servers(self) -> Servers:
        servers = Servers.plan(self._folder, os.environ)
        if servers.postgres:
            made = "starting" if servers.postgres.is_made else "making and starting"
            say(f"{made} PostgreSQL{identity_note(servers.postgres.places.identity)} in {self._folder.path}")
        elif not os.environ.get("FENCE_DATABASE_URL_FENCER"):
            say("warning: DATABASE_URL alone is given, so web and workers have the rights of the owner")
        self._environment = {**os.environ, **secret_key(self._folder, os.environ), **servers.environment()}
        self._environment.setdefault("FENCE_PUBLIC_URL", self.base_url)
        servers.start()
        self._servers = servers
        for child in servers.children:
            self.supervisor.add(self._watched_server(servers, child), is_started=True)
        return servers

    def _watched_server(self, servers: Servers, child: Child) -> Watched:
        return Watched(child=child, start=lambda: servers.restart(child))

    def _prepare_beside_web(self) -> None:
        """Let the web server load its code meanwhile; it answers nobody before the schema is right."""
        with FileLock(self._folder.schema_lock) as lock:
            lock.take(wait_s=ANSWER_S)
            self._watch(programs.web(self._folder, self._environment, self._host, self._port), After.RESTART)
            self._prepare()

    def _prepare(self) -> None:
        child = Child(program=programs.prepare(self._environment))
        child.start()
        while child.is_running and self._signals.stop_signal is None:
            self._signals.wait(1.0)
        child.stop()
        if child.exit_code and self._signals.stop_signal is None:
            raise MachineError("the database could not be brought up to date; its words stand above")

    def _start_workers(self) -> None:
        # After the web server, which a person waits for: beside it they would take the processor from it.
        for queue in programs.QUEUES:
            self._watch(programs.worker(self._folder, self._environment, queue), After.RESTART)

    def _watch(self, program: Program, after: After) -> None:
        child = Child(program=program)

        def start() -> None:
            child.start()
            if program.name == "web" and self._servers:
                # On a full disk the note keeps the old process; the part itself runs.
                with contextlib.suppress(OSError):
                    self._write_run(self._servers)

        self.supervisor.add(Watched(child=child, start=start, after=after))

    def _wait_for_answer(self) -> None:
        until = time.monotonic() + ANSWER_S
        web = next(each.child for each in self.supervisor.watched if each.child.program.name == "web")
        while self._signals.stop_signal is None and not (self._listens(web) and self._answers()):
            if not web.is_running or time.monotonic() > until:
                # Between the look at the port and this start another program may have taken it.
                check_port(self._host, self._port)
                raise MachineError(f"the web server did not answer. Its last words:\n{web.last_words()}")
            self._signals.wait(POLL_S)

    def _listens(self, web: Child) -> bool:
        """Whether this very web process listens, so that what answers there is no other program."""
        try:
            return self._folder.web_file.read_text(encoding="ascii") == str(web.pid)
        except OSError:
            return False

    def _answers(self) -> bool:
        """Whether the web server answers, in whatever way but with an error of its own."""
        # A proxy of the environment has no business on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self.base_url}/healthz", timeout=5):
                return True
        except urllib.error.HTTPError as error:
            return error.code < SERVER_ERROR
        except OSError:
            return False

    def _look_at_disk(self) -> None:
        """Say once when the disk runs full, while the database still has the room to go on."""
        was_low, self._is_disk_low = self._is_disk_low, is_disk_low(self._folder)
        if self._is_disk_low and not was_low:
            say(f"warning: the disk that holds {self._folder.path} is nearly full; free some space")

    def _write_run(self, servers: Servers) -> None:
        web: Any = next((each.child.pid for each in self.supervisor.watched if each.child.program.name == "web"), None)
        tool_hosts: Any = self._environment.get("FENCE_TOOL_HOSTS", programs.TOOL_HOSTS)
        self._folder.write_run(servers.describe(Kind.UP, address=self.base_url, web=web, tool_hosts=tool_hosts))
