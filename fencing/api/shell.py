"""The ASGI shell: it carries requests to the synchronous Django handler in a few threads, and lets reads wait.

A handler that was asked to wait, and whose condition does not hold yet, answers at once with the header `X-Fence-Wait`:
the topics on which the answer depends. The shell keeps that answer, waits for one of the topics without a thread and
without a database connection, and calls the handler again, until the header is gone or the time is over (H5).
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import uuid
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import structlog
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.base import BaseHandler
from django.core.signals import request_started
from django.db import close_old_connections
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from fencing.api.arriving import EMPTY, Arriving, Disconnected, Receive, Scope, disconnected, read_body
from fencing.api.bodies import MAX_IN_MEMORY, Body, NoRoom, Room
from fencing.api.hub import Hub, Topic
from fencing.api.lanes import Lanes
from fencing.api.limits import HELD
from fencing.api.problems import bad_request, internal, overloaded, problem, too_large
from fencing.api.threads import Overloaded, Threads
from fencing.services.tallies import PENDING

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

WAIT_HEADER = "X-Fence-Wait"
# For how long (seconds), where that stands in the body and not in the address.
WAIT_S_HEADER = "X-Fence-Wait-Seconds"
MAX_WAIT_S = 30.0
# A key that was told to wait and calls all the same is answered after this time (seconds).
HELD_ANSWER_S = 0.5
# A read of a broad topic is not run again sooner than this after its last run: a busy system signals all the time.
APART_S = 0.02
# A fact that was signalled may become readable a moment later (design 10): a woken read that found nothing looks again.
ECHOES_S = (0.05, 0.25)

log = structlog.get_logger(__name__)


class FenceRequest(ASGIRequest):
    """A request as the shell makes it: its body is in memory, was too large to be, or is a file that arrives."""

    def __init__(self, scope: Scope, body: Body, *, is_rerun: bool = False, arriving: Arriving | None = None) -> None:
        super().__init__(scope, io.BytesIO(body.data) if arriving is None else io.BufferedReader(arriving))
        self.fence_body = body
        self.is_rerun = is_rerun


class Shell(BaseHandler):
    """The ASGI application of a web process."""

    def __init__(
        self,
        *,
        hub: Hub,
        threads: Threads,
        streams: Threads,
        idle: Callable[[], None],
        lanes: Lanes | None = None,
        uploads: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.load_middleware(is_async=False)
        self.hub = hub
        self.threads = threads
        self.streams = streams
        self.lanes = lanes
        self.uploads = uploads
        self.room = Room(MAX_IN_MEMORY)
        self._idle = idle
        self._flights: dict[Hashable, Flight] = {}
        self._started = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of the server's."""
        if scope["type"] == "http":
            self.start()
            with contextlib.suppress(Disconnected):
                await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start threads and hub on the running loop, once."""
        if self._started:
            return
        self._started = True
        loop = asyncio.get_running_loop()
        self.threads.start(loop)
        self.streams.start(loop)
        self.hub.start()
        self._loop = loop

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def close_soon(self) -> None:
        """Send waiting reads home: the process was told to stop, and they may wait for long. For signal handlers."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.hub.close)

    async def stop(self) -> None:
        """Send waiting reads home, let running calls end, and put down what is counted in memory."""
        await self.hub.stop()
        with contextlib.suppress(Overloaded):
            await self.threads.run(self._idle)
        if self.lanes is not None:
            await self.lanes.road.close()
        self.threads.stop(timeout=5.0)
        self.streams.stop(timeout=1.0)

    # -- one request --------------------------------------------------------------------------------------------

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = HELD.find(authorization_of(scope))
        if refusal is not None:
            # Nobody asks the database or a thread for a key that was told to wait (N7). Its body is not read meanwhile,
            # and the answer takes its time: a connection that floods all the same costs next to nothing.
            PENDING.note("rate_limited")
            await asyncio.sleep(HELD_ANSWER_S)
            await send_response(problem(refusal), scope, send)
            return
        if scope["path"] in self.uploads and scope["method"] == "POST":
            await self._serve_upload(scope, receive, send)
            return
        with self.room.space() as take:
            await self._serve_body(scope, receive, send, take)

    async def _serve_body(self, scope: Scope, receive: Receive, send: Send, take: Callable[[int], None]) -> None:
        try:
            body = await read_body(scope, receive, take)
            if body is None:
                await send_response(too_large("The body is far beyond what any call takes."), scope, send)
                return
            response = await self._answer(scope, body, receive)
        except Disconnected:
            return
        except Exception as fault:  # noqa: BLE001 - it is answered, and logged where it is one of ours
            response = answer_to(fault)
        if isinstance(response, StreamingHttpResponse):
            await self._stream(response, scope, send)
        else:
            await send_response(response, scope, send)

    async def _serve_upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a view read the body while it arrives, in a thread of the other pool: it may take minutes."""
        arriving = Arriving(receive, asyncio.get_running_loop())
        try:
            response = await self.streams.run(partial(self._call, scope, EMPTY, arriving=arriving), owner_of(scope))
        except Exception as fault:  # noqa: BLE001 - it is answered, and logged where it is one of ours
            response = answer_to(fault)
        if not arriving.is_over:
            response["Connection"] = "close"
        await send_response(response, scope, send)

    async def _answer(self, scope: Scope, body: Body, receive: Receive) -> HttpResponseBase:
        mark = self.hub.mark()
        response = await self._play(scope, body)
        if not response.has_header(WAIT_HEADER):
            return response
        waiting = asyncio.ensure_future(self._wait(scope, body, response, mark))
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise Disconnected
            return waiting.result()
        finally:
            gone.cancel()
            waiting.cancel()

    async def _wait(self, scope: Scope, body: Body, response: HttpResponseBase, mark: int) -> HttpResponseBase:
        """Run the read again at each signal, until it stops asking for that or its time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds_asked(scope, response)
        echoes: list[float] = []
        while topics := topics_of(response):
            ran_at = loop.time()
            left = until - ran_at
            if left <= 0 or self.hub.is_closing:
                break
            is_broad = any(topic.seen is None for topic in topics)
            signalled = await self.hub.wait(topics, since=mark, seconds=min(left, echoes.pop(0)) if echoes else left)
            if signalled and is_broad:
                echoes = list(ECHOES_S)
                await asyncio.sleep(max(0.0, APART_S - (loop.time() - ran_at)))
            response, mark = await self._again(scope, body, topics)
        return response

    async def _again(self, scope: Scope, body: Body, topics: tuple[Topic, ...]) -> tuple[HttpResponseBase, int]:
        """Run a read again. Those who ask the same with the same key share one run, as long as no newer signal came.

        What takes something (work that is handed out) is run for each of them.
        """
        if scope["method"] == "POST":
            mark = self.hub.mark()
            return await self._play(scope, body, is_rerun=True), mark
        same = (scope["path"], scope["query_string"], authorization_of(scope))
        flight = self._flights.get(same)
        if flight is None or not self.hub.is_quiet(topics, since=flight.mark):
            mark = self.hub.mark()
            run = asyncio.ensure_future(self._play(scope, body, is_rerun=True))
            flight = self._flights[same] = Flight(mark=mark, run=run)
            run.add_done_callback(lambda _: self._land(same, flight))
        return await asyncio.shield(flight.run), flight.mark

    def _land(self, same: Hashable, flight: Flight) -> None:
        if self._flights.get(same) is flight:
            del self._flights[same]

    async def _play(self, scope: Scope, body: Body, *, is_rerun: bool = False) -> HttpResponseBase:
        """Answer from the lane of a hot call; where there is none, or it hands the request back, run all of Django."""
        lane = None if self.lanes is None else self.lanes.find(scope)
        if lane is not None:
            ride = await lane.ride(scope, body, is_counted=is_rerun)
            if ride.response is not None:
                return ride.response
            is_rerun = ride.is_counted
        return await self.threads.run(partial(self._call, scope, body, is_rerun=is_rerun), owner_of(scope))

    def _call(
        self, scope: Scope, body: Body, *, is_rerun: bool = False, arriving: Arriving | None = None
    ) -> HttpResponseBase:
        """Run the whole of Django for one request, in a thread of the pool."""
        try:
            request = FenceRequest(scope, body, is_rerun=is_rerun, arriving=arriving)
        except UnicodeDecodeError:
            return bad_request("The address holds bytes that are no UTF-8.")
        request_started.send(sender=type(self), scope=scope)
        response = self.get_response(request)
        if isinstance(response, StreamingHttpResponse):
            # Its rows are read in another thread, with a connection of its own; this thread's goes back now.
            close_old_connections()
        else:
            response.close()
        return response

    async def _stream(self, response: StreamingHttpResponse, scope: Scope, send: Send) -> None:
        """Send a long answer from a thread of the other pool: a client that reads slowly holds none of the first."""
        await send(start_of(response))
        push = partial(push_chunks, response, asyncio.get_running_loop(), send, is_head=scope["method"] == "HEAD")
        await self.streams.run(push)
        await send({"type": "http.response.body", "body": b""})


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """One run of a read that several wait for, and the moment before it looked."""

    mark: int
    run: asyncio.Future[HttpResponseBase]


