"""What callers ask for, as frozen values: the API validates bodies against these, services and tests build them.

The metadata is pydantic's (ranges, lengths); the classes themselves are plain. Identifiers and digests are marked, so
that a violation is told by its own code (N1, C2). A member that is absent or null is the same: None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict  # pydantic takes the one of `typing` only from Python 3.12

from fencing.protocol.grades import MAX_EXPECTED
from fencing.protocol.outages import GrantFor, StepPlace

STRICT = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)
MAX_NUMBER = 2**53 - 1
MAX_DEADLINE_S = 86_400

Identifier = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}\Z", json_schema_extra={"kind": "identifier"})
]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}\Z", json_schema_extra={"kind": "digest"})]
Epoch = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
# A number that a planner names leaves room for those that restarts and replays count on from it.
NamedEpoch = Annotated[int, Field(ge=1, le=MAX_NUMBER - 2**32)]
# Blanks alone tell nobody why.
Reason = Annotated[str, Field(min_length=1, max_length=4000, pattern=r"\S")]
Short = Annotated[str, Field(min_length=1, max_length=200)]
Prose = Annotated[str, Field(max_length=200_000)]
Moment = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)\Z")]
Json = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """`POST /runs`."""

    __pydantic_config__ = STRICT
    run: Identifier
    epoch: NamedEpoch = 1
    labels: Annotated[Mapping[str, str], Field(max_length=64)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRun:
    """`POST /epochs` (R2)."""

    __pydantic_config__ = STRICT
    run: Identifier
    expected_epoch: Epoch
    epoch: NamedEpoch | None = None
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeStep:
    """`POST /steps` (F1)."""

    __pydantic_config__ = STRICT
    run: Identifier
    step: Identifier
    epoch: Epoch
    action: Json = None
    digest: Digest | None = None
    tool: Identifier | None = None
    branch: Identifier | None = None
    key: Identifier | None = None
    occurrence: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None = None
    deadline_s: Annotated[float, Field(ge=1, le=MAX_DEADLINE_S)] | None = None
    context: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStep:
    """`POST /steps/replay` (R4)."""

    __pydantic_config__ = STRICT
    run: Identifier
    step: Identifier
    from_epoch: Epoch
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFork:
    """`POST /forks` (B1, B2)."""

    __pydantic_config__ = STRICT
    run: Identifier
    fork: Identifier
    branches: Annotated[tuple[Identifier, ...], Field(min_length=2, max_length=1000)]
    parent: Identifier | None = None
    deadline_s: Annotated[float, Field(ge=1, le=MAX_DEADLINE_S)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileFork:
    """`POST /forks/reconcile` (B2). The winner has no default: nobody ends a fork by leaving something out."""

    __pydantic_config__ = STRICT
    run: Identifier
    fork: Identifier
    winner: Identifier | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CastVote:
    """`POST /votes` (F2): exactly one of an action (perhaps with its digest), a digest alone, or an abstention."""

    __pydantic_config__ = STRICT
    run: Identifier
    step: Identifier
    epoch: Epoch
    action: Json = None
    digest: Digest | None = None
    abstain: Annotated[str, Field(min_length=1, max_length=4000)] | None = None
    model: Short | None = None
    prompt: Short | None = None
    rationale: Prose | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueGrant:
    """`POST /grants` (G1). `reason` is judged by G1, not here, so that the answer is `reason_required`."""

    __pydantic_config__ = STRICT
    name: Identifier
    run: Identifier
    epoch: Epoch
    step: Identifier | None = None
    tool: Identifier | None = None
    path: Identifier | None = None
    digest: Digest | None = None
    max_uses: Annotated[int, Field(ge=1, le=MAX_NUMBER)] = 1
    ttl_s: Annotated[int, Field(ge=1, le=MAX_NUMBER)]
    reason: Annotated[str, Field(max_length=4000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideGrant:
    """`POST /grants/{name}/approve`, `/revoke`, `/review`, and `POST /freezes/{freeze}/lift`."""

    __pydantic_config__ = STRICT
    reason: Reason


class FreezeScope(TypedDict, total=False):
    """What a freeze stops: a tool, a run, that tool in that run, or with neither everything at once (L10)."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, regex_engine="python-re")  # type: ignore[misc]
    tool: Identifier | None
    run: Identifier | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFreeze:
    """`POST /freezes`. The scope has no default: nobody freezes everything by leaving something out."""

    __pydantic_config__ = STRICT
    scope: FreezeScope
    reason: Reason

    @property
    def tool(self) -> str | None:
        """The tool that it stops, None for every tool."""
        return self.scope.get("tool")

    @property
    def run(self) -> str | None:
        """The run that it stops, None for every run."""
        return self.scope.get("run")


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueFor:
    """One confirmation for many steps: each gets a grant of its own. `batch` makes a second sending a duplicate."""

    batch: str
    steps: Sequence[GrantFor]
    ttl_s: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySteps:
    """One confirmation to replay many steps that nobody decided in time."""

    steps: Sequence[StepPlace]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """`POST /gateway/admissions` (L3). The token is free text: what is none is refused as `bad_token` (L4)."""

    __pydantic_config__ = STRICT
    action: Json
    token: str | None = None
    run: Identifier | None = None
    step: Identifier | None = None
    epoch: Epoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOutcome:
    """`POST /gateway/outcomes` (L5). `intent` or `compensation`, and the delivery: ids as this system gave them."""

    __pydantic_config__ = STRICT
    intent: Short | None = None
    compensation: Short | None = None
    delivery: Short
    outcome: Literal["succeeded", "failed", "unknown", "busy", "not_sent"]
    response: Json = None
    retry_after: Annotated[float, Field(ge=0, le=31_536_000)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveIntent:
    """`POST /intents/{id}/resolve` (L6)."""

    __pydantic_config__ = STRICT
    happened: bool
    evidence: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveEffect:
    """`POST /gateway/effects` (L8). `external_id` is the tool's own name of its ledger row: nothing of it is read."""

    __pydantic_config__ = STRICT
    tool: Identifier
    action: Json = None
    digest: Digest | None = None
    idempotency_key: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    external_id: Short
    occurred_at: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptEffect:
    """`POST /intents/{id}/adopt` (L8)."""

    __pydantic_config__ = STRICT
    incident: Short
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class AskCompensation:
    """`POST /compensations` (P1): an intent or an incident, by its id."""

    __pydantic_config__ = STRICT
    intent: Short | None = None
    incident: Short | None = None
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveCompensation:
    """`POST /compensations/{id}/approve` (P2, P3): the digest of what was shown."""

    __pydantic_config__ = STRICT
    digest: Digest
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiveCompensation:
    """`POST /compensations/{id}/waive` (P6). Without a compensator there is no digest to name."""

    __pydantic_config__ = STRICT
    digest: Digest | None = None
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCompensation:
    """`POST /compensations/{id}/record` (P6). `external_id` is the tool's own name of what was done."""

    __pydantic_config__ = STRICT
    evidence: Reason
    external_id: Short | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveCompensation:
    """`POST /compensations/{id}/resolve` (P5)."""

    __pydantic_config__ = STRICT
    happened: bool
    evidence: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveIncident:
    """`POST /incidents/{id}/resolve`."""

    __pydantic_config__ = STRICT
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeRows:
    """`POST /side-log/acknowledge` (S1)."""

    __pydantic_config__ = STRICT
    ids: Annotated[tuple[Short, ...], Field(min_length=1, max_length=1000)]
    reason: Reason


class Thresholds(TypedDict, total=False):
    """What is asked of a lane; what is not given is not asked (A5)."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, regex_engine="python-re")  # type: ignore[misc]
    min_published: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None
    min_mean: Annotated[float, Field(allow_inf_nan=False)] | None
    max_reject_ratio: Annotated[float, Field(ge=0, le=1)] | None
    max_unacknowledged: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeLane:
    """`POST /lanes` (A5)."""

    __pydantic_config__ = STRICT
    lane: Identifier
    thresholds: Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class SetThresholds:
    """`POST /lanes/{lane}/thresholds` (A5)."""

    __pydantic_config__ = STRICT
    thresholds: Thresholds
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeLane:
    """`POST /lanes/{lane}/resume` (A4)."""

    __pydantic_config__ = STRICT
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeAttempt:
    """`POST /attempts` (A1). `inputs` are what workers score, one for each fragment in the order of seq."""

    __pydantic_config__ = STRICT
    attempt: Identifier
    lane: Identifier
    expected: Annotated[int, Field(ge=1, le=MAX_EXPECTED)]
    require_permits: bool = False
    regrade_of: Identifier | None = None
    inputs: Annotated[Sequence[Json], Field(max_length=MAX_EXPECTED)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartAttempt:
    """`POST /attempts/restart` (A3)."""

    __pydantic_config__ = STRICT
    attempt: Identifier
    expected_epoch: Epoch
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFragments:
    """`POST /fragments/lease`: work of a lane, at most `limit`; with `wait` it is waited for."""

    __pydantic_config__ = STRICT
    lane: Identifier
    limit: Annotated[int, Field(ge=1, le=1000)] = 1
    wait: Annotated[float, Field(ge=0, le=30)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPermit:
    """`POST /permits` (A6)."""

    __pydantic_config__ = STRICT
    attempt: Identifier
    epoch: Epoch
    seq: Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSpend:
    """`POST /permits/spend` (A6)."""

    __pydantic_config__ = STRICT
    permit: Annotated[str, Field(min_length=1, max_length=8192)]
    tokens_in: Annotated[int, Field(ge=0, le=MAX_NUMBER)]
    tokens_out: Annotated[int, Field(ge=0, le=MAX_NUMBER)]
    model: Short | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFragment:
    """`POST /fragments` (A2). A body may be any JSON but null."""

    __pydantic_config__ = STRICT
    attempt: Identifier
    epoch: Epoch
    seq: Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]
    body: Json
    score: Annotated[float, Field(allow_inf_nan=False)] | None = None
    permit: Annotated[str, Field(min_length=1, max_length=8192)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishAttempt:
    """`POST /publish` (A4)."""

    __pydantic_config__ = STRICT
    attempt: Identifier
    expected: Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)] | None = None
