"""Grants in a world: issued, approved, revoked, and over by the clock."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fencing.protocol import fence, grants
from fencing.protocol.asking import Circumstances, check_circumstances
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import Phase
from fencing.protocol.rules import rules_of
from fencing.protocol.world.events import Approve, Issue, Review, Revoke
from fencing.protocol.world.records import Done, GrantRecord, Place, Result
from fencing.protocol.world.turn import Turn


def issue(event: Issue, turn: Turn) -> Result:
    """Issue a grant in a person's name (G1, G4, G6)."""
    definition = turn.definition(event.tool)
    if event.tool is not None and definition is None:
        return turn.refuse(Refusal(code=Code.UNKNOWN_TOOL, detail=f"No tool {event.tool} is registered."))
    earlier = turn.grants.get(event.name)
    if earlier is not None and earlier.asked == event:
        return Done(duplicate=True)
    if earlier is not None:
        return turn.refuse(Refusal(code=Code.GRANT_CONFLICT, detail="A grant of this name has another scope."))
    rules = None if definition is None else rules_of(definition)
    wanted = _wanted(event, rules)
    refusal = grants.check_form(wanted, reason=event.reason, rules=rules)
    refusal = refusal or check_circumstances(wanted, _circumstances(event, turn))
    if refusal is not None:
        return turn.refuse(refusal)
    facts = grants.issued(wanted, turn.now)
    turn.grants[event.name] = GrantRecord(asked=event, facts=facts, at=turn.now)
    turn.wake(event.epoch, event.step)
    return Done(epoch=event.epoch)


def _wanted(event: Issue, rules: fence.Rules | None) -> grants.Grant:
    return grants.Grant(
        name=event.name,
        epoch=event.epoch,
        step=event.step,
        tool=event.tool,
        path=event.path,
        digest=event.digest,
        max_uses=event.max_uses,
        uses=0,
        ttl_s=event.ttl_s,
        approvals=0,
        approvals_needed=None if rules is None else rules.grant_approvals - 1,
        pending_until=None,
        expires_at=None,
    )


def _circumstances(event: Issue, turn: Turn) -> Circumstances:
    own = turn.epochs.epoch if event.step is None else turn.own_epoch(event.step)
    record = None if event.step is None else turn.steps.get((event.step, own))
    return Circumstances(
        run=turn.run,
        own=own,
        known=None if record is None else turn.as_known(record),
        others=turn.all_grants(),
        freezes=turn.standing_freezes(),
        overdue=[
            each.facts.name
            for each in turn.grants.values()
            if each.asked.by == event.by and grants.is_review_overdue(each.facts, turn.now)
        ],
        now=turn.now,
    )


def approve(event: Approve, turn: Turn) -> Result:
    """Approve a grant as a second person (G6)."""
    record = turn.grants.get(event.name)
    if record is None:
        return turn.refuse(_no_grant(event.name))
    if event.by in record.approvers:
        return Done(duplicate=True)
    refusal = grants.check_approval(record.facts, by_issuer=event.by == record.asked.by, now=turn.now)
    if refusal is not None:
        return turn.refuse(refusal)
    facts = grants.approved(record.facts, turn.now)
    turn.grants[event.name] = replace(record, facts=facts, approvers=(*record.approvers, event.by))
    turn.wake(record.facts.epoch, record.facts.step)
    return Done()


def review(event: Review, turn: Turn) -> Result:
    """Review what somebody else's grant let through (G6)."""
    record = turn.grants.get(event.name)
    if record is None:
        return turn.refuse(_no_grant(event.name))
    if record.reviewer == event.by:
        return Done(duplicate=True)
    went_live = record.facts.expires_at is not None
    refusal = grants.check_review(record.facts, by_issuer=event.by == record.asked.by, went_live=went_live)
    if refusal is not None:
        return turn.refuse(refusal)
    reviewed = replace(record.facts, reviewed_at=turn.now)
    turn.grants[event.name] = replace(record, facts=reviewed, reviewer=event.by)
    return Done()


def revoke(event: Revoke, turn: Turn) -> Result:
    """Revoke a grant at once, and take back what rests on it alone (G5)."""
    record = turn.grants.get(event.name)
    if record is None:
        return turn.refuse(_no_grant(event.name))
    if record.facts.revoked_at is not None:
        return Done(duplicate=True)
    refusal = grants.check_revocation(record.facts, turn.now)
    if refusal is not None:
        return turn.refuse(refusal)
    turn.grants[event.name] = replace(record, facts=replace(record.facts, revoked_at=turn.now))
    return Done(touched=stop({event.name}, turn))


def stop(names: Collection[str], turn: Turn) -> tuple[Place, ...]:
    """Let what is fenced under grants that ended fall back, and take back their commits; give what was stopped."""
    stopped = []
    for record in list(turn.steps.values()):
        if record.phase is Phase.FENCED and record.facts.fenced_by in names:
            turn.move(record, Phase.PROPOSED, None, due_at=turn.now, fenced_at=None, fenced_by=None)
            stopped.append(record.place)
        elif record.commit is not None and record.commit.grant in names and turn.take_back(record) is not None:
            stopped.append(record.place)
    return tuple(stopped)


def expire(turn: Turn) -> None:
    """Write down that grants are over whose time has come (G2, G6)."""
    for name, record in turn.grants.items():
        if grants.has_run_out(record.facts, turn.now):
            turn.grants[name] = replace(record, facts=replace(record.facts, expired_at=turn.now))


def _no_grant(name: str) -> Refusal:
    return Refusal(code=Code.NOT_FOUND, detail=f"There is no grant {name}.")
