"""Freezes and grants beside everything else (L10, G3, G6), on real connections. Each test names every allowed end.

An admission beside a freeze is either before it, and told as already out, or after it, and frozen: nothing slips
between. `held` makes one of two come first for certain, `at_once` lets chance decide.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connection

from fencing.models import Delivery, Freeze, Grant, GrantReview
from fencing.protocol.callers import Role
from fencing.services import fencing, grants
from fencing.services.recompute import Tallied, find_faults
from tests.fencing.beside import alone, at_once, connect_as, held
from tests.length import long_or
from tests.live import TOP
from tests.stories import NOTE, REFUND, Story, Told, actor

ROUNDS = long_or(3, long=20)
LONG_ROUNDS = long_or(6, long=100)
SCOPES: dict[str, Callable[[Story], dict[str, str]]] = {
    "run": lambda story: {"run": story.run},
    "tool": lambda _: {"tool": "refund"},
    "everything": lambda _: {},
}


@pytest.fixture
def db(committed: None) -> None:
    """No transaction around the test: others see what it writes."""


@pytest.fixture
def story(db: None) -> Iterator[Story]:
    """A run with its actors. Whatever comes of it, stored states must equal those that the facts tell."""
    yield Story.begin()
    assert list(find_faults(Tallied(), lambda _: None)) == []


def steps_of(lines: list[Told]) -> list[str]:
    return [line["step"] for line in lines]


# ---- admission beside a freeze ----


@pytest.mark.parametrize("scope", SCOPES)
def test_an_admission_that_came_first_is_told_as_already_out(story: Story, scope: str) -> None:
    token = story.agree()
    with held() as beside:
        admitted = story.admit(token)
        freezing = beside(lambda: story.freeze(**SCOPES[scope](story)))  # type: ignore[arg-type]
        assert not freezing.done()
    frozen = freezing.result(15)
    assert (frozen["stopped"], [line["intent"] for line in frozen["already_out"]]) == ([], [admitted["intent"]])
    assert story.admit(token)["code"] == "frozen"


@pytest.mark.parametrize("scope", SCOPES)
def test_an_admission_that_comes_second_waits_and_is_frozen(story: Story, scope: str) -> None:
    token = story.agree()
    with held() as beside:
        frozen = story.freeze(**SCOPES[scope](story))  # type: ignore[arg-type]
        admission = beside(lambda: story.admit(token))
        assert not admission.done()
    assert admission.result(15)["code"] == "frozen"
    assert (steps_of(frozen["stopped"]), frozen["already_out"]) == (["s1"], [])
    assert not Delivery.objects.exists()


@pytest.mark.parametrize("scope", SCOPES)
def test_admissions_and_a_freeze_at_once_agree_on_what_is_out(story: Story, scope: str) -> None:
    ends = Counter[str]()
    for number in range(ROUNDS):
        names = [f"{number}{letter}" for letter in "abc"]
        tokens = [story.agree(name, key=name) for name in names]
        calls: list[Callable[[], Told]] = [partial(story.admit, token) for token in tokens]
        freezing: Callable[[], Told] = partial(story.freeze, **SCOPES[scope](story))  # type: ignore[arg-type]
        *answers, frozen = at_once(*calls, freezing)
        out = {name for name, answer in zip(names, answers, strict=True) if answer.get("admit")}
        assert all(answer.get("admit") or answer["code"] == "frozen" for answer in answers)
        assert out == set(steps_of(frozen["already_out"])) & set(names)
        assert set(names) - out == set(steps_of(frozen["stopped"])) & set(names)
        ends.update("out" if name in out else "frozen" for name in names)
        story.lift(frozen)
    assert sum(ends.values()) == 3 * ROUNDS


def test_calls_of_other_runs_wait_for_a_freeze_of_everything_and_not_for_one_of_a_run(story: Story) -> None:
    other = Story()
    other.open()
    token, second = other.agree("s1", key="k1"), other.agree("s2", NOTE, key="k2")
    with held() as beside:
        story.freeze(run=story.run)
        admission = beside(lambda: other.admit(token))
        assert admission.result(15)["admit"] is True
    with held() as beside:
        story.freeze()
        waiting = beside(lambda: other.admit(second, NOTE))
        assert not waiting.done()
    assert waiting.result(15)["code"] == "frozen"


def test_proposals_and_votes_never_wait_for_a_freeze_of_everything(story: Story) -> None:
    with held() as beside:
        story.freeze()
        assert beside(lambda: story.propose("s1")).result(15)["status"] == 201
        assert beside(lambda: story.vote(story.production, REFUND, "s1")).result(15)["status"] == 201


def test_a_freeze_that_waits_is_not_overtaken_by_later_calls(story: Story) -> None:
    """The lock is fair: while a freeze of everything waits, whoever comes later waits behind it."""
    first, second = story.agree("s1", key="k1"), story.agree("s2", key="k2")
    with held() as beside:
        story.admit(first)
        freezing = beside(story.freeze)
        later = beside(lambda: story.admit(second))
        assert not freezing.done()
        assert not later.done()
    assert steps_of(freezing.result(15)["already_out"]) == ["s1"]
    assert later.result(15)["code"] == "frozen"


# ---- grants beside a freeze ----


@pytest.mark.parametrize("scope", SCOPES)
def test_a_grant_that_is_issued_beside_a_freeze_is_void_or_refused(story: Story, scope: str) -> None:
    for _ in range(ROUNDS):
        issuing: Callable[[], Told] = partial(story.grant, tool="refund")
        freezing: Callable[[], Told] = partial(story.freeze, **SCOPES[scope](story))  # type: ignore[arg-type]
        issued, frozen = at_once(issuing, freezing)
        if "name" in issued:
            assert frozen["voided"] == [issued["name"]]
            assert story.grant_state(issued["name"]) == "void"
        else:
            assert (issued["code"], frozen["voided"]) == ("frozen", [])
        story.lift(frozen)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_commit_beside_a_freeze_is_taken_back_or_never_made(story: Story, scope: str) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        story.grant(tool="refund")
        story.propose(step, key=step)
        story.vote(story.production, REFUND, step)
        freezing: Callable[[], Any] = partial(story.freeze, **SCOPES[scope](story))  # type: ignore[arg-type]
        _, frozen = at_once(fencing.decide_due, freezing)
        story.decide()
        body = story.step(step)
        assert (body["phase"], body["reason"]) in {("rejected", "grant_revoked"), ("proposed", None)}
        assert (step in steps_of(frozen["stopped"])) is (body["phase"] == "rejected")
        assert body["commit"] is None
        story.lift(frozen)


def test_an_approval_beside_a_freeze_leaves_no_live_grant(story: Story) -> None:
    for _ in range(ROUNDS):
        name = str(story.grant(tool="wire")["name"])
        approving: Callable[[], Told] = partial(story.approve, name)
        approved, frozen = at_once(approving, partial(story.freeze, tool="wire"))
        assert approved.get("state") == "live" or approved["code"] == "already_decided"
        assert (frozen["voided"], story.grant_state(name)) == ([name], "void")
        story.lift(frozen)


def test_a_revocation_and_a_freeze_at_once_tell_each_stop_once(story: Story) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        token, name = story.go_alone(step, key=step)
        revoking: Callable[[], Told] = partial(story.revoke, name)
        revoked, frozen = at_once(revoking, partial(story.freeze, tool="refund"))
        told = steps_of(revoked.get("stopped", [])) + steps_of(frozen["stopped"])
        assert told.count(step) == 1
        assert revoked.get("state") == "revoked" or revoked["code"] == "already_decided"
        assert story.step(step)["reason"] == "grant_revoked"
        assert story.admit(token)["code"] == "revoked"
        story.lift(frozen)


# ---- people beside each other ----


def test_a_double_tap_is_one_freeze(story: Story) -> None:
    for scope in SCOPES.values():
        got = at_once(*[partial(story.freeze, **scope(story))] * 3)  # type: ignore[arg-type]
        assert len({each["id"] for each in got}) == 1
        assert sorted(each["status"] for each in got) == [200, 200, 201]
        story.lift(got[0])
    assert Freeze.objects.count() == len(SCOPES)


def test_of_two_who_lift_at_once_one_does_and_the_other_is_told(story: Story) -> None:
    third = actor(Role.ONCALL)
    for _ in range(ROUNDS):
        frozen = story.freeze()
        got = at_once(partial(story.lift, frozen), partial(story.lift, frozen, by=third))
        assert sorted(str(each.get("code", each.get("status"))) for each in got) == ["200", "already_decided"]


def test_of_two_who_review_at_once_one_does_and_the_other_is_told(story: Story) -> None:
    for _ in range(ROUNDS):
        name = str(story.grant(tool="refund")["name"])
        got = at_once(partial(story.review, name), partial(story.review, name, by=story.oncall2))
        assert sorted(str(each.get("code", each.get("status"))) for each in got) == ["200", "already_decided"]
        assert GrantReview.objects.filter(grant__name=name).count() == 1
        story.revoke(name)


def test_two_steps_that_race_for_the_last_use_share_none(story: Story) -> None:
    for number in range(ROUNDS):
        name = str(story.grant(tool="refund")["name"])
        for letter in "ab":
            story.propose(f"{number}{letter}", key=f"{number}{letter}")
            story.vote(story.production, REFUND, f"{number}{letter}")
        at_once(fencing.decide_due, fencing.decide_due)
        story.decide()
        phases = sorted(str(story.step(f"{number}{letter}")["phase"]) for letter in "ab")
        assert phases == ["committed", "proposed"]
        assert Grant.objects.get(name=name).uses == 1
        for letter in "ab":
            story.vote(story.replica, REFUND, f"{number}{letter}")
        story.decide()


def test_a_debt_that_falls_due_while_the_issuer_waits_is_a_debt(story: Story) -> None:
    """The service reads the debts after its lock; what the clock makes due a moment later, the guard refuses."""
    name = str(story.grant(tool="send_note")["name"])
    with connect_as("fence_owner") as owner:
        owner.execute("ALTER TABLE fencing_grant DISABLE TRIGGER USER")
        owner.execute(
            "UPDATE fencing_grant SET review_due_at = clock_timestamp() + interval '0.2 s' WHERE name = %s", [name]
        )
        owner.execute("ALTER TABLE fencing_grant ENABLE TRIGGER USER")
        owner.commit()
    with held() as beside:
        story.freeze(run=story.run)  # holds the run
        issuing = beside(lambda: story.grant(tool="refund", by=story.oncall))
        connection.cursor().execute("SELECT pg_sleep(0.3)")
    assert issuing.result(15)["code"] == "frozen"  # the freeze is told first
    story.lift({"id": str(Freeze.objects.get().id)})
    assert story.grant(tool="refund", by=story.oncall)["code"] == "review_overdue"
    assert story.grant(tool="refund", by=story.oncall2)["status"] == 201


# ---- crash ----

DYING = """
import os, signal, sys
import django
django.setup()
from fencing.protocol.callers import Caller, Role
from fencing.services import freezes, writes
from fencing.services.requests import SetFreeze
send = writes.Writes.send
def send_and_die(self):
    send(self)
    if sys.argv[2] == "die":  # the first of two is sent, and the second is the last word
        sys.argv[2] = "again"
        return
    os.kill(os.getpid(), signal.SIGKILL)
