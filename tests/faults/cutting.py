"""A line to PostgreSQL that can be cut at a chosen message: the database gone before, during and after a call.

It stands on a socket of its own between a process and the real server, and understands as much of the protocol as it
takes to count questions: whatever the server answers with `ReadyForQuery`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

SOCKET: Final = ".s.PGSQL.5432"
# Messages of a client after which the server answers with ReadyForQuery: a simple query, and Sync.
ASKS: Final = (b"Q", b"S")
READY: Final = b"Z"


class Moment(StrEnum):
    """When the line breaks."""

    BEFORE = "before"  # the question never arrives
    AFTER = "after"  # it was carried out, a commit included, and nobody hears of it


class Gone(Exception):
    """One side has hung up."""


@dataclass(kw_only=True)
class Cutter:
    """Listens in the folder `sockets` and carries everything to the server in the folder `server`."""

    sockets: Path
    server: Path
    questions: int = 0
    has_cut: bool = False
    is_away: bool = False
    _at: int | None = None
    _moment: Moment = Moment.BEFORE
    _stays_away: bool = False
    _lines: set[Line] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _listener: socket.socket = field(default_factory=lambda: socket.socket(socket.AF_UNIX))

    @classmethod
    @contextlib.contextmanager
    def between(cls, sockets: Path, server: Path) -> Iterator[Self]:
        """Listen for as long as the block lasts."""
        cutter = cls(sockets=sockets, server=server)
        cutter._listener.bind(str(sockets / SOCKET))
        cutter._listener.listen(64)
        threading.Thread(target=cutter._accept, daemon=True).start()
        try:
            yield cutter
        finally:
            cutter._listener.close()
            cutter.hang_up()

    def count(self) -> None:
        """Begin to count questions."""
        self.arm(None, Moment.BEFORE)

    def arm(self, at: int | None, moment: Moment, *, stays_away: bool = False) -> None:
        """Cut the line at the question number `at` from now on (0 is the next); it may stay away from then on."""
        with self._lock:
            self.questions, self.has_cut = 0, False
            self._at, self._moment, self._stays_away = at, moment, stays_away

    def go_away(self) -> None:
        """Be gone from now on."""
        self.is_away = True
        self.hang_up()

    def mend(self) -> bool:
        """Let everything through again; tell whether the line was cut."""
        with self._lock:
            self._at, self.is_away = None, False
            return self.has_cut

    def hang_up(self) -> None:
        """End every line."""
        for line in list(self._lines):
            line.end()

    def next_question(self) -> Moment | None:
        """Count a question, and say whether it is the one to cut at."""
        with self._lock:
            number, self.questions = self.questions, self.questions + 1
            if number != self._at:
                return None
            self.has_cut, self.is_away = True, self._stays_away
            return self._moment

    def forget(self, line: Line) -> None:
        """Know that a line has ended."""
        self._lines.discard(line)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_away:
                    client.close()
                    continue
                line = Line(cutter=self, client=client, server=socket.socket(socket.AF_UNIX))
                self._lines.add(line)
                line.start()


@dataclass(kw_only=True, eq=False)
class Line:
    """One connection, carried by a thread in each direction."""

    cutter: Cutter
    client: socket.socket
    server: socket.socket
    is_last_answer: bool = False
    has_ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Connect to the server and begin to carry."""
        try:
            self.server.connect(str(self.cutter.server / SOCKET))
        except OSError:
            self.end()
            return
        for carry in (self._ask, self._answer):
            threading.Thread(target=self._until_gone, args=(carry,), daemon=True).start()

    def end(self) -> None:
        """Hang up on both."""
        self.cutter.forget(self)
        self.has_ended.set()
        for each in (self.client, self.server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _until_gone(self, carry: Callable[[], None]) -> None:
        with contextlib.suppress(OSError, Gone):
            carry()
        self.end()

    def _ask(self) -> None:
        """Carry questions: whole ones, so that a cut never leaves half a statement behind."""
        self.server.sendall(_untyped(self.client))
        held = b""
        while True:
            kind, message = _typed(self.client)
            held += message
            if kind not in ASKS:
                if kind not in b"PBDEC":  # what belongs to one question waits for its Sync
                    self.server.sendall(held)
                    held = b""
                continue
            moment = self.cutter.next_question()
            if moment is Moment.BEFORE:
                return
            self.is_last_answer = moment is Moment.AFTER
            self.server.sendall(held)
            held = b""
            if self.is_last_answer:
                self.has_ended.wait()  # its answer ends the line
                return

    def _answer(self) -> None:
        while True:
            kind, message = _typed(self.server)
            if not self.is_last_answer:
                self.client.sendall(message)
            elif kind == READY:
                return


def _untyped(peer: socket.socket) -> bytes:
    """Read the first message of a client, which has no type."""
    head = _exactly(peer, 4)
    return head + _exactly(peer, int.from_bytes(head) - 4)


def _typed(peer: socket.socket) -> tuple[bytes, bytes]:
    """Read one message: its type, and all of its bytes."""
    head = _exactly(peer, 5)
    return head[:1], head + _exactly(peer, int.from_bytes(head[1:]) - 4)


def _exactly(peer: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = peer.recv(length - len(data))
        if not more:
            raise Gone
        data += more
    return data
