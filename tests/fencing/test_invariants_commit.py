"""I1: no commit without equal digests of all required paths, or a live grant that covers the one path."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from fencing.models import Action, Grant, Step, ToolVersion
from fencing.models.fields import uuid7
from tests import factories as make
from tests.factories import PATHS, soon
from tests.fencing.breaking import allowed, forbidden, refused
from tests.fencing.conftest import Connection
from tests.stores import SqlStore


def proposed(store: SqlStore, *paths: str, **tool: Any) -> tuple[Step, Action, ToolVersion]:
    """Propose a step on which the named paths voted the same refund."""
    registered = make.make_tool(store=store, **tool)
    step = make.make_step(tool=registered, store=store)
    action = make.make_action(tool=registered, store=store)
    make.make_votes(step=step, action=action, paths=paths, store=store)
    return step, action, registered


def covering(store: SqlStore, step: Step, **values: Any) -> Grant:
    return make.make_grant(run=step.run, store=store, **{"step_name": step.name, **values})


# ---- by agreement (F3 row 2) ----


def test_all_required_paths_together_commit(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, *PATHS)
    with allowed(fencer):
        make.make_commit(step=step, action=action, store=as_fencer)


@pytest.mark.parametrize("paths", [(), ("production",), ("replica",), ("production", "third")])
def test_less_than_all_required_paths_do_not(paths: tuple[str, ...], fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, *paths)
    with refused(fencer, by="commit_by_agreement" if paths else "commit_one_digest"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_an_abstention_is_no_vote(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, "production")
    make.make_vote(step=step, path="replica", store=as_fencer)
    with refused(fencer, by="commit_by_agreement"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_two_votes_of_one_path_are_one_path(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, "production")
    make.make_vote(step=step, path="production", digest=action.payload_digest, store=as_fencer)
    with refused(fencer, by="commit_by_agreement"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_a_tool_may_require_more_paths(fencer: Connection, as_fencer: SqlStore) -> None:
    policy = {"required_paths": ["production", "replica", "third"]}
    step, action, _ = proposed(as_fencer, *PATHS, policy=policy)
    with refused(fencer, by="commit_by_agreement"):
        make.make_commit(step=step, action=action, store=as_fencer)
    make.make_vote(step=step, path="third", action=action, store=as_fencer)
    with allowed(fencer):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_the_tool_counts_as_the_steps_registry_knew_it(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, tool = proposed(as_fencer, *PATHS, policy={"required_paths": [*PATHS, "third"]})
    make.make_tool(tool=tool.tool, version=2, store=as_fencer)
    with refused(fencer, by="commit_by_agreement"):
        make.make_commit(step=step, action=action, store=as_fencer)


# ---- visible divergence (F3 row 1) ----


@pytest.mark.parametrize("path", ["production", "replica", "third"])
@pytest.mark.parametrize("is_granted", [False, True])
def test_another_digest_beats_agreement_and_grant(
    path: str, is_granted: bool, fencer: Connection, as_fencer: SqlStore
) -> None:
    step, action, tool = proposed(as_fencer, *PATHS)
    other = make.make_action(tool=tool, invoice=9, cents=4300, store=as_fencer)
    make.make_vote(step=step, path=path, action=other, store=as_fencer)
    grant = covering(as_fencer, step) if is_granted else None
    for committed in (action, other):
        with refused(fencer, by="commit_one_digest"):
            make.make_commit(step=step, action=committed, grant=grant, store=as_fencer)


def test_a_digest_alone_diverges_too(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, *PATHS)
    make.make_vote(step=step, path="third", digest=make.NO_DIGEST, store=as_fencer)
    with refused(fencer, by="commit_one_digest"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_the_pinned_digest_counts(fencer: Connection, as_fencer: SqlStore) -> None:
    tool = make.make_tool(store=as_fencer)
    pinned = make.make_action(tool=tool, invoice=9, cents=4300, store=as_fencer)
    step = make.make_step(tool=tool, pinned=pinned, store=as_fencer)
    action = make.make_action(tool=tool, store=as_fencer)
    make.make_votes(step=step, action=action, store=as_fencer)
    with refused(fencer, by="commit_one_digest"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_the_pinned_tool_counts(fencer: Connection, as_fencer: SqlStore) -> None:
    tool = make.make_tool(store=as_fencer)
    step = make.make_step(tool=tool, pinned_tool="another", store=as_fencer)
    action = make.make_action(tool=tool, store=as_fencer)
    make.make_votes(step=step, action=action, store=as_fencer)
    with refused(fencer, by="commit_one_digest"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_a_vote_that_names_another_tool_diverges(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, *PATHS)
    make.make_vote(step=step, path="third", digest=action.payload_digest, tool="another", store=as_fencer)
    with refused(fencer, by="commit_one_digest"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_the_commit_is_of_the_digest_that_was_voted(fencer: Connection, as_fencer: SqlStore) -> None:
    step, _, tool = proposed(as_fencer, *PATHS)
    other = make.make_action(tool=tool, invoice=9, cents=4300, store=as_fencer)
    with refused(fencer, by="commit_one_digest"):
        make.make_commit(step=step, action=other, store=as_fencer)


# ---- what is committed ----


@pytest.mark.parametrize("fault", ["unknown_tool", "invalid_args"])
def test_what_can_never_be_committed_is_not(fault: str, fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, "production")
    make.make_vote(step=step, path="replica", action=action, fault=fault, store=as_fencer)
    with refused(fencer, by="commit_without_fault"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_an_unregistered_tool_does_not_commit(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    action = make.make_action(tool="nobody-registered-this", store=as_fencer)
    make.make_votes(step=step, action=action, store=as_fencer)
    with refused(fencer, by="commit_of_a_known_tool"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_a_tool_that_was_registered_later_does_not_commit(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    action = make.make_action(tool=make.make_tool(store=as_fencer), store=as_fencer)
    make.make_votes(step=step, action=action, store=as_fencer)
    with refused(fencer, by="commit_of_a_known_tool"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_a_read_only_tool_does_not_commit(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, *PATHS, effect="read_only")
    with refused(fencer, by="commit_of_an_effect"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_the_payload_is_an_action_of_the_tool(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, *PATHS)
    other = make.make_action(tool="another", store=as_fencer)
    with refused(fencer, by="commit_payload"):
        make.make_commit(step=step, action=action, payload=other, store=as_fencer)


def test_the_payload_is_what_was_voted(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, tool = proposed(as_fencer, *PATHS)
    other = make.make_action(tool=tool, invoice=9, cents=4300, store=as_fencer)
    with refused(fencer, by="commit_payload"):
        make.make_commit(step=step, action=action, payload=other, store=as_fencer)


def prose(store: SqlStore, **tool: Any) -> tuple[Step, dict[str, Action]]:
    """Propose a mail on which both paths agree but for the advisory prose."""
    registered = make.make_tool(store=store, advisory=["/body"], **tool)
    step = make.make_step(tool=registered, store=store)
    drafts = {path: make.make_action(tool=registered, to="a@b", body=f"by {path}", store=store) for path in PATHS}
    for path, draft in drafts.items():
        make.make_vote(step=step, path=path, action=draft, digest=make.NO_DIGEST, store=store)
    return step, drafts


def test_advisory_prose_is_the_trusted_paths(fencer: Connection, as_fencer: SqlStore) -> None:
    step, drafts = prose(as_fencer)
    with refused(fencer, by="commit_payload"):
        make.make_commit(step=step, action=drafts["replica"], fence_digest=make.NO_DIGEST, store=as_fencer)
    with allowed(fencer):
        make.make_commit(step=step, action=drafts["production"], fence_digest=make.NO_DIGEST, store=as_fencer)


def test_advisory_prose_under_a_grant_is_the_granted_paths(fencer: Connection, as_fencer: SqlStore) -> None:
    step, drafts = prose(as_fencer)
    grant = covering(as_fencer, step)
    with refused(fencer, by="commit_payload"):
        make.make_commit(step=step, action=drafts["replica"], grant=grant, fence_digest=make.NO_DIGEST, store=as_fencer)


@pytest.mark.parametrize(
    "wrong", [{"epoch": 2}, {"step_name": "another"}, {"run": "another"}], ids=["epoch", "step", "run"]
)
def test_a_commit_repeats_its_steps_identity(wrong: dict[str, Any], fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, *PATHS)
    values: dict[str, Any] = {"run": make.make_run(store=as_fencer)} if "run" in wrong else wrong
    with refused(fencer, by="commit_of_its_step"):
        make.make_commit(step=step, action=action, store=as_fencer, **values)


@pytest.mark.parametrize("wrong", ["key", "digest", "run"])
def test_a_commit_is_of_its_intent(wrong: str, fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, *PATHS)
    digest = make.NO_DIGEST if wrong == "digest" else action.payload_digest
    other = make.make_step(store=as_fencer) if wrong == "run" else step
    intent = make.make_intent(step=other, digest=digest, store=as_fencer)
    key = "another" if wrong == "key" else intent.key
    with refused(fencer, by="commit_of_its_intent"):
        make.make_commit(
            step=step, action=action, intent=intent, key=key, fence_digest=action.payload_digest, store=as_fencer
        )


@pytest.mark.parametrize("phase", ["rejected", "exempt"])
def test_a_decided_step_does_not_commit(phase: str, fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, *PATHS)
    as_fencer.update(step, phase=phase, reason="timeout")
    with refused(fencer, by="commit_of_an_undecided_step"):
        make.make_commit(step=step, action=action, store=as_fencer)


def test_a_step_commits_once_even_when_its_commit_was_closed(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = proposed(as_fencer, *PATHS)
    first = make.make_commit(step=step, action=action, store=as_fencer)
    as_fencer.update(first, closed_at=soon(0), closed_reason="late_divergence")
    second = copy(first)
    second.id, second.closed_at, second.closed_reason = uuid7(), None, None
    with refused(fencer, by="fencing_commit_step_id_key"):
        as_fencer.insert(second)


def test_a_run_and_step_have_one_standing_commit_over_all_epochs(fencer: Connection, as_fencer: SqlStore) -> None:
    first = make.make_committed_step(store=as_fencer)
    with refused(fencer, by="commit_stands_once"):
        make.make_committed_step(run=first.run, name=first.step_name, epoch=2, store=as_fencer)
    as_fencer.update(first, closed_at=soon(0), closed_reason="effect_failed")
    with allowed(fencer):
        make.make_committed_step(run=first.run, name=first.step_name, epoch=2, store=as_fencer)


def test_a_commit_does_not_open_again(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    as_fencer.update(commit, closed_at=soon(0), closed_reason="late_divergence")
    for values in ({"closed_at": None, "closed_reason": None}, {"closed_at": soon(5)}, {"closed_reason": "other"}):
        with refused(fencer, by="written_once"):
            as_fencer.update(commit, **values)


def test_a_commit_is_closed_with_a_reason(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    for values in ({"closed_at": soon(0)}, {"closed_reason": "late_divergence"}):
        with refused(fencer, by="commit_closed_with_a_reason"):
            as_fencer.update(commit, **values)


def test_the_application_cannot_commit(app: Connection) -> None:
    store = SqlStore(connection=app)
    step, action, _ = proposed(store, *PATHS)
    with forbidden(app):
        make.make_commit(step=step, action=action, store=store)


def test_a_snapshot_that_is_older_than_the_votes_does_not_commit(fencer: Connection, as_fencer: SqlStore) -> None:
    fencer.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    step, action, _ = proposed(as_fencer, *PATHS)
    with refused(fencer, by="commit_sees_every_vote"):
        make.make_commit(step=step, action=action, store=as_fencer)


# ---- gaining agreement (F7) ----


def test_a_grants_commit_gains_agreement_by_the_missing_vote_alone(fencer: Connection, as_fencer: SqlStore) -> None:
    run, tool = make.make_run(store=as_fencer), make.make_tool(store=as_fencer)
    grant = make.make_grant(run=run, tool=tool, store=as_fencer)
    commit = make.make_committed_step(run=run, tool=tool, grant=grant, store=as_fencer)
    with refused(fencer, by="commit_gains_agreement"):
        as_fencer.update(commit, authority="both")
    make.make_vote(step=commit.step, path="replica", action=commit.payload, store=as_fencer)
    with allowed(fencer):
        as_fencer.update(commit, authority="both")
    with refused(fencer, by="commit_gains_agreement"):
        as_fencer.update(commit, authority="grant")


def test_a_grants_commit_does_not_gain_agreement_beside_another_digest(fencer: Connection, as_fencer: SqlStore) -> None:
    run, tool = make.make_run(store=as_fencer), make.make_tool(store=as_fencer)
    grant = make.make_grant(run=run, tool=tool, store=as_fencer)
    commit = make.make_committed_step(run=run, tool=tool, grant=grant, store=as_fencer)
    make.make_vote(step=commit.step, path="replica", action=commit.payload, store=as_fencer)
    make.make_vote(step=commit.step, path="third", digest=make.NO_DIGEST, store=as_fencer)
    with refused(fencer, by="commit_gains_agreement"):
        as_fencer.update(commit, authority="both")


def test_the_application_cannot_add_agreement(app: Connection) -> None:
    with forbidden(app):
        app.execute("UPDATE fencing_commit SET authority = 'both'")
