"""The gateway of a world: admission, outcomes, and what nobody said in time (section 9)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fencing.protocol import admission, claims, freezes, intents
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.fence import Phase, Reason
from fencing.protocol.intents import Delivery, Kind, State
from fencing.protocol.rules import retries_of
from fencing.protocol.world import branching, following, permits, undoings
from fencing.protocol.world.events import Admit, Report, Resolve, Sweep
from fencing.protocol.world.ledger import has_open_escape
from fencing.protocol.world.records import Commit, Done, IntentRecord, Result, StepRecord
from fencing.protocol.world.turn import Impossible, Turn


def admit(event: Admit, turn: Turn) -> Result:
    """Let one call through, or refuse it (L3, L4)."""
    approved = undoings.approved_by(event.token, turn)
    if approved is not None:
        return undoings.admit(event, *approved, turn)
    action, definition = event.action, turn.definition(event.action.tool)
    exempt = admission.exemption(action, definition)
    run = turn.run if event.step is not None else None
    if isinstance(exempt, admission.Exempt):
        frozen = freezes.check_frozen(turn.standing_freezes(), run=run, tool=action.tool)
        return Done(exempt=True) if frozen is None else turn.refuse(frozen)
    if exempt is not None:
        return turn.refuse(exempt)
    record = _tokened(event.token, turn)
    refusal = admission.judge(
        admission.Call(action=action, token=event.token, run=run, step=event.step, epoch=event.epoch),
        named=[] if event.step is None else turn.known(event.step),
        bound=_bound(record, turn),
        verify=_no_key,
        take_back=lambda: None if record is None else turn.take_back(record),
        definition=definition,
        freezes=turn.standing_freezes(),
    )
    if refusal is not None or record is None or record.commit is None:
        return turn.refuse(refusal or _no_key(event.token or ""))
    return _deliver(record, event, turn)


def _tokened(token: str | None, turn: Turn) -> StepRecord | None:
    found = (each for each in turn.steps.values() if each.commit is not None and each.commit.token == token)
    return next(found, None)


def _bound(record: StepRecord | None, turn: Turn) -> admission.Bound | None:
    if record is None or record.commit is None:
        return None
    commit = record.commit
    return admission.Bound(
        run=turn.run,
        step=record.facts.step,
        epoch=record.facts.epoch,
        token=commit.token,
        payload=commit.payload,
        closed_reason=commit.closed_reason,
    )


def _no_key(_token: str) -> Refusal:
    """Judge a token that this world did not mint: it has no keys, so none of them is genuine."""
    return Refusal(code=Code.BAD_TOKEN, detail="This is no token of this system.", pointer="/token")


def _deliver(record: StepRecord, event: Admit, turn: Turn) -> Result:
    commit = record.commit
    if commit is None:
        raise Impossible("only a commit is delivered")
    expire_leases(turn.intents[commit.intent], turn)
    intent = turn.intents[commit.intent]
    retries, has_authority = retries_of(turn.definition(intent.tool)), _has_authority(intent, turn)
    verdict = intents.admit(
        intent.facts,
        payload=commit.payload,
        retries=retries,
        has_authority=has_authority,
        now=turn.now,
        has_open_escape=has_open_escape(commit.payload, turn),
    )
    match verdict:
        case Refusal():
            return turn.refuse(verdict)
        case intents.Settled():
            return Done(intent=intent.id, settled=verdict.state)
        case intents.Doubtful():
            doubt_if_stuck(intent, turn)
            return turn.refuse(Refusal(code=Code.IN_DOUBT, detail="Nobody knows whether it happened."))
        case intents.Admitted():
            lost = turn.lost_authority(record)
            if lost is not None:
                return turn.refuse(admission.revoked(lost))
            lease_until = turn.now + timedelta(seconds=retries.lease_s)
            opened = Delivery(number=verdict.number, payload=commit.payload, lease_until=lease_until)
            deliveries = (*intent.facts.deliveries, opened)
            behind = intent.behind | _behind(commit, turn)
            intent = replace(intent, sent=(*intent.sent, event.action), left_at=turn.now, behind=behind)
            turn.move_intent(intent, State.IN_FLIGHT, deliveries=deliveries, not_before=None)
            return Done(intent=intent.id, number=verdict.number)


def _behind(commit: Commit, turn: Turn) -> frozenset[str]:
    """The people behind the grant of a commit (P3)."""
    grant = None if commit.grant is None else turn.grants[commit.grant]
    return frozenset() if grant is None else frozenset({grant.asked.by, *grant.approvers})


def _claimants(intent: IntentRecord, turn: Turn) -> list[StepRecord]:
    return [turn.steps[each.step, each.epoch] for each in intent.claims if not each.is_lost]


def _committed(intent: IntentRecord, turn: Turn) -> list[StepRecord]:
    """The steps whose commit of this effect stands: that of a lost branch does, too, once it was admitted."""
    return [
        each for each in turn.steps.values() if each.commit and each.commit.stands and each.commit.intent == intent.id
    ]


def _has_authority(intent: IntentRecord, turn: Turn) -> bool:
    claimants = [
        admission.Claimant(
            step=each.facts,
            rules=turn.rules(each),
            commit=None if each.commit is None else turn.pure_commit(each.commit),
        )
        for each in _claimants(intent, turn)
    ]
    return admission.has_authority(claimants, run_epoch=turn.epochs.epoch, now=turn.now)


def report(event: Report, turn: Turn) -> Result:
    """Record what became of a delivery (L5)."""
    intent = turn.intents.get(event.intent)
    if intent is None or all(each.number != event.number for each in intent.facts.deliveries):
        return turn.refuse(Refusal(code=Code.NOT_FOUND, detail="There is no such delivery of this intent."))
    recorded = _record(intent, event.number, event.outcome, turn, retry_after_s=event.retry_after_s)
    if recorded.refusal is not None:
        return turn.refuse(recorded.refusal)
    return Done(duplicate=not recorded.is_news, intent=intent.id, settled=turn.intents[intent.id].facts.state)


def _record(
    intent: IntentRecord, number: int, outcome: Kind, turn: Turn, *, retry_after_s: float | None = None
) -> intents.Recorded:
    """Judge and write down what became of a delivery, and everything that follows from it."""
    recorded = intents.report(
        intent.facts,
        number=number,
        outcome=outcome,
        retries=retries_of(turn.definition(intent.tool)),
        has_authority=_has_authority(intent, turn),
        retry_after_s=retry_after_s,
        now=turn.now,
    )
    if recorded.is_news:
        told = intents.with_outcome(intent.facts, number, outcome) if recorded.is_effective else intent.facts
        if recorded.has_conflict and outcome is Kind.SUCCEEDED:
            told = intents.contradicted(told)
        _follow(replace(intent, facts=told), recorded, turn)
    return recorded


def _follow(intent: IntentRecord, recorded: intents.Recorded, turn: Turn) -> None:
    """Move the intent as recorded, and its commits: a failure frees their steps, what is not out may be taken back."""
    before = turn.intents[intent.id].facts.state
    not_before = recorded.not_before if recorded.is_effective else intent.facts.not_before
    intent = turn.move_intent(intent, recorded.state, not_before=not_before)
    if recorded.state is State.FAILED and before is not State.FAILED:
        concerned = [*_claimants(intent, turn), *_committed(intent, turn)]
        for place in dict.fromkeys(each.place for each in concerned):
            _free(turn.steps[place], intent.id, turn)
    if recorded.is_released:
        for record in _committed(intent, turn):
            turn.take_back(record)
    following.follow(turn.intents[intent.id], turn)
    following.propose_if_owed(turn.intents[intent.id], turn)
    if recorded.has_conflict:
        turn.contradict(intent.id)


def _free(record: StepRecord, intent: str, turn: Turn) -> None:
    """A failed effect closes the commits of its claims and frees their steps (L7)."""
    if record.commit is None or not record.commit.stands:
        turn.lose_claim(record.place, turn.intents[intent], Reason.EFFECT_FAILED)
        return
    closed = turn.close_commit(record, Reason.EFFECT_FAILED)
    turn.move(closed, Phase.COMMITTED, Reason.EFFECT_FAILED, due_at=None)


def resolve(event: Resolve, turn: Turn) -> Result:
    """Take a person's word for what nobody knows (L6)."""
    intent = turn.intents.get(event.intent)
    if intent is None:
        return turn.refuse(Refusal(code=Code.NOT_FOUND, detail="There is no such intent."))
    expire_leases(intent, turn)
    intent = turn.intents[event.intent]
    recorded = intents.resolve(intent.facts, happened=event.happened, now=turn.now)
    if isinstance(recorded, Refusal):
        return Done(duplicate=True, intent=intent.id) if intent.resolved == event else turn.refuse(recorded)
    told = intents.happened(intent.facts) if event.happened else intents.not_happened(intent.facts)
    _follow(replace(intent, facts=told, resolved=event), recorded, turn)
    return Done(intent=intent.id, settled=turn.intents[intent.id].facts.state)


def sweep(_event: Sweep, turn: Turn) -> Result:
    """Find what no wake-up announced: grants and leases that ran out, and what no machine may repeat (G2, L5)."""
    permits.expire(turn)
    branching.expire(turn)
    for intent_id in list(turn.intents):
        expire_leases(turn.intents[intent_id], turn)
        doubt_if_stuck(turn.intents[intent_id], turn)
    undoings.expire_leases(turn)
    return Done()


def expire_leases(intent: IntentRecord, turn: Turn) -> None:
    """Close what is open and whose lease ran out: from now on it is unknown, never failed (L5)."""
    for delivery in intents.expired_leases(intent.facts, turn.now):
        _record(turn.intents[intent.id], delivery.number, Kind.UNKNOWN, turn)


def doubt_if_stuck(intent: IntentRecord, turn: Turn) -> None:
    """Hand to a person what is unknown and may not be repeated any more (L5)."""
    retries = retries_of(turn.definition(intent.tool))
    if claims.is_stuck(intent.facts, retries, has_authority=_has_authority(intent, turn)):
        turn.move_intent(intent, State.IN_DOUBT, not_before=None)
