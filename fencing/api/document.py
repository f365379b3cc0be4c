"""The OpenAPI document of the API: the objects of the protocol's section 15 as JSON Schemas, and how a call is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fencing.api.forms import Form
from fencing.api.grade_objects import GRADE_OBJECTS
from fencing.api.grant_objects import GRANT_OBJECTS
from fencing.api.problems import STATUS
from fencing.api.schemas import (
    ANYTHING,
    MOMENT,
    NUMBER,
    PROBLEM,
    TEXT,
    TRUTH,
    Schema,
    array,
    maybe,
    ref,
    shape,
)
from fencing.protocol.counting import CountedAs
from fencing.protocol.errors import Code

__all__ = ["EIGHT", "OBJECTS", "RATIOS", "Schema", "list_of", "ref", "tell_export", "tell_read", "tell_write"]

RATIO: Final = shape({"n": NUMBER, "of": NUMBER})
EIGHT: Final = (
    "retries",
    "duplicates",
    "refusals",
    "stale_rejects",
    "superseded_fragments",
    "attempted_escapes",
    "landed_escapes",
    "zombie_spend",
)
RATIOS: Final = (
    "i1_divergent_commits",
    "i2_landed_escapes",
    "i2_attempted_escapes",
    "i3_wrong_effects",
    "i4_mixed_grades",
    "i5_untraced_inputs",
    "i6_undetected_edits",
    "correlated_agreements",
)
OBJECTS: Final[Mapping[str, Schema]] = {
    "problem": shape(
        {
            "type": TEXT,
            "title": TEXT,
            "status": NUMBER,
            "detail": TEXT,
            "code": {"type": "string", "enum": [*(str(code) for code in Code), "internal"]},
            "pointer": TEXT,
            "current_epoch": NUMBER,
            "decided_by": maybe(TEXT),
            "decided_at": maybe(MOMENT),
            "retry_after": {"type": "number"},
        },
        optional=("pointer", "current_epoch", "decided_by", "decided_at", "retry_after"),
    ),
    "run": shape(
        {
            "run": TEXT,
            "epoch": NUMBER,
            "counter": NUMBER,
            "labels": {"type": "object", "additionalProperties": TEXT},
            "steps": array(ANYTHING),
            "forks": array(ANYTHING),
            "duplicate": TRUTH,
        },
        optional=("duplicate",),
    ),
    "fork": shape(
        {
            "run": TEXT,
            "fork": TEXT,
            "parent": maybe(TEXT),
            "branches": array(shape({"branch": TEXT, "state": {"enum": ["undecided", "won", "lost"]}})),
            "winner": maybe(TEXT),
            "deadline_at": maybe(MOMENT),
            "duplicate": TRUTH,
        },
        optional=("duplicate",),
    ),
    "reconciliation": shape(
        {
            "fork": TEXT,
            "winner": maybe(TEXT),
            "cancelled": array(TEXT),
            "compensations": array(TEXT),
            "withdrawn": array(TEXT),
            "duplicate": TRUTH,
        },
        optional=("duplicate",),
    ),
    "vote": shape({"path": TEXT, "digest": maybe(TEXT), "abstain": maybe(TEXT), "late": TRUTH, "received_at": MOMENT}),
    "commit": shape({"token": TEXT, "authority": TEXT, "grant": maybe(TEXT), "payload_digest": TEXT, "key": TEXT}),
    "step": shape(
        {
            "phase": TEXT,
            "run": TEXT,
            "step": TEXT,
            "epoch": NUMBER,
            "branch": maybe(TEXT),
            "tool": maybe(TEXT),
            "key": maybe(TEXT),
            "reason": maybe(TEXT),
            "digest": maybe(TEXT),
            "deadline_at": maybe(MOMENT),
            "votes": array(ref("vote")),
            "commit": maybe(ref("commit")),
            "revoked": maybe(shape({"reason": TEXT, "at": MOMENT})),
            "intent": maybe(shape({"id": TEXT, "state": TEXT, "generation": NUMBER, "outcome": maybe(ANYTHING)})),
            "correlated": TRUTH,
            "difference": maybe(TEXT),
            "duplicate": TRUTH,
        },
        # A path's key reads the phase alone (F10).
        optional=(
            *("run", "step", "epoch", "branch", "tool", "key", "reason", "digest", "deadline_at", "votes", "commit"),
            *("revoked", "intent", "correlated", "difference", "duplicate"),
        ),
    ),
    "opening": shape(
        {
            "run": TEXT,
            "epoch": NUMBER,
            "step": TEXT,
            "superseded": array(TEXT),
            "revoked": array(TEXT),
            "voided": array(TEXT),
            "current_epoch": NUMBER,
            "duplicate": TRUTH,
        },
        optional=("step", "superseded", "revoked", "voided", "current_epoch", "duplicate"),
    ),
    "recorded_vote": shape(
        {"vote": {"enum": ["recorded", "duplicate", "late"]}, "phase": TEXT, "digest": maybe(TEXT), "duplicate": TRUTH},
        optional=("duplicate",),
    ),
    "wanted_vote": shape(
        {
            "run": TEXT,
            "step": TEXT,
            "epoch": NUMBER,
            "need": {"enum": ["vote", "action"]},
            "context": ANYTHING,
            "tools": ANYTHING,
            "deadline_at": maybe(MOMENT),
        }
    ),
    "event": shape({"cursor": TEXT, "at": MOMENT, "what": TEXT, "step": ref("step")}),
    "grant": shape(
        {
            "name": TEXT,
            "run": TEXT,
            "epoch": NUMBER,
            "step": maybe(TEXT),
            "tool": maybe(TEXT),
            "path": TEXT,
            "digest": maybe(TEXT),
            "max_uses": NUMBER,
            "uses": NUMBER,
            "expires_at": maybe(MOMENT),
            "reason": TEXT,
            "issuer": TEXT,
            "approvals": array(ANYTHING),
            "review": maybe(shape({"by": TEXT, "at": MOMENT, "reason": TEXT})),
            "review_due_at": maybe(MOMENT),
            "state": TEXT,
            "stopped": array(ref("reached_step")),
            "already_out": array(ref("reached_step")),
            "duplicate": TRUTH,
        },
        optional=("stopped", "already_out", "duplicate"),
    ),
    **GRANT_OBJECTS,
    **GRADE_OBJECTS,
    "admission": shape(
        {
            "admit": TRUTH,
            "exempt": TRUTH,
            "intent": TEXT,
            "compensation": TEXT,
            "delivery": TEXT,
            "idempotency_key": TEXT,
            "lease_until": MOMENT,
            "outcome": ANYTHING,
        },
        optional=("exempt", "intent", "compensation", "delivery", "idempotency_key", "lease_until", "outcome"),
    ),
    "wanted_effect": shape(
        {"intent": TEXT, "compensation": TEXT, "action": ANYTHING, "token": TEXT}, optional=("intent", "compensation")
    ),
    "intent": shape(
        {
            "id": TEXT,
            "run": TEXT,
            "key": TEXT,
            "generation": NUMBER,
            "state": TEXT,
            "action": ANYTHING,
            "payload_digest": maybe(TEXT),
            "claims": array(ANYTHING),
            "deliveries": array(ANYTHING),
            "outcome": ANYTHING,
            "compensation": maybe(TEXT),
            "duplicate": TRUTH,
        },
        optional=("duplicate",),
    ),
    "incident": shape(
        {
            "id": TEXT,
            "kind": TEXT,
            "state": TEXT,
            "run": maybe(TEXT),
            "step": maybe(TEXT),
            "intent": maybe(TEXT),
            "effect": maybe(TEXT),
            "lane": maybe(TEXT),
            "owner": maybe(TEXT),
            "note": TEXT,
            "resources": array(TEXT),
        }
    ),
    "observed_effect": shape(
        {
            "effect": TEXT,
            "match": {"enum": ["intent", "compensation", "escape", "doubled"]},
            "intent": maybe(TEXT),
            "incident": maybe(TEXT),
            "duplicate": TRUTH,
        },
        optional=("duplicate",),
    ),
    "compensation": shape(
        {
            "id": TEXT,
            "run": maybe(TEXT),
            "intent": maybe(TEXT),
            "effect": maybe(TEXT),
            "incident": maybe(TEXT),
            "state": TEXT,
            "cause": TEXT,
            "tool": TEXT,
            "action": ANYTHING,
            "digest": maybe(TEXT),
            "approvals": array(ANYTHING),
            "needed": NUMBER,
            "resources": array(TEXT),
            "proposed_at": MOMENT,
            "decided_by": maybe(TEXT),
            "decided_at": maybe(MOMENT),
            "held_by": maybe(TEXT),
            "duplicate": TRUTH,
        },
        optional=("duplicate",),
    ),
    "side_log_row": shape(
        {
            "id": TEXT,
            "at": MOMENT,
            "kind": TEXT,
            "reason": TEXT,
            "counted_as": {"type": "string", "enum": [each.value for each in CountedAs]},
            "run": maybe(TEXT),
            "step": maybe(TEXT),
            "epoch": maybe(NUMBER),
            "path": maybe(TEXT),
            "attempt": maybe(TEXT),
            "seq": maybe(NUMBER),
            "by": maybe(TEXT),
            "person": maybe(TEXT),
            "digest": maybe(TEXT),
            "acknowledged": maybe(shape({"by": TEXT, "at": MOMENT, "reason": TEXT})),
        }
    ),
    "acknowledged": shape(
        {"acknowledged": array(TEXT), "new": array(TEXT), "duplicate": TRUTH}, optional=("duplicate",)
    ),
    "audit_event": shape(
        {
            "sequence": NUMBER,
            "at": MOMENT,
            "actor": TEXT,
            "role": TEXT,
            "verb": TEXT,
            "kind": TEXT,
            "subject": TEXT,
            "run": maybe(TEXT),
            "before": ANYTHING,
            "after": ANYTHING,
            "reason": TEXT,
            "source": TEXT,
            "request": TEXT,
        }
    ),
    "counters": shape({**dict.fromkeys(RATIOS, RATIO), **dict.fromkeys(EIGHT, NUMBER)}),
    "tool": shape({"tool": TEXT, "version": NUMBER, "registry": NUMBER, "definition_digest": TEXT}),
}


def list_of(name: str) -> Schema:
    """A page of a list."""
    return shape({"items": array(ref(name)), "next": maybe(TEXT)})


def tell_write(form: Form[Any], answer: Schema, *, has_bulk: bool, is_creation: bool) -> dict[str, Any]:
    """What the document says of a POST."""
    single = form.schema()
    body = single if not has_bulk else {"anyOf": [single, _bulk_of(single)]}
    success = {200: _ok("Done; or it was done before, and this is its answer.", _or_results(answer, has_bulk=has_bulk))}
    if is_creation:
        success[201] = _ok("New.", answer)
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {**success, **_problems(400, 401, 403, 404, 409, 413, 422, 429, 503)},
    }


def tell_read(form: Form[Any], answer: Schema, *, is_found_by_name: bool) -> dict[str, Any]:
    """What the document says of a GET."""
    properties = form.schema().get("properties", {})
    parameters = [
        {"in": "query", "name": name, "required": False, "schema": _given(schema)}
        for name, schema in properties.items()
    ]
    failures = (401, 403, 404, 422, 429, 503) if is_found_by_name else (401, 403, 422, 429, 503)
    return {"parameters": parameters, "responses": {200: _ok("As it stands.", answer), **_problems(*failures)}}


def tell_export(form: Form[Any], types: Mapping[str, str]) -> dict[str, Any]:
    """What the document says of a GET whose answer is a file."""
    told = tell_read(form, TEXT, is_found_by_name=False)
    content = {kind.partition(";")[0]: {"schema": TEXT} for kind in types.values()}
    told["responses"][200] = {"description": "Every row that fits, as the export began.", "content": content}
    return told


def tell_file(kind: str, says: str) -> dict[str, Any]:
    """What the document says of a GET whose answer is one file, found by its name."""
    content = {kind: {"schema": {"type": "string", "format": "binary"}}}
    return {"responses": {200: {"description": says, "content": content}, **_problems(401, 403, 404, 422, 429, 503)}}


def _bulk_of(single: Schema) -> Schema:
    items = {"type": "array", "items": single, "minItems": 1, "maxItems": 1000}
    return {"type": "object", "properties": {"items": items}, "required": ["items"], "additionalProperties": False}


def _or_results(answer: Schema, *, has_bulk: bool) -> Schema:
    return {"anyOf": [answer, shape({"results": array({"type": "object"})})]} if has_bulk else answer


def _ok(description: str, schema: Schema) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _problems(*statuses: int) -> dict[int, dict[str, Any]]:
    return {status: {"description": _codes(status), "content": PROBLEM} for status in statuses}


def _codes(status: int) -> str:
    return "One of: " + ", ".join(f"`{code}`" for code, its in STATUS.items() if its == status) + "."


def _given(schema: Schema) -> Schema:
    """A parameter that is given is never null: absence is how it is left out."""
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return options[0] if len(options) == 1 else {name: value for name, value in schema.items() if name != "default"}
