"""I2: no effect leaves without a delivery row for a standing commit with exactly the committed payload."""

from __future__ import annotations

from typing import Any

import pytest

from fencing.models import Commit, Grant
from tests import factories as make
from tests.factories import soon
from tests.fencing.breaking import allowed, forbidden, refused
from tests.fencing.conftest import Connection
from tests.fencing.racing import Race
from tests.stores import SqlStore


def granted(store: SqlStore, **values: Any) -> tuple[Commit, Grant]:
    """Commit a step under a grant, by the production path alone."""
    run, tool = make.make_run(store=store), make.make_tool(store=store)
    grant = make.make_grant(run=run, tool=tool, store=store, **values)
    return make.make_committed_step(run=run, tool=tool, grant=grant, store=store), grant


def test_a_standing_commit_is_delivered(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    with allowed(fencer):
        make.make_delivery(commit=commit, store=as_fencer)


def test_the_application_delivers_what_the_fencer_committed(race: Race) -> None:
    fencer, app = race.racer("fence_fencer"), race.racer("fence_app")
    commit = make.make_committed_step(store=fencer.store)
    fencer.connection.commit()
    other = make.make_action(tool=commit.tool, invoice=9, cents=4300, store=app.store)
    with refused(app.connection, by="delivery_of_the_committed_payload"):
        make.make_delivery(commit=commit, payload_id=other.pk, store=app.store)
    with allowed(app.connection):
        make.make_delivery(commit=commit, store=app.store)


def test_a_delivery_names_a_commit(app: Connection) -> None:
    store = SqlStore(connection=app)
    step = make.make_step(store=store)
    action = make.make_action(tool="refund", store=store)
    intent = make.make_intent(step=step, digest=action.payload_digest, store=store)
    nothing = Commit(run=step.run, intent=intent, payload=action)
    with refused(app, by="delivery_of_its_intent"):
        make.make_delivery(commit=nothing, store=store)


def test_a_revoked_commit_is_not_delivered(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    as_fencer.update(commit, closed_at=soon(0), closed_reason="late_divergence")
    with refused(fencer, by="delivery_of_a_standing_commit"):
        make.make_delivery(commit=commit, store=as_fencer)


def test_a_rejected_step_is_not_delivered(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    as_fencer.update(commit.step, phase="rejected", reason="late_divergence")
    with refused(fencer, by="delivery_of_a_standing_commit"):
        make.make_delivery(commit=commit, store=as_fencer)


def test_only_the_committed_payload_is_delivered(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    other = make.make_action(tool=commit.tool, invoice=9, cents=4300, store=as_fencer)
    with refused(fencer, by="delivery_of_the_committed_payload"):
        make.make_delivery(commit=commit, payload_id=other.pk, store=as_fencer)


@pytest.mark.parametrize("what", ["intent", "run"])
def test_run_and_intent_are_the_commits(what: str, fencer: Connection, as_fencer: SqlStore) -> None:
    commit, other = make.make_committed_step(store=as_fencer), make.make_committed_step(store=as_fencer)
    values = {"intent": other.intent} if what == "intent" else {"run_id": other.run_id}
    with refused(fencer, by="delivery_of_its_intent"):
        make.make_delivery(commit=commit, store=as_fencer, **values)


@pytest.mark.parametrize("path", ["production", "replica", "third"])
def test_a_second_digest_on_record_stops_what_has_not_left(path: str, fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    make.make_vote(step=commit.step, path=path, digest=make.NO_DIGEST, store=as_fencer)
    with refused(fencer, by="delivery_one_digest"):
        make.make_delivery(commit=commit, store=as_fencer)


@pytest.mark.parametrize("state", ["held", "in_flight", "succeeded", "failed", "in_doubt", "cancelled"])
def test_only_a_ready_intent_is_delivered(state: str, fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    as_fencer.update(commit.intent, state=state)
    with refused(fencer, by="delivery_when_ready"):
        make.make_delivery(commit=commit, store=as_fencer)


ENDED = {
    "revoked": lambda: {"revoked_at": soon(0)},
    "voided": lambda: {"voided_at": soon(0)},
    "seen to be over": lambda: {"expired_at": soon(0)},
}


@pytest.mark.parametrize("how", ENDED)
def test_authority_by_grant_ends_with_the_grant(how: str, fencer: Connection, as_fencer: SqlStore) -> None:
    commit, grant = granted(as_fencer)
    as_fencer.update(grant, **ENDED[how]())
    with refused(fencer, by="delivery_under_a_live_grant"):
        make.make_delivery(commit=commit, store=as_fencer)


def test_authority_by_grant_ends_at_its_very_end(fencer: Connection, as_fencer: SqlStore) -> None:
    commit, _ = granted(as_fencer, expires_at=soon(0.5))
    fencer.execute("SELECT pg_sleep(0.6)")
    with refused(fencer, by="delivery_under_a_live_grant"):
        make.make_delivery(commit=commit, store=as_fencer)


def test_late_votes_of_every_required_path_outlast_the_grant(fencer: Connection, as_fencer: SqlStore) -> None:
    commit, grant = granted(as_fencer)
    make.make_vote(step=commit.step, path="replica", action=commit.payload, store=as_fencer)
    as_fencer.update(grant, revoked_at=soon(0))
    with allowed(fencer):
        make.make_delivery(commit=commit, store=as_fencer)


def test_a_witness_that_is_not_required_outlasts_nothing(fencer: Connection, as_fencer: SqlStore) -> None:
    commit, grant = granted(as_fencer)
    make.make_vote(step=commit.step, path="third", action=commit.payload, store=as_fencer)
    as_fencer.update(grant, revoked_at=soon(0))
    with refused(fencer, by="delivery_under_a_live_grant"):
        make.make_delivery(commit=commit, store=as_fencer)


# ---- one after the other ----


def again(store: SqlStore, *outcomes: str, **first: Any) -> Commit:
    """Deliver a commit once, with these outcomes, and put its intent back to `ready`."""
    commit = make.make_committed_step(store=store)
    delivery = make.make_delivery(commit=commit, store=store, **first)
    for outcome in outcomes:
        make.make_outcome(delivery=delivery, outcome=outcome, store=store)
    store.update(commit.intent, state="ready")
    return commit


@pytest.mark.parametrize("outcomes", [["unknown"], ["busy"], ["not_sent"], ["unknown", "not_happened"]])
def test_what_is_not_known_to_have_happened_is_tried_again(
    outcomes: list[str], fencer: Connection, as_fencer: SqlStore
) -> None:
    commit = again(as_fencer, *outcomes)
    with allowed(fencer):
        make.make_delivery(commit=commit, number=2, store=as_fencer)


def test_an_open_delivery_has_to_end_first(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = again(as_fencer)
    with refused(fencer, by="delivery_one_at_a_time"):
        make.make_delivery(commit=commit, number=2, store=as_fencer)


def test_an_outcome_without_effect_ends_no_delivery(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    delivery = make.make_delivery(commit=commit, store=as_fencer)
    make.make_outcome(delivery=delivery, outcome="failed", is_effective=False, store=as_fencer)
    as_fencer.update(commit.intent, state="ready")
    with refused(fencer, by="delivery_one_at_a_time"):
        make.make_delivery(commit=commit, number=2, store=as_fencer)


@pytest.mark.parametrize("outcomes", [["succeeded"], ["unknown", "succeeded"]])
def test_what_has_happened_is_not_tried_again(outcomes: list[str], fencer: Connection, as_fencer: SqlStore) -> None:
    commit = again(as_fencer, *outcomes)
    with refused(fencer, by="delivery_once"):
        make.make_delivery(commit=commit, number=2, store=as_fencer)


@pytest.mark.parametrize(
    ("number", "by"), [(1, "delivery_number_once"), (0, "delivery_in_order"), (3, "delivery_in_order")]
)
def test_deliveries_are_numbered_without_a_gap(number: int, by: str, fencer: Connection, as_fencer: SqlStore) -> None:
    commit = again(as_fencer, "unknown")
    with refused(fencer, by=by):
        make.make_delivery(commit=commit, number=number, store=as_fencer)


def test_every_try_has_the_same_idempotency_key(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = again(as_fencer, "unknown")
    with refused(fencer, by="delivery_same_key"):
        make.make_delivery(commit=commit, number=2, idempotency_key="another", store=as_fencer)


def siblings(store: SqlStore) -> tuple[Commit, Commit]:
    """Commit two steps that share one intent, with other prose."""
    run, tool = make.make_run(store=store), make.make_tool(store=store, advisory=["/body"])
    commits = []
    intent = None
    for body in ("by one", "by two"):
        step = make.make_step(run=run, tool=tool, store=store)
        action = make.make_action(tool=tool, to="a@b", body=body, store=store)
        for path in make.PATHS:
            make.make_vote(step=step, path=path, action=action, digest=make.NO_DIGEST, store=store)
        commits.append(
            make.make_commit(step=step, action=action, intent=intent, fence_digest=make.NO_DIGEST, store=store)
        )
        store.update(step, phase="committed", reason="agreement")
        intent = commits[-1].intent
    return commits[0], commits[1]


def test_other_prose_waits_until_nothing_of_the_first_can_be_out(fencer: Connection, as_fencer: SqlStore) -> None:
    first, second = siblings(as_fencer)
    delivery = make.make_delivery(commit=first, store=as_fencer)
    make.make_outcome(delivery=delivery, outcome="unknown", store=as_fencer)
    as_fencer.update(first.intent, state="ready")
    with refused(fencer, by="delivery_of_one_payload"):
        make.make_delivery(commit=second, number=2, store=as_fencer)
    with refused(fencer, by="intent_payload_fixed"):
        as_fencer.update(first.intent, payload=second.payload)
    make.make_outcome(delivery=delivery, outcome="not_happened", store=as_fencer)
    with allowed(fencer):
        make.make_delivery(commit=second, number=2, store=as_fencer)


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_snapshot_that_is_older_than_the_votes_admits_and_closes_nothing(isolation: str, race: Race) -> None:
    fencer = race.racer()
    commit = make.make_committed_step(store=fencer.store)
    fencer.connection.commit()
    fencer.connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
    with refused(fencer.connection, by="delivery_sees_every_vote"):
        make.make_delivery(commit=commit, store=fencer.store)
    with refused(fencer.connection, by="commit_closes_before_admission"):
        fencer.store.update(commit, closed_at=soon(0), closed_reason="late_divergence")


# ---- closing (F8, L7) ----


@pytest.mark.parametrize(
    "outcomes",
    [[], ["unknown"], ["succeeded"], ["unknown", "succeeded"], ["unknown", "not_happened", "succeeded"]],
)
def test_a_commit_is_not_taken_back_while_its_effect_may_be_out(
    outcomes: list[str], fencer: Connection, as_fencer: SqlStore
) -> None:
    commit = again(as_fencer, *outcomes)
    with refused(fencer, by="commit_closes_before_admission"):
        as_fencer.update(commit, closed_at=soon(0), closed_reason="late_divergence")


@pytest.mark.parametrize("outcomes", [["failed"], ["busy"], ["not_sent"], ["unknown", "not_happened"]])
def test_a_commit_is_closed_when_its_effect_is_not_out(
    outcomes: list[str], fencer: Connection, as_fencer: SqlStore
) -> None:
    commit = again(as_fencer, *outcomes)
    with allowed(fencer):
        as_fencer.update(commit, closed_at=soon(0), closed_reason="effect_failed")


# ---- outcomes ----


def test_a_delivery_is_settled_once(fencer: Connection, as_fencer: SqlStore) -> None:
    delivery = make.make_delivery(commit=make.make_committed_step(store=as_fencer), store=as_fencer)
    make.make_outcome(delivery=delivery, outcome="unknown", store=as_fencer)
    make.make_outcome(delivery=delivery, outcome="succeeded", store=as_fencer)
    for outcome in ("succeeded", "failed"):
        with refused(fencer, by="outcome_settles_once"):
            make.make_outcome(delivery=delivery, outcome=outcome, store=as_fencer)
        with allowed(fencer):
            make.make_outcome(delivery=delivery, outcome=outcome, is_effective=False, store=as_fencer)


def test_only_a_person_says_that_it_did_not_happen(fencer: Connection, as_fencer: SqlStore) -> None:
    delivery = make.make_delivery(commit=make.make_committed_step(store=as_fencer), store=as_fencer)
    for values in ({"person": None}, {"source": "report"}):
        with refused(fencer, by="outcome_not_happened_by_a_person"):
            make.make_outcome(delivery=delivery, outcome="not_happened", store=as_fencer, **values)


def test_an_outcome_belongs_to_a_delivery_of_its_run(fencer: Connection, as_fencer: SqlStore) -> None:
    delivery = make.make_delivery(commit=make.make_committed_step(store=as_fencer), store=as_fencer)
    with refused(fencer, by="outcome_of_its_delivery"):
        make.make_outcome(delivery=delivery, run_id=make.make_run(store=as_fencer).pk, store=as_fencer)


def test_an_outcome_is_one_of_the_words(fencer: Connection, as_fencer: SqlStore) -> None:
    delivery = make.make_delivery(commit=make.make_committed_step(store=as_fencer), store=as_fencer)
    with refused(fencer, by="outcome_known"):
        make.make_outcome(delivery=delivery, outcome="perhaps", store=as_fencer)


def test_the_application_may_not_rewrite_a_delivery(app: Connection) -> None:
    with forbidden(app):
        app.execute("UPDATE fencing_delivery SET payload_id = payload_id")