def push_chunks(response: StreamingHttpResponse, loop: asyncio.AbstractEventLoop, send: Send, *, is_head: bool) -> None:
    """Read a streaming response to its end and hand each chunk to the loop, no faster than the client takes them."""
    try:
        for chunk in () if is_head else iter_sync(response):
            message = {"type": "http.response.body", "body": chunk, "more_body": True}
            asyncio.run_coroutine_threadsafe(as_coroutine(send(message)), loop).result(timeout=60)
    finally:
        response.close()


def iter_sync(response: StreamingHttpResponse) -> Iterable[bytes]:
    """The chunks of a response whose source is an ordinary iterator, the only kind that this code base makes."""
    return map(response.make_bytes, response.streaming_content)  # type: ignore[arg-type]


async def as_coroutine(awaitable: Awaitable[None]) -> None:
    """Await anything that can be awaited."""
    await awaitable


def answer_to(fault: Exception) -> HttpResponse:
    """What a request is told that nobody answered."""
    if isinstance(fault, Overloaded):
        return overloaded()
    if isinstance(fault, NoRoom):
        # What is left of the body stays unread, and with it the connection.
        response = overloaded()
        response["Connection"] = "close"
        return response
    request_id = uuid.uuid4().hex
    log.error("request_failed", request_id=request_id, exc_info=fault)
    return internal(request_id)


