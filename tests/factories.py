"""Rows for tests: plain functions with a default for everything, each making what its row refers to.

from __future__ import annotations

`store` says where the row goes: `ORM` (Django's connection, the default) or `SqlStore(connection=…)` for a row that
another role writes. Names are fresh each time, so that tests do not meet.
"""

import itertools
import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from psycopg.types.range import TimestamptzRange

from fencing.models import (
    Acknowledgement,
    Action,
    AuditEvent,
    Branch,
    Breaker,
    Claim,
    Commit,
    Compensation,
    CompensationApproval,
    CompensationDelivery,
    CompensationOutcome,
    CompensationRelease,
    Credential,
    Delivery,
    EpochOpening,
    FeedEvent,
    Forgotten,
    Fork,
    Freeze,
    Grant,
    GrantApproval,
    GrantRefusal,
    GrantReview,
    GrantUse,
    Incident,
    Intent,
    Ledger,
    Notice,
    NoticeItem,
    ObservedEffect,
    Outcome,
    QuietHours,
    Run,
    Seal,
    SideLogRow,
    Sighting,
    SigningKey,
    Step,
    Target,
    Telling,
    TellingTry,
    ToolChange,
    ToolChangeApproval,
    ToolVersion,
    Verdict,
    Verification,
    Vote,
    Witness,
)
from fencing.protocol.canonical import canonical_bytes, digest_of
from fencing.protocol.seal import GENESIS
from fencing.protocol.tools import ToolDefinition, read_tool
from tests.stores import ORM, Store

PATHS = ("production", "replica")
NO_DIGEST = "sha256:" + "0" * 64
_count = itertools.count(1)


def fresh(word: str) -> str:
    """Return a name that no other test of any process uses."""
    return f"{word}-{os.getpid()}-{time.time_ns() % 1_000_000_007}-{next(_count)}"


def soon(seconds: float = 60) -> datetime:
    """Return a moment `seconds` from now (negative: ago)."""
    return datetime.now(UTC) + timedelta(seconds=seconds)


def make_user(*, store: Store = ORM, **values: Any) -> User:
    user = User(username=fresh("person"), password="!", **values)
    store.insert(user)
    return user


def make_credential(*, role: str = "planner", store: Store = ORM, **values: Any) -> Credential:
    if role in ("oncall", "reviewer") and "person" not in values:
        values["person"] = make_user(store=store)
    if role in ("oncall", "reviewer"):
        values.setdefault("expires_at", datetime.now(UTC) + timedelta(hours=11))
    defaults = {
        "name": fresh(role),
        "role": role,
        "key_hash": os.urandom(32),
        "hint": "fence-hint",
        "group": fresh("group"),
        "path": "production" if role == "path" else None,
    }
    credential = Credential(**defaults | values)
    store.insert(credential)
    return credential


def make_tool(*, tool: str | None = None, version: int = 1, store: Store = ORM, **members: Any) -> ToolVersion:
    """Register a side-effecting tool; `members` are those of its definition (`effect`, `advisory`, `policy`, …)."""
    definition = read_tool({"tool": tool or fresh("tool"), "effect": "side_effecting", "mode": "pull", **members})
    assert isinstance(definition, ToolDefinition), definition
    return make_version(definition=definition, version=version, store=store)


def make_version(*, definition: ToolDefinition, version: int = 1, store: Store = ORM, **values: Any) -> ToolVersion:
    """Add a version to the registry with columns that say what the definition says."""
    columns: dict[str, Any] = {
        "tool": definition.tool,
        "version": version,
        "definition": canonical_bytes(definition.as_json()),
        "digest": definition.digest,
        "is_read_only": definition.is_read_only,
        "is_idempotent": definition.idempotent,
        "is_optimistic": definition.optimistic,
        "mode": definition.mode.value,
        "required_paths": list(definition.policy.required_paths),
        "trusted_path": definition.policy.trusted_path,
        "grant_approvals": definition.policy.grant_approvals,
        "max_grant_ttl_s": definition.policy.max_grant_ttl_s,
    }
    row = ToolVersion(**columns | values)
    store.insert(row)
    return row


