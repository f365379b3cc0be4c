"""The fence job and its net: wake-ups may be lost, doubled or early, and nothing is decided twice or not at all."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import django_rq
import redis
from django.db import transaction
from structlog.testing import capture_logs

from fencing import jobs
from fencing.jobs import fence
from fencing.models import Action, AuditEvent, Commit, Step
from fencing.services import fencing
from fencing.services.wakeups import alive
from tests.factories import make_vote
from tests.fencing.beside import alone, held, wait_until
from tests.stories import OTHER_REFUND, REFUND, Story

DRAIN = "fencing.jobs.fence.drain"


def vote_alike(story: Story, step: str = "s1") -> None:
    story.propose(step, key=step)
    story.vote(story.replica, REFUND, step)
    story.vote(story.production, REFUND, step)


def jobs_enqueued() -> int:
    return len(django_rq.get_queue("fence"))


def test_a_vote_wakes_one_job_however_many_come(story: Story, work: Callable[..., None]) -> None:
    vote_alike(story)
    story.propose("s2")
    story.vote(story.replica, REFUND, "s2")
    assert jobs_enqueued() == 1
    work()
    assert story.step()["phase"] == "committed"
    assert jobs_enqueued() == 0


def test_a_lost_wake_up_is_found_by_the_tick(story: Story, work: Callable[..., None], queues: redis.Redis) -> None:
    vote_alike(story)
    queues.flushdb()
    work()
    assert story.step()["phase"] == "proposed"
    jobs.tick()
    work()
    assert story.step()["phase"] == "committed"


def test_a_job_that_died_with_its_worker_stands_for_others_a_few_seconds_only(
    story: Story, work: Callable[..., None], queues: redis.Redis
) -> None:
    vote_alike(story)
    queues.delete("rq:queue:fence")  # the job is gone, and its sign of life is not
    jobs.tick()
    assert jobs_enqueued() == 0
    wait_until(lambda: not queues.exists(alive("fence")), within_s=6)
    jobs.tick()
    work()
    assert story.step()["phase"] == "committed"


def test_doubled_wake_ups_decide_once(story: Story, work: Callable[..., None]) -> None:
    vote_alike(story)
    for _ in range(4):
        django_rq.get_queue("fence").enqueue_call(DRAIN, result_ttl=0)
    work()
    assert Commit.objects.count() == 1
    assert AuditEvent.objects.filter(verb="commit_step").count() == 1


def test_the_same_job_at_once_decides_once(story: Story) -> None:
    for number in range(10):
        vote_alike(story, f"s{number}")
    with ThreadPoolExecutor(3) as threads:
        decided = [each.result(20) for each in [threads.submit(alone, fence.drain) for _ in range(3)]]
    assert Commit.objects.count() == 10
    assert sum(decided) >= 10


def test_a_wake_up_before_its_facts_are_visible_leaves_them_to_the_tick(
    story: Story, work: Callable[..., None]
) -> None:
    story.propose()
    story.vote(story.replica)
    work()
    with held():
        story.vote(story.production)
        django_rq.get_queue("fence").enqueue_call(DRAIN, result_ttl=0)
        with ThreadPoolExecutor(1) as thread:
            thread.submit(alone, fence.drain).result(20)
    assert story.step()["phase"] == "proposed"
    jobs.tick()
    work()
    assert story.step()["phase"] == "committed"


def test_a_rolled_back_vote_wakes_nobody(story: Story, work: Callable[..., None], queues: redis.Redis) -> None:
    story.propose()
    work()
    queues.flushdb()
    with transaction.atomic():
        story.vote(story.production)
        transaction.set_rollback(True)
    assert jobs_enqueued() == 0
    assert story.step()["votes"] == []


def test_a_drain_lingers_for_what_comes_next_and_ends(story: Story, queues: redis.Redis) -> None:
    with ThreadPoolExecutor(1) as thread:
        drain = thread.submit(alone, fence.drain)
        wait_until(lambda: bool(queues.exists(alive("fence"))))
        vote_alike(story)
        wait_until(lambda: story.step()["phase"] == "committed", within_s=3)
        assert jobs_enqueued() == 0, "a bell that a job listens to needs no second job"
        assert drain.result(10) >= 1
    assert not queues.exists(alive("fence"))


def test_the_sweep_ends_grants_leases_and_deadlines(story: Story, work: Callable[..., None]) -> None:
    name = story.grant(tool="send_mail", ttl_s=1)["name"]
    story.propose("late", deadline_s=1)
    admitted = story.admit(story.agree())
    time.sleep(1.1)
    jobs.tick()
    work()
    assert story.grant_state(name) == "expired"
    assert story.intent(admitted)["deliveries"][0]["outcome"] == "unknown"
    assert story.step("late")["reason"] == "timeout"


def test_two_tickers_beside_each_other_are_harmless(story: Story) -> None:
    for number in range(5):
        story.grant(tool="refund", step=f"g{number}", ttl_s=1)
    admitted = [story.admit(story.agree(f"s{number}", key=f"k{number}")) for number in range(5)]
    time.sleep(1.1)
    with ThreadPoolExecutor(3) as threads, capture_logs() as logs:
        for ticking in [threads.submit(alone, jobs.tick) for _ in range(3)]:
            ticking.result(20)
    assert not [line for line in logs if line["log_level"] == "error"]
    assert AuditEvent.objects.filter(verb="expire_grant").count() == 5
    assert [story.intent(each)["state"] for each in admitted] == ["ready"] * 5
    assert AuditEvent.objects.filter(verb="record_outcome").count() == 5


def poison(story: Story, step: str) -> None:
    """Have a path vote for what no reader of ours can have let in: the bytes of its action are none."""
    raw = b"these bytes are no action"
    payload = "sha256:" + hashlib.sha256(raw).hexdigest()
    action = Action(payload_digest=payload, tool="refund", canonical=raw)
    Action.objects.bulk_create([action], ignore_conflicts=True)
    story.propose(step, key=step)
    story.vote(story.replica, OTHER_REFUND, step)
    make_vote(step=Step.objects.get(name=step, run__name=story.run), path="production", action=action)


def test_a_step_that_cannot_be_decided_holds_up_nobody(story: Story) -> None:
    poison(story, "poisoned")
    for number in range(8):
        vote_alike(story, f"s{number}")
    with capture_logs() as logs:
        story.decide()
    assert [story.step(f"s{number}")["phase"] for number in range(8)] == ["committed"] * 8
    assert story.step("poisoned")["phase"] == "proposed"
    assert Step.objects.filter(name="poisoned", due_at__isnull=False).exists(), "parked, not forgotten"
    told = {line["event"]: line for line in logs}
    assert told["step_parked"]["step"] == "poisoned"
    assert fencing.decide_due() == 0


def test_a_batch_of_many_with_several_that_cannot_be_decided_comes_to_its_end(story: Story) -> None:
    for number in range(3):
        poison(story, f"poisoned{number}")
    for number in range(30):
        vote_alike(story, f"s{number}")
    story.decide()
    assert Commit.objects.count() == 30
