"""One row in every table, as a run leaves them that went well under a grant."""

from __future__ import annotations

from tests import factories as make
from tests import grading
from tests.stores import SqlStore


def everything(store: SqlStore) -> None:
    """Make at least one row in every table of the engine."""
    run = make.make_run(store=store)
    tool = make.make_tool(store=store, policy={"grant_approvals": 2})
    grant = make.make_grant(run=run, tool=tool, store=store, approvals_needed=1)
    make.make_approval(grant=grant, store=store)
    make.make_review(grant=grant, store=store)
    make.make_refusal(grant=grant, store=store)
    make.make_freeze(store=store)
    make.make_fork(run=run, store=store)
    commit = make.make_committed_step(run=run, tool=tool, grant=grant, store=store)
    make.make_outcome(delivery=make.make_delivery(commit=commit, store=store), store=store)
    make.make_feed_event(step=commit.step, store=store)
    make.make_acknowledgement(store=store)
    make.make_audit_event(store=store)
    make.make_seal(store=store)
    make.make_forgotten(store=store)
    make.make_witness(store=store)
    make.make_verification(store=store)
    make.make_incident(store=store, step=commit.step)
    make.make_breaker(store=store)
    make.make_ledger(store=store)
    make.make_compensation(effect=make.make_effect(store=store), store=store)
    delivery = make.make_undoing(
        release=make.make_release(compensation=make.make_approved(store=store), store=store), store=store
    )
    make.make_undoing_outcome(delivery=delivery, store=store)
    make.make_signing_key(store=store)
    make.make_verdict(step=commit.step, store=store)
    make.make_tool_change_approval(change=make.make_tool_change(store=store), store=store)
    grading.every_row_of_grades(store)
    make.every_row_of_notices(store)
