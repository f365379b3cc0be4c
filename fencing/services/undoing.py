"""What would undo the effect of an intent: proposed, held, withdrawn as its claims and its outcome say (P1, P4, B4).

Every change here happens under the intent's lock, in the transaction of what changed its claims or its outcome.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from fencing.models import Action as ActionRow
from fencing.models import Claim, CompensationOutcome, Delivery, ObservedEffect
from fencing.models.facts import Facts, IntentFacts, lookup_of, resources_touched
from fencing.models.registry import registry_at
from fencing.protocol import compensations, intents, transitions, undoing
from fencing.protocol.actions import Action, read_action
from fencing.protocol.compensations import Cause, State
from fencing.protocol.errors import Refusal
from fencing.protocol.policies import Policy
from fencing.protocol.strict_json import Json
from fencing.services.writes import Writes

UNDONE = "undone"


def follow(intent: IntentFacts, facts: Facts, writes: Writes, *, run: str, has_won: bool = False) -> State | None:
    """Let what would undo an effect follow the intent's claims and outcome (P4). Gives its new state, None for none.

    Its action is built anew once the outcome is known: what the tool answered may be part of it (P2).
    """
    row = intent.row.get("compensation")
    if row is None or State(row["state"]) not in compensations.WITHDRAWABLE:
        return None
    before = State(row["state"])
    after = undoing.state_after_claims(before, intent.pure(), has_won=has_won)
    columns: dict[str, Any] = {}
    if after is not State.WITHDRAWN:
        columns = _rebuilt(intent, row, writes)
    if after is before and not columns:
        return before
    move(row, after, facts, writes, run=run, **columns)
    return after


def move(row: dict[str, Any], after: State, facts: Facts, writes: Writes, *, run: str | None, **columns: Any) -> None:
    """Move a compensation to a state that the table of transitions allows, with its audit."""
    before = State(row["state"])
    if after is not before and not transitions.allows(compensations.TRANSITIONS, before, after):
        raise AssertionError(f"a compensation does not go from {before} to {after}")
    if after is State.WITHDRAWN:
        columns["decided_at"] = facts.now
    row["state"] = after.value
    if compensations.lapses(before, after, is_changed="payload_id" in columns):
        row["round"] += 1
        columns |= {"round": row["round"], "decider_id": None}
        columns.setdefault("decided_at", None)
    if "payload_id" in columns:
        row["payload"] = columns["payload_id"]
    writes.update("compensation", row["id"], state=after.value, **columns)
    told = {"state": after.value, **({"payload_digest": row["payload"]} if "payload_id" in columns else {})}
    writes.audit("move_compensation", "compensation", row["id"], run=run, before={"state": before.value}, after=told)


def _rebuilt(intent: IntentFacts, row: dict[str, Any], writes: Writes) -> dict[str, Any]:
    built = build(intent)
    digest = None if built is None else built.payload_digest
    if digest == row["payload"]:
        return {}
    if built is not None:
        writes.action(built)
    return {"payload_id": digest}


def build(intent: IntentFacts) -> Action | None:
    """Build the exact action that would undo an intent's effect (P2); None where a person does it by hand (P6)."""
    called = action_of(intent)
    settled = intent.row["settled"]
    response = None if settled is None or settled["response"] is None else json.loads(settled["response"])
    registry = intent.row["registry"]
    definition = registry_at(registry).get(intent.row["tool"] or "")
    told: Json = None if called is None else {"tool": called.tool, "args": called.args}
    return compensations.undoing(definition, told, response, lookup_of(registry))


def action_of(intent: IntentFacts) -> Action | None:
    """The action that left, or may have."""
    payload = intent.row["payload"]
    stored = None if payload is None else ActionRow.objects.filter(payload_digest=payload).first()
    action = None if stored is None else read_action(json.loads(bytes(stored.canonical)))
    return None if isinstance(action, Refusal) else action