def authorization_of(scope: Scope) -> bytes:
    """Whose key a request carries."""
    return next((value for name, value in scope["headers"] if name == b"authorization"), b"")


def owner_of(scope: Scope) -> bytes:
    """Whose call this is, as far as the share of threads goes: a key's, a browser session's, or anybody's."""
    cookie = next((value for name, value in scope["headers"] if name == b"cookie"), b"anybody")
    return authorization_of(scope) or cookie


def topics_of(response: HttpResponseBase) -> tuple[Topic, ...]:
    """What an answer waits for; nothing where it is final."""
    header = response.get(WAIT_HEADER, "")
    return tuple(Topic.parse(text) for text in header.split(",")) if header else ()


def seconds_asked(scope: Scope, response: HttpResponseBase) -> float:
    """How long the caller wants to wait: `wait`, which the handler has checked before it asked to wait."""
    try:
        if response.has_header(WAIT_S_HEADER):
            return min(MAX_WAIT_S, float(response[WAIT_S_HEADER]))
        return min(MAX_WAIT_S, float(parse_qs(scope["query_string"].decode("latin-1"))["wait"][-1]))
    except (KeyError, ValueError):
        return 0.0


def start_of(response: HttpResponseBase) -> MutableMapping[str, Any]:
    """The message that opens a response."""
    headers: Headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in response.items()
        if name not in (WAIT_HEADER, WAIT_S_HEADER)
    ]
    headers += [
        (b"set-cookie", cookie.output(header="").strip().encode("latin-1")) for cookie in response.cookies.values()
    ]
    return {"type": "http.response.start", "status": response.status_code, "headers": headers}


async def send_response(response: HttpResponseBase, scope: Scope, send: Send) -> None:
    """Send an answer that is in memory."""
    content = response.content if isinstance(response, HttpResponse) else b""
    if not response.has_header("Content-Length") and response.status_code not in (204, 304):
        response["Content-Length"] = str(len(content))
    await send(start_of(response))
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})


def threads_wanted() -> int:
    """How many threads serve what no lane carries: beyond about four the slowest calls only get slower."""
    return max(1, int(os.environ.get("FENCE_WEB_THREADS", "4")))
