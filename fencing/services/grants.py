"""Break-glass grants after they were issued: approving, reviewing, revoking, and their end by the clock (section 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction

from fencing.models import Grant, GrantApproval, GrantRefusal, GrantReview
from fencing.models.bodies import grant_as_pure, grant_bodies
from fencing.models.facts import Facts, lock_run, read_clock
from fencing.protocol import grants
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import SYSTEM, Caller
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.objects import rfc3339
from fencing.services.issuing import issue_grant, issue_grants, wake_steps
from fencing.services.requests import DecideGrant
from fencing.services.stopping import stop
from fencing.services.writes import Writes, in_transaction

__all__ = ["approve_grant", "expire_grants", "issue_grant", "issue_grants", "review_grant", "revoke_grant"]

What: Final = GrantRefusal.What


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """A person's act on one grant, with everything that it is judged by. `seen` is the version that they looked at."""

    grant: Grant
    request: DecideGrant
    facts: Facts
    writes: Writes
    seen: str | None

    @property
    def by_issuer(self) -> bool:
        """Whether the person decides on a grant of their own."""
        return bool(self.grant.issuer_id == self.writes.caller.person_id)

    def body(self) -> dict[str, Any]:
        """The grant's object as it stands in this transaction."""
        row = Grant.objects.select_related("run", "issuer").get(pk=self.grant.pk)
        return grant_bodies([row], self.facts.now)[0]

    def check_seen(self) -> Refusal | None:
        """Refuse where the grant is not what the person saw."""
        return None if self.seen is None else grants.check_seen(self.seen, self.body())

    def repeated(self, **more: object) -> Answer:
        """Answer what this person did before (N2)."""
        self.writes.count("duplicates")
        return Answer(status=OK, body={**self.body(), **more, "duplicate": True})

    def done(self, **more: object) -> Answer:
        """Write everything down, and answer with what then stands there."""
        self.writes.send()
        return Answer(status=OK, body={**self.body(), **more})


def approve_grant(name: str, request: DecideGrant, caller: Caller, *, seen: str | None = None) -> Result:
    """Approve a pending grant as a second person (G6)."""
    return in_transaction(lambda: _decide(name, request, caller, what=What.APPROVE, act=_approve, seen=seen))


def review_grant(name: str, request: DecideGrant, caller: Caller, *, seen: str | None = None) -> Result:
    """Review what a grant let through, as another person than its issuer: it closes the debt (G6)."""
    return in_transaction(lambda: _decide(name, request, caller, what=What.REVIEW, act=_review, seen=seen))


def revoke_grant(name: str, request: DecideGrant, caller: Caller) -> Result:
    """Revoke a grant at once; the answer tells what was stopped and what had already gone out (G5).

    It asks for no version: whoever wants to stop something must not have to read it again first.
    """
    return in_transaction(lambda: _decide(name, request, caller, what=What.REVOKE, act=_revoke))


def _decide(
    name: str,
    request: DecideGrant,
    caller: Caller,
    *,
    what: GrantRefusal.What,
    act: Callable[[_Decision], Result],
    seen: str | None = None,
) -> Result:
    writes = Writes(caller)
    run_name = Grant.objects.filter(name=name).values_list("run__name", flat=True).first()
    result: Result
    if run_name is None:
        result = writes.refuse(Refusal(code=Code.NOT_FOUND, detail=f"There is no grant {name}."), "grant")
    else:
        facts = lock_run(run_name)
        grant = Grant.objects.select_related("run", "issuer").get(name=name)
        result = act(_Decision(grant=grant, request=request, facts=facts, writes=writes, seen=seen))
        if isinstance(result, Refusal):
            _note_refusal(result, grant, what, facts, writes)
    writes.send()
    return result


def _note_refusal(refusal: Refusal, grant: Grant, what: GrantRefusal.What, facts: Facts, writes: Writes) -> None:
    """Note a refused act in the side log, and on the grant's own trail (G8)."""
    scope = {"step": grant.step_name, "epoch": grant.epoch, "path": grant.path, "tool": grant.tool}
    writes.refuse(refusal, "grant", run=grant.run.name, **scope)
    caller = writes.caller
    writes.insert(
        "grantrefusal",
        grant_id=grant.id,
        what=what.value,
        reason=refusal.detail,
        actor=caller.actor,
        role=caller.role.value,
        source=caller.address,
        refused_at=facts.now,
    )


