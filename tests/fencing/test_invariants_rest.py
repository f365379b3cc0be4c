"""L1, L2, H1, F8: what stays as it is in intents, claims, incidents and credentials."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from fencing.models import Intent
from fencing.models.fields import uuid7
from fencing.protocol.intents import TRANSITIONS, State
from tests import factories as make
from tests.factories import soon
from tests.fencing.breaking import allowed, refused
from tests.fencing.conftest import Connection
from tests.stores import SqlStore


def test_an_intents_tool_is_told_once(fencer: Connection, as_fencer: SqlStore) -> None:
    intent = make.make_intent(step=make.make_step(store=as_fencer), digest=make.NO_DIGEST, store=as_fencer)
    with allowed(fencer):
        as_fencer.update(intent, tool="refund")
    with refused(fencer, by="written_once"):
        as_fencer.update(intent, tool="another")


def test_only_a_cancelled_intent_takes_another_registry(fencer: Connection, as_fencer: SqlStore) -> None:
    intent = make.make_intent(step=make.make_step(store=as_fencer), digest=make.NO_DIGEST, store=as_fencer)
    with refused(fencer, by="intent_registry_fixed"):
        as_fencer.update(intent, registry=7777777)
    as_fencer.update(intent, state="cancelled")
    with allowed(fencer):
        as_fencer.update(intent, registry=7777777, state="ready")


def test_an_admitted_payload_stays(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    other = make.make_action(tool=commit.tool, invoice=9, cents=4300, store=as_fencer)
    with allowed(fencer):
        as_fencer.update(commit.intent, payload=other)
    make.make_delivery(commit=commit, store=as_fencer)
    for payload in (other, None):
        with refused(fencer, by="intent_payload_fixed"):
            as_fencer.update(commit.intent, payload=payload)


MOVES = list(itertools.permutations(State, 2))


def intent_in(state: State, store: SqlStore) -> Intent:
    intent = make.make_intent(step=make.make_step(store=store), digest=make.NO_DIGEST, store=store)
    if state is not State.READY:
        store.update(intent, state=state.value)
    return intent


@pytest.mark.parametrize(("old", "new"), MOVES)
def test_an_intent_moves_as_the_protocol_says_and_in_no_other_way(
    old: State, new: State, fencer: Connection, as_fencer: SqlStore
) -> None:
    intent = intent_in(old, as_fencer)
    with allowed(fencer) if new in TRANSITIONS[old] else refused(fencer, by="intent_moves"):
        as_fencer.update(intent, state=new.value)


def test_a_key_has_each_generation_once(fencer: Connection, as_fencer: SqlStore) -> None:
    intent = make.make_intent(step=make.make_step(store=as_fencer), digest=make.NO_DIGEST, store=as_fencer)
    intent.id = uuid7()
    with refused(fencer, by="intent_once"):
        as_fencer.insert(intent)


def test_generations_are_counted_from_one(fencer: Connection, as_fencer: SqlStore) -> None:
    with refused(fencer, by="intent_generation_from_one"):
        make.make_intent(step=make.make_step(store=as_fencer), digest=make.NO_DIGEST, generation=0, store=as_fencer)


def test_a_state_is_one_of_the_words(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    with refused(fencer, by="intent_state_known"):
        make.make_intent(step=commit.step, digest=make.NO_DIGEST, state="lost", store=as_fencer)
    with refused(fencer, by="claim_state_known"):
        fencer.execute("UPDATE fencing_claim SET state = 'gone'")


def test_a_lost_claim_stays_lost(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    intent = make.make_intent(step=step, digest=make.NO_DIGEST, store=as_fencer)
    claim = make.make_claim(step=step, intent=intent, state="open", store=as_fencer)
    with refused(fencer, by="claim_once"):
        make.make_claim(step=step, intent=intent, state="open", store=as_fencer)
    with allowed(fencer):
        as_fencer.update(claim, state="lost", lost_at=soon(0), lost_reason="late_divergence")
    for values in ({"state": "won"}, {"lost_at": None}, {"lost_reason": "other"}):
        with refused(fencer, by="claim_lost_for_good"):
            as_fencer.update(claim, **values)
    with allowed(fencer):
        make.make_claim(step=step, intent=intent, state="open", store=as_fencer)


def test_a_resolved_incident_stays_resolved(fencer: Connection, as_fencer: SqlStore) -> None:
    incident = make.make_incident(store=as_fencer)
    with refused(fencer, by="incident_resolved_with_a_reason"):
        as_fencer.update(incident, state="resolved", resolved_at=soon(0))
    with allowed(fencer):
        as_fencer.update(incident, state="resolved", resolved_at=soon(0), resolution="the customer was told")
    for values in ({"state": "open", "resolved_at": None}, {"resolution": "never mind"}):
        with refused(fencer, by="incident_resolved_once"):
            as_fencer.update(incident, **values)


def test_a_step_has_one_incident_of_late_divergence(fencer: Connection, as_fencer: SqlStore) -> None:
    step = make.make_step(store=as_fencer)
    make.make_incident(step=step, store=as_fencer)
    with refused(fencer, by="incident_late_divergence_once"):
        make.make_incident(step=step, store=as_fencer)


def test_a_revoked_key_is_never_given_back(fencer: Connection, as_fencer: SqlStore) -> None:
    credential = make.make_credential(revoked_at=soon(0), store=as_fencer)
    for value in (None, soon(60)):
        with refused(fencer, by="written_once"):
            as_fencer.update(credential, revoked_at=value)


def test_a_retired_signing_key_stays_retired(owner: Connection, as_owner: SqlStore) -> None:
    key = make.make_signing_key(store=as_owner)
    with allowed(owner):
        as_owner.update(key, retired_at=soon(0))
    for value in (None, soon(60)):
        with refused(owner, by="written_once"):
            as_owner.update(key, retired_at=value)


def test_a_tally_has_each_shard_once(fencer: Connection) -> None:
    with refused(fencer, by="tally_once"):
        fencer.execute(
            "INSERT INTO fencing_tally (name, shard, count) VALUES ('duplicates', 0, 1), ('duplicates', 0, 1)"
        )


@pytest.mark.parametrize(
    ("values", "by"),
    [
        ({"role": "path", "path": None}, "credential_path_bound"),
        ({"role": "planner", "path": "replica"}, "credential_path_bound"),
        ({"role": "oncall", "person": None}, "credential_person_bound"),
    ],
)
def test_a_key_is_bound_to_what_its_role_speaks_for(
    values: dict[str, Any], by: str, fencer: Connection, as_fencer: SqlStore
) -> None:
    with refused(fencer, by=by):
        make.make_credential(store=as_fencer, **values)
