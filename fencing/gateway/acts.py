"""One compensation under lock, with everything that it is decided by; every change of it goes through here (P1 to P7).

Locks in the order of design 10: run, steps, intent, observed effect, compensation.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db import connection
from django.db.models import Max

from fencing.gateway.effects import Effect, lock_effects
from fencing.models import (
    Compensation,
    CompensationApproval,
    CompensationDelivery,
    CompensationOutcome,
    Incident,
    ObservedEffect,
)
from fencing.models.compensations import BEHIND_ITS_GRANTS
from fencing.models.facts import read_clock
from fencing.models.registry import registry_at
from fencing.protocol import compensations, deciding, intents, transitions, undoing
from fencing.protocol.compensations import State
from fencing.protocol.fence import Phase
from fencing.protocol.objects import rfc3339
from fencing.protocol.rules import retries_of
from fencing.protocol.tools import Mode, ToolDefinition
from fencing.services import undoing as following
from fencing.services.taking_back import close_commit, touch
from fencing.services.writes import Writes


def as_id(text: str | None) -> uuid.UUID | None:
    """Read an id as this system gave it; None for any other text."""
    try:
        return uuid.UUID(text or "")
    except ValueError:
        return None


def barred_people(intent_id: uuid.UUID | None) -> frozenset[int]:
    """The people behind a grant that let an intent's effect through (P3)."""
    if intent_id is None:
        return frozenset()
    with connection.cursor() as cursor:
        cursor.execute(BEHIND_ITS_GRANTS.replace("{intent}", "%s"), [intent_id, intent_id])
        return frozenset(int(person) for (person,) in cursor.fetchall())


