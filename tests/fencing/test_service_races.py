"""Races of design 11 between use cases, on real connections. Each names every end that is allowed.

`held` lets the first of two come first for certain: its transaction is open while the second begins. `at_once` lets
chance decide, several times over.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import connection
from structlog.testing import capture_logs

from fencing.models import AuditEvent, Commit, Delivery, GrantUse, Incident, Intent, Outcome, Step, Vote
from fencing.protocol.answers import Answer
from fencing.protocol.callers import Role
from fencing.queries import events as event_queries
from fencing.services import fencing, steps, votes
from fencing.services.recompute import Tallied, find_faults
from fencing.services.requests import Admit, CastVote, ProposeStep
from tests.fencing.beside import Crowd, alone, at_once, connect_as, held, wait_until
from tests.length import long_or
from tests.live import TOP
from tests.stories import EPOCH, NOTE, OTHER_REFUND, REFUND, Story, Told, actor, told

ROUNDS = long_or(6, long=40)


@pytest.fixture
def db(committed: None) -> None:
    """No transaction around the test: others see what it writes."""


@pytest.fixture(params=long_or(["straight"], long=["straight", "careful"]))
def story(db: None, request: pytest.FixtureRequest) -> Iterator[Story]:
    """A run in epoch 7, with its actors. Whatever comes of it, stored states must equal those that the facts tell.

    Calls go as they do in production: the straight way first, and the careful one where something is not plain, a row
    that another transaction holds among it. `--long` plays the careful way alone as well.
    """
    if request.param == "straight":
        request.getfixturevalue("straight_first")
    yield Story.begin()
    assert list(find_faults(Tallied(), lambda _: None)) == []


def ends(*results: Told) -> list[Any]:
    """The ends of calls, sorted: a refusal's code, else the status."""
    return sorted(str(result.get("code", result.get("status"))) for result in results)


def result_of(future: Future[Told]) -> Told:
    return future.result(15)


def phase_of(story: Story, step: str = "s1") -> tuple[Any, Any]:
    body = story.step(step)
    return body["phase"], body["reason"]


# ---- votes ----


def test_two_different_votes_at_once_under_a_live_grant_never_commit(story: Story) -> None:
    story.grant(tool="refund", max_uses=100)
    for number in range(ROUNDS):
        step = f"s{number}"
        story.propose(step, key=step)
        at_once(
            partial(story.vote, story.production, REFUND, step),
            partial(story.vote, story.replica, OTHER_REFUND, step),
            fencing.decide_due,
        )
        story.decide()
        assert phase_of(story, step) in {("rejected", "divergence"), ("rejected", "late_divergence")}
        assert story.step(step)["commit"] is None


def test_the_same_vote_at_once_is_one_vote(story: Story) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        story.propose(step)
        got = at_once(*[partial(story.vote, story.production, REFUND, step)] * 3)
        assert ends(*got) == ["200", "200", "201"]
        assert Vote.objects.filter(step__name=step, step__run__name=story.run).count() == 1


def test_two_different_votes_of_one_path_at_once_are_both_on_record(story: Story) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        story.propose(step)
        got = at_once(
            partial(story.vote, story.production, REFUND, step),
            partial(story.vote, story.production, OTHER_REFUND, step),
        )
        assert ends(*got) == ["201", "equivocation"]
        story.decide()
        assert phase_of(story, step) == ("rejected", "equivocation")


def test_a_divergent_vote_waits_for_the_commit_and_takes_it_back(story: Story) -> None:
    story.propose()
    story.vote(story.replica)
    story.vote(story.production)
    with held() as beside:
        assert fencing.decide_due() == 1
        vote = beside(lambda: story.vote(story.third, OTHER_REFUND))
        assert not vote.done()
    assert result_of(vote)["vote"] == "late"
    assert phase_of(story) == ("rejected", "late_divergence")
    assert story.step()["intent"]["state"] == "cancelled"


def test_a_fencer_passes_over_a_step_that_is_being_voted_on(story: Story) -> None:
    story.propose()
    story.vote(story.replica)
    with held() as beside:
        story.vote(story.production, OTHER_REFUND)
        assert beside(fencing.decide_due).result(15) == 0
    story.decide()
    assert phase_of(story) == ("rejected", "divergence")


