"""Asking a model: one call of an OpenAI-compatible chat endpoint, believed in nothing but its words.

A model's server may be slow, fail, restart or lie. Whatever is not the answer that was asked for is `NoAnswer`, with
the reason; a redirect is never followed, and nothing is repeated here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from fencing.client.shells import LOOPBACK
from fencing.protocol import strict_json
from fencing.protocol.errors import Refusal

MAX_ANSWER: Final = 4 * 1024 * 1024
MAX_TOKENS: Final = 2**53 - 1
BYTES_A_TOKEN: Final = 4
SHOWN: Final = 200


class NoAnswer(Exception):
    """The model gave no answer that can be used. `is_refused` where a proxy refused the permit."""

    def __init__(self, why: str, *, is_refused: bool = False, usage: Usage | None = None) -> None:
        super().__init__(why)
        self.is_refused = is_refused
        self.usage = usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens that a call used. Where the server says nothing that can be, they are reckoned from the length."""

    tokens_in: int
    tokens_out: int
    is_reckoned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The tool that the model wants called, and its arguments."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a model answered."""

    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage


class ChatModel:
    """A model behind an OpenAI-compatible endpoint (`…/v1`, or the whole address of its chat completions)."""

    def __init__(
        self,
        endpoint: str,
        model: str,
        *,
        key: str | None = None,
        timeout_s: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"The endpoint must be http(s)://host[:port]/…, not {endpoint!r}.")
        path = endpoint.rstrip("/")
        self.url = path if path.endswith("/chat/completions") else f"{path}/chat/completions"
        self.model = model
        headers = {"Accept": "application/json", "User-Agent": "commit-fence-client"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self._http = httpx.Client(
            headers=headers,
            timeout=timeout_s,
            follow_redirects=False,
            trust_env=parts.hostname not in LOOPBACK,
            transport=transport,
        )

    def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Said:
        """Ask once. Raises `NoAnswer` for anything but an answer."""
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "temperature": 0}
        if tools:
            body |= {"tools": list(tools), "tool_choice": "required"}
        raw = json.dumps(body, ensure_ascii=False).encode()
        try:
            answer = self._http.post(
                self.url, content=raw, headers={"Content-Type": "application/json", **(headers or {})}
            )
        except (httpx.HTTPError, httpx.StreamError) as fault:
            raise NoAnswer(f"{type(fault).__name__} at {self.url}") from fault
        if answer.status_code != 200:  # noqa: PLR2004 - the one status that carries an answer
            why = f"the model's server answered {answer.status_code}: {answer.text[:SHOWN]}"
            raise NoAnswer(why, is_refused=answer.status_code in (401, 403, 409))
        return read_said(answer.content, sent=len(raw))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_said(raw: bytes, *, sent: int) -> Said:
    """Read a chat completion. Raises `NoAnswer` for what is none; what was used is told even then."""
    if len(raw) > MAX_ANSWER:
        raise NoAnswer(f"the answer has {len(raw)} bytes", usage=_reckoned(sent, len(raw)))
    told: Any = strict_json.parse(raw)
    usage = _usage(told, sent, len(raw))
    try:
        message = told["choices"][0]["message"]
        text, calls = message.get("content"), message.get("tool_calls") or []
        read = tuple(_call(each) for each in calls)
    except NoAnswer as fault:
        raise NoAnswer(str(fault), usage=usage) from fault
    except (TypeError, KeyError, IndexError, AttributeError, ValueError) as fault:
        raise NoAnswer(f"the answer is no chat completion: {type(fault).__name__} {fault}", usage=usage) from fault
    if not isinstance(text, str | None):
        raise NoAnswer("the answer's content is no text", usage=usage)
    return Said(text=text or "", calls=read, usage=usage)


def _call(told: Any) -> ToolCall:
    name, given = told["function"]["name"], told["function"]["arguments"]
    args = strict_json.parse(given.encode("utf-8", "surrogatepass")) if isinstance(given, str) else given
    if not isinstance(name, str) or not isinstance(args, dict):
        detail = args.detail if isinstance(args, Refusal) else "they are no object"
        raise NoAnswer(f"the arguments of {str(name)[:SHOWN]} cannot be used: {detail}")
    return ToolCall(tool=name, args=args)


def _usage(told: Any, sent: int, received: int) -> Usage:
    usage = told.get("usage") if isinstance(told, Mapping) else None
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, Mapping) else []
    tokens = [
        each for each in counts if isinstance(each, int) and not isinstance(each, bool) and 0 <= each <= MAX_TOKENS
    ]
    return (
        Usage(tokens_in=tokens[0], tokens_out=tokens[1])
        if len(tokens) == len(("in", "out"))
        else _reckoned(sent, received)
    )


def _reckoned(sent: int, received: int) -> Usage:
    """Reckon by the bytes where a server does not say: what nobody counts is spent all the same."""
    return Usage(tokens_in=-(-sent // BYTES_A_TOKEN), tokens_out=-(-received // BYTES_A_TOKEN), is_reckoned=True)