def make_tool_change(*, base: ToolVersion | None = None, store: Store = ORM, **values: Any) -> ToolChange:
    """Propose that a tool becomes read-only, which weakens the fence and so waits."""
    base = base or make_tool(store=store)
    definition = canonical_bytes({**json.loads(bytes(base.definition)), "effect": "read_only"})
    defaults: dict[str, Any] = {
        "tool": base.tool,
        "base": base,
        "definition": definition,
        "digest": digest_of(definition),
        "weakens": ["It becomes read-only, and skips the fence."],
        "approvals_needed": 1,
        "proposer": None if "proposer" in values else make_user(store=store),
        "reason": "it only looks things up",
        "expires_at": soon(3600),
    }
    row = ToolChange(**defaults | values)
    store.insert(row)
    return row


def make_tool_change_approval(
    *, change: ToolChange, person: User | None = None, store: Store = ORM, **values: Any
) -> ToolChangeApproval:
    person = person or make_user(store=store)
    defaults: dict[str, Any] = {"digest": change.digest, "reason": "read it line by line"}
    row = ToolChangeApproval(change=change, person=person, **defaults | values)
    store.insert(row)
    return row


def make_action(*, tool: str | ToolVersion, store: Store = ORM, **args: Any) -> Action:
    """Store the action `tool(**args)`; without arguments, a refund of 42.00 on invoice nine."""
    name = tool if isinstance(tool, str) else tool.tool
    canonical = canonical_bytes({"tool": name, "args": args or {"invoice": 9, "cents": 4200}})
    action = Action(payload_digest=digest_of(canonical), tool=name, canonical=canonical)
    store.insert(action, once=True)
    return action


def make_run(*, epoch: int = 1, owner: Credential | None = None, store: Store = ORM, **values: Any) -> Run:
    owner = owner or make_credential(store=store)
    defaults = {
        "name": fresh("run"),
        "epoch": epoch,
        "counter": epoch,
        "first_epoch": epoch,
        "content_digest": NO_DIGEST,
        "owner": owner,
        "owner_group": owner.group,
    }
    run = Run(**defaults | values)
    store.insert(run)
    make_opening(run=run, number=epoch, by=owner, store=store)
    return run


def make_opening(
    *, run: Run, number: int, kind: str = "start", by: Credential | None = None, store: Store = ORM, **values: Any
) -> EpochOpening:
    by = by or make_credential(store=store)
    opening = EpochOpening(run=run, number=number, kind=kind, by=by, **values)
    store.insert(opening)
    return opening


def make_step(
    *,
    run: Run | None = None,
    tool: ToolVersion | None = None,
    phase: str = "proposed",
    pinned: Action | None = None,
    store: Store = ORM,
    **values: Any,
) -> Step:
    """Open a step in `phase` (idle, proposed or exempt) under the registry that ends with `tool`."""
    run = run or make_run(store=store)
    defaults: dict[str, Any] = {"run": run, "name": fresh("step"), "epoch": run.epoch, "phase": phase}
    if phase != "idle":
        tool = tool or make_tool(store=store)
        defaults |= {
            "registry": tool.pk,
            "proposed_at": soon(0),
            "deadline_at": soon(120),
            "pinned_digest": pinned.payload_digest if pinned else None,
            "pinned_payload": pinned,
            "pinned_tool": pinned.tool if pinned else None,
        }
    step = Step(**defaults | values)
    store.insert(step)
    return step


def make_rejected_step(*, reason: str = "divergence", decided_at: datetime | None = None, **values: Any) -> Step:
    """A step that was proposed and then rejected, as the guards ask for."""
    step = make_step(phase="proposed", **values)
    Step.objects.filter(pk=step.pk).update(
        phase="rejected", reason=reason, decided_at=decided_at or soon(-1), due_at=None
    )
    step.refresh_from_db()
    return step


