"""The web server of `up`: one process, one event loop. `python -m fencing.machine.web --host H --port N`.

Uvicorn speaks HTTP on the loop that also runs the hot calls, so that such a call never changes the thread.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fencing.machine.folder import DataFolder
from fencing.machine.locks import FileLock

MIGRATE_S = 3600.0
# The request line and headers of one request. The parser itself knows no limit.
MAX_HEAD = 64 * 1024
NOT_COUNTED = float("-inf")
# A thousand waiting reads have to fit beside the calls that are answered at once.
BACKLOG = 2048
# A planner that thinks for a minute finds its connection open: a closed one looks like a lost answer.
KEEP_ALIVE_S = 75
# A call that was taken in is answered before the end.
END_S = 8


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it, but for a head without an end, which is refused."""

    head: float = 0

    def data_received(self, data: bytes) -> None:
        """Count what has arrived while the head of a request is not complete."""
        self.head += len(data)
        super().data_received(data)
        if self.head > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of a request may have 64 KiB.")

    def on_headers_complete(self) -> None:
        """Count no further: the body has limits of its own."""
        self.head = NOT_COUNTED
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Count from the next piece on, which begins the next head."""
        self.head = 0
        super().on_message_complete()


class Server(uvicorn.Server):
    """Uvicorn, which notes in `listening` that it listens, and sends waiting reads home as soon as it has to stop."""

    def __init__(self, config: uvicorn.Config, application: Any, listening: Path) -> None:
        super().__init__(config)
        self._application = application
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so: an answer on the port may be another program's, this process's id is not."""
        await super().startup(sockets)
        # Without room for the note the system goes on; who has just started it is told of the disk.
        with contextlib.suppress(OSError):
            self._listening.write_text(str(os.getpid()), encoding="ascii")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Hear a signal."""
        self._application.close_soon()
        super().handle_exit(sig, frame)


def wait_for_schema(folder: DataFolder) -> None:
    """Return when nobody changes the schema."""
    with FileLock(folder.schema_lock) as lock:
        lock.take(shared=True, wait_s=MIGRATE_S)


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    from fencing.asgi import application  # noqa: PLC0415 (loading takes a while; a wrong option should not)

    folder = DataFolder(path=Path(os.environ["FENCE_DATA"]))
    wait_for_schema(folder)
    # What was loaded stays for ever: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    config = uvicorn.Config(
        application,
        host=options.host,
        port=options.port,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        # Whose word about addresses counts is for the application to say.
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=END_S,
    )
    Server(config, application, folder.web_file).run()


if __name__ == "__main__":
    main()
