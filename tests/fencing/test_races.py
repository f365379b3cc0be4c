"""Races over I1, I2 and G3 on real connections: each names every end that is allowed.

Most hold one transaction open and watch the other wait for it, in both orders; the rest start both at the same moment,
several times over. In all of them the guards alone stand between the two: no service takes a lock beforehand.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencing.models import Action, Commit, Grant, GrantUse, Intent, Step, ToolVersion
from tests import factories as make
from tests.factories import PATHS, soon
from tests.fencing.racing import Act, Race
from tests.length import long_or
from tests.stores import SqlStore

ROUNDS = long_or(6, long=40)
OTHER_DIGEST = "sha256:" + "f" * 64


class Scene:
    """A step with votes and everything that its commit refers to, all of it committed."""

    def __init__(
        self, store: SqlStore, *paths: str, tool: ToolVersion | None = None, grant: Grant | None = None
    ) -> None:
        self.tool: ToolVersion = tool or make.make_tool(store=store)
        run = grant.run if grant else make.make_run(store=store)
        self.grant = grant
        self.step: Step = make.make_step(run=run, tool=self.tool, store=store)
        self.action: Action = make.make_action(tool=self.tool, store=store)
        make.make_votes(step=self.step, action=self.action, paths=paths, store=store)
        self.intent: Intent = make.make_intent(step=self.step, digest=self.action.payload_digest, store=store)
        make.make_claim(step=self.step, intent=self.intent, store=store)
        self.key = make.make_credential(role="path", path="third", store=store)
        store.connection.commit()

    def commit(self, store: SqlStore) -> Commit:
        """Insert the commit (and take the use) as a fencer that looked at nothing."""
        commit = Commit(
            run=self.step.run,
            step=self.step,
            step_name=self.step.name,
            epoch=self.step.epoch,
            tool=self.action.tool,
            payload=self.action,
            fence_digest=self.action.payload_digest,
            key=self.intent.key,
            authority="grant" if self.grant else "agreement",
            grant=self.grant,
            intent=self.intent,
            token=make.fresh("token"),
            kid="k1",
        )
        store.insert(commit)
        if self.grant:
            store.insert(GrantUse(grant=self.grant, commit=commit))
            store.connection.execute("UPDATE fencing_grant SET uses = uses + 1 WHERE id = %s", [self.grant.pk])
        return commit

    def vote(self, path: str = "third", digest: str = OTHER_DIGEST) -> Act:
        """Cast a vote, divergent unless told otherwise."""
        return lambda store: make.make_vote(step=self.step, path=path, digest=digest, by=self.key, store=store)


def granted(store: SqlStore, **values: Any) -> tuple[ToolVersion, Grant]:
    tool = make.make_tool(store=store)
    return tool, make.make_grant(run=make.make_run(store=store), tool=tool, store=store, **values)


def delivered(store: SqlStore, **values: Any) -> tuple[Commit, Act]:
    """Commit a step for good, and give the act that delivers it."""
    commit = make.make_committed_step(store=store, **values)
    gateway = make.make_credential(role="gateway", store=store)
    store.connection.commit()
    return commit, lambda other: make.make_delivery(commit=commit, by=gateway, store=other)


def voting_against(commit: Commit) -> Act:
    return lambda store: make.make_vote(step=commit.step, path="third", digest=OTHER_DIGEST, store=store)


def revoking(grant: Grant) -> Act:
    statement = "UPDATE fencing_grant SET revoked_at = clock_timestamp() WHERE id = %s"
    return lambda store: store.connection.execute(statement, [grant.pk])


def closing(commit: Commit) -> Act:
    return lambda store: store.update(commit, closed_at=soon(0), closed_reason="late_divergence")


# ---- two fencers ----


def test_of_two_fencers_one_commits_a_step(race: Race) -> None:
    one, two = race.racer(), race.racer()
    scene = Scene(one.store, *PATHS)
    assert race.behind((one, scene.commit), (two, scene.commit)) in ("fencing_commit_step_id_key", "commit_stands_once")
    assert race.read("SELECT count(*) FROM fencing_commit") == 1


def test_of_two_fencers_at_the_same_moment_one_commits_a_step(race: Race) -> None:
    one, two = race.racer(), race.racer()
    for _ in range(ROUNDS):
        scene = Scene(one.store, *PATHS)
        ends = race.at_once((one, scene.commit), (two, scene.commit))
        assert sorted(ends) in (["done", "fencing_commit_step_id_key"], ["commit_stands_once", "done"])
        assert race.read("SELECT count(*) FROM fencing_commit WHERE step_id = %s", scene.step.pk) == 1


def test_of_two_epochs_of_a_step_one_has_a_standing_commit(race: Race) -> None:
    one, two = race.racer(), race.racer()
    first = Scene(one.store, *PATHS)
    second = Scene(one.store, *PATHS)
    second.step = make.make_step(run=first.step.run, tool=second.tool, name=first.step.name, epoch=2, store=one.store)
    make.make_votes(step=second.step, action=second.action, store=one.store)
    second.intent = make.make_intent(step=second.step, digest=second.action.payload_digest, store=one.store)
    one.connection.commit()
    assert race.behind((one, first.commit), (two, second.commit)) == "commit_stands_once"


# ---- a commit beside a vote (I1) ----


@pytest.mark.parametrize("is_granted", [False, True])
def test_a_commit_waits_for_a_divergent_vote_and_is_refused(is_granted: bool, race: Race) -> None:
    voter, fencer = race.racer("fence_app"), race.racer()
    scene = commitable(fencer.store, is_granted=is_granted)
    assert race.behind((voter, scene.vote()), (fencer, scene.commit)) == "commit_one_digest"
    assert race.read("SELECT count(*) FROM fencing_commit") == 0


@pytest.mark.parametrize("is_granted", [False, True])
def test_a_divergent_vote_waits_for_a_commit_and_is_late(is_granted: bool, race: Race) -> None:
    voter, fencer = race.racer("fence_app"), race.racer()
    scene = commitable(fencer.store, is_granted=is_granted)
    assert race.behind((fencer, scene.commit), (voter, scene.vote())) == "done"
    # The vote came after the commit, and says so by its moment: F8 takes the commit back.
    assert race.read("SELECT max(received_at) > (SELECT committed_at FROM fencing_commit) FROM fencing_vote")


def test_a_commit_and_a_divergent_vote_at_the_same_moment_end_in_one_of_two_ways(race: Race) -> None:
    voter, fencer = race.racer("fence_app"), race.racer()
    for _ in range(ROUNDS):
        scene = Scene(fencer.store, *PATHS)
        ends = race.at_once((fencer, scene.commit), (voter, scene.vote()))
        assert ends in (["done", "done"], ["commit_one_digest", "done"])


def test_a_commit_waits_for_the_vote_that_completes_the_agreement(race: Race) -> None:
    voter, fencer = race.racer("fence_app"), race.racer()
    scene = Scene(fencer.store, "production")
    agreeing = scene.vote("replica", scene.action.payload_digest)
    assert race.behind((voter, agreeing), (fencer, scene.commit)) == "done"


def test_the_same_vote_twice_at_once_is_stored_once(race: Race) -> None:
    one, two = race.racer("fence_app"), race.racer("fence_app")
    for _ in range(ROUNDS):
        scene = Scene(one.store)
        ends = race.at_once((one, scene.vote()), (two, scene.vote()))
        assert sorted(ends) == ["done", "vote_once"]


def test_two_different_votes_at_once_under_a_live_grant_never_commit(race: Race) -> None:
    one, two, fencer = race.racer("fence_app"), race.racer("fence_app"), race.racer()
    for _ in range(ROUNDS):
        tool, grant = granted(fencer.store)
        scene = Scene(fencer.store, tool=tool, grant=grant)
        right = scene.vote("production", scene.action.payload_digest)
        ends = race.at_once((one, right), (two, scene.vote("replica")), (fencer, scene.commit))
        # Refused: first of all (nobody voted), or beside the other digest. Done: after the granted path alone.
        assert ends[:2] == ["done", "done"]
        assert ends[2] in ("done", "commit_one_digest")


def test_gaining_agreement_waits_for_a_divergent_vote_and_is_refused(race: Race) -> None:
    voter, fencer = race.racer("fence_app"), race.racer()
    tool, grant = granted(fencer.store)
    commit = make.make_committed_step(run=grant.run, tool=tool, grant=grant, store=fencer.store)
    make.make_vote(step=commit.step, path="replica", action=commit.payload, store=fencer.store)
    fencer.connection.commit()

    def gain(store: SqlStore) -> None:
        store.update(commit, authority="both")

    assert race.behind((voter, voting_against(commit)), (fencer, gain)) == "commit_gains_agreement"


# ---- a grant (G2, G3, G5) ----


def commitable(store: SqlStore, *, is_granted: bool) -> Scene:
    if not is_granted:
        return Scene(store, *PATHS)
    tool, grant = granted(store)
    return Scene(store, "production", tool=tool, grant=grant)


def test_the_last_use_of_a_grant_is_taken_once(race: Race) -> None:
    one, two = race.racer(), race.racer()
    tool, grant = granted(one.store)
    first, second = (Scene(one.store, "production", tool=tool, grant=grant) for _ in range(2))
    assert race.behind((one, first.commit), (two, second.commit)) == "grant_uses_within_limit"
    assert race.read("SELECT uses FROM fencing_grant WHERE id = %s", grant.pk) == 1
    assert race.read("SELECT count(*) FROM fencing_grantuse") == 1


def test_the_last_use_of_a_grant_is_taken_once_at_the_same_moment(race: Race) -> None:
    one, two = race.racer(), race.racer()
    for _ in range(ROUNDS):
        tool, grant = granted(one.store)
        first, second = (Scene(one.store, "production", tool=tool, grant=grant) for _ in range(2))
        ends = race.at_once((one, first.commit), (two, second.commit))
        assert sorted(ends) == ["done", "grant_uses_within_limit"]


def test_a_commit_waits_for_a_revocation_and_is_refused(race: Race) -> None:
    web, fencer = race.racer("fence_app"), race.racer()
    scene = commitable(fencer.store, is_granted=True)
    assert scene.grant is not None
    assert race.behind((web, revoking(scene.grant)), (fencer, scene.commit)) == "commit_under_a_live_grant"


def test_a_revocation_waits_for_a_commit(race: Race) -> None:
    web, fencer = race.racer("fence_app"), race.racer()
    scene = commitable(fencer.store, is_granted=True)
    assert scene.grant is not None
    assert race.behind((fencer, scene.commit), (web, revoking(scene.grant))) == "done"


def test_a_grant_that_ends_while_its_commit_waits_is_dead(race: Race) -> None:
    other, fencer = race.racer("fence_app"), race.racer()
    tool, grant = granted(fencer.store, expires_at=soon(1))
    scene = Scene(fencer.store, "production", tool=tool, grant=grant)

    other.connection.execute("SELECT FROM fencing_step WHERE id = %s FOR UPDATE", [scene.step.pk])
    future = fencer.start(scene.commit)
    assert fencer.waits(future, race.watcher)
    race.watcher.execute("SELECT pg_sleep_until(%s)", [soon(1)])
    other.connection.commit()
    assert future.result(10) == "commit_under_a_live_grant"


# ---- a delivery (I2, L3) ----


def test_a_delivery_waits_for_a_divergent_vote_and_is_refused(race: Race) -> None:
    voter, gateway = race.racer("fence_app"), race.racer("fence_app")
    commit, deliver = delivered(race.racer().store)
    assert race.behind((voter, voting_against(commit)), (gateway, deliver)) == "delivery_one_digest"
    assert race.read("SELECT count(*) FROM fencing_delivery") == 0


def test_a_divergent_vote_waits_for_a_delivery_and_is_late(race: Race) -> None:
    voter, gateway = race.racer("fence_app"), race.racer("fence_app")
    commit, deliver = delivered(race.racer().store)
    assert race.behind((gateway, deliver), (voter, voting_against(commit))) == "done"


def test_a_delivery_and_a_divergent_vote_at_the_same_moment_end_in_one_of_two_ways(race: Race) -> None:
    voter, gateway, fencer = race.racer("fence_app"), race.racer("fence_app"), race.racer()
    for _ in range(ROUNDS):
        commit, deliver = delivered(fencer.store)
        ends = race.at_once((gateway, deliver), (voter, voting_against(commit)))
        assert ends in (["done", "done"], ["delivery_one_digest", "done"])


def test_a_delivery_waits_for_a_revocation_and_is_refused(race: Race) -> None:
    web, gateway, fencer = race.racer("fence_app"), race.racer("fence_app"), race.racer()
    tool, grant = granted(fencer.store)
    _, deliver = delivered(fencer.store, run=grant.run, tool=tool, grant=grant)
    assert race.behind((web, revoking(grant)), (gateway, deliver)) == "delivery_under_a_live_grant"


def test_a_revocation_waits_for_a_delivery(race: Race) -> None:
    web, gateway, fencer = race.racer("fence_app"), race.racer("fence_app"), race.racer()
    tool, grant = granted(fencer.store)
    _, deliver = delivered(fencer.store, run=grant.run, tool=tool, grant=grant)
    assert race.behind((gateway, deliver), (web, revoking(grant))) == "done"


def test_a_delivery_waits_for_its_commit_to_be_closed_and_is_refused(race: Race) -> None:
    web, gateway = race.racer("fence_app"), race.racer("fence_app")
    commit, deliver = delivered(race.racer().store)
    assert race.behind((web, closing(commit)), (gateway, deliver)) == "delivery_of_a_standing_commit"


def test_closing_a_commit_waits_for_its_delivery_and_is_refused(race: Race) -> None:
    web, gateway = race.racer("fence_app"), race.racer("fence_app")
    commit, deliver = delivered(race.racer().store)
    assert race.behind((gateway, deliver), (web, closing(commit))) == "commit_closes_before_admission"


def test_of_two_deliveries_at_the_same_moment_one_is_admitted(race: Race) -> None:
    one, two, fencer = race.racer("fence_app"), race.racer("fence_app"), race.racer()
    for _ in range(ROUNDS):
        commit, deliver = delivered(fencer.store)
        # The second waits for the first one's row, before its guard is asked.
        assert sorted(race.at_once((one, deliver), (two, deliver))) == ["delivery_number_once", "done"]
        assert race.read("SELECT count(*) FROM fencing_delivery WHERE commit_id = %s", commit.pk) == 1


def test_of_two_siblings_deliveries_one_is_admitted(race: Race) -> None:
    one, two, fencer = race.racer("fence_app"), race.racer("fence_app"), race.racer()
    first, deliver = delivered(fencer.store)
    tool = ToolVersion(pk=first.step.registry, tool=first.tool)
    _, deliver_too = delivered(fencer.store, run=first.run, tool=tool, intent=first.intent)
    assert race.behind((one, deliver), (two, deliver_too)) == "delivery_number_once"


def test_the_next_try_waits_for_a_siblings_first_one_and_is_refused(race: Race) -> None:
    one, two, fencer = race.racer("fence_app"), race.racer("fence_app"), race.racer()
    first, deliver = delivered(fencer.store)
    tool = ToolVersion(pk=first.step.registry, tool=first.tool)
    second, _ = delivered(fencer.store, run=first.run, tool=tool, intent=first.intent)
    gateway = make.make_credential(role="gateway", store=fencer.store)
    fencer.connection.commit()
    try_next = lambda store: make.make_delivery(commit=second, number=2, by=gateway, store=store)  # noqa: E731
    # No row of the same number holds it up: it is the intent's lock that it waits for.
    assert race.behind((one, deliver), (two, try_next)) == "delivery_when_ready"