def _approve(decision: _Decision) -> Result:
    grant, facts, writes = decision.grant, decision.facts, decision.writes
    approvers = list(GrantApproval.objects.filter(grant=grant).values_list("person_id", flat=True))
    if writes.caller.person_id in approvers:
        return decision.repeated()
    before = grant_as_pure(grant, approvals=len(approvers))
    refusal = grants.check_approval(before, by_issuer=decision.by_issuer, now=facts.now) or decision.check_seen()
    if refusal is not None:
        return _told_who(refusal, grant)
    writes.insert(
        "grantapproval",
        grant_id=grant.id,
        person_id=writes.caller.person_id,
        reason=decision.request.reason,
        approved_at=facts.now,
    )
    end = grants.approved(before, facts.now).expires_at
    goes_live = end is not None and before.expires_at is None
    if goes_live:
        writes.update("grant", str(grant.id), live_at=facts.now, expires_at=end, due_at=end)
    after = {"state": "live", "until": end.isoformat()} if goes_live and end is not None else None
    writes.audit("approve_grant", "grant", grant.name, run=grant.run.name, after=after, reason=decision.request.reason)
    wake_steps(facts.runs[grant.run.name], grant.epoch, grant.step_name, facts, writes)
    return decision.done()


def _told_who(refusal: Refusal, grant: Grant) -> Refusal:
    """Say who revoked a grant that cannot be approved any more, and when (H2)."""
    if refusal.code is not Code.ALREADY_DECIDED or grant.revoked_at is None:
        return refusal
    by = grant.revoked_by.get_username()
    extras = {"decided_by": by, "decided_at": rfc3339(grant.revoked_at)}
    return Refusal(code=refusal.code, detail=f"{by} revoked the grant.", extras=extras)


def _review(decision: _Decision) -> Result:
    grant, facts, writes = decision.grant, decision.facts, decision.writes
    earlier = GrantReview.objects.filter(grant=grant).select_related("person").first()
    if earlier is not None and earlier.person_id == writes.caller.person_id:
        return decision.repeated()
    refusal = grants.check_review(
        grant_as_pure(grant, approvals=0),
        by_issuer=decision.by_issuer,
        went_live=grant.live_at is not None,
        earlier=None if earlier is None else (earlier.person.get_username(), earlier.given_at),
    )
    refusal = refusal or grants.check_readable(decision.request.reason) or decision.check_seen()
    if refusal is not None:
        return refusal
    person = {"person_id": writes.caller.person_id, "reason": decision.request.reason}
    writes.insert("grantreview", grant_id=grant.id, given_at=facts.now, **person)
    writes.update("grant", str(grant.id), reviewed_at=facts.now)
    is_late = grants.is_review_overdue(grant_as_pure(grant, approvals=0), facts.now)
    after = {"uses": grant.uses, "was_overdue": is_late}
    writes.audit("review_grant", "grant", grant.name, run=grant.run.name, after=after, reason=decision.request.reason)
    return decision.done()


def _revoke(decision: _Decision) -> Result:
    grant, facts, writes = decision.grant, decision.facts, decision.writes
    if grant.revoked_at is not None:
        return decision.repeated(**(grant.revocation or {}))
    refusal = grants.check_revocation(grant_as_pure(grant, approvals=0), facts.now)
    if refusal is not None:
        return refusal
    if str(grant.id) in facts.grants:
        facts.grants[str(grant.id)]["revoked_at"] = facts.now.isoformat()
    answer = stop({str(grant.id)}, facts, writes).lines()
    by: dict[str, Any] = {
        "revoked_at": facts.now,
        "revoked_by_id": writes.caller.person_id,
        "revoke_reason": decision.request.reason,
    }
    writes.update("grant", str(grant.id), due_at=None, revocation=answer, **by)
    writes.audit("revoke_grant", "grant", grant.name, run=grant.run.name, after=answer, reason=decision.request.reason)
    return decision.done(**answer)


def expire_grants(limit: int = 200) -> int:
    """Write down that grants are over whose time has come, so that a clock that steps back revives nothing (G2, G6).

    What rests on them is due by itself: each such step has its own moment in the fencer's work list.
    """
    names = list(
        Grant.objects.filter(due_at__lte=read_clock()).order_by("due_at").values_list("name", flat=True)[:limit]
    )
    for name in names:
        with transaction.atomic():
            _expire(name)
    return len(names)


def _expire(name: str) -> None:
    writes = Writes(SYSTEM)
    grant = (
        Grant.objects.select_for_update(skip_locked=True)
        .filter(name=name, due_at__lte=read_clock())
        .select_related(None)
        .first()
    )
    if grant is None:
        return
    now = read_clock()
    writes.update("grant", str(grant.id), expired_at=now, due_at=None)
    state = "pending" if grant.live_at is None else "live"
    writes.audit("expire_grant", "grant", name, run=grant.run.name, before={"state": state}, after={"state": "expired"})
    writes.send()
