"""An intent under lock, with the steps that claim it: what admission, outcomes and the sweep work on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from fencing.models import Claim, Incident
from fencing.models.facts import Facts, IntentFacts, StepFacts, lock_steps, resources_of_payload
from fencing.models.registry import registry_at
from fencing.protocol import admission, claims, fence, intents
from fencing.protocol.rules import retries_of
from fencing.protocol.tools import ToolDefinition
from fencing.services import undoing
from fencing.services.taking_back import close_commit, lose_claim, move_intent, take_back, touch
from fencing.services.writes import LostRace, Writes


def claimants(intent_ids: Iterable[str]) -> list[tuple[str, str]]:
    """The (run, step) pairs that claim these intents: what must be locked before them."""
    return list(Claim.objects.filter(intent_id__in=list(intent_ids)).values_list("step__run__name", "step__name"))


def lock_effects(intent_ids: Sequence[str]) -> Facts:
    """Lock intents with all steps that claim them, in the order of locks."""
    facts = lock_steps(claimants(intent_ids))
    facts.lock_intents(ids=intent_ids)
    for intent_id in intent_ids:
        if any(claim["step_id"] not in facts.steps for claim in facts.intents[intent_id].row["claims"]):
            raise LostRace("a step claimed the intent meanwhile")
    return facts


class Effect:
    """One intent under lock, and what can be done with it. Every change goes through `writes`."""

    def __init__(self, intent: IntentFacts, facts: Facts, writes: Writes) -> None:
        self.intent, self.facts, self.writes = intent, facts, writes
        self.run = next(run for run in facts.runs.values() if run.id == intent.run_id)
        self._response: bytes | None = None

    @property
    def definition(self) -> ToolDefinition | None:
        """The tool as it was when the intent was opened (T1)."""
        tool = self.intent.row["tool"]
        return None if tool is None else registry_at(self.intent.row["registry"]).get(tool)

    @property
    def retries(self) -> intents.Retries:
        """How the tool may be tried again."""
        return retries_of(self.definition)

    def claiming_steps(self) -> list[StepFacts]:
        """The steps whose claim is not lost."""
        live = [claim["step_id"] for claim in self.intent.row["claims"] if claim["state"] != intents.ClaimState.LOST]
        return [self.facts.steps[step_id] for step_id in live if step_id in self.facts.steps]

    def committed_steps(self) -> list[StepFacts]:
        """The steps whose commit of this effect stands: that of a lost branch does, too, once it was admitted."""
        return [
            step
            for step in self.facts.steps.values()
            if step.commit is not None and step.commit.stands and step.commit.intent_id == self.intent.id
        ]

    def has_authority(self) -> bool:
        """Whether any claim may still repeat what is unknown (L5)."""
        claimants = [
            admission.Claimant(
                step=step.pure(),
                rules=step.rules(),
                commit=None if step.commit is None else self.facts.pure_commit(step.commit),
            )
            for step in self.claiming_steps()
        ]
        return admission.has_authority(claimants, run_epoch=self.run.epoch, now=self.facts.now)

    def expire_leases(self) -> None:
        """Close what is open and whose lease ran out: from now on it is unknown (L5)."""
        for delivery in intents.expired_leases(self.intent.pure(), self.facts.now):
            self.record(delivery.number, intents.Kind.UNKNOWN, source="lease")

    def doubt_if_stuck(self) -> None:
        """Hand to a person what is unknown and may not be repeated any more (L5)."""
        if claims.is_stuck(self.intent.pure(), self.retries, has_authority=self.has_authority()):
            move_intent(
                self.intent, intents.State.IN_DOUBT, self.writes, run=self.run.name, due_at=None, not_before=None
            )

    def record(
        self,
        number: int,
        outcome: intents.Kind,
        *,
        source: str,
        retry_after_s: float | None = None,
        response: bytes | None = None,
        pause_s: float | None = None,
        evidence: str | None = None,
    ) -> intents.Recorded:
        """Judge and write down what became of a delivery, and everything that follows from it."""
        recorded = intents.report(
            self.intent.pure(),
            number=number,
            outcome=outcome,
            retries=self.retries,
            has_authority=self.has_authority(),
            retry_after_s=retry_after_s,
            now=self.facts.now,
            pause_s=pause_s,
        )
        if not recorded.is_news:
            return recorded
        self._response = response
        row = {"source": source, "response": response, "retry_after_s": retry_after_s, "evidence": evidence}
        outcome_id = self._write_outcome(number, outcome, is_effective=recorded.is_effective, **row)
        if recorded.has_conflict and outcome is intents.Kind.SUCCEEDED:
            self.intent.row["is_contradicted"] = True
        self.follow(recorded, outcome_id)
        return recorded

    def follow(self, recorded: intents.Recorded, outcome_id: str) -> None:
        """Move the intent as recorded. A failure frees the steps (L7); commits of what is not out may be taken back."""
        state, settled = recorded.state, intents.State(self.intent.row["state"]) in intents.SETTLED
        columns: dict[str, Any] = {"not_before": recorded.not_before, "due_at": self._due_at(recorded)}
        if state in intents.SETTLED and not settled:
            columns |= {"outcome_id": outcome_id, "settled_at": self.facts.now}
            told = None if self._response is None else self._response.decode()
            settled_row = {"outcome": state.value, "response": told, "at": self.facts.now.isoformat(), "by": None}
            self.intent.row["settled"] = settled_row
        if state is not intents.State(self.intent.row["state"]) or (recorded.is_effective and not settled):
            move_intent(self.intent, state, self.writes, run=self.run.name, verb="settle", **columns)
        if state is intents.State.FAILED and not settled:
            self._free_steps()
        if recorded.is_released:
            for step in self.committed_steps():
                take_back(step, self.facts, self.writes)
        undoing.follow(self.intent, self.facts, self.writes, run=self.run.name)
        undoing.propose_if_owed(self.intent, self.facts, self.writes, run=self.run.name)
        if recorded.has_conflict:
            self._open_incident()

    def person_says(self, recorded: intents.Recorded, *, happened: bool, evidence: str) -> None:
        """Write down a person's word for every delivery that it is about (L6)."""
        kind = intents.Kind.SUCCEEDED if happened else intents.Kind.NOT_HAPPENED
        about = intents.in_question(self.intent.pure())
        self.intent.row["is_contradicted"] = False
        outcome_id = ""
        for number in about[-1:] if happened else about:
            outcome_id = self._write_outcome(
                number,
                kind,
                source="person",
                is_effective=True,
                person_id=self.writes.caller.person_id,
                evidence=evidence,
            )
        self.follow(recorded, outcome_id)

    def _write_outcome(self, number: int, outcome: intents.Kind, *, is_effective: bool, **columns: Any) -> str:
        delivery = next(each for each in self.intent.row["deliveries"] if each["number"] == number)
        if is_effective:
            delivery["outcome"] = outcome.value
        row = {
            "delivery_id": delivery["id"],
            "outcome": outcome.value,
            "is_effective": is_effective,
            "recorded_at": self.facts.now,
        }
        after = {
            "intent": self.intent.id,
            "number": number,
            "outcome": outcome.value,
            "source": columns["source"],
            "effective": is_effective,
        }
        self.writes.audit("record_outcome", "delivery", delivery["id"], run=self.run.name, after=after)
        return self.writes.insert(
            "outcome", run_id=self.run.id, by_id=self.writes.caller.credential_id, **row, **columns
        )

    def _due_at(self, recorded: intents.Recorded) -> datetime | None:
        """When the sweep must look again.

        That is at the end of an open lease; where something unknown waits to be repeated, of a grant behind it.
        """
        leases = [each.lease_until for each in self.intent.pure().deliveries if each.is_open]
        if leases and recorded.state not in intents.SETTLED:
            return min(leases)
        if recorded.state is not intents.State.READY:
            return None
        ends = [
            datetime.fromisoformat(row["expires_at"])
            for step in self.claiming_steps()
            if step.commit is not None
            and step.commit.grant_id
            and (row := self.facts.grants.get(step.commit.grant_id))
            and row["expires_at"]
        ]
        return min((end for end in ends if end > self.facts.now), default=None)

    def _free_steps(self) -> None:
        for step in {step.id: step for step in (*self.claiming_steps(), *self.committed_steps())}.values():
            if step.commit is not None and step.commit.stands:
                close_commit(step, self.facts, self.writes, reason=fence.Reason.EFFECT_FAILED)
                touch(
                    step,
                    self.facts,
                    self.writes,
                    phase=fence.Phase.COMMITTED,
                    reason=fence.Reason.EFFECT_FAILED,
                    due_at=None,
                )
            else:
                lose_claim(step, self.intent, self.facts, self.writes, reason=fence.Reason.EFFECT_FAILED)

    def _resources(self) -> list[str]:
        payloads = [each["payload"] for each in self.intent.row["deliveries"]]
        return resources_of_payload(payloads[-1]) if payloads else []

    def _open_incident(self) -> None:
        if Incident.objects.filter(kind="outcome_conflict", intent_id=self.intent.id, state="open").exists():
            return
        note = "Two reports about one effect contradict each other. The first stays on record; a person must look."
        columns = {"run_id": self.run.id, "intent_id": self.intent.id, "note": note, "resources": self._resources()}
        incident = self.writes.insert(
            "incident", kind="outcome_conflict", state="open", opened_at=self.facts.now, **columns
        )
        after = {"kind": "outcome_conflict", "intent": self.intent.id}
        self.writes.audit("open_incident", "incident", incident, run=self.run.name, after=after)
