"""Refusals: the closed set of reasons for which the system says no, and the value that carries one.

A refusal is a result (protocol N7): a function that decides returns it, a service commits its side-log row and
then answers with it. It is never raised across a transaction, which would take that row with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Code(StrEnum):
    """Every code that an answer of the API may carry, by the rule that gives it."""

    # C3, N1, N8: the form of what was sent
    BAD_JSON = "bad_json"
    DUPLICATE_NAME = "duplicate_name"
    NOT_FINITE = "not_finite"
    UNSAFE_NUMBER = "unsafe_number"
    BAD_UNICODE = "bad_unicode"
    TOO_DEEP = "too_deep"
    TOO_LARGE = "too_large"
    INVALID_VALUE = "invalid_value"
    INVALID_IDENTIFIER = "invalid_identifier"
    INVALID_DIGEST = "invalid_digest"
    INVALID_ACTION = "invalid_action"
    DIGEST_MISMATCH = "digest_mismatch"
    UNKNOWN_MEMBER = "unknown_member"
    TOO_MANY_ITEMS = "too_many_items"

    # H1, H4: who asks, and for what
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN_ROLE = "forbidden_role"
    NOT_YOUR_RUN = "not_your_run"
    RATE_LIMITED = "rate_limited"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNAVAILABLE = "unavailable"

    # N2: the same identity with other content
    RUN_EXISTS = "run_exists"
    STEP_CONFLICT = "step_conflict"
    GRANT_CONFLICT = "grant_conflict"
    EFFECT_CONFLICT = "effect_conflict"
    LANE_CONFLICT = "lane_conflict"
    ATTEMPT_CONFLICT = "attempt_conflict"
    SPEND_CONFLICT = "spend_conflict"
    FORK_CONFLICT = "fork_conflict"

    # T1, T3: tools
    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGS = "invalid_args"
    INVALID_TOOL = "invalid_tool"
    OWN_CHANGE = "own_change"
    NOT_YOUR_CHANGE = "not_your_change"

    # R2 to R6: epochs
    STALE_EPOCH = "stale_epoch"
    FUTURE_EPOCH = "future_epoch"
    NOT_REJECTED = "not_rejected"
    ALREADY_COMMITTED = "already_committed"

    # B1, B2, B4: forks, and what lies in a branch
    BRANCH_EXISTS = "branch_exists"
    ALREADY_RECONCILED = "already_reconciled"
    UNKNOWN_BRANCH = "unknown_branch"
    BRANCH_LOST = "branch_lost"

    # F2, F6: votes
    UNKNOWN_STEP = "unknown_step"
    EQUIVOCATION = "equivocation"

    # G1, G4, G6: grants
    BEYOND_POLICY = "beyond_policy"
    REASON_REQUIRED = "reason_required"
    DIVERGED = "diverged"
    ALREADY_DECIDED = "already_decided"
    GRANT_EXISTS = "grant_exists"
    REVIEW_OVERDUE = "review_overdue"
    OWN_GRANT = "own_grant"

    # L10: a freeze is lifted by another person
    OWN_FREEZE = "own_freeze"

    # L4: what the gateway refuses
    NO_TOKEN = "no_token"  # noqa: S105 - a reason, not a secret
    NOT_COMMITTED = "not_committed"
    BAD_TOKEN = "bad_token"  # noqa: S105 - a reason, not a secret
    UNKNOWN_COMMIT = "unknown_commit"
    REVOKED = "revoked"
    GRANT_EXPIRED = "grant_expired"
    PAYLOAD_MISMATCH = "payload_mismatch"
    WRONG_EPOCH = "wrong_epoch"
    FROZEN = "frozen"
    DELIVERY_IN_PROGRESS = "delivery_in_progress"
    IN_DOUBT = "in_doubt"
    NOT_READY = "not_ready"

    # L5 to L7: outcomes
    STALE_DELIVERY = "stale_delivery"
    OUTCOME_CONFLICT = "outcome_conflict"
    NOT_IN_DOUBT = "not_in_doubt"
    EVIDENCE_REQUIRED = "evidence_required"
    OUTCOME_UNKNOWN = "outcome_unknown"

    # A2 to A6: attempts, fragments, grades
    UNKNOWN_ATTEMPT = "unknown_attempt"
    SEQ_OUT_OF_RANGE = "seq_out_of_range"
    ALREADY_PUBLISHED = "already_published"
    NOT_PUBLISHED = "not_published"
    BAD_PERMIT = "bad_permit"
    NOT_YOUR_LANE = "not_your_lane"
    NOT_HALTED = "not_halted"
    # P1, P3, P4, P6: what may be asked for, and who may decide
    NOTHING_TO_UNDO = "nothing_to_undo"
    ALREADY_PROPOSED = "already_proposed"
    OWN_REQUEST = "own_request"
    HELD = "held"
    HAS_COMPENSATOR = "has_compensator"

    # P2 and its kin: a person decides on what was shown
    CHANGED = "changed"
    NOT_DIVERGED = "not_diverged"


NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The answer "no", with its reason.

    `detail` is a sentence for a person that says what to do; `pointer` a JSON Pointer to the culprit in the body;
    `extras` what else helps (H2): `current_epoch`, `decided_by`, `decided_at`, `retry_after` (seconds), digests.
    """

    code: Code
    detail: str
    pointer: str | None = None
    extras: Mapping[str, object] = field(default_factory=lambda: NOTHING)
