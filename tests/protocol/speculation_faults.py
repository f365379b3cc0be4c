"""The faults of branches, ledgers and undoing to plant: each a plausible mistake in one pure function of the core."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fencing.protocol import (
    approvals,
    branches,
    claims,
    compensations,
    deciding,
    fence,
    grants,
    intake,
    intents,
    ledgers,
    undoing,
)
from fencing.protocol.branches import Tree
from fencing.protocol.compensations import State
from fencing.protocol.errors import Refusal
from fencing.protocol.fence import Gate, Reason
from fencing.protocol.grants import Grant
from fencing.protocol.intents import Intent
from fencing.protocol.ledgers import Matched, Seen, Wanted
from tests.protocol.faults import Plant


def intent_of_the_first_branch(patch: pytest.MonkeyPatch) -> None:
    """An intent belongs to the branch that asked first: what becomes of it is what becomes of that one."""

    def is_wanted(intent: Intent) -> bool:
        return intent.claims[:1] != (intents.ClaimState.LOST,)

    patch.setattr(Intent, "is_wanted", property(is_wanted))


def undone_key_never_sent_again(patch: pytest.MonkeyPatch) -> None:
    """A key whose effect was undone is taken for one that is served already."""
    original = intents.claim

    def claim(newest: Intent | None, fence_digest: str) -> intents.Claiming:
        return original(None if newest is None else replace(newest, is_undone=False), fence_digest)

    patch.setattr(claims, "claim", claim)


def branch_gate_ignored(patch: pytest.MonkeyPatch) -> None:
    """A branch may act unless it is lost."""
    original = Tree.gate

    def gate(tree: Tree, branch: str | None) -> Gate:
        found = original(tree, branch)
        return replace(found, may_act=not found.is_lost)

    patch.setattr(Tree, "gate", gate)


def ancestors_ignored(patch: pytest.MonkeyPatch) -> None:
    """A branch acts once it won its own fork, whatever becomes of the branch that this lies in."""
    original = Tree.upward
    patch.setattr(Tree, "upward", lambda tree, branch: list(original(tree, branch))[:1])


def two_winners(patch: pytest.MonkeyPatch) -> None:
    """A fork is reconciled as often as somebody asks."""
    original = branches.reconcile

    def reconcile(tree: Tree, fork: str, winner: str | None) -> Any:
        found = replace(tree.forks[fork], is_reconciled=False)
        return original(replace(tree, forks={**tree.forks, fork: found}), fork, winner)

    patch.setattr(branches, "reconcile", reconcile)


def undoing_not_withdrawn(patch: pytest.MonkeyPatch) -> None:
    """What would undo an effect stays when the winner claims it."""
    original = undoing.state_after_claims

    def state_after_claims(state: State, intent: Intent, *, has_won: bool) -> State:
        del has_won
        return original(state, intent, has_won=False)

    patch.setattr(undoing, "state_after_claims", state_after_claims)


def undoing_not_held(patch: pytest.MonkeyPatch) -> None:
    """What another branch may still want is undone all the same."""
    original = undoing.state_after_claims

    def state_after_claims(state: State, intent: Intent, *, has_won: bool) -> State:
        after = original(state, intent, has_won=has_won)
        return state if after is State.HELD else after

    patch.setattr(undoing, "state_after_claims", state_after_claims)


def doubt_retried(patch: pytest.MonkeyPatch) -> None:
    """What nobody knows is tried once more instead of being handed to a person."""
    original = intents.admit

    def admit(intent: Intent, **more: Any) -> Any:
        is_doubtful = intent.state is intents.State.IN_DOUBT
        ready = replace(intent, state=intents.State.READY, not_before=None) if is_doubtful else intent
        return original(ready, **more)

    patch.setattr(intents, "admit", admit)
    moves = {**intents.TRANSITIONS[intents.State.IN_DOUBT], intents.State.IN_FLIGHT: "once more"}
    patch.setattr(intents, "TRANSITIONS", {**intents.TRANSITIONS, intents.State.IN_DOUBT: moves})


def undoing_retried(patch: pytest.MonkeyPatch) -> None:
    """An undoing of which nobody knows is approved still, so that a machine sends it again."""
    original = deciding.report

    def report(state: State, *facts: Any, **more: Any) -> deciding.Recorded:
        recorded = original(state, *facts, **more)
        is_new_doubt = recorded.state is State.IN_DOUBT and state is State.IN_FLIGHT
        return replace(recorded, state=State.APPROVED) if is_new_doubt else recorded

    patch.setattr(deciding, "report", report)


def replica_only_grant(patch: pytest.MonkeyPatch) -> None:
    """A grant lets the witness act alone."""
    original = grants.why_not_covering

    def why_not_covering(grant: Grant, *, path: str, **more: Any) -> str | None:
        del path
        return original(grant, path=grant.path, **more)

    patch.setattr(fence, "why_not_covering", why_not_covering)


def committed_step_replayed(patch: pytest.MonkeyPatch) -> None:
    """A replay asks whether its step was decided, and not whether it is committed."""
    original = intake.judge_replay

    def judge_replay(known: Any, **more: Any) -> Any:
        return original([replace(each, commit=None) for each in known], **more)

    patch.setattr(intake, "judge_replay", judge_replay)
    patch.setattr(intake, "may_be_replayed", lambda _phase, _reason: True)


def escape_adopted_by_itself(patch: pytest.MonkeyPatch) -> None:
    """A commit of what happened without authority is told that its effect is there."""
    original = intents.admit

    def admit(intent: Intent, *, has_open_escape: bool = False, **more: Any) -> Any:
        return intents.Settled(state=intents.State.SUCCEEDED) if has_open_escape else original(intent, **more)

    patch.setattr(intents, "admit", admit)


def escape_taken_for_ours(patch: pytest.MonkeyPatch) -> None:
    """A ledger row with a key that nobody gave is matched by its payload."""
    original = ledgers.match

    def match(seen: Seen, *, of_key: Wanted | None, **more: Any) -> Matched:
        return original(seen if of_key is not None else replace(seen, key=None), of_key=of_key, **more)

    patch.setattr(ledgers, "match", match)


def doubled_row_ignored(patch: pytest.MonkeyPatch) -> None:
    """A second ledger row of one key is taken for the first."""
    original = ledgers.match

    def match(seen: Seen, *, of_key: Wanted | None, **more: Any) -> Matched:
        return original(seen, of_key=None if of_key is None else replace(of_key, has_effect=False), **more)

    patch.setattr(ledgers, "match", match)


def lost_branch_keeps_its_commits(patch: pytest.MonkeyPatch) -> None:
    """What a lost branch committed and did not send stays committed."""
    original = fence.lost_authority

    def lost_authority(*facts: Any, **more: Any) -> Reason | None:
        reason = original(*facts, **more)
        return None if reason is Reason.BRANCH_LOST else reason

    patch.setattr(fence, "lost_authority", lost_authority)


def losers_effect_forgotten(patch: pytest.MonkeyPatch) -> None:
    """What a lost branch sent is rolled back in words alone."""
    patch.setattr(undoing, "is_owed", lambda _intent, _newest, **_more: False)


def request_approved_by_who_asked(patch: pytest.MonkeyPatch) -> None:
    """Who asked for an undoing approves it, too."""
    patch.setattr(deciding, "why_not", lambda _undoing, _person: None)


def one_approval_for_everything(patch: pytest.MonkeyPatch) -> None:
    """The first person who approves decides."""
    original = deciding.approve
    patch.setattr(deciding, "approve", lambda facts, **more: original(replace(facts, needed=1), **more))


def another_payload_undone(patch: pytest.MonkeyPatch) -> None:
    """A token of an approval lets any call through."""
    original = approvals.judge

    def judge(call: approvals.Call, *, payload: str, **more: Any) -> Refusal | None:
        del payload
        return original(call, payload=call.action.payload_digest, **more)

    patch.setattr(approvals, "judge", judge)


def lapsed_approval_used(patch: pytest.MonkeyPatch) -> None:
    """The token of an approval lets calls through after the approval lapsed."""
    original = approvals.judge

    def judge(call: approvals.Call, *, is_current: bool, state: State, **more: Any) -> Refusal | None:
        del is_current
        return original(call, is_current=True, state=State.APPROVED if state in approvals.LAPSED else state, **more)

    patch.setattr(approvals, "judge", judge)
    table = compensations.TRANSITIONS
    moves = {state: {**table[state], State.IN_FLIGHT: "by an old token"} for state in State}
    patch.setattr(compensations, "TRANSITIONS", moves)


def unknown_effect_undone(patch: pytest.MonkeyPatch) -> None:
    """An undoing is approved before anybody knows that there is something to undo."""
    patch.setattr(deciding, "_known", lambda _undoing: None)


SIXTEEN: tuple[Plant, ...] = (
    intent_of_the_first_branch,
    undone_key_never_sent_again,
    branch_gate_ignored,
    ancestors_ignored,
    two_winners,
    undoing_not_withdrawn,
    undoing_not_held,
    doubt_retried,
    undoing_retried,
    replica_only_grant,
    committed_step_replayed,
    escape_adopted_by_itself,
    escape_taken_for_ours,
    lost_branch_keeps_its_commits,
    losers_effect_forgotten,
    one_approval_for_everything,
)
KIN: tuple[Plant, ...] = (
    doubled_row_ignored,
    request_approved_by_who_asked,
    another_payload_undone,
    lapsed_approval_used,
    unknown_effect_undone,
)