def test_commit_and_divergent_vote_at_once(story: Story) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        story.propose(step, key=step)
        story.vote(story.replica, REFUND, step)
        story.vote(story.production, REFUND, step)
        at_once(fencing.decide_due, partial(story.vote, story.third, OTHER_REFUND, step), fencing.decide_due)
        story.decide()
        assert phase_of(story, step) in {("rejected", "divergence"), ("rejected", "late_divergence")}


# ---- admission ----


def test_a_divergent_vote_waits_for_the_admission_and_opens_an_incident(story: Story) -> None:
    token = story.agree()
    with held() as beside:
        assert story.admit(token)["admit"] is True
        vote = beside(lambda: story.vote(story.third, OTHER_REFUND))
        assert not vote.done()
    assert result_of(vote)["vote"] == "late"
    assert phase_of(story) == ("committed", "agreement")
    assert Incident.objects.filter(kind="late_divergence").count() == 1


def test_an_admission_waits_for_the_divergent_vote_and_is_refused(story: Story) -> None:
    token = story.agree()
    with held() as beside:
        story.vote(story.third, OTHER_REFUND)
        admission = beside(lambda: story.admit(token))
        assert not admission.done()
    assert result_of(admission)["code"] == "revoked"
    assert not Delivery.objects.exists()


def test_a_revocation_waits_for_the_admission_and_tells_that_it_is_out(story: Story) -> None:
    token, grant = story.go_alone()
    with held() as beside:
        admitted = story.admit(token)
        revocation = beside(lambda: story.revoke(grant))
        assert not revocation.done()
    told_ = result_of(revocation)
    assert (told_["stopped"], [line["intent"] for line in told_["already_out"]]) == ([], [admitted["intent"]])
    assert phase_of(story) == ("committed", "grant")


def test_an_admission_waits_for_the_revocation_and_is_refused(story: Story) -> None:
    token, grant = story.go_alone()
    with held() as beside:
        assert len(story.revoke(grant)["stopped"]) == 1
        admission = beside(lambda: story.admit(token))
        assert not admission.done()
    assert result_of(admission)["code"] == "revoked"


def test_admission_and_revocation_at_once_agree_on_what_is_out(story: Story) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        token, grant = story.go_alone(step, key=step)
        admission, revocation = at_once(partial(story.admit, token), partial(story.revoke, grant))
        is_out = admission.get("admit") is True
        assert is_out or admission["code"] == "revoked"
        assert [line["step"] for line in revocation["already_out" if is_out else "stopped"]] == [step]
        assert revocation["stopped" if is_out else "already_out"] == []


@pytest.mark.parametrize("what", ["step", "grant"])
def test_a_grant_that_dies_while_the_admission_waits_is_dead(story: Story, what: str) -> None:
    token, _ = story.go_alone(ttl_s=1)
    with connect_as("fence_owner") as other, ThreadPoolExecutor(1) as thread:
        other.execute(f"SELECT 1 FROM fencing_{what} FOR UPDATE")  # noqa: S608
        admission = thread.submit(alone, lambda: story.admit(token))
        time.sleep(1.1)
        other.rollback()
        answer = admission.result(15)
    assert answer.get("code") == "grant_expired" or (what == "grant" and answer.get("admit") is True), answer
    if answer.get("admit"):  # it was admitted before the end, for it had no need to wait
        lease = Delivery.objects.get()
        assert lease.admitted_at < lease.commit.grant.expires_at


def test_a_grant_that_dies_while_the_commit_waits_is_dead(story: Story) -> None:
    grant = story.grant(tool="refund", ttl_s=1)["name"]
    story.propose()
    story.vote(story.production)
    with connect_as("fence_owner") as other, ThreadPoolExecutor(1) as thread:
        other.execute("SELECT 1 FROM fencing_grant FOR UPDATE")
        decision = thread.submit(alone, fencing.decide_due)
        time.sleep(1.1)
        other.rollback()
        decision.result(15)
    story.sweep()
    assert phase_of(story) == ("proposed", None)
    assert not Commit.objects.exists()
    assert not GrantUse.objects.exists()
    assert story.grant_state(grant) == "expired"


