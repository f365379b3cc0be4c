"""G6 and L10 by the database: who owes a review gets no grant, nobody reviews or lifts their own, waits have an end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fencing.models import Grant
from tests import factories as make
from tests.factories import soon
from tests.fencing.breaking import allowed, forbidden, refused
from tests.fencing.conftest import Connection
from tests.stores import SqlStore


def issued(store: SqlStore, **values: Any) -> Grant:
    return make.make_grant(run=make.make_run(store=store), tool="refund", store=store, **values)


# ---- what is owed ----


def test_a_grant_that_is_live_at_once_owes_a_review_within_24_hours(app: Connection) -> None:
    store = SqlStore(connection=app)
    with refused(app, by="grant_owes_review"):
        issued(store, review_due_at=None)
    with refused(app, by="grant_owes_review"):
        issued(store, live_at=soon(-10), review_due_at=soon(24 * 3600))
    with allowed(app):
        issued(store, live_at=soon(-10), review_due_at=soon(24 * 3600 - 11))


def test_a_grant_that_waits_for_a_second_person_owes_none(app: Connection) -> None:
    store = SqlStore(connection=app)
    with allowed(app):
        pending = issued(store, live_at=None, expires_at=None, pending_until=soon(900), approvals_needed=1)
        make.make_approval(grant=pending, store=store)
        store.update(pending, live_at=soon(-0.1), expires_at=soon(50))


def test_nobody_has_reviewed_a_new_grant(app: Connection) -> None:
    with refused(app, by="grant_owes_review"):
        issued(SqlStore(connection=app), reviewed_at=soon(0))


def test_when_the_review_is_due_never_changes(app: Connection, owner: Connection, as_owner: SqlStore) -> None:
    with refused(owner, by="fixed"):
        as_owner.update(issued(as_owner), review_due_at=soon(99_999))
    with forbidden(app):
        app.execute("UPDATE fencing_grant SET review_due_at = NULL")


def test_an_issuer_who_owes_an_overdue_review_gets_no_further_grant(app: Connection) -> None:
    store = SqlStore(connection=app)
    issuer = make.make_user(store=store)
    old = issued(store, issuer=issuer, live_at=soon(-25 * 3600), review_due_at=soon(-3601))
    with refused(app, by="grant_issuer_in_debt"):
        issued(store, issuer=issuer)
    with refused(app, by="grant_issuer_in_debt"):  # one that would be pending is one, too
        issued(store, issuer=issuer, live_at=None, expires_at=None, pending_until=soon(900))
    with allowed(app):
        issued(store)  # somebody else
    make.make_review(grant=old, store=store)
    with allowed(app):
        issued(store, issuer=issuer)


def test_a_review_that_is_not_due_yet_blocks_nobody(app: Connection) -> None:
    store = SqlStore(connection=app)
    issuer = make.make_user(store=store)
    with allowed(app):
        issued(store, issuer=issuer, live_at=soon(-3600))
        issued(store, issuer=issuer)


def test_a_debt_falls_due_by_the_clock_while_its_transaction_is_open(app: Connection) -> None:
    store = SqlStore(connection=app)
    issuer = make.make_user(store=store)
    issued(store, issuer=issuer, live_at=soon(-20 * 3600), review_due_at=soon(0.3))
    with allowed(app):
        issued(store, issuer=issuer)
    app.execute("SELECT pg_sleep(0.4)")
    with refused(app, by="grant_issuer_in_debt"):
        issued(store, issuer=issuer)


# ---- who reviews ----


def test_the_issuer_does_not_review_even_as_the_owner_of_the_tables(owner: Connection, as_owner: SqlStore) -> None:
    grant = issued(as_owner)
    with refused(owner, by="grant_reviewed_by_another"):
        make.make_review(grant=grant, person=grant.issuer, store=as_owner)


def test_what_never_went_live_is_not_reviewed(app: Connection) -> None:
    store = SqlStore(connection=app)
    pending = issued(store, live_at=None, expires_at=None, pending_until=soon(900))
    with refused(app, by="grant_reviewed_once_live"):
        make.make_review(grant=pending, store=store)


def test_a_debt_does_not_end_without_a_review_on_record(app: Connection) -> None:
    store = SqlStore(connection=app)
    grant = issued(store)
    with refused(app, by="grant_reviewed_on_record"):
        store.update(grant, reviewed_at=soon(0))
    with allowed(app):
        make.make_review(grant=grant, store=store)
    with refused(app, by="written_once"):
        store.update(grant, reviewed_at=None)


def test_one_review_closes_a_debt_and_a_second_finds_it_closed(app: Connection) -> None:
    store = SqlStore(connection=app)
    grant = issued(store)
    make.make_review(grant=grant, store=store)
    with refused(app, by="fencing_grantreview_grant_id_key"):
        make.make_review(grant=grant, store=store)


# ---- who approves, and until when ----


def test_the_issuer_does_not_approve_even_as_the_owner_of_the_tables(owner: Connection, as_owner: SqlStore) -> None:
    pending = issued(as_owner, live_at=None, expires_at=None, pending_until=soon(900), approvals_needed=1)
    with refused(owner, by="grant_approved_by_another"):
        make.make_approval(grant=pending, person=pending.issuer, store=as_owner)


LATE: dict[str, Callable[[], dict[str, Any]]] = {
    "a moment later": lambda: {"pending_until": soon(-1), "live_at": soon(-0.5)},
    "at that very moment": lambda: dict.fromkeys(("pending_until", "live_at"), soon(-1)),
}


@pytest.mark.parametrize("how", LATE)
def test_a_pending_grant_whose_time_is_over_never_goes_live(how: str, app: Connection) -> None:
    store = SqlStore(connection=app)
    times = LATE[how]()
    pending = issued(store, live_at=None, expires_at=None, approvals_needed=1, pending_until=times["pending_until"])
    make.make_approval(grant=pending, store=store)
    with refused(app, by="grant_approved_in_time"):
        store.update(pending, live_at=times["live_at"], expires_at=times["live_at"] + timedelta(seconds=30))


# ---- freezes ----


def test_whoever_set_a_freeze_does_not_lift_it_even_as_the_owner(owner: Connection, as_owner: SqlStore) -> None:
    freeze = make.make_freeze(store=as_owner)
    with refused(owner, by="freeze_lifted_by_another"):
        as_owner.update(freeze, lifted_at=soon(0), lifted_by_id=freeze.set_by_id, lift_reason="mine")
    other = make.make_user(store=as_owner)
    with allowed(owner):
        as_owner.update(freeze, lifted_at=soon(0), lifted_by_id=other.pk, lift_reason="checked")
    for value in (None, soon(1)):
        with refused(owner, by="written_once"):
            as_owner.update(freeze, lifted_at=value)


@pytest.mark.parametrize("left_out", ["lifted_at", "lifted_by_id", "lift_reason"])
def test_a_freeze_is_lifted_by_somebody_at_a_moment_for_a_reason(left_out: str, app: Connection) -> None:
    store = SqlStore(connection=app)
    freeze = make.make_freeze(store=store)
    lifted = {"lifted_at": soon(0), "lifted_by_id": make.make_user(store=store).pk, "lift_reason": "checked"}
    with refused(app, by="freeze_lifted_with_a_reason"):
        store.update(freeze, **{name: value for name, value in lifted.items() if name != left_out})


def test_a_freeze_begins_standing(app: Connection) -> None:
    store = SqlStore(connection=app)
    other = make.make_user(store=store)
    with refused(app, by="freeze_begins_standing"):
        make.make_freeze(lifted_at=soon(0), lifted_by=other, lift_reason="at once", store=store)


@pytest.mark.parametrize("scope", ["everything", "tool", "run", "both"])
def test_one_person_freezes_one_scope_once(scope: str, app: Connection) -> None:
    store = SqlStore(connection=app)
    person, run = make.make_user(store=store), make.make_run(store=store)
    columns: dict[str, Any] = {
        **({"tool": "refund"} if scope in ("tool", "both") else {}),
        **({"run": run} if scope in ("run", "both") else {}),
    }
    first = make.make_freeze(set_by=person, store=store, **columns)
    with refused(app, by="freeze_once"):
        make.make_freeze(set_by=person, store=store, **columns)
    other = make.make_user(store=store)
    with allowed(app):
        make.make_freeze(set_by=other, store=store, **columns)
        store.update(first, lifted_at=soon(0), lifted_by_id=other.pk, lift_reason="checked")
        make.make_freeze(set_by=person, store=store, **columns)


# ---- what was refused ----


def test_a_use_is_refused_once_for_each_reason_on_each_step(app: Connection) -> None:
    store = SqlStore(connection=app)
    grant = issued(store)
    step = make.make_step(run=grant.run, store=store)
    make.make_refusal(grant=grant, what="use", step=step, reason="it is used up", store=store)
    with refused(app, by="grant_use_refused_once"):
        make.make_refusal(grant=grant, what="use", step=step, reason="it is used up", store=store)
    with allowed(app):
        make.make_refusal(grant=grant, what="use", step=step, reason="a visible divergence beats it", store=store)
        make.make_refusal(grant=grant, what="approve", store=store)
        make.make_refusal(grant=grant, what="approve", store=store)  # each try of a person is one of its own
    with refused(app, by="grant_use_refused_on_a_step"):
        make.make_refusal(grant=grant, what="use", store=store)
