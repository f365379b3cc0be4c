"""F1, F3, F7, F9, R1: how steps, votes and runs may change."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from fencing.models import EpochOpening, Step
from fencing.protocol.canonical import canonical_bytes, digest_of
from fencing.protocol.fence import TRANSITIONS, Phase
from tests import factories as make
from tests.factories import soon
from tests.fencing.breaking import allowed, refused
from tests.fencing.conftest import Connection
from tests.stores import SqlStore

# How a step gets to a phase by the moves that the protocol allows.
WAY_TO = {
    Phase.IDLE: [],
    Phase.PROPOSED: [],
    Phase.EXEMPT: [],
    Phase.AGREED: ["agreed"],
    Phase.FENCED: ["fenced"],
    Phase.COMMITTED: ["committed"],
    Phase.REJECTED: ["rejected"],
}
# What only the fencer may move a step to (F9).
GIVES_AUTHORITY = (Phase.AGREED, Phase.FENCED, Phase.COMMITTED)
MOVES = list(itertools.permutations(Phase, 2))


def step_in(phase: Phase, store: SqlStore) -> Step:
    begins = phase.value if phase in (Phase.IDLE, Phase.EXEMPT) else "proposed"
    step = make.make_step(phase=begins, store=store)
    for way in WAY_TO[phase]:
        move(step, way, store)
    return step


def move(step: Step, phase: str, store: SqlStore) -> None:
    values: dict[str, object] = {"phase": phase, "reason": "agreement"}
    if phase == "fenced":
        grant = make.make_grant(run=step.run, tool="refund", store=store)
        values |= {"fenced_by": grant, "fenced_at": soon(0), "reason": "grant"}
    if phase not in ("idle", "rejected") and step.proposed_at is None:
        values |= {"proposed_at": soon(0), "registry": 1, "deadline_at": soon(60)}
    store.update(step, **values)


@pytest.mark.parametrize(("old", "new"), [move for move in MOVES if move[1] in TRANSITIONS[move[0]]])
def test_a_step_moves_as_the_protocol_says(old: Phase, new: Phase, fencer: Connection, as_fencer: SqlStore) -> None:
    step = step_in(old, as_fencer)
    with allowed(fencer):
        move(step, new.value, as_fencer)


@pytest.mark.parametrize(("old", "new"), [move for move in MOVES if move[1] not in TRANSITIONS[move[0]]])
def test_a_step_moves_in_no_other_way(old: Phase, new: Phase, fencer: Connection, as_fencer: SqlStore) -> None:
    step = step_in(old, as_fencer)
    is_final = old in (Phase.REJECTED, Phase.EXEMPT)
    with refused(fencer, by="step_final" if is_final else "step_moves"):
        move(step, new.value, as_fencer)


@pytest.mark.parametrize("phase", [Phase.REJECTED, Phase.EXEMPT])
def test_what_is_decided_for_good_keeps_its_reason_and_moment(
    phase: Phase, fencer: Connection, as_fencer: SqlStore
) -> None:
    step = step_in(phase, as_fencer)
    for values in ({"reason": "timeout"}, {"decided_at": soon(0)}):
        with refused(fencer, by="step_final"):
            as_fencer.update(step, **values)
    with allowed(fencer):
        as_fencer.update(step, difference="other_args", due_at=None)


def test_a_committed_step_keeps_its_reason_until_its_effect_fails(fencer: Connection, as_fencer: SqlStore) -> None:
    step = step_in(Phase.COMMITTED, as_fencer)
    with refused(fencer, by="step_moves"):
        as_fencer.update(step, reason="grant")
    with allowed(fencer):
        as_fencer.update(step, reason="effect_failed")
    for values in ({"reason": "agreement"}, {"phase": "rejected"}):
        with refused(fencer, by="step_final"):
            as_fencer.update(step, **values)


@pytest.mark.parametrize("phase", ["agreed", "fenced", "committed", "rejected"])
def test_a_step_begins_undecided(phase: str, fencer: Connection, as_fencer: SqlStore) -> None:
    with refused(fencer, by="step_begins"):
        make.make_step(phase=phase, store=as_fencer)


@pytest.mark.parametrize("phase", GIVES_AUTHORITY)
def test_the_application_gives_no_authority(phase: Phase, app: Connection) -> None:
    store = SqlStore(connection=app)
    step = make.make_step(store=store)
    with refused(app, by="step_decided_by_the_fencer"):
        move(step, phase.value, store)


def test_the_application_may_take_authority_away(app: Connection) -> None:
    store = SqlStore(connection=app)
    step = make.make_step(store=store)
    with allowed(app):
        move(step, "rejected", store)


PROPOSAL = {
    "branch": "b1",
    "registry": 1,
    "pinned_digest": make.NO_DIGEST,
    "pinned_tool": "another",
    "key": "another",
    "occurrence": 1,
    "deadline_s": 7.0,
    "content_digest": make.NO_DIGEST,
    "context_ref": "another",
    "proposed_at": None,
}


@pytest.mark.parametrize("column", PROPOSAL)
def test_a_proposal_never_changes(column: str, fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    with refused(fencer, by="step_proposal_fixed"):
        as_fencer.update(step, **{column: PROPOSAL[column]})


def test_an_idle_step_takes_its_proposal(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(phase="idle", store=as_fencer)
    with allowed(fencer):
        as_fencer.update(step, phase="proposed", deadline_at=soon(60), **{**PROPOSAL, "proposed_at": soon(0)})


def test_the_deadline_of_a_decided_step_is_history(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    with allowed(fencer):
        as_fencer.update(step, deadline_at=soon(5))
    move(step, "rejected", as_fencer)
    with refused(fencer, by="step_deadline_fixed"):
        as_fencer.update(step, deadline_at=soon(500))


@pytest.mark.parametrize("column", ["proposed_at", "registry", "deadline_at"])
def test_a_proposed_step_has_its_proposal(column: str, fencer: Connection, as_fencer: SqlStore) -> None:
    missing: dict[str, Any] = {column: None}
    with refused(fencer, by="step_proposed_or_idle"):
        make.make_step(store=as_fencer, **missing)


def test_a_fenced_step_names_its_grant(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    with refused(fencer, by="step_fenced_by_a_grant"):
        as_fencer.update(step, phase="fenced", reason="grant", fenced_at=soon(0))


def test_there_is_one_step_for_a_run_name_and_epoch(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    with refused(fencer, by="step_once"):
        make.make_step(run=step.run, name=step.name, store=as_fencer)


# ---- votes ----


def test_a_vote_on_a_step_that_nobody_proposed_is_refused(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(phase="idle", store=as_fencer)
    with refused(fencer, by="vote_on_a_proposal"):
        make.make_vote(step=step, digest=make.NO_DIGEST, store=as_fencer)


def test_a_vote_lies_in_the_run_of_its_step(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    with refused(fencer, by="vote_in_its_run"):
        make.make_vote(step=step, digest=make.NO_DIGEST, run_id=make.make_run(store=as_fencer).pk, store=as_fencer)


def test_the_same_vote_is_stored_once(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    for _ in range(2):
        with refused(fencer, by="vote_once"):
            make.make_vote(step=step, digest=make.NO_DIGEST, store=as_fencer)
            make.make_vote(step=step, digest=make.NO_DIGEST, store=as_fencer)
        with refused(fencer, by="vote_once"):
            make.make_vote(step=step, store=as_fencer)
            make.make_vote(step=step, store=as_fencer)


def test_a_vote_has_a_digest_or_abstains(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    for values in ({"abstain": None}, {"digest": make.NO_DIGEST, "abstain": "both"}):
        with refused(fencer, by="vote_or_abstention"):
            make.make_vote(step=step, store=as_fencer, **values)


def test_a_vote_with_an_action_names_its_tool(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    with refused(fencer, by="vote_payload_names_its_tool"):
        make.make_vote(step=step, action=make.make_action(tool="refund", store=as_fencer), tool=None, store=as_fencer)


# ---- runs and actions ----


@pytest.mark.parametrize("values", [{"epoch": 2}, {"counter": 3}, {"epoch": 2, "counter": 3}])
def test_the_numbers_of_a_run_only_grow(values: dict[str, int], fencer: Connection, as_fencer: SqlStore) -> None:
    run = make.make_run(epoch=3, counter=4, first_epoch=1, store=as_fencer)
    with refused(fencer, by="run_numbers_grow"):
        as_fencer.update(run, **values)
    with allowed(fencer):
        as_fencer.update(run, epoch=5, counter=5)


@pytest.mark.parametrize(
    ("values", "by"),
    [({"counter": 2}, "run_counter_not_below_epoch"), ({"first_epoch": 4}, "run_epoch_only_grows")],
)
def test_the_numbers_of_a_run_fit_each_other(
    values: dict[str, Any], by: str, fencer: Connection, as_fencer: SqlStore
) -> None:
    with refused(fencer, by=by):
        make.make_run(epoch=3, store=as_fencer, **values)


@pytest.mark.parametrize(("kind", "by"), [("replay", "epoch_replay_once"), ("restart", "epoch_restart_once")])
def test_of_two_openings_from_the_same_epoch_there_is_one(
    kind: str, by: str, fencer: Connection, as_fencer: SqlStore
) -> None:
    run = make.make_run(store=as_fencer)
    make.make_opening(run=run, number=2, kind=kind, step_name="s1", from_epoch=1, store=as_fencer)
    with refused(fencer, by=by):
        make.make_opening(run=run, number=3, kind=kind, step_name="s1", from_epoch=1, store=as_fencer)
    with refused(fencer, by="epoch_opened_by_somebody"):
        as_fencer.insert(EpochOpening(run=run, number=4, kind="start"))
    with refused(fencer, by="epoch_number_once"):
        make.make_opening(run=run, number=2, kind="replay", step_name="s2", from_epoch=1, store=as_fencer)


def test_an_actions_digest_is_made_of_its_bytes(fencer: Connection, as_fencer: SqlStore) -> None:
    action = make.make_action(tool="refund", store=as_fencer)
    action.payload_digest = make.NO_DIGEST
    with refused(fencer, by="action_digest_is_its_own"):
        as_fencer.insert(action)


def test_a_tool_has_each_version_once(fencer: Connection, as_fencer: SqlStore) -> None:
    tool = make.make_tool(store=as_fencer)
    with refused(fencer, by="tool_version_once"):
        make.make_tool(tool=tool.tool, version=tool.version, store=as_fencer)


def test_a_tool_requires_a_path(fencer: Connection, as_fencer: SqlStore) -> None:
    tool = make.make_tool(store=as_fencer)
    definition = json.loads(bytes(tool.definition))
    definition["policy"]["required_paths"] = []
    canonical = canonical_bytes(definition)
    tool.pk, tool.version, tool.required_paths = None, 2, []
    tool.definition, tool.digest = canonical, digest_of(canonical)
    with refused(fencer, by="tool_requires_a_path"):
        as_fencer.insert(tool)
