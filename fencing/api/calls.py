"""The two shapes of a call: one that writes, alone or in bulk (H3), and one that reads, perhaps waiting (H5).

Each is described once as a value when the module of its route is imported, and played here for every request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from fencing.api.access import admit
from fencing.api.bodies import MAX_BULK, MAX_SINGLE, Body, body_of
from fencing.api.forms import Form
from fencing.api.limits import BUCKETS
from fencing.api.problems import NOWHERE, not_found, problem, problem_members
from fencing.api.rendering import json_bytes
from fencing.api.subjects import Members, certain_members
from fencing.protocol import strict_json
from fencing.protocol.answers import Answer, Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.identifiers import is_identifier
from fencing.protocol.strict_json import Parsed
from fencing.services.side_log import RefusedBody, record_refusals, subject_of

JSON_TYPE: Final = "application/json"
WAIT_HEADER: Final = "X-Fence-Wait"
# For how long, in seconds, where that stands in the body and not in the address.
WAIT_S_HEADER: Final = "X-Fence-Wait-Seconds"

# A read that a key may not make is told (H1); one that finds nothing, or is spelt wrong, changed nothing for anybody.
TOLD_READS: Final = frozenset({Code.FORBIDDEN_ROLE, Code.NOT_YOUR_RUN})

R = TypeVar("R")
Q = TypeVar("Q")
Names = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write(Generic[R]):
    """A POST: who may send it, what its body is, and the service that takes it.

    `statuses` is special to the call: what a code's status is here, where it differs (L4).
    """

    roles: frozenset[Role]
    form: Form[R]
    service: Callable[[Sequence[R], Caller, Names], Sequence[Result]]
    has_bulk: bool = False
    statuses: Mapping[Code, int] = field(default_factory=lambda: NOWHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Generic[Q]):
    """A GET: who may send it, what its parameters are, and the query that answers it."""

    roles: frozenset[Role]
    form: Form[Q]
    query: Callable[[Q, Caller, Names], Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Export(Generic[Q]):
    """A GET whose answer is a file: who may send it, what its parameters are, and what makes the file."""

    roles: frozenset[Role]
    form: Form[Q]
    answer: Callable[[Q], HttpResponseBase]


def play_write(request: HttpRequest, call: Write[Any], names: Names) -> HttpResponse:
    """Answer a POST. Each item is judged alone; what is refused for its form never reaches the service."""
    caller = admit(request, call.roles, names)
    if isinstance(caller, Refusal):
        return problem(caller)
    if not _may_exist(names):
        return not_found()
    body = body_of(request)
    parsed = _parsed(body, call)
    if isinstance(parsed, Refusal):
        record_refusals([(parsed, subject_of(names), body.kept)], caller)
        BUCKETS.charge(caller, refused=1, length=body.length)
        return problem(parsed, call.statuses)
    wanted = [call.form.read(item) for item in parsed.items]
    refused = {index: each for index, each in enumerate(wanted) if isinstance(each, Refusal)}
    if refused:
        _record(refused, parsed, body, caller, names)
    good = [each for each in wanted if not isinstance(each, Refusal)]
    answers = iter(call.service(good, caller, names) if good else ())
    results: list[Result] = [each if isinstance(each, Refusal) else next(answers) for each in wanted]
    _charge(results, wanted, body, caller)
    return _bulk(results, call.statuses) if parsed.is_bulk else respond(results[0], call.statuses)


def play_read(request: HttpRequest, call: Read[Any], names: Names) -> HttpResponse:
    """Answer a GET. Where it was asked to wait and must, the header `X-Fence-Wait` names what it waits for."""
    caller = admit(request, call.roles, names)
    if isinstance(caller, Refusal):
        return problem(caller)
    if not _may_exist(names):
        return not_found()
    asked = call.form.read(request.GET.dict() if request.META.get("QUERY_STRING") else {})
    if isinstance(asked, Refusal):
        return problem(asked)
    result = call.query(asked, caller, names)
    if isinstance(result, Refusal) and result.code in TOLD_READS:
        record_refusals([(result, subject_of(names), None)], caller)
        BUCKETS.charge(caller, refused=1)
    return respond(result)


def respond(result: Result, statuses: Mapping[Code, int] = NOWHERE) -> HttpResponse:
    """Write one result."""
    if isinstance(result, Refusal):
        return problem(result, statuses)
    response = HttpResponse(json_bytes(result.body), status=result.status, content_type=JSON_TYPE)
    if result.pending:
        response[WAIT_HEADER] = ",".join(result.pending)
        if result.wait_s is not None:
            response[WAIT_S_HEADER] = str(result.wait_s)
    return response


def _charge(results: Sequence[Result], wanted: Sequence[object], body: Body, caller: Caller) -> None:
    """Count what was refused, each by its share of the body, and prose that came again and was put away again (C7)."""
    refused = sum(1 for each in results if isinstance(each, Refusal))
    prose = sum(
        length_of_prose(request)
        for request, result in zip(wanted, results, strict=True)
        if isinstance(result, Answer) and result.body.get("duplicate")
    )
    BUCKETS.charge(caller, refused=refused, length=prose + body.length * refused // len(results))


def length_of_prose(request: object) -> int:
    """About how long is what a request has for cold storage."""
    rationale, context = getattr(request, "rationale", None), getattr(request, "context", None)
    return len(rationale or "") + (0 if context is None else len(json_bytes(context)))


def _bulk(results: Sequence[Result], statuses: Mapping[Code, int]) -> HttpResponse:
    written = [
        problem_members(each, statuses) if isinstance(each, Refusal) else {**each.body, "status": each.status}
        for each in results
    ]
    return HttpResponse(json_bytes({"results": written}), content_type=JSON_TYPE)


def _parsed(body: Body, call: Write[Any]) -> Parsed | Refusal:
    limit = MAX_BULK if call.has_bulk else MAX_SINGLE
    if body.refused is not None or len(body.data) > limit:
        return _too_large(limit)
    if not call.has_bulk:
        value = strict_json.parse(body.data)
        return Parsed(is_bulk=False, items=(value,))
    parsed = strict_json.parse_items(body.data)
    if isinstance(parsed, Parsed) and not parsed.is_bulk and len(body.data) > MAX_SINGLE:
        return _too_large(MAX_SINGLE)
    return parsed


def _too_large(limit: int) -> Refusal:
    return Refusal(code=Code.TOO_LARGE, detail=f"The body of this call may have {limit} bytes at most.")


def _may_exist(names: Names) -> bool:
    """Whether what an address names could be there at all: what is no identifier (N1) is not."""
    return all(is_identifier(name) for name in names.values())


def _record(refused: Mapping[int, Refusal], parsed: Parsed, body: Body, caller: Caller, names: Names) -> None:
    """Put refused items into the side log, each with its own bytes where it could be read by itself (C3, N7)."""
    certain: list[Members] | None = None
    whole: RefusedBody | None = None  # hashed once, however many items it has
    rows = []
    for index, refusal in refused.items():
        item = parsed.items[index]
        if isinstance(item, Refusal):
            # It has no value. Who it was about may still stand in it, beside the fault.
            certain = certain_members(body.data, is_bulk=parsed.is_bulk) if certain is None else certain
            members = certain[index] if index < len(certain) else {}
        else:
            members = item if isinstance(item, dict) else {}
        if parsed.is_bulk and not isinstance(item, Refusal):
            kept: RefusedBody | None = RefusedBody.of(json_bytes(item))
        else:
            kept = whole = whole or body.kept
        rows.append((refusal, subject_of({**members, **names}), kept))
    record_refusals(rows, caller)