def make_vote(
    *,
    step: Step,
    path: str = "production",
    action: Action | None = None,
    digest: str | None = None,
    by: Credential | None = None,
    store: Store = ORM,
    **values: Any,
) -> Vote:
    """Cast a vote for an action, for a digest alone, or (with neither) an abstention."""
    defaults: dict[str, Any] = {
        "run_id": step.run_id,
        "step": step,
        "path": path,
        "digest": digest or (action.payload_digest if action else None),
        "payload": action,
        "tool": action.tool if action else None,
        "abstain": None if action or digest else "no answer from the model",
        "by": by or make_credential(role="path", path=path, store=store),
    }
    vote = Vote(**defaults | values)
    store.insert(vote)
    return vote


def make_votes(*, step: Step, action: Action, paths: Sequence[str] = PATHS, store: Store = ORM) -> list[Vote]:
    """Have every path vote for the same action."""
    return [make_vote(step=step, path=path, action=action, store=store) for path in paths]


def make_grant(
    *, run: Run, tool: str | ToolVersion | None = None, ttl_s: int = 60, store: Store = ORM, **values: Any
) -> Grant:
    """Issue a live grant for one use, for a tool unless `step_name` scopes it."""
    live_at = values.get("live_at") or soon(-1)
    defaults: dict[str, Any] = {
        "name": fresh("grant"),
        "run": run,
        "epoch": run.epoch,
        "tool": tool.tool if isinstance(tool, ToolVersion) else tool,
        "path": "production",
        "max_uses": 1,
        "ttl_s": ttl_s,
        "reason": "replica host is down since 02:10",
        "approvals_needed": 0,
        "content_digest": NO_DIGEST,
        "issuer": values.get("issuer") or make_user(store=store),
        "live_at": live_at,
        "expires_at": live_at + timedelta(seconds=ttl_s),
    }
    grant = Grant(**defaults | values)
    if grant.live_at is not None and "review_due_at" not in values:
        grant.review_due_at = grant.live_at + timedelta(hours=24)
    if "due_at" not in values and (grant.expired_at, grant.revoked_at, grant.voided_at) == (None, None, None):
        grant.due_at = grant.expires_at or grant.pending_until
    store.insert(grant)
    return grant


def make_approval(*, grant: Grant, person: User | None = None, store: Store = ORM) -> GrantApproval:
    person = person or make_user(store=store)
    approval = GrantApproval(grant=grant, person=person, reason="checked with finance")
    store.insert(approval)
    return approval


def make_review(*, grant: Grant, person: User | None = None, store: Store = ORM) -> GrantReview:
    """Have another person review a grant, and close its debt."""
    person = person or make_user(store=store)
    review = GrantReview(grant=grant, person=person, reason="it let through what it should")
    store.insert(review)
    store.update(grant, reviewed_at=soon(0))
    return review


def make_refusal(*, grant: Grant, what: str = "approve", store: Store = ORM, **values: Any) -> GrantRefusal:
    refusal = GrantRefusal(
        grant=grant, what=what, **{"reason": "own_grant", "actor": "ann", "role": "oncall", **values}
    )
    store.insert(refusal)
    return refusal


def make_freeze(*, store: Store = ORM, **values: Any) -> Freeze:
    """Freeze everything, unless a tool or a run is named."""
    defaults: dict[str, Any] = {
        "set_by": values.get("set_by") or make_user(store=store),
        "reason": "something is very wrong",
        "answer": {"stopped": [], "already_out": []},
    }
    freeze = Freeze(**defaults | values)
    store.insert(freeze)
    return freeze


def make_intent(
    *,
    step: Step,
    digest: str,
    key: str | None = None,
    generation: int = 1,
    state: str = "ready",
    store: Store = ORM,
    **values: Any,
) -> Intent:
    intent = Intent(
        run_id=step.run_id,
        key=key or fresh("key"),
        generation=generation,
        fence_digest=digest,
        registry=step.registry or 0,
        state=state,
        **values,
    )
    store.insert(intent)
    return intent


def make_claim(*, step: Step, intent: Intent, state: str = "won", store: Store = ORM) -> Claim:
    claim = Claim(run_id=step.run_id, step=step, intent=intent, state=state)
    store.insert(claim)
    return claim