def test_of_several_admissions_at_once_one_is_let_through(story: Story) -> None:
    for number in range(ROUNDS):
        token = story.agree(f"s{number}", key=f"s{number}")
        got = at_once(*[partial(story.admit, token)] * 4)
        assert ends(*got) == ["200", "delivery_in_progress", "delivery_in_progress", "delivery_in_progress"]
    assert Delivery.objects.count() == ROUNDS


def test_bulk_admissions_in_opposite_orders_never_break(story: Story) -> None:
    from fencing.gateway import admissions  # noqa: PLC0415 - called as the bulk form calls it

    for number in range(ROUNDS):
        names = [f"{number}{letter}" for letter in "abc"]
        tokens = [story.agree(name, key=name) for name in names]

        def ask(order: list[str]) -> list[Told]:
            requests = [Admit(action=dict(REFUND), token=token) for token in order]
            return [told(result) for result in admissions.admit(requests, story.gateway)]

        one, other = at_once(lambda: ask(tokens), lambda: ask(tokens[::-1]))  # noqa: B023 - ends before the next round
        assert ends(*one, *other) == ["200"] * 3 + ["delivery_in_progress"] * 3


# ---- proposals, replays, restarts, grants ----


def test_the_same_proposal_at_once_is_one_step(story: Story) -> None:
    for number in range(ROUNDS):
        assert ends(*at_once(*[partial(story.propose, f"s{number}")] * 3)) == ["200", "200", "201"]
        got = at_once(
            partial(story.propose, f"c{number}", tool="refund"),
            partial(story.propose, f"c{number}", tool="send_mail"),
        )
        assert ends(*got) == ["201", "step_conflict"]


def test_of_two_replays_at_once_one_opens_the_epoch(story: Story) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        story.propose(step)
        story.vote(story.replica, REFUND, step)
        story.vote(story.production, OTHER_REFUND, step)
        story.decide()
        got = at_once(*[partial(story.replay, step)] * 3)
        assert ends(*got) == ["200", "200", "201"]
        assert {each["epoch"] for each in got} == {EPOCH + 1 + number}


def test_of_two_planners_that_restart_at_once_one_gets_the_epoch(story: Story) -> None:
    other = actor(Role.PLANNER, group=story.planner.group)
    for epoch in range(EPOCH, EPOCH + ROUNDS):
        got = at_once(partial(story.restart, epoch), partial(story.restart, epoch, by=other))
        assert ends(*got) == ["201", "stale_epoch"]


def test_a_restart_beside_the_last_vote_leaves_one_of_two_ends(story: Story) -> None:
    epoch = EPOCH
    seen = Counter[Any]()
    for _ in range(ROUNDS):
        story.propose("s1", epoch)
        story.vote(story.replica, REFUND, "s1", epoch)
        at_once(
            partial(story.vote, story.production, REFUND, "s1", epoch),
            fencing.decide_due,
            partial(story.restart, epoch),
        )
        story.decide()
        body = story.step("s1", epoch)
        end = body["phase"], body["reason"]
        assert end in {("rejected", "superseded"), ("committed", "agreement")}
        seen[end] += 1
        epoch += 1
        if body["phase"] == "committed":
            break  # it stands, whatever is opened since
    assert seen


def test_two_grants_for_the_same_scope_at_once_are_one(story: Story) -> None:
    for _ in range(ROUNDS):
        got = at_once(*[partial(story.grant, tool="refund")] * 2)
        assert ends(*got) == ["201", "grant_exists"]
        story.revoke(next(each["name"] for each in got if "name" in each))


def test_two_approvals_at_once_by_one_person_are_one(story: Story) -> None:
    for _ in range(ROUNDS):
        name = story.grant(tool="wire")["name"]
        got = at_once(*[partial(story.approve, name)] * 2)
        assert ends(*got) == ["200", "200"]
        assert {len(each["approvals"]) for each in got} == {1}
        story.revoke(name)


