"""One call of a push tool over HTTP, and how it ended (L5, L9). No database, no rules about what follows.

Each call has a connection of its own: on one that was used before nobody could tell a request that never left from one
that did. Names are resolved here, each address is judged, and the one that was judged is the one that is dialled, so
that a name which resolves otherwise a moment later leads nowhere else. Nothing is repeated and no redirect followed.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import httpcore
import httpx

from fencing.gateway.secrets import NoCredential, header_of
from fencing.protocol import strict_json
from fencing.protocol.addresses import fault_of_address
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.pushing import End, Ended

MAX_ANSWER: Final = 1024 * 1024
MAX_CONNECT_S: Final = 10.0
AGENT: Final = "fence/1"
MAX_WHOLE: Final = 2**53 - 1
MAX_DIGITS: Final = 17
_BEGAN: Final = ".send_request_headers.started"


class ClosedAddress(httpcore.ConnectError):
    """The host resolves to an address that is closed to push tools (L9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent: `body` are the canonical bytes that were committed, None where something is only read.

    `credential` is a name; the secret is read when the call begins.
    """

    url: str
    body: bytes | None
    timeout_s: float
    credential: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Dials only addresses that were judged, of a name that was resolved once."""

    def __init__(self, open_hosts: Collection[str]) -> None:
        self._open_hosts = open_hosts
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, judge, dial."""
        addresses = await self._resolve(host, port)
        fault: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await self._inner.connect_tcp(
                    address, port, timeout=timeout, local_address=local_address, socket_options=socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                fault = error
        raise fault

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: no tool is called at a file of this machine."""
        del path, timeout, socket_options
        raise ClosedAddress("no tool is called at a socket file")

    async def sleep(self, seconds: float) -> None:
        """Wait: the library asks for it between tries, of which there are none."""
        await asyncio.sleep(seconds)

    async def _resolve(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(f"{host} does not resolve") from error
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        if host.lower() not in self._open_hosts and any(fault_of_address(each) for each in addresses):
            # One closed address among open ones is a trap, not a choice.
            raise ClosedAddress(f"{host} leads to an address that is closed")
        return addresses


class _Answer(httpx.AsyncByteStream):
    def __init__(self, stream: AsyncIterator[bytes], close: Callable[[], Any]) -> None:
        self._stream, self._close = stream, close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        await self._close()


class OneCall(httpx.AsyncBaseTransport):
    """httpx over connections that serve one call each, through a network that judges addresses."""

    def __init__(self, open_hosts: Collection[str], context: ssl.SSLContext | None = None) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=verifying_context() if context is None else context,
            max_connections=None,
            max_keepalive_connections=0,
            retries=0,
            http1=True,
            http2=False,
            network_backend=CheckedNetwork(open_hosts),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        sent = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        answer = await self._pool.handle_async_request(sent)
        stream: Any = answer.stream
        return httpx.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Answer(aiter(stream), answer.aclose),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close what is open."""
        await self._pool.aclose()


@lru_cache(maxsize=1)
def verifying_context() -> ssl.SSLContext:
    """The certificates that this machine trusts; made once, for it costs a while."""
    return ssl.create_default_context()


class Caller:
    """Calls tools, many at once, in one event loop."""

    def __init__(self, open_hosts: Collection[str] = (), context: ssl.SSLContext | None = None) -> None:
        self._client = httpx.AsyncClient(
            transport=OneCall(frozenset(open_hosts), context),
            follow_redirects=False,
            trust_env=False,
            timeout=None,  # noqa: S113 - each call has one of its own, over everything
        )

    async def aclose(self) -> None:
        """Close the client."""
        await self._client.aclose()
        await asyncio.sleep(0.01)  # the loop closes sockets a turn after their tasks

    async def call(self, request: Request) -> Ended:
        """Send a request once, and tell how that ended. Never raises, but when it is cancelled."""
        try:
            headers = {**request.headers, **_credential(request.credential)}
        except NoCredential:
            return Ended(how=End.NOT_OPENED, says=f"The credential {request.credential} is not there.")
        began = False

        async def trace(event: str, _info: Mapping[str, Any]) -> None:
            nonlocal began
            began = began or event.endswith(_BEGAN)

        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._exchange(request, headers, trace)
        except Exception as fault:  # noqa: BLE001 - whatever it is: what began to leave may have happened
            return _broken(fault, request, began=began)

    async def _exchange(self, request: Request, headers: Mapping[str, str], trace: Any) -> Ended:
        own = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": AGENT,
            "Connection": "close",
            **({} if request.body is None else {"Content-Type": "application/json"}),
        }
        extensions = {"trace": trace, "timeout": {"connect": min(MAX_CONNECT_S, request.timeout_s)}}
        made = self._client.build_request(
            "GET" if request.body is None else "POST",
            request.url,
            content=request.body,
            headers={**own, **headers},
            extensions=extensions,
        )
        answer = await self._client.send(made, stream=True, follow_redirects=False)
        try:
            data = await _read(answer)
        finally:
            await answer.aclose()
        retry_after = answer.headers.get("Retry-After")
        return Ended(how=End.ANSWERED, status=answer.status_code, body=_object(answer, data), retry_after=retry_after)


def _broken(fault: Exception, request: Request, *, began: bool) -> Ended:
    """Tell how a call ended that brought no answer. A connection that is not there yet has carried nothing."""
    if isinstance(fault, TimeoutError):
        return Ended(how=End.LOST if began else End.NOT_OPENED, says=f"No answer in {request.timeout_s:g} s.")
    if isinstance(fault, ClosedAddress):
        return Ended(how=End.NOT_OPENED, says="The host leads to an address that is closed to tools.")
    if isinstance(fault, httpcore.ConnectError | httpcore.ConnectTimeout) and not began:
        return Ended(how=End.NOT_OPENED, says="The host did not take the connection.")
    return Ended(how=End.LOST if began else End.NOT_BEGUN, says=f"The connection broke ({type(fault).__name__}).")


def _credential(name: str | None) -> dict[str, str]:
    return {} if name is None else dict([header_of(name)])


async def _read(answer: httpx.Response) -> bytes | None:
    """Read an answer's body as it was sent; None where it is longer than any that is read."""
    data = b""
    async for part in answer.aiter_raw():
        data += part
        if len(data) > MAX_ANSWER:
            return None
    return data


def _object(answer: httpx.Response, data: bytes | None) -> dict[str, Any] | None:
    """Read a body as the JSON object that it says it is; None for anything else."""
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
    if data is None or not is_json or answer.headers.get("Content-Encoding", "identity") != "identity":
        return None
    value = strict_json.parse(data)
    if isinstance(value, Refusal) and value.code is Code.UNSAFE_NUMBER:
        # It is readable all the same: such a number is kept as its text.
        value = strict_json.parse(json.dumps(json.loads(data, parse_int=_whole, parse_float=_real)).encode())
    return value if isinstance(value, dict) else None


def _whole(text: str) -> int | str:
    value = int(text) if len(text) <= MAX_DIGITS else MAX_WHOLE + 1
    return value if abs(value) <= MAX_WHOLE else text


def _real(text: str) -> str:
    return text