writes.Writes.send = send_and_die
caller = Caller(credential_id=None, name="ann", role=Role.ONCALL, person_id=int(sys.argv[1]), person="ann")
freezes.freeze(SetFreeze(scope={}, reason="something is very wrong"), caller)
"""


def test_a_freeze_that_is_killed_before_its_commit_left_nothing_and_is_repeated(story: Story) -> None:
    token, name = story.go_alone()
    database = connection.settings_dict
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "fencing.settings",
        "DATABASE_URL": f"postgresql:///{database['NAME']}?host={database['HOST']}&user={database['USER']}",
        "PGPASSWORD": str(database["PASSWORD"]),
        "FENCE_DATABASE_URL_APP": "",
        "FENCE_DATABASE_URL_FENCER": "",
        "FENCE_ROLE": "owner",
    }
    command = [sys.executable, "-c", DYING, str(story.oncall.person_id), "die"]
    dead = subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True, check=False)
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    assert not Freeze.objects.exists()
    assert (story.grant_state(name), story.step()["phase"]) == ("used_up", "committed")

    frozen = story.freeze()  # its locks went with it
    assert (steps_of(frozen["stopped"]), frozen["voided"]) == (["s1"], [name])
    assert story.admit(token)["code"] == "revoked"


# ---- all of it ----


def test_rounds_of_freezing_granting_and_calling_never_deadlock(story: Story) -> None:
    """Nothing but the ends that each act has anyway; a deadlock would come out of `at_once` as an error."""
    ends = Counter[str]()
    for number in range(LONG_ROUNDS):
        step = f"s{number}"
        token = story.agree(step, key=step)
        acts: list[Callable[[], Any]] = [
            partial(story.admit, token),
            partial(story.freeze, tool="refund"),
            partial(story.freeze, by=story.oncall2, run=story.run),
            partial(story.grant, tool="refund", by=story.oncall2),
            partial(story.vote, story.third, REFUND, step),
            fencing.decide_due,
            partial(story.propose, f"n{number}"),
            grants.expire_grants,
        ]
        for answer in at_once(*acts):
            ends[str(answer.get("code", answer.get("status"))) if isinstance(answer, dict) else "done"] += 1
        for freeze in Freeze.objects.filter(lifted_at__isnull=True).select_related("set_by"):
            by = story.oncall if freeze.set_by_id != story.oncall.person_id else story.oncall2
            assert alone(lambda: story.lift({"id": str(freeze.id)}, by=by))["status"] == 200  # noqa: B023 - at once
    assert set(ends) <= {"200", "201", "done", "frozen", "grant_exists"}
    assert sum(ends.values()) == 8 * LONG_ROUNDS
