"""Lanes: one for each hot call. Requests that wait for their turn on the road travel together, in one statement.

A lane answers the plain case of a call on the event loop, without the machinery of a view and without a thread: key,
form and item are read there, the database is asked once for all that wait, and what the straight way leaves out is
handed back, to be played as every other request is. Whatever is doubtful (a header, a body, a member, a role, a rate)
is handed back as well: a lane never refuses.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import structlog
from django.http import HttpResponse

from fencing.api import metrics
from fencing.api.access import address_from
from fencing.api.bodies import MAX_SINGLE, Body
from fencing.api.calls import JSON_TYPE, WAIT_HEADER, Read, Write
from fencing.api.limits import BUCKETS
from fencing.api.middleware import API_HEADERS, new_request_id
from fencing.api.rendering import json_bytes
from fencing.api.road import TURNS, Road
from fencing.models.registry import hear_registry, is_registry_heard
from fencing.protocol import strict_json
from fencing.protocol.answers import Answer
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.protocol.identifiers import is_identifier
from fencing.queries import straight as reads
from fencing.services import straight
from fencing.services.credentials import authenticate, hash_of

MAX_TOGETHER: Final = 64
# A key that was found good is looked up again after this; the database judges it in each statement all the same.
FAMILIAR_S: Final = 15.0
MAX_FAMILIAR: Final = 10_000
# How a bulk call begins (H3). It fills a statement by itself, and reading it would hold up the loop.
BULK: Final = re.compile(rb'\s*\{\s*"items"')
STEP_PATH: Final = re.compile(r"/api/v1/runs/([^/]{1,200})/steps/([^/]{1,200})")

T = TypeVar("T")
Scope = Mapping[str, Any]
# Run a blocking call in a thread of the pool.
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]

log = structlog.get_logger(__name__)


class Ride:
    """One request in a lane. Its future gives the response, or None where it is handed back: play it as every other."""

    __slots__ = ("body", "caller", "future", "is_counted", "request", "request_id", "response", "scope", "started")

    def __init__(self, scope: Scope, body: Body, future: asyncio.Future[HttpResponse | None], *, counted: bool) -> None:
        self.scope = scope
        self.body = body
        self.future = future
        self.is_counted = counted
        self.started = time.perf_counter()
        self.request_id = ""
        self.caller: Caller | None = None
        self.request: Any = None
        self.response: HttpResponse | None = None


class Familiar:
    """Keys that were found good a moment ago, so that each call need not ask for its own."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Caller, float]] = {}

    def find(self, header: str) -> Caller | None:
        """Give the caller of an `Authorization` header that is familiar."""
        known = self._known.get(hash_of(header))
        return None if known is None or time.monotonic() - known[1] > FAMILIAR_S else known[0]

    def learn(self, header: str) -> Caller | None:
        """Look a key up in the database; None where it is not good."""
        found, mark = authenticate(header), hash_of(header)
        if isinstance(found, Refusal):
            self._known.pop(mark, None)
            return None
        if len(self._known) >= MAX_FAMILIAR:
            self._known.clear()
        self._known[mark] = (found, time.monotonic())
        return found