def test_a_revocation_waits_for_the_commit_and_stops_it(story: Story) -> None:
    grant = story.grant(tool="refund")["name"]
    story.propose()
    story.vote(story.production)
    with held() as beside:
        assert fencing.decide_due() == 1
        revocation = beside(lambda: story.revoke(grant))
        assert not revocation.done()
    assert [line["step"] for line in result_of(revocation)["stopped"]] == ["s1"]
    assert phase_of(story) == ("rejected", "grant_revoked")


def test_a_fencer_passes_over_a_run_whose_grant_is_being_revoked(story: Story) -> None:
    grant = story.grant(tool="refund")["name"]
    story.propose()
    story.vote(story.production)
    with held() as beside:
        story.revoke(grant)
        assert beside(fencing.decide_due).result(15) == 0
    story.decide()
    assert phase_of(story) == ("proposed", None)


def test_a_witness_beside_the_revocation_counts_if_it_came_first(story: Story) -> None:
    token, grant = story.go_alone("s1", key="k1")
    with held() as beside:
        story.vote(story.replica)
        revocation = beside(lambda: story.revoke(grant))
        assert not revocation.done()
    assert result_of(revocation)["stopped"] == []
    assert story.admit(token)["admit"] is True

    _, grant = story.go_alone("s2", key="k2")
    with held() as beside:
        story.revoke(grant)
        vote = beside(lambda: story.vote(story.replica, REFUND, "s2"))
        assert not vote.done()
    assert result_of(vote)["vote"] == "late"
    assert phase_of(story, "s2") == ("rejected", "grant_revoked")


# ---- fencers ----


def test_a_job_that_starts_before_its_facts_are_visible_finds_nothing_and_loses_nothing(story: Story) -> None:
    story.propose()
    story.vote(story.replica)
    story.decide()
    with held() as beside:
        story.vote(story.production)
        assert beside(fencing.decide_due).result(15) == 0
    assert phase_of(story) == ("proposed", None)
    story.sweep()
    assert phase_of(story) == ("committed", "agreement")


def test_fencers_beside_each_other_decide_each_step_once(story: Story) -> None:
    grant = story.grant(tool="refund", max_uses=10)["name"]
    others = [Story.begin() for _ in range(3)]
    for each in (story, *others):
        for number in range(8):
            each.propose(f"s{number}", key=f"k{number}")
            each.vote(each.production, REFUND, f"s{number}")
            if each is not story:
                each.vote(each.replica, REFUND, f"s{number}")
    with capture_logs() as logs:
        at_once(*[lambda: sum(iter(lambda: fencing.decide_due(5), 0))] * 4)
        story.decide()
    assert not [line for line in logs if line["event"] in {"batch_failed", "step_parked"}]
    assert Commit.objects.count() == 4 * 8
    assert AuditEvent.objects.filter(verb="commit_step").count() == 4 * 8
    assert GrantUse.objects.filter(grant__name=grant).count() == 8


def test_the_last_use_of_a_grant_is_taken_once_by_fencers_beside_each_other(story: Story) -> None:
    for number in range(ROUNDS):
        grant = story.grant(tool="refund")["name"]
        steps = [f"{number}{letter}" for letter in "abc"]
        for step in steps:
            story.propose(step, key=step)
            story.vote(story.production, REFUND, step)
        at_once(*[lambda: fencing.decide_due(1)] * 3)
        story.decide()
        assert sorted(str(story.step(step)["phase"]) for step in steps) == ["committed", "proposed", "proposed"]
        assert story.grant_state(grant) == "used_up"
        for step in steps:
            story.vote(story.third, OTHER_REFUND, step)
        story.decide()


DYING_FENCER = """
import os, signal
import django
django.setup()
from fencing.services import fencing, writes

send = writes.Writes.send
def send_and_die(self):
    send(self)
    os.kill(os.getpid(), signal.SIGKILL)
writes.Writes.send = send_and_die
fencing.decide_due()
"""