def make_commit(
    *,
    step: Step,
    action: Action,
    grant: Grant | None = None,
    takes_use: bool = True,
    intent: Intent | None = None,
    store: Store = ORM,
    **values: Any,
) -> Commit:
    """Commit a step whose votes are there: intent, claim, commit and, under a grant, its use. The phase stays."""
    digest = values.get("fence_digest") or action.payload_digest
    intent = intent or make_intent(step=step, digest=digest, store=store)
    make_claim(step=step, intent=intent, store=store)
    defaults: dict[str, Any] = {
        "run": step.run,
        "step": step,
        "step_name": step.name,
        "epoch": step.epoch,
        "tool": action.tool,
        "payload": action,
        "fence_digest": digest,
        "key": intent.key,
        "authority": "grant" if grant else "agreement",
        "grant": grant,
        "intent": intent,
        "token": fresh("token"),
        "kid": "k1",
    }
    commit = Commit(**defaults | values)
    store.insert(commit)
    if grant is not None and takes_use:
        make_grant_use(grant=grant, commit=commit, store=store)
    return commit


def make_grant_use(*, grant: Grant, commit: Commit, store: Store = ORM) -> GrantUse:
    use = GrantUse(grant=grant, commit=commit)
    store.insert(use)
    store.update(grant, uses=grant.uses + 1)
    return use


def make_committed_step(
    *,
    run: Run | None = None,
    tool: ToolVersion | None = None,
    grant: Grant | None = None,
    intent: Intent | None = None,
    store: Store = ORM,
    **step: Any,
) -> Commit:
    """Take a step all the way to a standing commit: by agreement, or by the production path alone under a grant."""
    run = run or make_run(store=store)
    tool = tool or make_tool(store=store)
    row = make_step(run=run, tool=tool, store=store, **step)
    action = make_action(tool=tool, store=store)
    make_votes(step=row, action=action, paths=("production",) if grant else PATHS, store=store)
    commit = make_commit(step=row, action=action, grant=grant, intent=intent, store=store)
    store.update(row, phase="committed", reason=commit.authority, decided_at=soon(0))
    return commit


def make_delivery(
    *, commit: Commit, number: int = 1, by: Credential | None = None, store: Store = ORM, **values: Any
) -> Delivery:
    """Admit a delivery of a commit, and put its intent in flight."""
    defaults: dict[str, Any] = {
        "run_id": commit.run_id,
        "intent": commit.intent,
        "number": number,
        "commit": commit,
        "payload_id": commit.payload_id,
        "idempotency_key": f"fence-{commit.intent_id}",
        "lease_until": soon(60),
        "by": by or make_credential(role="gateway", store=store),
    }
    delivery = Delivery(**defaults | values)
    store.insert(delivery)
    store.update(commit.intent, state="in_flight", payload=commit.payload)
    return delivery


def make_outcome(*, delivery: Delivery, outcome: str = "succeeded", store: Store = ORM, **values: Any) -> Outcome:
    defaults: dict[str, Any] = {
        "run_id": delivery.run_id,
        "delivery": delivery,
        "outcome": outcome,
        "source": "person" if outcome == "not_happened" else "report",
        "is_effective": True,
        "person": make_user(store=store) if outcome == "not_happened" else None,
    }
    row = Outcome(**defaults | values)
    store.insert(row)
    return row


def make_side_log_row(
    *, kind: str = "vote", reason: str = "stale_epoch", store: Store = ORM, **values: Any
) -> SideLogRow:
    row = SideLogRow(kind=kind, reason=reason, **values)
    store.insert(row)
    return row


def make_acknowledgement(*, row: SideLogRow | None = None, store: Store = ORM) -> Acknowledgement:
    row = row or make_side_log_row(store=store)
    acknowledgement = Acknowledgement(row=row, person=make_user(store=store), reason="seen, a known client")
    store.insert(acknowledgement)
    return acknowledgement


def make_notice(*, kind: str = "silent_path", store: Store = ORM, **values: Any) -> Notice:
    notice = Notice(**{"kind": kind, "subject": fresh("path"), "asked_by": "system"} | values)
    store.insert(notice)
    return notice