FAMILIAR: Final = Familiar()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a lane carries: who may ride, how a request is read, and the course that its requests go together."""

    name: str
    route: str
    roles: frozenset[Role]
    read: Callable[[Ride], Any]
    course: Callable[[Sequence[Ride]], Generator[tuple[str, str], Any, list[Answer | None]]]
    may_auditor: bool = False


class Lane:
    """What waits for a turn on the road goes together. Every method belongs to the loop's own thread."""

    def __init__(self, kind: Kind, road: Road, in_thread: InThread) -> None:
        self.kind = kind
        self._road = road
        self._in_thread = in_thread
        self._waiting: list[Ride] = []
        self._abreast = 0
        self._going: set[asyncio.Task[None]] = set()
        self._hearing = asyncio.Lock()

    async def ride(self, scope: Scope, body: Body, *, is_counted: bool = False) -> Ride:
        """Carry a request and give it back with its response, or without. `is_counted`: its rate was asked already."""
        ride = Ride(scope, body, asyncio.get_running_loop().create_future(), counted=is_counted)
        try:
            if not await self._is_read(ride):
                return ride
        except Exception:
            # A fault here costs nothing but the short cut: the careful way answers, or tells the fault.
            log.exception("lane_failed", lane=self.kind.name)
            return ride
        self._waiting.append(ride)
        if self._abreast < TURNS:
            self._abreast += 1
            going = asyncio.ensure_future(self._go())
            self._going.add(going)
            going.add_done_callback(self._going.discard)
        await ride.future
        return ride

    async def _go(self) -> None:
        try:
            while self._waiting:
                async with self._road.turn:
                    rides, self._waiting = self._waiting[:MAX_TOGETHER], self._waiting[MAX_TOGETHER:]
                    try:
                        await self._take(rides)
                    except Exception:
                        log.exception("lane_failed", lane=self.kind.name)
                    for ride in rides:
                        if not ride.future.done():
                            ride.future.set_result(None)
        finally:
            # Here, and not when the task is told to be done: who comes in between would wait for nobody.
            self._abreast -= 1

    async def _take(self, rides: Sequence[Ride]) -> None:
        answers = await self._drive(self.kind.course(rides)) if rides else []
        for ride, answer in zip(rides, answers, strict=True):
            if answer is not None:
                ride.response = respond(ride, answer)
                seconds = time.perf_counter() - ride.started
                metrics.observe(ride.scope["method"], self.kind.route, answer.status, seconds)

    async def _is_read(self, ride: Ride) -> bool:
        """Read a request's key and form; False where either is not plainly good."""
        if BULK.match(ride.body.data):
            return False
        if not is_registry_heard():
            async with self._hearing:
                if not is_registry_heard():
                    await self._in_thread(hear_registry)
        header, address = self._read_headers(ride)
        caller = FAMILIAR.find(header)
        if caller is None and header:
            caller = await self._in_thread(partial(FAMILIAR.learn, header))
        if caller is None or not (
            caller.role in self.kind.roles or (self.kind.may_auditor and caller.role is Role.AUDITOR)
        ):
            return False
        if not ride.is_counted:
            if BUCKETS.take(caller) is not None:
                return False
            ride.is_counted = True
        ride.caller = replace(caller, address=address, request_id=ride.request_id)
        ride.request = self.kind.read(ride)
        if straight.has_prose(ride.request):
            # Files are written in a thread; the loop then finds them there.
            await self._in_thread(partial(straight.keep_prose, ride.request))
        return ride.request is not None

    def _read_headers(self, ride: Ride) -> tuple[str, str]:
        header, given, forwarded = "", "", None
        for name, value in ride.scope["headers"]:
            if name == b"authorization":
                header = value.decode("latin-1")
            elif name == b"x-request-id":
                given = value.decode("latin-1")
            elif name == b"x-forwarded-for":
                forwarded = value.decode("latin-1") if forwarded is None else f"{forwarded},{value.decode('latin-1')}"
        ride.request_id = new_request_id(given)
        client = ride.scope.get("client")
        return header, address_from(client[0] if client else "", forwarded)

    async def _drive(self, course: Generator[tuple[str, str], Any, T]) -> T:
        """Run a course's statements on the road."""
        try:
            statement, items = next(course)
            while True:
                statement, items = course.send(await self._road.ask(statement, items))
        except StopIteration as end:
            answers: T = end.value
            return answers


class Lanes:
    """The lanes of a web process: writes by their path, and the one read that planners wait with."""

    def __init__(self, *, road: Road, writes: Mapping[str, Kind], steps: Kind, in_thread: InThread) -> None:
        self.road = road
        self._writes = {path: Lane(kind, road, in_thread) for path, kind in writes.items()}
        self._steps = Lane(steps, road, in_thread)

    def find(self, scope: Scope) -> Lane | None:
        """The lane of a request, if there is one."""
        if scope["method"] == "POST":
            return self._writes.get(scope["path"])
        if scope["method"] == "GET" and STEP_PATH.fullmatch(scope["path"]):
            return self._steps
        return None


def kind_of_write(name: str, path: str, call: Write[Any], way: straight.Straight[Any]) -> tuple[str, Kind]:
    """Make the lane of a call that writes."""
    kind = Kind(
        name=name,
        route=f"api/v1{path}",
        roles=call.roles,
        read=partial(read_write, call),
        course=lambda rides: straight.course(way, [(ride.request, ride.caller) for ride in rides if ride.caller]),
    )
    return f"/api/v1{path}", kind


def kind_of_steps(call: Read[Any]) -> Kind:
    """Make the lane of `GET /runs/{run}/steps/{step}`."""
    return Kind(
        name="steps",
        route="api/v1/runs/<run>/steps/<step>",
        roles=call.roles,
        read=partial(read_step, call),
        course=lambda rides: reads.course([ride.request for ride in rides]),
        may_auditor=True,
    )


def read_write(call: Write[Any], ride: Ride) -> Any:
    """Read the one object of a POST; None for bulk, and for what would be refused."""
    if ride.body.refused is not None or len(ride.body.data) > MAX_SINGLE:
        return None
    value = strict_json.parse(ride.body.data)
    if not isinstance(value, dict) or "items" in value:
        return None
    request = call.form.read(value)
    return None if isinstance(request, Refusal) else request


def read_step(call: Read[Any], ride: Ride) -> reads.Wanted | None:
    """Read which step a GET names, and whether it waits."""
    matched = STEP_PATH.fullmatch(ride.scope["path"])
    if matched is None or ride.caller is None or not all(map(is_identifier, matched.groups())):
        return None
    asked = call.form.read(dict(parse_qsl(ride.scope["query_string"].decode("latin-1"), keep_blank_values=True)))
    if isinstance(asked, Refusal) or asked.epoch is None:
        return None
    return reads.Wanted(
        run=matched[1], step=matched[2], epoch=asked.epoch, caller=ride.caller, phase=asked.phase, waits=asked.wait > 0
    )


def respond(ride: Ride, answer: Answer) -> HttpResponse:
    """Write an answer as every call of the API does."""
    response = HttpResponse(json_bytes(answer.body), status=answer.status, content_type=JSON_TYPE)
    for name, value in API_HEADERS.items():
        response.headers[name] = value
    response.headers["X-Request-ID"] = ride.request_id
    if answer.pending:
        response.headers[WAIT_HEADER] = ",".join(answer.pending)
    return response
