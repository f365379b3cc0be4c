"""P2 to P6 and I2 by SQL, whoever types it: nothing is undone but what enough people approved, to the byte, once."""

from __future__ import annotations

from typing import Any

import pytest

from fencing.models import Compensation
from tests import factories as make
from tests.factories import soon
from tests.fencing.breaking import allowed, forbidden, refused
from tests.fencing.conftest import Connection
from tests.stores import SqlStore

OTHER = "sha256:" + "1" * 64


def approve(act: Compensation, store: SqlStore) -> None:
    """Say that it is approved, as who counts nobody."""
    store.update(act, state="approved", decider=make.make_user(store=store), decided_at=soon(0))


def undone(act: Compensation, store: SqlStore) -> Any:
    return make.make_undoing(release=make.make_release(compensation=act, store=store), store=store)


# ---- P3: who approves ----


def test_nobody_approves_twice_or_something_else(fencer: Connection, as_fencer: SqlStore) -> None:
    act = make.make_approved(approvals=0, needed=2, store=as_fencer)
    first = make.make_compensation_approval(compensation=act, store=as_fencer)
    with refused(fencer, by="compensation_approved_once"):
        make.make_compensation_approval(compensation=act, person=first.person, store=as_fencer)
    for values in ({"digest": OTHER}, {"round": 2}):
        with refused(fencer, by="approval_of_what_was_shown" if "digest" in values else "approval_in_time"):
            make.make_compensation_approval(compensation=act, store=as_fencer, **values)


def test_nobody_approves_what_they_asked_for(fencer: Connection, as_fencer: SqlStore) -> None:
    person = make.make_user(store=as_fencer)
    asked = {"cause": "requested", "requester": person, "request_reason": "wrong customer"}
    act = make.make_approved(approvals=0, store=as_fencer, **asked)
    with refused(fencer, by="approval_by_another"):
        make.make_compensation_approval(compensation=act, person=person, store=as_fencer)
    with refused(fencer, by="compensation_requested_with_a_reason"):
        make.make_approved(approvals=0, store=as_fencer, cause="requested")


def test_nobody_approves_the_undoing_of_what_their_grant_let_through(fencer: Connection, as_fencer: SqlStore) -> None:
    tool, run = make.make_tool(store=as_fencer), make.make_run(store=as_fencer)
    grant = make.make_grant(run=run, tool=tool, store=as_fencer)
    second = make.make_approval(grant=grant, store=as_fencer)
    commit = make.make_committed_step(run=run, tool=tool, grant=grant, store=as_fencer)
    make.make_outcome(delivery=make.make_delivery(commit=commit, store=as_fencer), store=as_fencer)
    action = make.make_action(tool="undo", n=1, store=as_fencer)
    act = make.make_compensation(
        effect=None, intent=commit.intent, payload=action, tool=tool.tool, cause="branch_lost", store=as_fencer
    )
    for person in (grant.issuer, second.person):
        with refused(fencer, by="approval_by_another"):
            make.make_compensation_approval(compensation=act, person=person, store=as_fencer)
    with allowed(fencer):
        make.make_compensation_approval(compensation=act, store=as_fencer)


def test_nothing_is_approved_by_fewer_people_than_the_tool_asks_for(fencer: Connection, as_fencer: SqlStore) -> None:
    act = make.make_approved(approvals=0, needed=2, store=as_fencer)
    make.make_compensation_approval(compensation=act, store=as_fencer)
    with refused(fencer, by="compensation_decided"):
        approve(act, as_fencer)
    make.make_compensation_approval(compensation=act, store=as_fencer)
    with allowed(fencer):
        approve(act, as_fencer)
    with refused(fencer, by="approval_in_time"):
        make.make_compensation_approval(compensation=act, store=as_fencer)