def make_target(*, store: Store = ORM, **values: Any) -> Target:
    """A place of a person; its address opens with no key, so nothing is ever sent there."""
    person = values.pop("person", None) or make_user(store=store)
    target = Target(**{"person": person, "name": fresh("chat"), "service": "JSON", "locked": "locked"} | values)
    store.insert(target)
    return target


def make_telling(
    *, notice: Notice | None = None, target: Target | None = None, store: Store = ORM, **values: Any
) -> Telling:
    notice, target = notice or make_notice(store=store), target or make_target(store=store)
    defaults = {"person_id": target.person_id, "level": 0, "state": "sent", "due_at": None}
    telling = Telling(notice=notice, target=target, **defaults | values)
    store.insert(telling)
    return telling


def every_row_of_notices(store: Store = ORM) -> None:
    """Make a row in every table of notices."""
    telling = make_telling(store=store)
    store.insert(TellingTry(telling=telling, number=1, is_sent=True, took_ms=5))
    store.insert(Sighting(notice=telling.notice, person_id=telling.person_id))
    store.insert(NoticeItem(notice=telling.notice, kind="divergence", subject=fresh("step")))
    store.insert(QuietHours(person_id=telling.person_id))


def make_audit_event(*, verb: str = "propose", store: Store = ORM, **values: Any) -> AuditEvent:
    defaults = {"actor": "a planner", "role": "planner", "verb": verb, "kind": "step", "subject": "run-1/s1/1"}
    event = AuditEvent(**defaults | values)
    store.insert(event)
    return event


def make_seal(*, store: Store = ORM, **values: Any) -> Seal:
    """Make the first seal of a chain, over one row that nobody reads."""
    now = datetime.now(UTC)
    columns: dict[str, Any] = {
        "number": 1,
        "previous": GENESIS,
        "hash": digest_of(fresh("seal").encode()),
        "after": 0,
        "last": 1,
        "count": 1,
        "root": digest_of(b"root"),
        "sealed_at": now,
        "kid": "kid",
        "signature": "signature",
        "entries": bytes(40),
        "facets": ["actor:anna"],
        "moments": TimestamptzRange(now, now, "[]"),
    }
    seal = Seal(**columns | values)
    store.insert(seal)
    return seal


def make_forgotten(*, store: Store = ORM) -> Forgotten:
    forgotten = Forgotten(ref=f"aa/bb/{fresh('text')}.z")
    store.insert(forgotten)
    return forgotten


def make_witness(*, store: Store = ORM) -> Witness:
    witness = Witness(url=f"https://{fresh('witness')}.example/heads")
    store.insert(witness)
    return witness


def make_verification(*, store: Store = ORM, **values: Any) -> Verification:
    verification = Verification(asked_by="anna", **values)
    store.insert(verification)
    return verification


def make_feed_event(*, step: Step, what: str = "decided", store: Store = ORM) -> FeedEvent:
    event = FeedEvent(what=what, run_id=step.run_id, step=step, owner_group="group")
    store.insert(event)
    return event


def make_incident(*, kind: str = "late_divergence", store: Store = ORM, **values: Any) -> Incident:
    incident = Incident(kind=kind, **values)
    store.insert(incident)
    return incident


def make_effect(*, match: str = "escape", store: Store = ORM, **values: Any) -> ObservedEffect:
    defaults = {"tool": "refund", "external_id": fresh("x"), "source": "push", "is_open": match == "escape"}
    effect = ObservedEffect(match=match, **{**defaults, **values})
    store.insert(effect)
    return effect


def make_ledger(*, store: Store = ORM, **values: Any) -> Ledger:
    ledger = Ledger(**{"tool": "refund", "source": "upload", "person": make_user(store=store), **values})
    store.insert(ledger)
    return ledger


def make_breaker(*, tool: str | None = None, store: Store = ORM, **values: Any) -> Breaker:
    breaker = Breaker(tool=tool or fresh("tool"), **values)
    store.insert(breaker)
    return breaker


def make_compensation(*, effect: ObservedEffect | None, store: Store = ORM, **values: Any) -> Compensation:
    tool = None if effect is None else effect.tool
    defaults = {"cause": "landed_escape", "tool": tool, "registry": 0, "needed": 1}
    compensation = Compensation(effect=effect, **{**defaults, **values})
    store.insert(compensation)
    return compensation


