"""N2, N8, C7: what the hot tables refer to is there, though no foreign key says so; many rows at once get no further.

Each reference without a constraint is broken here by SQL, by both roles. A statement of many rows is refused for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import models

from fencing.models import Claim, Commit, Delivery, FeedEvent, Intent, Outcome, Step, Vote
from fencing.models.fields import uuid7
from tests import factories as make
from tests.factories import NO_DIGEST
from tests.fencing.breaking import allowed, refused
from tests.fencing.conftest import Connect, Connection
from tests.fencing.racing import Race
from tests.stores import SqlStore

NOWHERE = uuid7()
NO_ACTION = "sha256:" + "e" * 64

# Makes the row of a scene, with columns changed, which nobody has inserted yet.
Row = Callable[..., models.Model]


def vote(store: SqlStore) -> Row:
    step, action = make.make_step(store=store), make.make_action(tool="refund", store=store)
    key = make.make_credential(role="path", store=store)
    said = {"path": "production", "digest": action.payload_digest, "tool": action.tool}
    names = {"run_id": step.run_id, "step_id": step.pk, "payload_id": action.pk, "by_id": key.pk}
    return row_of_ids(Vote, names, said)


def step(store: SqlStore) -> Row:
    run, tool = make.make_run(store=store), make.make_tool(store=store)
    proposal = {"phase": "proposed", "registry": tool.pk, "proposed_at": make.soon(0), "deadline_at": make.soon(60)}
    return row_of_ids(Step, {"run_id": run.pk, "pinned_payload_id": None}, {"name": "s", "epoch": 1, **proposal})


def intent(store: SqlStore) -> Row:
    names = {"run_id": make.make_run(store=store).pk, "payload_id": None, "outcome_id": None}
    values = {"key": "k", "generation": 1, "fence_digest": NO_DIGEST, "registry": 1, "state": "ready"}
    return row_of_ids(Intent, names, values)


def claim(store: SqlStore) -> Row:
    step = make.make_step(store=store)
    wanted = make.make_intent(step=step, digest=NO_DIGEST, store=store)
    names = {"run_id": step.run_id, "step_id": step.pk, "intent_id": wanted.pk}
    return row_of_ids(Claim, names, {"state": "open"})


def feed(store: SqlStore) -> Row:
    step = make.make_step(store=store)
    return row_of_ids(
        FeedEvent, {"run_id": step.run_id, "step_id": step.pk}, {"what": "decided", "owner_group": "group"}
    )


def commit(store: SqlStore) -> Row:
    (agreed_upon,) = agreed(store, 1)
    ids = ("run_id", "step_id", "payload_id", "intent_id", "grant_id")
    values = ("step_name", "epoch", "tool", "key", "fence_digest", "token", "kid", "authority")
    return row_of_ids(Commit, _read(agreed_upon, ids), _read(agreed_upon, values))


def delivery(store: SqlStore) -> Row:
    key = make.make_credential(role="gateway", store=store)
    first = first_delivery(make.make_committed_step(store=store), key)
    ids = ("run_id", "intent_id", "commit_id", "payload_id", "by_id")
    return row_of_ids(Delivery, _read(first, ids), _read(first, ("number", "idempotency_key", "lease_until")))


def outcome(store: SqlStore) -> Row:
    tried = make.make_delivery(commit=make.make_committed_step(store=store), store=store)
    names = {"run_id": tried.run_id, "delivery_id": tried.pk, "by_id": tried.by_id}
    return row_of_ids(Outcome, names, {"outcome": "succeeded", "source": "report", "is_effective": True})


def _read(row: models.Model, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def row_of_ids(model: type[models.Model], ids: dict[str, Any], values: dict[str, Any]) -> Row:
    return lambda **wrong: model(**{**ids, **values, **wrong})


REFERENCES: list[tuple[type[models.Model], Callable[[SqlStore], Row], str, object, str]] = [
    (Vote, vote, "run_id", NOWHERE, "vote_in_its_run"),
    (Vote, vote, "step_id", NOWHERE, "vote_in_its_run"),
    (Vote, vote, "payload_id", NO_ACTION, "vote_of_an_action"),
    (Vote, vote, "by_id", NOWHERE, "vote_by_a_key"),
    (Step, step, "run_id", NOWHERE, "step_in_its_run"),
    (Step, step, "pinned_payload_id", NO_ACTION, "step_action_stored"),
    (Intent, intent, "run_id", NOWHERE, "intent_in_its_run"),
    (Intent, intent, "payload_id", NO_ACTION, "intent_payload_stored"),
    (Intent, intent, "outcome_id", NOWHERE, "intent_outcome_recorded"),
    (Claim, claim, "run_id", NOWHERE, "claim_in_its_run"),
    (Claim, claim, "step_id", NOWHERE, "claim_in_its_run"),
    (Claim, claim, "intent_id", NOWHERE, "claim_of_an_intent"),
    (FeedEvent, feed, "run_id", NOWHERE, "feed_in_its_run"),
    (FeedEvent, feed, "step_id", NOWHERE, "feed_in_its_run"),
    (Commit, commit, "run_id", NOWHERE, "commit_of_its_step"),
    (Commit, commit, "step_id", NOWHERE, "commit_of_its_step"),
    (Commit, commit, "payload_id", NO_ACTION, "commit_payload"),
    (Commit, commit, "intent_id", NOWHERE, "commit_of_its_intent"),
    (Commit, commit, "grant_id", NOWHERE, "commit_in_the_grants_scope"),
    (Delivery, delivery, "run_id", NOWHERE, "delivery_of_its_intent"),
    (Delivery, delivery, "intent_id", NOWHERE, "delivery_of_its_intent"),
    (Delivery, delivery, "commit_id", NOWHERE, "delivery_of_its_intent"),
    (Delivery, delivery, "payload_id", NO_ACTION, "delivery_of_the_committed_payload"),
    (Delivery, delivery, "by_id", NOWHERE, "delivery_by_a_key"),
    (Outcome, outcome, "run_id", NOWHERE, "outcome_of_its_delivery"),
    (Outcome, outcome, "delivery_id", NOWHERE, "outcome_of_its_delivery"),
    (Outcome, outcome, "by_id", NOWHERE, "outcome_by_a_key"),
]
# Only the fencer commits; a delivery and an outcome rest on a commit.
AS_APPLICATION = [each for each in REFERENCES if each[1] not in (commit, delivery, outcome)]


def test_every_reference_without_a_constraint_is_broken_here() -> None:
    every = {
        (model._meta.model_name, field.attname)
        for model in apps.get_app_config("fencing").get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, models.ForeignKey) and not getattr(field, "db_constraint", True)
    }
    assert every == {(model._meta.model_name, column) for model, _, column, _, _ in REFERENCES}


def referring(connection: Connection, row: Row, column: str, value: object, by: str) -> None:
    """Expect the row to be refused with one reference changed, and taken as it is."""
    store = SqlStore(connection=connection)
    # A commit that names a grant has to rest on one, or its row is refused before anybody looks for the grant.
    more = {"authority": "grant"} if column == "grant_id" else {}
    with refused(connection, by=by, on=row()._meta.db_table):
        store.insert(row(**{column: value}, **more))
    with allowed(connection):
        store.insert(row())


@pytest.mark.parametrize(("model", "scene", "column", "value", "by"), REFERENCES)
def test_the_fencer_refers_to_nothing_that_is_not_there(
    model: type[models.Model],
    scene: Callable[[SqlStore], Row],
    column: str,
    value: object,
    by: str,
    fencer: Connection,
    as_fencer: SqlStore,
) -> None:
    referring(fencer, scene(as_fencer), column, value, by)


@pytest.mark.parametrize(("model", "scene", "column", "value", "by"), AS_APPLICATION)
def test_the_application_refers_to_nothing_that_is_not_there(
    model: type[models.Model],
    scene: Callable[[SqlStore], Row],
    column: str,
    value: object,
    by: str,
    app: Connection,
) -> None:
    referring(app, scene(SqlStore(connection=app)), column, value, by)


@pytest.mark.parametrize("scene", [delivery, outcome])
def test_the_application_refers_to_nothing_beside_what_the_fencer_committed(
    scene: Callable[[SqlStore], Row], race: Race
) -> None:
    fencer, app = race.racer("fence_fencer"), race.racer("fence_app")
    row = scene(fencer.store)
    fencer.connection.commit()
    for _, its, column, value, by in REFERENCES:
        if its is scene:
            with refused(app.connection, by=by):
                app.store.insert(row(**{column: value}))
    with allowed(app.connection):
        app.store.insert(row())


UPDATES = [
    ("UPDATE fencing_intent SET payload_id = %s WHERE id = %s", NO_ACTION, "intent_payload_stored"),
    ("UPDATE fencing_intent SET outcome_id = %s WHERE id = %s", NOWHERE, "intent_outcome_recorded"),
]


@pytest.mark.parametrize("role", ["fence_app", "fence_fencer"])
@pytest.mark.parametrize(("statement", "value", "by"), UPDATES)
def test_an_update_to_nothing_is_refused(
    statement: str, value: object, by: str, role: str, connect_as: Connect
) -> None:
    connection = connect_as(role)
    store = SqlStore(connection=connection)
    intent = make.make_intent(step=make.make_step(store=store), digest=NO_DIGEST, store=store)
    with refused(connection, by=by):
        connection.execute(statement, [value, intent.pk])


@pytest.mark.parametrize("role", ["fence_app", "fence_fencer"])
def test_an_idle_step_takes_no_action_that_is_not_stored(role: str, connect_as: Connect) -> None:
    connection = connect_as(role)
    store = SqlStore(connection=connection)
    step = make.make_step(phase="idle", store=store)
    with refused(connection, by="step_action_stored"):
        connection.execute("UPDATE fencing_step SET pinned_payload_id = %s WHERE id = %s", [NO_ACTION, step.pk])


# ---- many rows in one statement ----


def agreed(store: SqlStore, count: int) -> list[Commit]:
    """Make everything that `count` commits by agreement rest on, and the commits that nobody has inserted yet."""
    tool, run = make.make_tool(store=store), make.make_run(store=store)
    commits = []
    for number in range(count):
        step = make.make_step(run=run, tool=tool, store=store)
        action = make.make_action(tool=tool, invoice=number, store=store)
        make.make_votes(step=step, action=action, store=store)
        intent = make.make_intent(step=step, digest=action.payload_digest, store=store)
        names: dict[str, Any] = {"step_name": step.name, "epoch": step.epoch, "tool": action.tool, "key": intent.key}
        bound = {"payload": action, "fence_digest": action.payload_digest, "intent": intent, "token": "t", "kid": "k"}
        commits.append(Commit(run=run, step=step, authority="agreement", grant_id=None, **names, **bound))
    return commits


def insert_together(connection: Connection, rows: list[Any]) -> None:
    """Insert rows of one model by one statement."""
    fields = [
        field
        for field in rows[0]._meta.concrete_fields
        if field.attname not in {"committed_at", "admitted_at", "recorded_at"}
    ]
    values = [getattr(row, field.attname) for row in rows for field in fields]
    row = psycopg.sql.SQL("({})").format(psycopg.sql.SQL(", ").join(psycopg.sql.Placeholder() * len(fields)))
    statement = psycopg.sql.SQL("INSERT INTO {} ({}) VALUES {}").format(
        psycopg.sql.Identifier(rows[0]._meta.db_table),
        psycopg.sql.SQL(", ").join(psycopg.sql.Identifier(str(field.column)) for field in fields),
        psycopg.sql.SQL(", ").join([row] * len(rows)),
    )
    connection.execute(statement, values)


@pytest.mark.parametrize("place", [0, 3, 6])
def test_one_bad_commit_among_many_is_found_wherever_it_stands(
    place: int, fencer: Connection, as_fencer: SqlStore
) -> None:
    commits = agreed(as_fencer, 7)
    make.make_vote(step=commits[place].step, path="third", digest=NO_DIGEST, store=as_fencer)
    with refused(fencer, by="commit_one_digest"):
        insert_together(fencer, commits)
    with allowed(fencer):
        insert_together(fencer, [*commits[:place], *commits[place + 1 :]])


def committed(store: SqlStore, count: int) -> list[Delivery]:
    """Commit steps for good, and make the first delivery of each that nobody has inserted yet."""
    commits = [make.make_committed_step(store=store) for _ in range(count)]
    key = make.make_credential(role="gateway", store=store)
    return [first_delivery(commit, key) for commit in commits]


def first_delivery(commit: Commit, key: Any, number: int = 1) -> Delivery:
    names = {"run_id": commit.run_id, "intent_id": commit.intent_id, "payload_id": commit.payload_id, "commit": commit}
    return Delivery(number=number, idempotency_key=f"k-{commit.intent_id}", lease_until=make.soon(60), by=key, **names)


@pytest.mark.parametrize("place", [0, 2, 4])
def test_one_bad_delivery_among_many_is_found_wherever_it_stands(
    place: int, fencer: Connection, as_fencer: SqlStore
) -> None:
    deliveries = committed(as_fencer, 5)
    as_fencer.update(deliveries[place].commit, closed_at=make.soon(0), closed_reason="late_divergence")
    with refused(fencer, by="delivery_of_a_standing_commit"):
        insert_together(fencer, deliveries)
    with allowed(fencer):
        insert_together(fencer, [*deliveries[:place], *deliveries[place + 1 :]])


def test_one_statement_admits_no_two_tries_of_an_effect(fencer: Connection, as_fencer: SqlStore) -> None:
    (first,) = committed(as_fencer, 1)
    second = first_delivery(first.commit, first.by, number=2)
    with refused(fencer, by="delivery_in_order"):
        insert_together(fencer, [first, second])
    with allowed(fencer):
        insert_together(fencer, [first])


def test_two_statements_in_one_query_get_no_further(fencer: Connection, as_fencer: SqlStore) -> None:
    (first,) = committed(as_fencer, 1)
    assert first.by is not None
    with refused(fencer, by="commit_closes_before_admission"):
        fencer.execute(
            """
            WITH closed AS (
                UPDATE fencing_commit SET closed_at = now(), closed_reason = 'late_divergence' WHERE id = %(commit)s
            )
            INSERT INTO fencing_delivery
                (id, run_id, intent_id, number, commit_id, payload_id, idempotency_key, lease_until, by_id)
            VALUES (gen_random_uuid(), %(run)s, %(intent)s, 1, %(commit)s, %(payload)s, 'k', now(), %(by)s)
            """,
            {
                "commit": first.commit.pk,
                "run": first.run_id,
                "intent": first.intent_id,
                "payload": first.payload_id,
                "by": first.by_id,
            },
        )


def test_a_payload_that_may_be_out_is_found_among_intents_that_change(fencer: Connection, as_fencer: SqlStore) -> None:
    commits = [make.make_committed_step(store=as_fencer) for _ in range(4)]
    other = make.make_action(tool=commits[0].tool, invoice=9, cents=4300, store=as_fencer)
    intents = [commit.intent_id for commit in commits]
    statement = "UPDATE fencing_intent SET payload_id = %s WHERE id = ANY (%s)"
    with allowed(fencer):
        fencer.execute(statement, [other.pk, intents])
    make.make_delivery(commit=commits[2], store=as_fencer)
    with refused(fencer, by="intent_payload_fixed"):
        fencer.execute(statement, [other.pk, intents])
    with allowed(fencer):
        fencer.execute("UPDATE fencing_intent SET due_at = now() WHERE id = ANY (%s)", [intents])
