"""Plays cases over HTTP as the actors of a system would: calls in order, and what must come back.

A case is data, in the format of the conformance suite: `id`, `title`, `rules`, `steps`, and perhaps `for`. Each run of
a case has fresh names. What a step saves is a name for the steps after it.
"""

from __future__ import annotations

import http.client
import itertools
import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

Case = dict[str, Any]
Step = dict[str, Any]
Names = dict[str, Any]

MOST_ORDERS: Final = 120
ASK_AGAIN_S: Final = 0.05
REPLY_WITHIN_S: Final = 60
AT_THE_ROOT: Final = ("/healthz", "/readyz", "/metrics", "/.well-known")
NAME: Final = re.compile(r"\$\{(\w+)\}")


class Unplayable(Exception):
    """A case asks for what is not there: an actor without a key, a name that nothing saved, a matcher nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back: the status, the body as JSON (as text where it is none), and the headers in lower case."""

    status: int
    body: Any
    headers: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.status} {json.dumps(self.body)[:400]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Plays cases against the system at `base_url`; `keys` maps actors to bearer keys."""

    base_url: str
    keys: Mapping[str, str]

    def play(self, case: Case) -> list[str]:
        """Play every variant and order of a case, and tell where one did not hold."""
        faults = []
        for given, steps in runs_of(case):
            names = fresh_names() | given
            try:
                self.play_steps(steps, names)
            except (AssertionError, Unplayable, OSError, http.client.HTTPException) as fault:
                faults.append(f"{given or ''} {type(fault).__name__}: {fault}".strip())
        return faults

    def play_steps(self, steps: Sequence[Step], names: Names) -> None:
        """Play steps in order; `names` grows by what they save."""
        for number, step in enumerate(steps, 1):
            try:
                self._step(step, names)
            except AssertionError as fault:
                told = step.get("call", "parallel")
                raise AssertionError(f"step {number}, {step.get('as', 'nobody')} {told}: {fault}") from None

    def send(self, call: Step) -> Reply:
        """Send one call whose names are filled in."""
        method, path = call["call"].split(" ", 1)
        headers = {"Accept": "application/json"}
        if actor := call.get("as"):
            if actor not in self.keys:
                raise Unplayable(f"there is no key for {actor}")
            headers["Authorization"] = f"Bearer {self.keys[actor]}"
        data = None
        if "raw" in call:
            data = call["raw"].encode("utf-8", "surrogatepass")
        elif "body" in call:
            data = json.dumps(call["body"]).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        return self._sent(method, path, data, headers | call.get("headers", {}))

    def _sent(self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]) -> Reply:
        address = path if path.startswith(AT_THE_ROOT) else f"/api/v1{path}"
        host = urlsplit(self.base_url)
        # One connection a call: nothing here repeats a request by itself.
        connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=REPLY_WITHIN_S)
        try:
            connection.request(method, address, body=data, headers=dict(headers))
            reply = connection.getresponse()
            raw = reply.read()
            got = {name.lower(): value for name, value in reply.getheaders()}
            return Reply(status=reply.status, body=_read(raw), headers=got)
        finally:
            connection.close()

    def _step(self, step: Step, names: Names) -> None:
        if "sleep" in step:
            time.sleep(step["sleep"])
        elif "parallel" in step:
            self._at_once(step, names)
        else:
            call = filled_call(step, names)
            replies = [self._until_it_holds(call) for _ in range(call.get("times", 1))]
            _save(call, replies[-1], names)

    def _until_it_holds(self, call: Step) -> Reply:
        until = time.monotonic() + call.get("within", 0)
        while True:
            reply = self.send(call)
            fault = fault_of(call.get("expect", {}), reply)
            if fault is None:
                return reply
            assert time.monotonic() < until, f"{fault} in {reply}"
            time.sleep(ASK_AGAIN_S)

    def _at_once(self, step: Step, names: Names) -> None:
        calls = [filled_call(call, names) for call in step["parallel"]]
        with ThreadPoolExecutor(len(calls)) as threads:
            replies = list(threads.map(self.send, calls))
        if "statuses" in step:
            got = sorted(reply.status for reply in replies)
            assert got in [sorted(each) for each in step["statuses"]], f"got {got}: {[str(each) for each in replies]}"
        for call, reply in zip(calls, replies, strict=True):
            fault = None if "statuses" in step and "expect" not in call else fault_of(call.get("expect", {}), reply)
            assert fault is None, f"{call['call']}: {fault} in {reply}"
            _save(call, reply, names)


def load_cases(files: Iterable[Path]) -> list[Case]:
    """Read the cases of several files, in order."""
    return [case for file in files for case in json.loads(file.read_text(encoding="utf-8"))]


def fresh_names() -> Names:
    """Make the names that each run of a case begins with."""
    mark = uuid.uuid4().hex[:10]
    return {"u": mark} | {name: f"{name}-{mark}" for name in ("run", "req", "att", "lane", "grant")}


def runs_of(case: Case) -> Iterator[tuple[Names, list[Step]]]:
    """Give each variant of a case in each order of its `any_order` groups."""
    groups: list[list[tuple[Step, ...]]] = [
        list(itertools.permutations(step["any_order"])) if "any_order" in step else [(step,)] for step in case["steps"]
    ]
    for variant in case.get("for", [{}]):
        for laid in itertools.islice(itertools.product(*groups), MOST_ORDERS):
            yield dict(variant), list(itertools.chain.from_iterable(laid))


def filled_call(call: Step, names: Names) -> Step:
    """Fill names into a call: percent-encoded in its address, as text in a raw body, with their types elsewhere."""
    made: Step = {key: filled(value, names) for key, value in call.items() if key not in ("call", "raw")}
    made["call"] = NAME.sub(lambda found: quote(_text(_named(names, found[1])), safe=""), call["call"])
    if "raw" in call:
        made["raw"] = NAME.sub(lambda found: _text(_named(names, found[1])), call["raw"])
    return made


def filled(value: Any, names: Names) -> Any:
    """Replace `${name}` in a value; a string that is one name alone becomes the saved value."""
    if isinstance(value, str):
        alone = NAME.fullmatch(value)
        return _named(names, alone[1]) if alone else NAME.sub(lambda found: _text(_named(names, found[1])), value)
    if isinstance(value, list):
        return [filled(each, names) for each in value]
    if isinstance(value, dict):
        return {filled(key, names): filled(each, names) for key, each in value.items()}
    return value


def fault_of(expect: Mapping[str, Any], reply: Reply) -> str | None:
    """Say in what a reply is not as expected; without a word about the status, it has to be a success."""
    wanted = expect.get("status", range(400))
    statuses = [wanted] if isinstance(wanted, int) else wanted
    if reply.status not in statuses:
        return f"status {reply.status}, not {wanted}"
    if "body" in expect and (fault := difference(expect["body"], reply.body)) is not None:
        return fault
    faults = (
        difference(want, reply.headers.get(name.lower()), f"header {name}")
        for name, want in expect.get("headers", {}).items()
    )
    return next((fault for fault in faults if fault is not None), None)


def difference(want: Any, got: Any, at: str = "") -> str | None:
    """Say where a value is not as described: objects hold at least what is named, lists match one by one."""
    if isinstance(want, dict) and any(name.startswith("$") for name in want):
        return _unmatched(want, got, at)
    if isinstance(want, dict):
        return _differing_object(want, got, at)
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{at or '/'}: {len(want)} items wanted, got {_brief(got)}"
        faults = (difference(*each, f"{at}/{index}") for index, each in enumerate(zip(want, got, strict=True)))
        return next((fault for fault in faults if fault is not None), None)
    return None if _is_same(want, got) else f"{at or '/'}: {_brief(want)} wanted, got {_brief(got)}"


def _differing_object(want: Mapping[str, Any], got: Any, at: str) -> str | None:
    if not isinstance(got, dict):
        return f"{at or '/'}: an object wanted, got {_brief(got)}"
    for name, each in want.items():
        is_unwanted = isinstance(each, dict) and each.get("$absent") is True
        if is_unwanted or name not in got:
            if is_unwanted is (name not in got):
                continue
            return f"{at}/{name}: {'not to be there' if is_unwanted else 'missing'}"
        if (fault := difference(each, got[name], f"{at}/{name}")) is not None:
            return fault
    return None


def _unmatched(want: Mapping[str, Any], got: Any, at: str) -> str | None:
    for name, argument in want.items():
        if name not in MATCHERS:
            raise Unplayable(f"nobody knows the matcher {name}")
        if not MATCHERS[name](argument, got):
            return f"{at or '/'}: {name} {_brief(argument)} wanted, got {_brief(got)}"
    return None


def _is_same(want: Any, got: Any) -> bool:
    """Whether two values are equal as JSON: true is not 1."""
    return isinstance(want, bool) is isinstance(got, bool) and bool(want == got)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


MATCHERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$any": lambda _, got: got is not None,
    "$null": lambda wanted, got: (got is None) is bool(wanted),
    "$ne": lambda other, got: not _is_same(other, got),
    "$in": lambda options, got: any(_is_same(each, got) for each in options),
    "$re": lambda pattern, got: isinstance(got, str) and re.search(pattern, got) is not None,
    "$gte": lambda least, got: _is_number(got) and got >= least,
    "$lte": lambda most, got: _is_number(got) and got <= most,
    "$len": lambda length, got: isinstance(got, list | dict | str) and len(got) == length,
    "$has": lambda item, got: isinstance(got, list) and any(difference(item, each) is None for each in got),
    "$hasnot": lambda item, got: isinstance(got, list) and all(difference(item, each) is not None for each in got),
    "$absent": lambda _, __: False,
}


def _named(names: Names, name: str) -> Any:
    if name not in names:
        raise Unplayable(f"nothing was saved as {name}")
    return names[name]


def _save(call: Step, reply: Reply, names: Names) -> None:
    for name, pointer in call.get("save", {}).items():
        found = reply.body
        for part in filter(None, pointer.split("/")):
            is_there = isinstance(found, dict) and part in found
            is_item = isinstance(found, list) and part.isdecimal() and int(part) < len(found)
            assert is_there or is_item, f"nothing at {pointer} in {reply}"
            found = found[int(part)] if isinstance(found, list) else found[part]
        names[name] = found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _read(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode("utf-8", "replace")


def _brief(value: Any) -> str:
    return json.dumps(value)[:200]