def make_approved(*, tool: Any = None, store: Store = ORM, approvals: int = 1, **values: Any) -> Compensation:
    """A compensation with an exact action, approved by as many people as asked for here, and by one as it needs."""
    effect = make_effect(store=store)
    action = make_action(tool=tool or fresh("undo"), n=effect.external_id, store=store)
    compensation = make_compensation(effect=effect, payload=action, store=store, **values)
    for _ in range(approvals):
        make_compensation_approval(compensation=compensation, store=store)
    if approvals:
        store.update(compensation, state="approved", decider=make_user(store=store), decided_at=soon(0))
    return compensation


def make_compensation_approval(
    *, compensation: Compensation, store: Store = ORM, **values: Any
) -> CompensationApproval:
    defaults: dict[str, Any] = {
        "round": compensation.round,
        "digest": compensation.payload_id,
        "reason": "it should not be there",
        "person": None if "person" in values else make_user(store=store),
    }
    row = CompensationApproval(compensation=compensation, **{**defaults, **values})
    store.insert(row)
    return row


def make_release(*, compensation: Compensation, store: Store = ORM, **values: Any) -> CompensationRelease:
    defaults: dict[str, Any] = {
        "round": compensation.round,
        "payload_id": compensation.payload_id,
        "key": f"compensation:{compensation.pk}:1",
        "token": fresh("token"),
        "kid": "k1",
    }
    row = CompensationRelease(compensation=compensation, **{**defaults, **values})
    store.insert(row)
    return row


def make_undoing(*, release: CompensationRelease, store: Store = ORM, **values: Any) -> CompensationDelivery:
    """Admit the one try of an approval; its compensation stays `approved` until the test says so."""
    defaults: dict[str, Any] = {
        "compensation": release.compensation,
        "number": 1,
        "payload_id": release.payload_id,
        "idempotency_key": f"fence-{release.pk}",
        "lease_until": soon(60),
        "by": None if "by" in values else make_credential(store=store),
    }
    row = CompensationDelivery(release=release, **{**defaults, **values})
    store.insert(row)
    return row


def make_undoing_outcome(
    *, delivery: CompensationDelivery, outcome: str = "succeeded", store: Store = ORM, **values: Any
) -> CompensationOutcome:
    defaults: dict[str, Any] = {"outcome": outcome, "source": "report", "is_effective": True}
    row = CompensationOutcome(delivery=delivery, **{**defaults, **values})
    store.insert(row)
    return row


def make_fork(
    *names: str, run: Run | None = None, parent: Branch | None = None, store: Store = ORM, **values: Any
) -> Fork:
    """Open a fork of two branches, A and B unless others are named; `branch_of` finds them."""
    run = run or make_run(store=store)
    defaults = {"name": fresh("fork"), "content_digest": NO_DIGEST, "by": make_credential(store=store)}
    fork = Fork(run=run, parent=parent, **{**defaults, **values})
    store.insert(fork)
    for place, name in enumerate(names or ("A", "B")):
        store.insert(Branch(run=run, fork=fork, name=name, place=place))
    return fork


def reconcile(fork: Fork, winner: Branch | None, *losers: Branch, store: Store = ORM) -> None:
    """Reconcile a fork: first the fork says so, then its branches."""
    store.update(fork, reconciled_at=soon(0), winner=None if winner is None else winner.name)
    for branch, state in ((winner, "won"), *((each, "lost") for each in losers)):
        if branch is not None:
            store.update(branch, state=state, decided_at=soon(0))


def make_signing_key(*, store: Store = ORM) -> SigningKey:
    key = SigningKey(kid=fresh("kid")[:64], use="commit", public={"kty": "OKP"})
    store.insert(key)
    return key


def make_verdict(*, step: Step, store: Store = ORM) -> Verdict:
    verdict = Verdict(run_id=step.run_id, step=step, verdict="both_wrong", person=make_user(store=store))
    store.insert(verdict)
    return verdict
