"""I1 and G1 to G6: what a grant covers, how long it lives, and that its uses are counted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fencing.models import Action, Grant, GrantUse, Step, ToolVersion
from tests import factories as make
from tests.factories import soon
from tests.fencing.breaking import allowed, forbidden, refused
from tests.fencing.conftest import Connection
from tests.stores import SqlStore


def alone(store: SqlStore, path: str = "production", **tool: Any) -> tuple[Step, Action, ToolVersion]:
    """Propose a step on which one path voted."""
    registered = make.make_tool(store=store, **tool)
    step = make.make_step(tool=registered, store=store)
    action = make.make_action(tool=registered, store=store)
    make.make_vote(step=step, path=path, action=action, store=store)
    return step, action, registered


def covering(store: SqlStore, step: Step, **values: Any) -> Grant:
    return make.make_grant(run=step.run, store=store, **{"step_name": step.name, **values})


# ---- what it covers ----


def test_a_live_grant_lets_the_one_path_act(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, tool = alone(as_fencer)
    with allowed(fencer):
        grant = covering(as_fencer, step, tool=tool)
        make.make_commit(step=step, action=action, grant=grant, store=as_fencer)


OUT_OF_SCOPE: dict[str, dict[str, Any]] = {
    "another run": {},
    "another epoch": {"epoch": 2},
    "another step": {"step_name": "another"},
    "another tool": {"tool": "another"},
    "another path": {"path": "replica"},
    "another digest": {"digest": make.NO_DIGEST},
}


@pytest.mark.parametrize("how", OUT_OF_SCOPE)
def test_a_grant_for_something_else_covers_nothing(how: str, fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer)
    run = make.make_run(store=as_fencer) if how == "another run" else step.run
    grant = make.make_grant(run=run, store=as_fencer, **{"step_name": step.name, **OUT_OF_SCOPE[how]})
    with refused(fencer, by="commit_in_the_grants_scope"):
        make.make_commit(step=step, action=action, grant=grant, store=as_fencer)


def test_a_witness_acts_alone_only_with_its_exact_digest(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer, path="replica")
    vague = covering(as_fencer, step, path="replica")
    with refused(fencer, by="commit_in_the_grants_scope"):
        make.make_commit(step=step, action=action, grant=vague, store=as_fencer)
    exact = covering(as_fencer, step, path="replica", digest=action.payload_digest)
    with allowed(fencer):
        make.make_commit(step=step, action=action, grant=exact, store=as_fencer)


def test_a_grant_of_a_closed_epoch_covers_nothing(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer)
    grant = covering(as_fencer, step)
    as_fencer.update(step.run, epoch=2, counter=2)
    with refused(fencer, by="commit_in_the_grants_scope"):
        make.make_commit(step=step, action=action, grant=grant, store=as_fencer)


# ---- whether it lives ----

DEAD: dict[str, Callable[[], dict[str, Any]]] = {
    "revoked": lambda: {"revoked_at": soon(0)},
    "voided": lambda: {"voided_at": soon(0)},
    "seen to be over": lambda: {"expired_at": soon(0)},
    "pending": lambda: {"live_at": None, "expires_at": None},
    "expired": lambda: {"live_at": soon(-62), "expires_at": soon(-3)},
}


@pytest.mark.parametrize("how", DEAD)
def test_a_grant_that_is_not_live_covers_nothing(how: str, fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer)
    grant = covering(as_fencer, step, **DEAD[how]())
    with refused(fencer, by="commit_under_a_live_grant"):
        make.make_commit(step=step, action=action, grant=grant, store=as_fencer)


def test_a_grant_is_over_at_the_very_instant_it_ends(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer)
    now = fencer.execute("SELECT clock_timestamp()").fetchone()
    assert now is not None
    grant = covering(as_fencer, step, live_at=now[0] - timedelta(seconds=60), expires_at=now[0])
    with refused(fencer, by="commit_under_a_live_grant"):
        make.make_commit(step=step, action=action, grant=grant, store=as_fencer)


def test_a_grant_that_expires_while_its_transaction_is_open_is_over(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer)
    grant = covering(as_fencer, step, expires_at=soon(0.3))
    fencer.execute("SELECT pg_sleep(0.4)")
    with refused(fencer, by="commit_under_a_live_grant"):
        make.make_commit(step=step, action=action, grant=grant, store=as_fencer)


def test_a_grant_longer_than_the_tool_allows_covers_nothing(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer, policy={"max_grant_ttl_s": 10})
    grant = covering(as_fencer, step, ttl_s=11)
    with refused(fencer, by="commit_under_a_live_grant"):
        make.make_commit(step=step, action=action, grant=grant, store=as_fencer)


def test_a_dangerous_tool_asks_for_a_second_person(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer, policy={"grant_approvals": 2})
    grant = covering(as_fencer, step)
    with refused(fencer, by="commit_under_a_live_grant"):
        make.make_commit(step=step, action=action, grant=grant, store=as_fencer)
    make.make_approval(grant=grant, store=as_fencer)
    with allowed(fencer):
        make.make_commit(step=step, action=action, grant=grant, store=as_fencer)


def test_the_issuer_does_not_approve_and_nobody_twice(fencer: Connection, as_fencer: SqlStore) -> None:
    grant = make.make_grant(run=make.make_run(store=as_fencer), tool="wire", store=as_fencer)
    with refused(fencer, by="grant_approved_by_another"):
        make.make_approval(grant=grant, person=grant.issuer, store=as_fencer)
    person = make.make_approval(grant=grant, store=as_fencer).person
    with refused(fencer, by="grant_approval_once"):
        make.make_approval(grant=grant, person=person, store=as_fencer)


LIVES_WRONG: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "starts in the future": ("grant_lives_from_now", lambda: {"live_at": soon(30), "expires_at": soon(60)}),
    "ends too late": ("grant_lives_its_ttl", lambda: {"live_at": soon(-1), "expires_at": soon(61)}),
}


@pytest.mark.parametrize("how", LIVES_WRONG)
def test_the_life_of_a_grant_is_what_was_asked_for(how: str, fencer: Connection, as_fencer: SqlStore) -> None:
    by, values = LIVES_WRONG[how]
    run = make.make_run(store=as_fencer)
    with refused(fencer, by=by):
        make.make_grant(run=run, tool="refund", ttl_s=60, store=as_fencer, **values())
    pending = make.make_grant(run=run, tool="refund", ttl_s=60, live_at=None, expires_at=None, store=as_fencer)
    with refused(fencer, by=by):
        as_fencer.update(pending, **values())


@pytest.mark.parametrize("column", ["live_at", "expires_at", "expired_at", "revoked_at", "voided_at"])
def test_what_ends_a_grant_is_written_once(column: str, fencer: Connection, as_fencer: SqlStore) -> None:
    grant = make.make_grant(
        run=make.make_run(store=as_fencer),
        tool="refund",
        expired_at=soon(0),
        revoked_at=soon(0),
        voided_at=soon(0),
        store=as_fencer,
    )
    for value in (None, soon(-0.1)):
        with refused(fencer, by="written_once"):
            as_fencer.update(grant, **{column: value})


# ---- its uses (G3) ----


def test_a_commit_under_a_grant_takes_a_use(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer)
    grant = covering(as_fencer, step, max_uses=2)
    with allowed(fencer):
        commit = make.make_commit(step=step, action=action, grant=grant, store=as_fencer)
    row = fencer.execute("SELECT uses, max_uses FROM fencing_grant WHERE id = %s", [grant.pk]).fetchone()
    assert row == (1, 2)
    with refused(fencer, by="fencing_grantuse_commit_id_key"):
        make.make_grant_use(grant=grant, commit=commit, store=as_fencer)


def test_a_commit_under_a_grant_without_its_use_is_refused_at_the_end(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer)
    grant = covering(as_fencer, step)
    with refused(fencer, by="commit_takes_a_use"):
        make.make_commit(step=step, action=action, grant=grant, takes_use=False, store=as_fencer)
    with refused(fencer, by="commit_takes_a_use"):
        make.make_commit(step=step, action=action, grant=grant, takes_use=False, store=as_fencer)
        as_fencer.update(grant, uses=1)


def test_a_use_that_is_not_counted_is_refused_at_the_end(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer)
    grant = covering(as_fencer, step)
    with refused(fencer, by="grant_uses_counted"):
        commit = make.make_commit(step=step, action=action, grant=grant, takes_use=False, store=as_fencer)
        as_fencer.insert(GrantUse(grant=grant, commit=commit))


def test_a_count_without_a_use_is_refused_at_the_end(fencer: Connection, as_fencer: SqlStore) -> None:
    grant = make.make_grant(run=make.make_run(store=as_fencer), tool="refund", store=as_fencer)
    with refused(fencer, by="grant_uses_counted"):
        as_fencer.update(grant, uses=1)


def test_a_use_is_of_the_commits_own_grant(fencer: Connection, as_fencer: SqlStore) -> None:
    step, action, _ = alone(as_fencer)
    grant, other = covering(as_fencer, step), covering(as_fencer, step, path="replica", digest=make.NO_DIGEST)
    with refused(fencer, by="grant_use_of_its_commit"):
        commit = make.make_commit(step=step, action=action, grant=grant, takes_use=False, store=as_fencer)
        make.make_grant_use(grant=other, commit=commit, store=as_fencer)


def test_the_uses_of_a_grant_never_exceed_its_limit(fencer: Connection, as_fencer: SqlStore) -> None:
    run, tool = make.make_run(store=as_fencer), make.make_tool(store=as_fencer)
    grant = make.make_grant(run=run, tool=tool, max_uses=2, store=as_fencer)
    for _ in range(2):
        with allowed(fencer):
            make.make_committed_step(run=run, tool=tool, grant=grant, store=as_fencer)
    with refused(fencer, by="grant_uses_within_limit"):
        make.make_committed_step(run=run, tool=tool, grant=grant, store=as_fencer)


def test_a_use_is_never_given_back(fencer: Connection, as_fencer: SqlStore) -> None:
    run, tool = make.make_run(store=as_fencer), make.make_tool(store=as_fencer)
    grant = make.make_grant(run=run, tool=tool, max_uses=5, store=as_fencer)
    make.make_committed_step(run=run, tool=tool, grant=grant, store=as_fencer)
    with refused(fencer, by="grant_use_never_given_back"):
        as_fencer.update(grant, uses=0)


def test_a_batch_may_take_several_uses_in_one_update(fencer: Connection, as_fencer: SqlStore) -> None:
    run, tool = make.make_run(store=as_fencer), make.make_tool(store=as_fencer)
    grant = make.make_grant(run=run, tool=tool, max_uses=2, store=as_fencer)
    with allowed(fencer):
        for _ in range(2):
            step = make.make_step(run=run, tool=tool, store=as_fencer)
            action = make.make_action(tool=tool, store=as_fencer)
            make.make_vote(step=step, action=action, store=as_fencer)
            commit = make.make_commit(step=step, action=action, grant=grant, takes_use=False, store=as_fencer)
            as_fencer.insert(GrantUse(grant=grant, commit=commit))
        as_fencer.update(grant, uses=2)


def test_a_new_grant_was_never_used(fencer: Connection, as_fencer: SqlStore) -> None:
    run = make.make_run(store=as_fencer)
    with refused(fencer, by="grant_begins_unused"):
        make.make_grant(run=run, tool="refund", max_uses=2, uses=1, store=as_fencer)


def test_a_grant_has_a_step_or_a_tool(fencer: Connection, as_fencer: SqlStore) -> None:
    run = make.make_run(store=as_fencer)
    with refused(fencer, by="grant_has_a_scope"):
        make.make_grant(run=run, store=as_fencer)


def test_a_grant_has_an_end(fencer: Connection, as_fencer: SqlStore) -> None:
    run = make.make_run(store=as_fencer)
    with refused(fencer, by="grant_expires"):
        make.make_grant(run=run, tool="refund", ttl_s=0, store=as_fencer)
    with refused(fencer, by="grant_live_has_an_end"):
        make.make_grant(run=run, tool="refund", expires_at=None, store=as_fencer)


def test_the_application_takes_no_uses(app: Connection) -> None:
    with forbidden(app):
        app.execute("UPDATE fencing_grant SET uses = uses + 1")
    with forbidden(app):
        app.execute("INSERT INTO fencing_grantuse (id) VALUES (gen_random_uuid())")
