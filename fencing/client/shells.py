"""The two thin shells around the talks: one blocks, one awaits. All that is decided lies in the talks."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload
from urllib.parse import urlsplit

import httpx

from fencing.client.calls import Apply, Call, Clock, Json, Lost, Pause, Reply, Talk, Wish
from fencing.client.repetition import PATIENT, Repetition, asked

P = ParamSpec("P")
T = TypeVar("T")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Raised before a byte of the request was written.
NEVER_LEFT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
NO_ANSWER = (httpx.TransportError, httpx.DecodingError)


class Shell:
    """What both shells have: where the fence is, with which key, how patient.

    `timeout_s` bounds each phase of a request (connect, send, silence while reading); a waiting read adds its wait.
    `transport` replaces httpx's own, for a private certificate authority or a socket, say. Proxies of the environment
    are used, except for a fence on this very machine. Redirects are never followed.
    """

    def __init__(self, base_url: str, key: str | None, *, repetition: Repetition, timeout_s: float) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"The base address must be http(s)://host[:port], not {base_url!r}.")
        self.base_url = base_url.rstrip("/")
        self.repetition = repetition
        self._key = key
        self._timeout_s = timeout_s
        self._trust_env = parts.hostname not in LOOPBACK

    def __repr__(self) -> str:
        """Name the address and never the key."""
        return f"{type(self).__name__}({self.base_url!r})"

    def asked(self, call: Call) -> Talk[Json]:
        """Send a call with this shell's patience."""
        return asked(call, self.repetition)

    def _settings(self) -> dict[str, Any]:
        headers = {"Accept": "application/json", "User-Agent": "commit-fence-client"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return {"headers": headers, "trust_env": self._trust_env, "follow_redirects": False}

    def _request(self, call: Call) -> dict[str, Any]:
        content = call.content()
        return {
            "method": call.method,
            "url": self.base_url + call.target,
            "params": dict(call.query) or None,
            "content": content,
            "headers": None if content is None else {"Content-Type": "application/json"},
            "timeout": httpx.Timeout(self._timeout_s, read=self._timeout_s + call.wait_s),
        }


class SyncShell(Shell):
    """Carries talks out by blocking. Can be shared by threads."""

    def __init__(
        self,
        base_url: str,
        key: str | None = None,
        *,
        repetition: Repetition = PATIENT,
        timeout_s: float = 10.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(base_url, key, repetition=repetition, timeout_s=timeout_s)
        self._http = httpx.Client(transport=transport, **self._settings())

    def run(self, talk: Talk[T]) -> T:
        """Carry a talk out and return its result."""
        go_on: Callable[[], Wish] = partial(next, talk)
        while True:
            try:
                wish = go_on()
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                go_on = partial(talk.send, self._granted(wish))
            except BaseException as fault:  # noqa: BLE001 - the talk decides what a fault of the user's function means
                go_on = partial(talk.throw, fault)

    def _granted(self, wish: Wish) -> Any:
        match wish:
            case Call():
                try:
                    return _reply(self._http.request(**self._request(wish)))
                except NO_ANSWER as fault:
                    return _lost(fault)
            case Pause():
                return time.sleep(_pause_s(wish))
            case Clock():
                return time.monotonic()
            case Apply():
                return _not_awaitable(wish.function(*wish.args, **wish.kwargs))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncShell(Shell):
    """Carries talks out on asyncio. A plain function of the user runs in the event loop itself."""

    def __init__(
        self,
        base_url: str,
        key: str | None = None,
        *,
        repetition: Repetition = PATIENT,
        timeout_s: float = 10.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(base_url, key, repetition=repetition, timeout_s=timeout_s)
        self._http = httpx.AsyncClient(transport=transport, **self._settings())

    async def run(self, talk: Talk[T]) -> T:
        """Carry a talk out and return its result."""
        go_on: Callable[[], Wish] = partial(next, talk)
        while True:
            try:
                wish = go_on()
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                go_on = partial(talk.send, await self._granted(wish))
            except BaseException as fault:  # noqa: BLE001 - as above; a cancellation, too, goes through the talk
                go_on = partial(talk.throw, fault)

    async def _granted(self, wish: Wish) -> Any:
        match wish:
            case Call():
                try:
                    return _reply(await self._http.request(**self._request(wish)))
                except NO_ANSWER as fault:
                    return _lost(fault)
            case Pause():
                return await asyncio.sleep(_pause_s(wish))
            case Clock():
                return time.monotonic()
            case Apply():
                result = wish.function(*wish.args, **wish.kwargs)
                return await result if inspect.isawaitable(result) else result

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Asking(Generic[P, T]):
    """A talk as a method: on a blocking shell it returns its result, on an asynchronous one it is awaited."""

    def __init__(self, talk: Callable[Concatenate[Any, P], Talk[T]]) -> None:
        self._talk = talk
        self.__doc__ = talk.__doc__
        _self, *parameters = inspect.signature(talk).parameters.values()
        self._signature = inspect.Signature(parameters)

    @overload
    def __get__(self, shell: None, owner: type[Any]) -> Callable[Concatenate[Any, P], Talk[T]]: ...
    @overload
    def __get__(self, shell: SyncShell, owner: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, shell: AsyncShell, owner: type[Any]) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, shell: Any, owner: type[Any]) -> Any:
        """Bind the talk to a shell; without one, give the talk itself."""
        talk = self._talk
        if shell is None:
            return talk

        @wraps(talk)
        def bound(*args: P.args, **kwargs: P.kwargs) -> Any:
            return shell.run(talk(shell, *args, **kwargs))

        # So that `help(planner.propose)` shows what can be given.
        bound.__signature__ = self._signature  # type: ignore[attr-defined]
        return bound


def asks(talk: Callable[Concatenate[Any, P], Talk[T]]) -> Asking[P, T]:
    """Make a talk a method of both shells."""
    return Asking(talk)


def _reply(response: httpx.Response) -> Reply:
    # httpx gives header names in lower case; of a doubled header the values are joined, and then mean nothing here.
    return Reply(status=response.status_code, headers=dict(response.headers), body=response.content)


def _lost(fault: Exception) -> Lost:
    # Some of httpx's faults carry no text; their names say enough.
    why = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
    return Lost(is_sent=not isinstance(fault, NEVER_LEFT), why=why)


def _pause_s(pause: Pause) -> float:
    return pause.least_s + random.random() * pause.spread_s  # noqa: S311 - spreads clients over time, no secret


def _not_awaitable(result: Any) -> Any:
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("An asynchronous function needs the asynchronous client.")
    return result
