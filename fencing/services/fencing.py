"""The fencer: it alone agrees, fences and commits (F9), a batch at a time, from the work list in the database.

A job is a wake-up; this takes what is due, under locks that pass over what another fencer holds, decides with the pure
core, and writes decision, commit, token, intent, claim and audit in one transaction (N5).
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.db import transaction

from fencing.models import Step
from fencing.models.facts import Facts, IntentFacts, StepFacts, lock_due, pure_grant
from fencing.models.fields import uuid7
from fencing.protocol import claims, fence, grants, intents, tokens
from fencing.protocol.callers import SYSTEM
from fencing.protocol.refused_uses import why_refused
from fencing.protocol.tools import Mode
from fencing.services import undoing
from fencing.services.committing import commit_agreed
from fencing.services.differing import difference_of
from fencing.services.runs import void_grant
from fencing.services.signing import signing_key
from fencing.services.taking_back import drop_claim, move_intent, subject_of, take_back, touch
from fencing.services.unavailable import TOO_BUSY, why_unavailable
from fencing.services.writes import Writes, in_transaction

log = structlog.get_logger(__name__)

BATCH = 200
PARKED_S = 5


def decide_due(limit: int = BATCH) -> int:
    """Decide a batch of what is due; give how many steps were looked at, 0 when nothing is due or all of it is held.

    Plain agreements go the straight way together; what else is due is looked at one by one. A step that cannot be
    decided for a fault of our own holds up nobody: it is parked for a while, and the log tells.
    """
    committed = 0
    try:
        taken = commit_agreed(limit)
        committed = taken.committed
        return committed if taken.waiting == committed else committed + in_transaction(lambda: _decide_batch(limit))
    except Exception as fault:
        if why_unavailable(fault) not in (None, TOO_BUSY):
            raise  # no step's own doing: none could be decided now, nor parked
        log.exception("batch_failed", limit=limit)
        if limit > 1:
            return committed + sum(decide_due(1) for _ in range(min(limit, 20)))
        _park()
        return 1


def _park() -> None:
    with transaction.atomic():
        facts = lock_due(1)
        for step in facts.steps.values() if facts else ():
            log.error("step_parked", run=step.run.name, step=step.name, epoch=step.epoch)
            Step.objects.filter(id=step.id).update(due_at=facts.now + timedelta(seconds=PARKED_S) if facts else None)


def _decide_batch(limit: int) -> int:
    facts = lock_due(limit)
    if facts is None or not facts.steps:
        return 0
    batch = Batch(facts)
    for step in sorted(facts.steps.values(), key=lambda step: step.id):
        batch.look_at(step)
    batch.writes.send()
    return len(facts.steps)


def key_of(step: StepFacts, digest: str) -> str:
    """The invocation key of a step that wants an action of this digest (L1)."""
    return step.row["key"] or intents.default_key(digest, step.row["occurrence"])


class Batch:
    """One transaction of the fencer: the facts, the newest intent of each key, and what is to be written."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.writes = Writes(SYSTEM)
        keys = []
        for step in facts.steps.values():
            seen = fence.digests_on_record(step.pure())
            if step.phase in fence.UNDECIDED and len(seen) == 1:
                keys.append((step.run.id, key_of(step, next(iter(seen)))))
        self.newest = facts.lock_intents(keys=keys)

    def look_at(self, step: StepFacts) -> None:
        """Decide one step, or see whether the commit that it has still stands."""
        if step.phase is fence.Phase.COMMITTED:
            self._look_at_commit(step)
        elif step.phase in fence.UNDECIDED and step.phase is not fence.Phase.IDLE:
            self._void_frozen_grants(step)
            decision = self._decide(step)
            if self.facts.grants and decision.grant is None:
                self._note_refused_uses(step)
            self._apply(step, decision)
        else:
            self._not_due(step)

    def _decide(self, step: StepFacts) -> fence.Decision:
        def is_key_taken(digest: str) -> bool:
            newest = self.newest.get((step.run.id, key_of(step, digest)))
            own = newest is not None and any(
                each["step_id"] == step.id for each in newest.row["claims"] if each["state"] != "lost"
            )
            return claims.is_key_taken(None if newest is None else newest.pure(), digest, has_own_claim=own)

        return fence.decide(
            step.pure(self.facts.grant_name(step.row["fenced_by"])),
            rules=step.rules(),
            grants=self.facts.grants_of(step.run),
            now=self.facts.now,
            is_key_taken=is_key_taken,
        )

    def _void_frozen_grants(self, step: StepFacts) -> None:
        """End a grant by step alone as soon as its step tells that it is about a frozen tool (L10, G1)."""
        about = fence.tool_of(step.pure())
        for freeze in self.facts.freezes:
            for row in self.facts.grants.values():
                is_its = (row["run_id"], row["step_name"], row["epoch"]) == (step.run.id, step.name, step.epoch)
                ends = grants.is_voided_by_freeze(
                    pure_grant(row), tool=freeze.tool, tool_of_step=about, now=self.facts.now
                )
                if is_its and row["tool"] is None and freeze.run in (None, step.run.name) and ends:
                    void_grant(row, self.facts, self.writes, run=step.run.name, reason=grants.FROZEN)

    def _note_refused_uses(self, step: StepFacts) -> None:
        """Note on the trail of each grant that was about this step why it did not help (G8), once for each reason."""
        pure, rules = step.pure(), step.rules()
        for grant_id, row in self.facts.grants.items():
            if row["run_id"] != step.run.id:
                continue
            why = why_refused(pure, pure_grant(row), rules=rules, now=self.facts.now)
            if why is not None:
                who = {"actor": SYSTEM.actor, "role": SYSTEM.role.value, "source": ""}
                asked = {"grant_id": grant_id, "step_id": step.id, "refused_at": self.facts.now}
                self.writes.insert("grantrefusal", what="use", reason=why, **asked, **who)

    def _apply(self, step: StepFacts, decision: fence.Decision) -> None:
        match decision.phase:
            case fence.Phase.PROPOSED:
                self._wait(step, decision)
            case fence.Phase.REJECTED:
                self._reject(step, decision)
            case fence.Phase.EXEMPT:
                drop_claim(step, self.facts, self.writes, reason=fence.Reason.READ_ONLY)
                touch(step, self.facts, self.writes, phase=decision.phase, reason=decision.reason)
            case fence.Phase.AGREED:
                self._agree(step, decision)
            case fence.Phase.FENCED:
                self._fence(step, decision)
            case fence.Phase.COMMITTED:
                self._commit(step, decision)
            case fence.Phase.IDLE:
                raise AssertionError("nothing becomes idle by a decision")

    def _wait(self, step: StepFacts, decision: fence.Decision) -> None:
        drop_claim(step, self.facts, self.writes, reason=fence.Reason.SUPERSEDED)
        if step.phase is fence.Phase.PROPOSED:
            self.writes.update("step", step.id, due_at=decision.due_at)
        else:
            touch(
                step,
                self.facts,
                self.writes,
                phase=decision.phase,
                reason=None,
                due_at=decision.due_at,
                fenced_at=None,
                fenced_by_id=None,
            )

    def _reject(self, step: StepFacts, decision: fence.Decision) -> None:
        reason = decision.reason or fence.Reason.DIVERGENCE
        drop_claim(step, self.facts, self.writes, reason=reason)
        difference = difference_of(step) if fence.divergence(step.pure()) else None
        touch(step, self.facts, self.writes, phase=decision.phase, reason=reason, difference=difference)
        step.row["difference"] = difference

    def _agree(self, step: StepFacts, decision: fence.Decision) -> None:
        self._claim(step, decision, is_committed=False)
        correlated = fence.is_correlated(step.pure(), step.rules())
        if step.phase is fence.Phase.AGREED:
            self._not_due(step)
        else:
            touch(
                step,
                self.facts,
                self.writes,
                phase=decision.phase,
                reason=decision.reason,
                due_at=None,
                is_correlated=correlated,
            )

    def _fence(self, step: StepFacts, decision: fence.Decision) -> None:
        grant_id = next(row_id for row_id, row in self.facts.grants.items() if row["name"] == decision.grant)
        if step.phase is fence.Phase.FENCED and step.row["fenced_by"] == grant_id:
            self.writes.update("step", step.id, due_at=decision.due_at)
            return
        columns = {"due_at": decision.due_at, "fenced_at": decision.fenced_at, "fenced_by_id": grant_id}
        touch(step, self.facts, self.writes, phase=decision.phase, reason=decision.reason, **columns)

    def _commit(self, step: StepFacts, decision: fence.Decision) -> None:
        """Write a commit with its token, intent, claim and use of a grant, all of it or nothing (N5, K1, G3)."""
        if decision.digest is None or decision.payload is None or decision.tool is None:
            raise AssertionError("a commit binds a payload")
        intent = self._claim(step, decision, is_committed=True)
        grant_id = next((row_id for row_id, row in self.facts.grants.items() if row["name"] == decision.grant), None)
        commit_id, expires_at = str(uuid7()), decision.due_at if grant_id else None
        key = signing_key()
        token = tokens.mint(self._claims(step, decision, commit_id, expires_at), key)
        authority = "grant" if grant_id else "agreement"
        subject = {"run_id": step.run.id, "step_id": step.id, "step_name": step.name, "epoch": step.epoch}
        bound = {
            "tool": decision.tool,
            "payload_id": decision.payload,
            "fence_digest": decision.digest,
            "key": key_of(step, decision.digest),
        }
        signed = {"token": token, "kid": key.kid, "authority": authority, "grant_id": grant_id, "intent_id": intent.id}
        self.writes.insert("commit", id=commit_id, committed_at=self.facts.now, **subject, **bound, **signed)
        if grant_id is not None:
            self._use(grant_id, commit_id)
        correlated = grant_id is None and fence.is_correlated(step.pure(), step.rules())
        columns = {"due_at": expires_at, "is_correlated": correlated}
        touch(step, self.facts, self.writes, phase=decision.phase, reason=decision.reason, **columns)
        after = {
            "step": subject_of(step),
            "authority": authority,
            "grant": decision.grant,
            "payload_digest": decision.payload,
            "key": bound["key"],
        }
        self.writes.audit("commit_step", "commit", commit_id, run=step.run.name, after=after)
        self.writes.signal(f"gateway:{decision.tool}")
        definition = step.definition(decision.tool)
        if definition is not None and definition.mode is Mode.PUSH:
            self.writes.wake("deliver")

    def _claims(
        self, step: StepFacts, decision: fence.Decision, commit_id: str, expires_at: datetime | None
    ) -> tokens.Claims:
        return tokens.Claims(
            jti=commit_id,
            iat=int(self.facts.now.timestamp()),
            run=step.run.name,
            step=step.name,
            epoch=step.epoch,
            tool=decision.tool or "",
            dig=decision.payload or "",
            key=key_of(step, decision.digest or ""),
            auth="agreement" if expires_at is None else "grant",
            exp=None if expires_at is None else int(expires_at.timestamp()),
        )

    def _use(self, grant_id: str, commit_id: str) -> None:
        """Take one use in the transaction of the commit, never given back (G3), one at a time by the run's lock."""
        row = self.facts.grants[grant_id]
        row["uses"] += 1
        self.writes.update("grant", grant_id, uses=row["uses"])
        self.writes.insert("grantuse", grant_id=grant_id, commit_id=commit_id, used_at=self.facts.now)
        after = {"uses": row["uses"], "max_uses": row["max_uses"], "commit": commit_id}
        run = next(run.name for run in self.facts.runs.values() if run.id == row["run_id"])
        self.writes.audit("use_grant", "grant", row["name"], run=run, after=after)

    def _claim(self, step: StepFacts, decision: fence.Decision, *, is_committed: bool) -> IntentFacts:
        """Find or open the intent that the step wants, with its claim (L1, L2)."""
        digest = decision.digest or ""
        state = claims.state_of(step.gate, is_committed=is_committed)
        place = (step.run.id, key_of(step, digest))
        intent = self.newest.get(place)
        mine = (
            None
            if intent is None
            else next(
                (each for each in intent.row["claims"] if each["step_id"] == step.id and each["state"] != "lost"), None
            )
        )
        if intent is None or mine is None:
            intent = self._intent(step, decision, place)
            mine = {"id": "", "step_id": step.id, "state": state.value, "is_committed": is_committed}
            mine["claimed_at"] = self.facts.now.isoformat()
            mine["id"] = self.writes.insert(
                "claim",
                run_id=step.run.id,
                intent_id=intent.id,
                step_id=step.id,
                state=state.value,
                claimed_at=self.facts.now,
            )
            intent.row["claims"].append(mine)
        elif mine["state"] != state:
            mine["state"] = state.value
            self.writes.update("claim", mine["id"], state=state.value)
        mine["is_committed"] = is_committed
        if decision.tool is not None and intent.row["tool"] is None:
            intent.row["tool"] = decision.tool
            self.writes.update("intent", intent.id, tool=decision.tool)
        move_intent(intent, intents.state_after_claims(intent.pure()), self.writes, run=step.run.name)
        has_won = mine["state"] == intents.ClaimState.WON
        undoing.follow(intent, self.facts, self.writes, run=step.run.name, has_won=has_won)
        return intent

    def _intent(self, step: StepFacts, decision: fence.Decision, place: tuple[str, str]) -> IntentFacts:
        newest = self.newest.get(place)
        generation = claims.generation_for(None if newest is None else newest.pure(), decision.digest or "")
        if newest is not None and newest.row["generation"] == generation:
            return newest
        columns = {
            "key": place[1],
            "generation": generation,
            "fence_digest": decision.digest,
            "tool": decision.tool,
            "registry": step.row["registry"],
        }
        intent_id = self.writes.insert("intent", run_id=step.run.id, state="held", opened_at=self.facts.now, **columns)
        self.writes.audit(
            "open_intent", "intent", intent_id, run=step.run.name, after={"key": place[1], "generation": generation}
        )
        row = {
            "id": intent_id,
            "run_id": step.run.id,
            "state": "held",
            "payload": None,
            "not_before": None,
            "due_at": None,
            "settled": None,
            "is_contradicted": False,
            "compensation": None,
            "claims": [],
            "deliveries": [],
            **columns,
        }
        made = self.newest[place] = IntentFacts(id=intent_id, run_id=step.run.id, key=place[1], row=row)
        self.facts.intents[intent_id] = made
        return made

    def _look_at_commit(self, step: StepFacts) -> None:
        """The end of a grant takes back what rests on it alone (G5); a witness adds its authority (F7)."""
        commit = step.commit
        if commit is None or not commit.stands or take_back(step, self.facts, self.writes) is not None:
            return
        if commit.authority == "grant" and fence.is_agreed(step.pure(), step.rules()):
            commit.authority = "both"
            self.writes.update("commit", commit.id, authority="both")
            correlated = fence.is_correlated(step.pure(), step.rules())
            self.writes.update("step", step.id, is_correlated=correlated)
            after = {"step": subject_of(step), "authority": "both"}
            self.writes.audit(
                "add_authority", "commit", commit.id, run=step.run.name, before={"authority": "grant"}, after=after
            )
        row = self.facts.grants.get(commit.grant_id) if commit.grant_id else None
        end = None if row is None or row["expires_at"] is None else datetime.fromisoformat(row["expires_at"])
        waits = commit.authority == "grant" and end is not None and end > self.facts.now
        self.writes.update("step", step.id, due_at=end if waits else None)

    def _not_due(self, step: StepFacts) -> None:
        self.writes.update("step", step.id, due_at=None)
