"""The one map from a refusal to HTTP (H2, H4): which status and title a code has, and how a problem is written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from django.http import HttpResponse

from fencing.api.rendering import json_bytes
from fencing.protocol.errors import Code, Refusal

PROBLEM_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 2

_BY_STATUS: Final[Mapping[int, Mapping[Code, str]]] = MappingProxyType(
    {
        400: {Code.BAD_JSON: "The body is not JSON"},
        401: {Code.UNAUTHENTICATED: "A valid key is needed"},
        403: {
            Code.FORBIDDEN_ROLE: "This key may not do that",
            Code.NOT_YOUR_RUN: "The run belongs to another planner",
            Code.NOT_YOUR_LANE: "The lane belongs to another publisher, or is none of this key's",
            Code.OWN_GRANT: "Nobody decides on a grant of their own",
            Code.OWN_REQUEST: "Nobody approves what they asked for",
            Code.OWN_CHANGE: "Nobody approves a change of their own",
            Code.NOT_YOUR_CHANGE: "The change is another person's",
            Code.OWN_FREEZE: "Nobody lifts a freeze of their own",
            Code.NO_TOKEN: "No commit token",
            Code.NOT_COMMITTED: "The step is not committed",
            Code.BAD_TOKEN: "The token is not genuine",
            Code.UNKNOWN_COMMIT: "The commit is unknown",
            Code.REVOKED: "The commit was revoked",
            Code.GRANT_EXPIRED: "The grant behind the commit has ended",
            Code.PAYLOAD_MISMATCH: "Another action was committed",
            Code.WRONG_EPOCH: "The token is of another epoch",
            Code.FROZEN: "Frozen by on-call",
        },
        404: {
            Code.NOT_FOUND: "Not found",
            Code.UNKNOWN_STEP: "The step has no proposal",
        },
        405: {Code.METHOD_NOT_ALLOWED: "Method not allowed"},
        409: {
            Code.RUN_EXISTS: "The run exists with other content",
            Code.STEP_CONFLICT: "The step was proposed with other content",
            Code.GRANT_CONFLICT: "The grant exists with other content",
            Code.EFFECT_CONFLICT: "The ledger row was told with other content",
            Code.FORK_CONFLICT: "The fork exists with other content",
            Code.BRANCH_EXISTS: "A branch of this name exists",
            Code.ALREADY_RECONCILED: "The fork is reconciled",
            Code.NOTHING_TO_UNDO: "There is nothing to undo",
            Code.ALREADY_PROPOSED: "A compensation is there already",
            Code.HELD: "Another branch may still want the effect",
            Code.HAS_COMPENSATOR: "It is undone by a call, not by hand",
            Code.OUTCOME_UNKNOWN: "Whether it happened is not known",
            Code.LANE_CONFLICT: "The lane exists with other content",
            Code.ATTEMPT_CONFLICT: "The attempt exists with other content",
            Code.SPEND_CONFLICT: "Other spend was reported for the permit",
            Code.UNKNOWN_ATTEMPT: "The attempt is unknown",
            Code.SEQ_OUT_OF_RANGE: "The attempt has no such fragment",
            Code.ALREADY_PUBLISHED: "The attempt is published",
            Code.NOT_PUBLISHED: "The attempt is not published",
            Code.BAD_PERMIT: "The permit is not good for this",
            Code.NOT_HALTED: "The lane is not halted",
            Code.STALE_EPOCH: "The epoch is closed",
            Code.FUTURE_EPOCH: "The epoch was never opened",
            Code.NOT_REJECTED: "The step is not rejected",
            Code.ALREADY_COMMITTED: "The step is committed",
            Code.BRANCH_LOST: "The branch is lost",
            Code.EQUIVOCATION: "The path has voted differently",
            Code.DIVERGED: "The step shows a divergence",
            Code.ALREADY_DECIDED: "Already decided",
            Code.GRANT_EXISTS: "A grant with this scope exists",
            Code.REVIEW_OVERDUE: "A review is overdue",
            Code.DELIVERY_IN_PROGRESS: "A delivery is in progress",
            Code.IN_DOUBT: "The effect is in doubt",
            Code.NOT_READY: "The intent is not ready",
            Code.STALE_DELIVERY: "A newer delivery exists",
            Code.OUTCOME_CONFLICT: "The outcome contradicts a settled one",
            Code.NOT_IN_DOUBT: "The intent is not in doubt",
            Code.CHANGED: "It changed meanwhile",
            Code.NOT_DIVERGED: "The step shows no divergence",
        },
        413: {
            Code.TOO_LARGE: "Too large",
            Code.TOO_MANY_ITEMS: "Too many items",
        },
        422: {
            Code.DUPLICATE_NAME: "A name stands twice in one object",
            Code.NOT_FINITE: "A number is not finite",
            Code.UNSAFE_NUMBER: "A number is not exact as a double",
            Code.BAD_UNICODE: "A string is not Unicode",
            Code.TOO_DEEP: "Nested too deeply",
            Code.INVALID_VALUE: "A value is not valid",
            Code.INVALID_IDENTIFIER: "An identifier is not valid",
            Code.INVALID_DIGEST: "A digest is not valid",
            Code.INVALID_ACTION: "The action is not valid",
            Code.DIGEST_MISMATCH: "Action and digest do not agree",
            Code.UNKNOWN_MEMBER: "A member is unknown",
            Code.UNKNOWN_TOOL: "The tool is not registered",
            Code.INVALID_ARGS: "The arguments do not fit the tool",
            Code.INVALID_TOOL: "The tool's definition is not valid",
            Code.UNKNOWN_BRANCH: "The branch is unknown",
            Code.BEYOND_POLICY: "Beyond the tool's policy",
            Code.REASON_REQUIRED: "A reason is required",
            Code.EVIDENCE_REQUIRED: "Evidence is required",
        },
        429: {Code.RATE_LIMITED: "Too many requests"},
        503: {Code.UNAVAILABLE: "Not available now"},
    }
)
STATUS: Final[Mapping[Code, int]] = MappingProxyType(
    {code: status for status, titles in _BY_STATUS.items() for code in titles}
)
TITLE: Final[Mapping[Code, str]] = MappingProxyType(
    {code: title for titles in _BY_STATUS.values() for code, title in titles.items()}
)
# L4: what the gateway refuses for its content is a refused effect, whatever the same code means in a proposal.
AT_GATEWAY: Final[Mapping[Code, int]] = MappingProxyType({Code.UNKNOWN_TOOL: 403, Code.INVALID_ARGS: 403})
NOWHERE: Final[Mapping[Code, int]] = MappingProxyType({})
INTERNAL_TITLE: Final = "Something went wrong here"


def status_of(refusal: Refusal, own: Mapping[Code, int] = NOWHERE) -> int:
    """The HTTP status of a refusal; `own` holds what is special to one call."""
    return own.get(refusal.code) or STATUS[refusal.code]


def problem_members(refusal: Refusal, own: Mapping[Code, int] = NOWHERE) -> dict[str, object]:
    """The members of a problem (RFC 9457), and what else helps (H2)."""
    members: dict[str, object] = {
        "type": f"urn:fence:{refusal.code}",
        "title": TITLE[refusal.code],
        "status": status_of(refusal, own),
        "detail": refusal.detail,
        "code": str(refusal.code),
    }
    if refusal.pointer is not None:
        members["pointer"] = refusal.pointer
    members.update({name: value for name, value in refusal.extras.items() if name not in members})
    return members


def problem(refusal: Refusal, own: Mapping[Code, int] = NOWHERE) -> HttpResponse:
    """Answer with a refusal."""
    response = problem_response(problem_members(refusal, own))
    retry_after = refusal.extras.get("retry_after")
    if isinstance(retry_after, int | float):
        response["Retry-After"] = str(max(1, math.ceil(retry_after)))
    if refusal.code is Code.UNAUTHENTICATED:
        response["WWW-Authenticate"] = 'Bearer realm="fence"'
    return response


def problem_response(members: Mapping[str, object]) -> HttpResponse:
    """Write a problem whose members are known."""
    status = members["status"]
    assert isinstance(status, int)  # noqa: S101 - set by the two functions of this module that make members
    return HttpResponse(json_bytes(members), status=status, content_type=PROBLEM_TYPE)


def not_found(detail: str = "There is nothing at this address.") -> HttpResponse:
    """An address that leads nowhere."""
    return problem(Refusal(code=Code.NOT_FOUND, detail=detail))


def method_not_allowed(method: str, allowed: str) -> HttpResponse:
    """A method that an address does not take; `allowed` is the value of `Allow`."""
    detail = f"{method} is not possible here; {allowed} is." if allowed else f"{method} is not possible here."
    response = problem(Refusal(code=Code.METHOD_NOT_ALLOWED, detail=detail))
    response["Allow"] = allowed
    return response


def bad_request(detail: str) -> HttpResponse:
    """A request that cannot even be read."""
    return problem(Refusal(code=Code.BAD_JSON, detail=detail))


def too_large(detail: str) -> HttpResponse:
    """A body that is not read."""
    return problem(Refusal(code=Code.TOO_LARGE, detail=detail))


def unavailable(detail: str) -> HttpResponse:
    """Something that the call needs is away. Nothing was decided; the same call may be sent again."""
    return problem(Refusal(code=Code.UNAVAILABLE, detail=detail, extras={"retry_after": RETRY_AFTER_S}))


def overloaded() -> HttpResponse:
    """More requests wait for a thread than can be answered soon."""
    return unavailable("Too many requests wait to be served; send it again in a moment.")


def internal(request_id: str) -> HttpResponse:
    """A fault of ours. The log has it under the request's id; the caller sees nothing of it."""
    return problem_response(
        {
            "type": "about:blank",
            "title": INTERNAL_TITLE,
            "status": 500,
            "detail": "The call failed by a fault of the service. Repeat it; report the request id if that lasts.",
            "code": "internal",
            "request_id": request_id,
        }
    )