def test_a_fencer_killed_between_deciding_and_commit_leaves_nothing_behind(story: Story) -> None:
    grant = story.grant(tool="refund")["name"]
    story.propose()
    story.vote(story.production)
    database = connection.settings_dict
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "fencing.settings",
        "DATABASE_URL": f"postgresql:///{database['NAME']}?host={database['HOST']}&user={database['USER']}",
        "PGPASSWORD": str(database["PASSWORD"]),
        "FENCE_DATABASE_URL_APP": "",
        "FENCE_DATABASE_URL_FENCER": "",
        "FENCE_ROLE": "owner",
    }
    dead = subprocess.run(
        [sys.executable, "-c", DYING_FENCER], cwd=TOP, env=environment, capture_output=True, text=True, check=False
    )
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    assert phase_of(story) == ("proposed", None)
    assert not Commit.objects.exists()
    assert not Intent.objects.exists()
    assert story.grant_state(grant) == "live"

    wait_until(lambda: fencing.decide_due() > 0 or phase_of(story)[0] == "committed")
    assert phase_of(story) == ("committed", "grant")
    assert (Commit.objects.count(), GrantUse.objects.count()) == (1, 1)


# ---- outcomes ----


def test_a_worker_that_wakes_after_its_lease_was_given_to_another(story: Story) -> None:
    token = story.agree()
    first = story.admit(token)
    time.sleep(1.05)
    second = story.admit(token)
    assert second["idempotency_key"] == first["idempotency_key"]
    late, timely = at_once(lambda: story.report(first, "failed"), lambda: story.report(second, "succeeded"))
    assert late["code"] == "stale_delivery"
    assert timely["state"] == "succeeded"
    assert story.report(first, "succeeded")["state"] == "succeeded"


def test_a_late_success_beside_the_next_admission(story: Story) -> None:
    token = story.agree()
    first = story.admit(token)
    time.sleep(1.05)
    late, next_ = at_once(lambda: story.report(first, "succeeded"), lambda: story.admit(token))
    assert late["state"] == "succeeded"
    assert next_["admit"] in {True, False}
    assert story.intent(first)["state"] == "succeeded"
    assert Delivery.objects.count() == (2 if next_["admit"] else 1)


def test_a_late_report_beside_the_sweep_of_its_lease(story: Story) -> None:
    for number in range(long_or(2, long=8)):
        token = story.agree(f"s{number}", NOTE, key=f"k{number}")
        admitted = story.admit(token, NOTE)
        time.sleep(1.05)
        late = at_once(partial(story.report, admitted, "succeeded"), partial(swept, story))[0]
        assert late["state"] == "succeeded"
        assert Outcome.objects.filter(delivery_id=admitted["delivery"], outcome="succeeded").count() == 1


def swept(story: Story) -> Told:
    story.sweep()
    return {}


def test_two_reports_that_contradict_each_other_at_once(story: Story) -> None:
    for number in range(ROUNDS):
        admitted = story.admit(story.agree(f"s{number}", key=f"k{number}"))
        got = at_once(
            partial(story.report, admitted, "succeeded"),
            partial(story.report, admitted, "failed"),
        )
        assert ends(*got) == ["200", "outcome_conflict"]
        won = next(each["state"] for each in got if "state" in each)
        assert story.intent(admitted)["state"] == won
        assert Incident.objects.filter(kind="outcome_conflict", intent_id=admitted["intent"]).count() == 1


def test_two_people_who_resolve_at_once(story: Story) -> None:
    other = Story(run=story.run).reviewer
    for number in range(ROUNDS):
        admitted = story.admit(story.agree(f"s{number}", NOTE, key=f"k{number}"), NOTE)
        story.report(admitted, "unknown")
        got = at_once(
            partial(story.resolve, admitted, happened=True),
            partial(story.resolve, admitted, happened=False, by=other),
        )
        assert ends(*got) == ["200", "already_decided"]
        assert story.intent(admitted)["state"] in {"succeeded", "ready"}


# ---- reads ----


def test_a_read_never_mixes_two_moments(story: Story) -> None:
    """A step that is committed while it is read shows either all of its commit or nothing of it."""
    story.propose()
    story.vote(story.replica)
    story.vote(story.production)
    with held() as beside:
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE fencing_vote IN ACCESS EXCLUSIVE MODE")
        reading = beside(story.step)
        assert not reading.done()
        assert fencing.decide_due() == 1
    body = result_of(reading)
    assert (body["phase"] == "committed") is (body["commit"] is not None), body