def propose(intent: IntentFacts, facts: Facts, writes: Writes, *, run: str, cause: Cause, **columns: Any) -> str:
    """Propose to undo the effect of an intent (P1); give the id of the compensation. It may be held at once (P4)."""
    built, registry = build(intent), intent.row["registry"]
    if built is not None:
        writes.action(built)
    definition = registry_at(registry).get(intent.row["tool"] or "")
    policy = Policy() if definition is None else definition.policy
    state = State.HELD if intents.ClaimState.OPEN in intent.pure().claims else State.PROPOSED
    payload = None if built is None else built.payload_digest
    row: dict[str, Any] = {"state": state.value, "cause": cause.value, "registry": registry, "round": 1}
    columns.setdefault("effect_at", _left_at(intent))
    compensation = writes.insert(
        "compensation",
        run_id=intent.run_id,
        intent_id=intent.id,
        tool=intent.row["tool"],
        payload_id=payload,
        needed=policy.compensation_approvals,
        resources=resources_touched(action_of(intent), registry),
        proposed_at=facts.now,
        **row,
        **columns,
    )
    intent.row["compensation"] = {"id": compensation, "payload": payload, **row}
    after = {"cause": cause.value, "intent": intent.id, "payload_digest": payload, "state": state.value}
    reason = str(columns.get("request_reason", ""))
    writes.audit("propose_compensation", "compensation", compensation, run=run, after=after, reason=reason)
    return compensation


def _left_at(intent: IntentFacts) -> datetime | None:
    """When the effect left, or may have (P7); of what a person adopted, when the ledger showed it (L8)."""
    adopted = ObservedEffect.objects.filter(adopted_by_id=intent.id).values_list("occurred_at", "observed_at").first()
    if adopted is not None:
        return adopted[0] or adopted[1]
    tries = Delivery.objects.filter(intent_id=intent.id).order_by("-number")
    return tries.values_list("admitted_at", flat=True).first()


def last_word(compensation_id: str) -> CompensationOutcome | None:
    """What a person said last about an act in doubt."""
    told = CompensationOutcome.objects.filter(delivery__compensation_id=compensation_id, source="person")
    return told.select_related("person").order_by("-recorded_at", "-id").first()


def open_next(intent: IntentFacts, claims: list[dict[str, Any]], facts: Facts, writes: Writes, *, run: str) -> None:
    """Give an effect that is undone, and wanted again meanwhile, its next generation, with these claims (B6)."""
    generation = intent.row["generation"] + 1
    may_act = any(claim["state"] == "won" or claim["is_committed"] for claim in claims)
    state = intents.State.READY if may_act else intents.State.HELD
    columns = {name: intent.row[name] for name in ("key", "fence_digest", "tool", "registry")}
    made = writes.insert(
        "intent",
        run_id=intent.run_id,
        generation=generation,
        state=state.value,
        opened_at=facts.now,
        **columns,
    )
    after = {"key": intent.key, "generation": generation}
    writes.audit("open_intent", "intent", made, run=run, after=after)
    for claim in claims:
        lost = {"state": "lost", "lost_at": facts.now, "lost_reason": UNDONE}
        writes.update("claim", claim["id"], verb="lose", **lost)
        place = {"run_id": intent.run_id, "intent_id": made, "step_id": claim["step_id"]}
        writes.insert("claim", state=claim["state"], claimed_at=facts.now, **place)
        commit = facts.steps[claim["step_id"]].commit
        if commit is not None and commit.stands and commit.intent_id == intent.id:
            writes.update("commit", commit.id, intent_id=made)
            writes.audit(
                "move_commit", "commit", commit.id, run=run, before={"intent": intent.id}, after={"intent": made}
            )
        claim["state"] = "lost"
    writes.signal(f"gateway:{intent.row['tool']}")


def _is_of_lost_branch(intent: IntentFacts, facts: Facts, writes: Writes) -> bool:
    """Whether a lost branch claimed it, whatever ended the claim: asked last, of what nobody wants and may be out."""
    writes.send()  # what is proposed is read from what is stored
    tree = next(run.tree for run in facts.runs.values() if run.id == intent.run_id)
    branches = Claim.objects.filter(intent_id=intent.id).values_list("step__branch", flat=True)
    return any(tree.gate(branch).is_lost for branch in branches)


def propose_if_owed(intent: IntentFacts, facts: Facts, writes: Writes, *, run: str) -> str | None:
    """Propose to undo what a lost branch sent and nobody wants (B4); give the id of the compensation."""
    newest = None if intent.undoing is None else State(intent.undoing)
    if not undoing.is_owed(intent.pure(), newest, is_of_lost_branch=True) or not _is_of_lost_branch(
        intent, facts, writes
    ):
        return None
    return propose(intent, facts, writes, run=run, cause=Cause.BRANCH_LOST)