@pytest.mark.parametrize("state", ["proposed", "held", "withdrawn"])
def test_approvals_that_lapsed_count_no_more(state: str, fencer: Connection, as_fencer: SqlStore) -> None:
    act = make.make_approved(store=as_fencer)
    as_fencer.update(act, state=state, round=2)
    with refused(fencer, by="release_of_an_approval"):
        make.make_release(compensation=act, round=1, store=as_fencer)
    with refused(fencer, by="compensation_rounds_grow"):
        as_fencer.update(act, round=1)
    if state == "proposed":
        with refused(fencer, by="compensation_decided"):
            approve(act, as_fencer)


# ---- P6 ----


def test_what_has_a_compensator_is_not_done_by_hand(fencer: Connection, as_fencer: SqlStore) -> None:
    act = make.make_approved(approvals=0, store=as_fencer)
    with refused(fencer, by="compensation_decided"):
        as_fencer.update(act, state="done", evidence="mail 17")
    manual = make.make_compensation(effect=make.make_effect(store=as_fencer), store=as_fencer)
    with refused(fencer, by="compensation_decided"):
        as_fencer.update(manual, state="done")
    with allowed(fencer):
        as_fencer.update(manual, state="done", evidence="mail 17")


def test_an_effect_stands_by_a_persons_word_with_a_reason(fencer: Connection, as_fencer: SqlStore) -> None:
    act = make.make_approved(approvals=0, store=as_fencer)
    for values in ({}, {"decider": make.make_user(store=as_fencer)}, {"reason": "useful"}):
        with refused(fencer, by="compensation_waived_with_a_reason"):
            as_fencer.update(act, state="waived", **values)


# ---- P5, I2: what leaves ----


def test_the_application_releases_nothing(app: Connection, as_owner: SqlStore) -> None:
    with forbidden(app):
        app.execute("INSERT INTO fencing_compensationrelease DEFAULT VALUES")


def test_a_release_is_of_what_was_approved(fencer: Connection, as_fencer: SqlStore) -> None:
    act = make.make_approved(store=as_fencer)
    other = make.make_action(tool="undo", n=2, store=as_fencer)
    with refused(fencer, by="release_of_what_was_approved"):
        make.make_release(compensation=act, payload_id=other.payload_digest, store=as_fencer)
    with allowed(fencer):
        make.make_release(compensation=act, store=as_fencer)
    with refused(fencer, by="compensation_released_once"):
        make.make_release(compensation=act, store=as_fencer)
    with refused(fencer, by="release_of_an_approval"):
        make.make_release(compensation=make.make_approved(approvals=0, store=as_fencer), store=as_fencer)


def test_nothing_is_undone_but_under_its_approval(fencer: Connection, as_fencer: SqlStore) -> None:
    act, other = make.make_approved(store=as_fencer), make.make_approved(store=as_fencer)
    release = make.make_release(compensation=act, store=as_fencer)
    with refused(fencer, by="undoing_of_an_approval"):
        make.make_undoing(release=release, compensation=other, store=as_fencer)
    with refused(fencer, by="undoing_of_an_approval"):
        make.make_undoing(release=release, payload_id=other.payload_id, store=as_fencer)
    with refused(fencer, by="undoing_in_order"):
        make.make_undoing(release=release, number=2, store=as_fencer)
    as_fencer.update(act, state="proposed", round=2)
    with refused(fencer, by="undoing_of_an_approval"):
        make.make_undoing(release=release, store=as_fencer)


def test_only_a_push_tool_is_called_without_a_gateways_key(fencer: Connection, as_fencer: SqlStore) -> None:
    """As it was when the undoing was proposed: what became of the tool since then is not asked."""
    act = make.make_approved(store=as_fencer)
    called = str(act.payload.tool)
    release = make.make_release(compensation=act, store=as_fencer)
    with refused(fencer, by="undoing_by_a_key"):
        make.make_undoing(release=release, by=None, store=as_fencer)
    pull = make.make_tool(tool=called, store=as_fencer)
    of_pull = make.make_release(compensation=approved_for(called, pull.pk, as_fencer), store=as_fencer)
    push = make.make_tool(tool=called, version=2, mode="push", endpoint="https://tool.example/", store=as_fencer)
    of_push = make.make_release(compensation=approved_for(called, push.pk, as_fencer), store=as_fencer)
    with refused(fencer, by="undoing_by_a_key"):
        make.make_undoing(release=of_pull, by=None, store=as_fencer)
    with allowed(fencer):
        make.make_undoing(release=of_push, by=None, store=as_fencer)