def test_the_feed_tells_nothing_that_another_could_still_come_before(story: Story) -> None:
    """Numbers are handed out before commit: while an older transaction is open, its event may yet come (design 10)."""
    story.propose()
    story.vote(story.replica)
    story.vote(story.production)
    with connect_as("fence_owner") as older:
        older.execute("SELECT pg_current_xact_id()")
        story.decide()
        assert _feed_after(story, None)["items"] == []
        older.commit()
    assert [item["step"]["step"] for item in _feed_after(story, None)["items"]] == ["s1"]


def _feed_after(story: Story, cursor: str | None) -> Told:
    answer = event_queries.list_events(cursor, story.planner)
    assert isinstance(answer, Answer)
    return dict(answer.body)


def test_events_numbered_out_of_order_are_all_told(story: Story) -> None:
    """Of two transactions the older one numbers its event later, and commits first: the other must not be skipped."""
    steps = {}
    for name in ("a", "b"):
        story.propose(name, key=name)
        steps[name] = Step.objects.get(name=name, run__name=story.run)
    with connect_as("fence_owner") as older, connect_as("fence_owner") as younger:
        older.execute("SELECT pg_current_xact_id()")
        younger.execute("SELECT pg_current_xact_id()")
        _insert_event(younger, story, steps["b"])
        _insert_event(older, story, steps["a"])
        older.commit()
        first = _feed_after(story, None)
        younger.commit()
        second = _feed_after(story, first["next"])
    assert sorted(item["step"]["step"] for item in [*first["items"], *second["items"]]) == ["a", "b"]


def _insert_event(other: Any, story: Story, step: Step) -> None:
    statement = "INSERT INTO fencing_feedevent (what, run_id, step_id, owner_group) VALUES ('decided', %s, %s, %s)"
    other.execute(statement, [step.run_id, step.id, story.planner.group])


# ---- everything at once ----


def test_rounds_of_restart_admission_and_vote_reach_no_client_as_a_deadlock(story: Story) -> None:
    """Two steps want one effect: one gets a divergent vote, the other a third that agrees, and both are asked for."""
    rounds = long_or(60, long=200)
    tokens = committed_pairs(story, rounds)
    chance = random.Random(7)  # noqa: S311 - a test's dice
    allowed = {None, "revoked", "delivery_in_progress"}
    with Crowd(6) as crowd:
        for number in range(rounds):
            one, other = f"s{number}", f"t{number}"
            acts: list[Callable[[], Any]] = [
                partial(story.restart, EPOCH + number),
                partial(story.admit, tokens[one]),
                partial(story.admit, tokens[other]),
                partial(story.vote, story.third, OTHER_REFUND, one),
                partial(story.vote, story.third, REFUND, other),
                fencing.decide_due,
            ]
            chance.shuffle(acts)
            got = [each for each in crowd.at_once(*acts) if isinstance(each, dict)]
            assert {each.get("code") for each in got} <= allowed, got
            assert sum(each.get("admit") is True for each in got) == 1, got
    assert Delivery.objects.count() == rounds
    # What is out stands, and people know; what was not out is taken back.
    diverged = Step.objects.filter(name__startswith="s", run__name=story.run)
    out = diverged.filter(phase="committed").count()
    assert out + diverged.filter(phase="rejected", reason="late_divergence").count() == rounds
    assert Incident.objects.filter(kind="late_divergence").count() == out


def committed_pairs(story: Story, rounds: int) -> dict[str, str]:
    """Commit two steps for each of so many keys, in bulk, and give their tokens by step."""
    names = {f"{letter}{number}": f"k{number}" for number in range(rounds) for letter in "st"}
    place: dict[str, Any] = {"run": story.run, "epoch": EPOCH}
    steps.propose_steps([ProposeStep(step=name, key=key, **place) for name, key in names.items()], story.planner)
    for path in (story.replica, story.production):
        votes.cast_votes([CastVote(step=name, action=dict(REFUND), **place) for name in names], path)
    story.decide()
    return dict(Commit.objects.filter(run__name=story.run).values_list("step_name", "token"))