class Act:
    """A compensation under lock. `effect` is the intent whose effect it undoes, None where a ledger row is undone."""

    def __init__(
        self, row: Compensation, effect: Effect | None, observed: ObservedEffect | None, writes: Writes
    ) -> None:
        self.row, self.effect, self.observed, self.writes = row, effect, observed, writes
        self.now: datetime = read_clock()
        self.state = State(row.state)

    @classmethod
    def locked(cls, compensation_id: uuid.UUID | str, writes: Writes) -> Act | None:
        """Lock one; None where there is none."""
        known = Compensation.objects.filter(pk=compensation_id).values("intent_id", "effect_id").first()
        if known is None:
            return None
        effect = observed = None
        if known["effect_id"] is None:
            intent = str(known["intent_id"])
            facts = lock_effects([intent])
            effect = Effect(facts.intents[intent], facts, writes)
        else:
            observed = ObservedEffect.objects.select_for_update(of=("self",)).get(pk=known["effect_id"])
        row = (
            Compensation.objects.select_for_update(of=("self",))
            .select_related("run", "payload", "decider")
            .get(pk=compensation_id)
        )
        return cls(row, effect, observed, writes)

    @property
    def id(self) -> str:
        """Its id, as text."""
        return str(self.row.pk)

    @property
    def run(self) -> str | None:
        """The name of its run; what escaped may have none."""
        return self.row.run.name if self.row.run else None

    @property
    def subject(self) -> dict[str, Any]:
        """What a refusal of it was about."""
        return {"run": self.run, "tool": self.row.tool, "digest": self.row.payload_id, "resources": self.row.resources}

    @property
    def definition(self) -> ToolDefinition | None:
        """The tool that would be called, as it was when this was proposed (T1)."""
        called = None if self.row.payload is None else self.row.payload.tool
        return None if called is None else registry_at(self.row.registry).get(called)

    @property
    def is_pushed(self) -> bool:
        """Whether a worker of this system makes the call (T5)."""
        return self.definition is not None and self.definition.mode is Mode.PUSH

    @property
    def retries(self) -> intents.Retries:
        """The called tool's lease and what else of it a delivery needs."""
        return retries_of(self.definition)

    @cached_property
    def approvals(self) -> list[CompensationApproval]:
        """Those of the round that is open, or that decided."""
        found = CompensationApproval.objects.filter(compensation=self.row, round=self.row.round)
        return list(found.select_related("person").order_by("approved_at", "id"))

    @cached_property
    def tries(self) -> list[tuple[CompensationDelivery, intents.Delivery]]:
        """The deliveries of the approval that stands, by number, each with its value in the pure core.

        Where a late success made it doubtful, that approval has lapsed: the deliveries are those of the last one.
        """
        mine = CompensationDelivery.objects.filter(compensation=self.row)
        found = mine.filter(release__round=self.row.round).order_by("number")
        if self.state is State.IN_DOUBT and not found:
            found = mine.filter(release__round=mine.aggregate(last=Max("release__round"))["last"]).order_by("number")
        return [(each, pure_try(each)) for each in found]

    @cached_property
    def is_contradicted(self) -> bool:
        """Whether a late success contradicts what was recorded, and no person has said since what is true."""
        told = CompensationOutcome.objects.filter(delivery__compensation=self.row)
        spoken = told.filter(source="person").aggregate(last=Max("recorded_at"))["last"]
        late = told.filter(outcome=intents.Kind.SUCCEEDED.value, is_effective=False).exclude(source="person")
        return (late if spoken is None else late.filter(recorded_at__gt=spoken)).exists()

    def pure(self) -> deciding.Undoing:
        """The compensation as the pure core knows it."""
        known = self.effect is None or self.effect.intent.row["state"] == intents.State.SUCCEEDED
        return deciding.Undoing(
            state=self.state,
            digest=self.row.payload_id,
            needed=self.row.needed,
            approvals=tuple(deciding.Approval(person=each.person_id, digest=each.digest) for each in self.approvals),
            is_known=known,
            requester=self.row.requester_id,
            barred=barred_people(self.row.intent_id),
            decided=deciding.Decided(by=self._decider(), at=rfc3339(self.row.decided_at)),
        )

    def _decider(self) -> str | None:
        return self.row.decider.get_username() if self.row.decider else None

    def move(self, after: State, *, why: str = "", **columns: Any) -> None:
        """Move it to a state that the table of transitions allows, with its audit. Used-up approvals lapse."""
        before = self.state
        if after is not before and not transitions.allows(compensations.TRANSITIONS, before, after):
            raise AssertionError(f"a compensation does not go from {before} to {after}")
        if compensations.lapses(before, after, is_changed=False):
            columns["round"] = self.row.round + 1
        self.state = after
        self.writes.update("compensation", self.id, state=after.value, **columns)
        self.writes.audit(
            "move_compensation",
            "compensation",
            self.id,
            run=self.run,
            before={"state": before.value},
            after={"state": after.value},
            reason=why,
        )
        if self.effect is not None:
            self.effect.intent.row["compensation"] = {
                **(self.effect.intent.row["compensation"] or {}),
                "state": after.value,
            }

    # ---- what follows ----

    def put_back(self, *, reason: str) -> None:
        """It did not undo the effect after all: due again, unless somebody wants the effect by now (P4, P5)."""
        after = State.PROPOSED
        if self.effect is not None:
            won = any(claim["state"] == "won" for claim in self.claimed_meanwhile())
            after = undoing.state_after_failure(self.effect.intent.pure(), has_won=won)
        columns: dict[str, Any] = {"due_at": None, "not_before": None, "decided_at": None, "decider_id": None}
        if after is State.WITHDRAWN:
            columns["decided_at"] = self.now
        self.move(after, why=reason, **columns)

    def wait_again(self, *, not_before: datetime | None) -> None:
        """Nothing was sent: it is sent again, unless somebody has come to want the effect (P4, P5, B5)."""
        after = State.APPROVED
        if self.effect is not None:
            won = any(claim["state"] == "won" for claim in self.claimed_meanwhile())
            after = undoing.state_after_claims(after, self.effect.intent.pure(), has_won=won)
        columns: dict[str, Any] = {"due_at": None, "not_before": not_before}
        if after is not State.APPROVED:
            decided_at = self.now if after is State.WITHDRAWN else None
            columns |= {"not_before": None, "decided_at": decided_at, "decider_id": None}
        self.move(after, **columns)

    def claimed_meanwhile(self) -> list[dict[str, Any]]:
        """Claims that are not lost, and were made since the undoing began: nobody had them when it was approved."""
        if self.effect is None or not self.tries:
            return []
        began = min(row.admitted_at for row, _ in self.tries)
        claims: Iterable[dict[str, Any]] = self.effect.intent.row["claims"]
        return [
            claim
            for claim in claims
            if claim["state"] != "lost" and datetime.fromisoformat(claim["claimed_at"]) >= began
        ]

    def finish(self, *, reason: str = "") -> None:
        """It is undone: an escape is closed, and who wants the effect since gets a new generation of it (B6)."""
        meanwhile = self.claimed_meanwhile()
        self.move(State.DONE, why=reason, due_at=None, not_before=None)
        self.close_escape()
        if self.effect is None:
            return
        meanwhile = [claim for claim in meanwhile if not self._is_taken_back(self.effect, claim)]
        if meanwhile:
            self._open_next(self.effect, meanwhile)
        for claim in self.effect.intent.row["claims"]:
            step = self.effect.facts.steps[claim["step_id"]]
            self.writes.feed("compensated", run_id=step.run.id, step_id=step.id, owner_group=step.run.owner_group)

    def _is_taken_back(self, effect: Effect, claim: dict[str, Any]) -> bool:
        """Take a commit back whose authority ended while it waited for the undoing: nothing of it is out (F8, G5)."""
        step = effect.facts.steps[claim["step_id"]]
        reason = effect.facts.lost_authority(step)
        if reason is None:
            return False
        close_commit(step, effect.facts, self.writes, reason=reason)
        touch(step, effect.facts, self.writes, phase=Phase.REJECTED, reason=reason)
        return True

    def close_escape(self) -> None:
        """What a person made of an escape stays: it holds nothing back any more (L8)."""
        if self.observed is not None and self.observed.is_open:
            self.writes.update("observedeffect", str(self.observed.pk), is_open=False)

    def _open_next(self, effect: Effect, claims: list[dict[str, Any]]) -> None:
        following.open_next(effect.intent, claims, effect.facts, self.writes, run=effect.run.name)

    def open_incident(self, note: str) -> None:
        """Page people, once: two reports about one undoing contradict each other."""
        ids = {"run_id": self.row.run_id, "intent_id": self.row.intent_id, "effect_id": self.row.effect_id}
        if Incident.objects.filter(kind=Incident.Kind.OUTCOME_CONFLICT.value, state="open", note=note, **ids).exists():
            return  # the same report once more (N2)
        incident = self.writes.insert(
            "incident",
            kind=Incident.Kind.OUTCOME_CONFLICT.value,
            state="open",
            opened_at=self.now,
            note=note,
            resources=self.row.resources,
            **ids,
        )
        after = {"kind": "outcome_conflict", "compensation": self.id}
        self.writes.audit("open_incident", "incident", incident, run=self.run, after=after)


def pure_try(row: CompensationDelivery) -> intents.Delivery:
    """A delivery as the pure core knows it, with the outcome in effect."""
    outcome = (
        CompensationOutcome.objects.filter(delivery=row, is_effective=True)
        .order_by("-recorded_at", "-id")
        .values_list("outcome", flat=True)
        .first()
    )
    return intents.Delivery(
        number=row.number,
        payload=row.payload_id,
        lease_until=row.lease_until,
        outcome=None if outcome is None else intents.Kind(outcome),
    )