def approved_for(tool: str, registry: int, store: SqlStore) -> Compensation:
    """An approved call of a tool, proposed under a version of the registry."""
    effect = make.make_effect(store=store)
    action = make.make_action(tool=tool, n=effect.external_id, store=store)
    act = make.make_compensation(effect=effect, payload=action, registry=registry, store=store)
    make.make_compensation_approval(compensation=act, store=store)
    approve(act, store)
    return act


@pytest.mark.parametrize(("outcome", "by"), [(None, "undoing_once"), ("unknown", "undoing_once"), ("busy", None)])
def test_what_may_have_been_undone_is_not_tried_again(
    outcome: str | None, by: str | None, fencer: Connection, as_fencer: SqlStore
) -> None:
    act = make.make_approved(store=as_fencer)
    release = make.make_release(compensation=act, store=as_fencer)
    first = make.make_undoing(release=release, store=as_fencer)
    if outcome is not None:
        make.make_undoing_outcome(delivery=first, outcome=outcome, store=as_fencer)
    if by is None:
        with allowed(fencer):
            make.make_undoing(release=release, number=2, store=as_fencer)
    else:
        with refused(fencer, by=by):
            make.make_undoing(release=release, number=2, store=as_fencer)


def test_nothing_is_undone_while_somebody_may_want_it(fencer: Connection, as_fencer: SqlStore) -> None:
    commit = make.make_committed_step(store=as_fencer)
    make.make_outcome(delivery=make.make_delivery(commit=commit, store=as_fencer), store=as_fencer)
    action = make.make_action(tool="undo", n=1, store=as_fencer)
    act = make.make_compensation(
        effect=None, intent=commit.intent, payload=action, tool=commit.tool, cause="branch_lost", store=as_fencer
    )
    make.make_compensation_approval(compensation=act, store=as_fencer)
    approve(act, as_fencer)
    release = make.make_release(compensation=act, store=as_fencer)
    make.make_claim(
        step=make.make_step(run=commit.run, store=as_fencer), intent=commit.intent, state="open", store=as_fencer
    )
    with refused(fencer, by="undoing_of_what_nobody_wants"):
        make.make_undoing(release=release, store=as_fencer)


# ---- B6 ----


def test_a_commit_moves_only_to_the_next_generation_of_what_is_undone(fencer: Connection, as_fencer: SqlStore) -> None:
    tool = make.make_tool(store=as_fencer)
    first = make.make_committed_step(tool=tool, store=as_fencer)
    make.make_outcome(delivery=make.make_delivery(commit=first, store=as_fencer), store=as_fencer)
    second = make.make_committed_step(run=first.run, intent=first.intent, tool=tool, store=as_fencer)
    places: dict[str, Any] = {
        "step": second.step,
        "digest": first.fence_digest,
        "key": first.intent.key,
        "store": as_fencer,
    }
    following = make.make_intent(generation=2, **places)
    with refused(fencer, by="commit_moves_on"):
        as_fencer.update(second, intent=following)
    act = make.make_compensation(
        effect=None, intent=first.intent, tool=first.tool, cause="branch_lost", store=as_fencer
    )
    as_fencer.update(act, state="done", evidence="by hand")
    later = make.make_intent(generation=3, **places)
    with refused(fencer, by="commit_moves_on"):
        as_fencer.update(second, intent=later)
    with refused(fencer, by="commit_moves_on"):
        as_fencer.update(first, intent=following)
    with allowed(fencer):
        as_fencer.update(second, intent=following)
