"""The client against a whole running system: `manage.py up` with its workers."""

import asyncio
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from fencing.client import (
    AdmissionLost,
    AsyncGateway,
    AsyncPath,
    AsyncPlanner,
    Ballot,
    Busy,
    DeliveryInProgress,
    Equivocation,
    Failed,
    Gateway,
    Malformed,
    NotAllowed,
    NotCommitted,
    NotFound,
    NotRejected,
    NotSent,
    Path,
    PayloadMismatch,
    Planner,
    Refused,
    StaleEpoch,
    Step,
    TokenDiffers,
    UnknownStep,
    Wanted,
    check_token,
)
from tests.client.lossy import lossy_proxy
from tests.live import LiveSystem

REFUND: dict[str, Any] = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
HOLD: dict[str, Any] = {"tool": "hold_for_review", "args": {"invoice": 9}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """Everybody with a key, blocking; `run` is fresh for each test."""

    planner: Planner
    replica: Path
    production: Path
    gateway: Gateway
    run: str

    def commit(self, step: str = "s", epoch: int = 1, **pinned: Any) -> Step:
        """Propose a step, let both paths agree on the refund, and wait for the commit."""
        self.planner.propose(self.run, step, epoch, **pinned)
        self.replica.vote(self.run, step, epoch, action=REFUND)
        self.production.vote(self.run, step, epoch, action=REFUND)
        return self.planner.wait_decided(self.run, step, epoch, patience_s=10)


@pytest.fixture
def team(live_system: LiveSystem, live_keys: Mapping[str, str]) -> Iterator[Team]:
    with ExitStack() as stack:
        url = live_system.base_url
        made = Team(
            planner=stack.enter_context(Planner(url, live_keys["planner"])),
            replica=stack.enter_context(Path(url, live_keys["replica"])),
            production=stack.enter_context(Path(url, live_keys["production"])),
            gateway=stack.enter_context(Gateway(url, live_keys["gateway"])),
            run=f"client-{uuid.uuid4().hex[:12]}",
        )
        made.planner.open_run(made.run)
        yield made


def token_of(step: Step) -> str:
    assert step.commit is not None, step
    return step.commit.token


def test_an_effect_leaves_once_and_is_known_ever_after(team: Team) -> None:
    step = team.commit(action=REFUND, context={"ticket": 4711})
    assert (step.phase, step.reason, step.tool) == ("committed", "agreement", "refund")
    assert {vote.path for vote in step.votes or ()} == {"replica", "production"}
    keys: list[str] = []

    @team.gateway.guards("refund")
    def refund(invoice: int, cents: int, idempotency_key: str) -> dict[str, Any]:
        keys.append(idempotency_key)
        return {"refund_id": "re_1", "of": [invoice, cents]}

    first = refund(token_of(step), invoice=9, cents=4200)
    again = refund(token_of(step), invoice=9, cents=4200)
    assert first.response == again.response == {"refund_id": "re_1", "of": [9, 4200]}
    assert len(keys) == 1
    after = team.planner.get_step(team.run, "s", 1)
    assert after.intent is not None
    assert after.intent.state == "succeeded"
    assert team.planner.get_intent(after.intent.id).action == REFUND


def test_every_call_of_a_planner_may_be_repeated(team: Team) -> None:
    assert team.planner.open_run(team.run).duplicate
    first = team.planner.propose(team.run, "s", 1, deadline_s=60, context={"a": 1})
    again = team.planner.propose(team.run, "s", 1, deadline_s=60, context={"a": 1})
    assert (first.duplicate, again.duplicate) == (False, True)
    restarted = team.planner.restart(team.run, expected_epoch=1, reason="took over")
    repeated = team.planner.restart(team.run, expected_epoch=1, reason="took over")
    assert (restarted.epoch, repeated.epoch, repeated.duplicate) == (2, 2, True)
    assert restarted.superseded == ("s",)
    assert team.planner.get_run(team.run).epoch == 2


def test_refusals_come_by_their_names(team: Team) -> None:
    team.planner.propose(team.run, "s", 1)
    with pytest.raises(NotCommitted):
        team.gateway.admit(REFUND, run=team.run, step="s", epoch=1)
    with pytest.raises(UnknownStep):
        team.replica.vote(team.run, "nobody-proposed-it", 1, action=REFUND)
    with pytest.raises(Malformed, match="unsafe_number at /action/args/cents"):
        team.replica.vote(team.run, "s", 1, action={"tool": "refund", "args": {"cents": 2**60}})
    with pytest.raises(NotRejected):
        team.planner.replay(team.run, "s", from_epoch=1, reason="no patience")
    with pytest.raises(NotFound):
        team.planner.get_run("no-such-run")
    with Planner(team.planner.base_url, "fk_planner_wrong") as stranger, pytest.raises(NotAllowed):
        stranger.get_run(team.run)
    team.replica.vote(team.run, "s", 1, action=REFUND)
    with pytest.raises(Equivocation):
        team.replica.vote(team.run, "s", 1, action=HOLD)
    step = team.planner.wait_decided(team.run, "s", 1, patience_s=10)
    assert (step.phase, step.reason) == ("rejected", "equivocation")
    team.planner.restart(team.run, expected_epoch=1, reason="took over")
    with pytest.raises(StaleEpoch) as caught:
        team.planner.propose(team.run, "t", 1)
    assert caught.value.current_epoch == 2


def test_a_mutated_payload_is_found_offline_and_refused_online(team: Team) -> None:
    token = token_of(team.commit())
    keys = team.gateway.signing_keys()
    assert check_token(token, REFUND, keys, run=team.run, step="s", epoch=1).auth == "agreement"
    mutated = {"tool": "refund", "args": {"invoice": 9, "cents": 420_000}}
    with pytest.raises(TokenDiffers):
        check_token(token, mutated, keys)
    with pytest.raises(PayloadMismatch), team.gateway.effect(mutated, token):
        pytest.fail("this must not run")


def test_a_path_serves_until_it_is_told_to_stop(team: Team) -> None:
    stop = threading.Event()

    def decide(wanted: Wanted) -> Any:
        if wanted.run != team.run:
            return Ballot(abstain="not of this test")
        if wanted.context == {"breaks": True}:
            raise LookupError("no model answers")
        return Ballot(action=REFUND, model="m-1", prompt="p-1", rationale="It is owed.")

    settings = {"stop": stop.is_set, "wait_s": 1}
    threads = [
        threading.Thread(target=path.serve, args=(decide,), kwargs=settings) for path in (team.replica, team.production)
    ]
    for thread in threads:
        thread.start()
    try:
        team.planner.propose(team.run, "good", 1, context={"invoice": 9})
        team.planner.propose(team.run, "bad", 1, context={"breaks": True}, deadline_s=30)
        good = team.planner.wait_decided(team.run, "good", 1, patience_s=15)
        bad = team.planner.wait_decided(team.run, "bad", 1, patience_s=15)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert good.phase == "committed"
    assert good.correlated
    assert (bad.phase, bad.reason) == ("rejected", "path_unavailable")
    assert {vote.abstain for vote in bad.votes or ()} == {"LookupError: no model answers"}


def test_decisions_are_followed_as_events(team: Team) -> None:
    before = team.planner.next_events(wait_s=0)
    cursor = before.next
    while before.items:
        before = team.planner.next_events(cursor, wait_s=0)
        cursor = before.next or cursor
    step = team.commit("followed")
    mine = (event for event in team.planner.events(cursor, wait_s=5) if event.step.run == team.run)
    event = next(mine)
    assert (event.what, event.step.step, token_of(event.step)) == ("decided", "followed", token_of(step))


def test_nothing_and_not_yet_are_reported_and_the_effect_may_be_tried_again(team: Team) -> None:
    token = token_of(team.commit())
    ends = iter([NotSent(), Busy(retry_after_s=0.2), None])
    keys: list[str] = []

    @team.gateway.guards("refund")
    def refund(idempotency_key: str, **_args: Any) -> str:
        keys.append(idempotency_key)
        if (end := next(ends)) is not None:
            raise end
        return "done"

    with pytest.raises(NotSent):
        refund(token, **REFUND["args"])
    with pytest.raises(Busy):
        patiently(lambda: refund(token, **REFUND["args"]))
    assert patiently(lambda: refund(token, **REFUND["args"])).response == "done"
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_definite_failure_closes_the_commit_and_frees_the_step(team: Team) -> None:
    token = token_of(team.commit())

    def refund(**_args: Any) -> None:
        raise Failed({"error": "closed account"})

    for _ in range(2):
        with pytest.raises(Failed) as caught:
            team.gateway.perform("refund", refund, token, REFUND["args"])
        assert caught.value.response == {"error": "closed account"}
    step = team.planner.get_step(team.run, "s", 1)
    assert (step.reason, step.commit) == ("effect_failed", None)
    assert team.planner.replay(team.run, "s", from_epoch=1, reason="another account").epoch == 2


def test_after_a_lost_admission_the_lease_runs_out_and_the_next_one_is_the_second_delivery(
    team: Team, live_keys: Mapping[str, str]
) -> None:
    step = team.commit()
    token = token_of(step)
    losses = iter([True])

    def loses(_method: str, path: str) -> bool:
        return path.endswith("/gateway/admissions") and next(losses, False)

    keys: list[str] = []

    def refund(idempotency_key: str, **_args: Any) -> str:
        keys.append(idempotency_key)
        return "done"

    with (
        lossy_proxy(team.gateway.base_url, loses) as url,
        Gateway(url, live_keys["gateway"]) as gateway,
    ):
        with pytest.raises(AdmissionLost):
            gateway.perform("refund", refund, token, REFUND["args"])
        with pytest.raises(DeliveryInProgress) as caught:
            gateway.perform("refund", refund, token, REFUND["args"])
        assert 0 < (caught.value.retry_after_s or 0) <= 2
        assert keys == []
        patiently(lambda: gateway.perform("refund", refund, token, REFUND["args"]))
    after = team.planner.get_step(team.run, "s", 1)
    assert after.intent is not None
    intent = team.planner.get_intent(after.intent.id)
    assert intent.state == "succeeded"
    assert len(intent.deliveries or ()) == 2
    assert len(keys) == 1


def test_lost_answers_to_everything_else_change_nothing(team: Team, live_keys: Mapping[str, str]) -> None:
    """Each first answer is lost, of every call but the admission; the story ends as it does without that."""
    seen: set[tuple[str, str]] = set()

    def loses(method: str, path: str) -> bool:
        call = (method, path.partition("?")[0])
        is_first = call not in seen and "admissions" not in path
        seen.add(call)
        return is_first

    with lossy_proxy(team.planner.base_url, loses) as url, ExitStack() as stack:
        lossy = Team(
            planner=stack.enter_context(Planner(url, live_keys["planner"])),
            replica=stack.enter_context(Path(url, live_keys["replica"])),
            production=stack.enter_context(Path(url, live_keys["production"])),
            gateway=stack.enter_context(Gateway(url, live_keys["gateway"])),
            run=team.run,
        )
        token = token_of(lossy.commit(action=REFUND))
        outcome = lossy.gateway.perform("refund", lambda **_: {"refund_id": "re_1"}, token, REFUND["args"])
    assert outcome.outcome == "succeeded"
    step = team.planner.get_step(team.run, "s", 1)
    assert len(step.votes or ()) == 2
    assert step.intent is not None
    assert len(team.planner.get_intent(step.intent.id).deliveries or ()) == 1


def test_the_asynchronous_client_tells_the_same_story(team: Team, live_keys: Mapping[str, str]) -> None:
    async def story() -> Any:
        url = team.planner.base_url
        async with (
            AsyncPlanner(url, live_keys["planner"]) as planner,
            AsyncPath(url, live_keys["replica"]) as replica,
            AsyncPath(url, live_keys["production"]) as production,
            AsyncGateway(url, live_keys["gateway"]) as gateway,
        ):
            await planner.propose(team.run, "s", 1, action=REFUND)
            decided = asyncio.create_task(planner.wait_decided(team.run, "s", 1, patience_s=10))
            await asyncio.gather(
                replica.vote(team.run, "s", 1, action=REFUND), production.vote(team.run, "s", 1, action=REFUND)
            )
            token = token_of(await decided)
            async with gateway.effect(REFUND, token) as effect:
                await asyncio.sleep(0)
                effect.response = {"refund_id": "re_1"}
            return effect.outcome

    assert asyncio.run(story()).response == {"refund_id": "re_1"}


def patiently(act: Any, within_s: float = 10) -> Any:
    """Do it again, each time when the fence says so."""
    until = time.monotonic() + within_s
    while True:
        try:
            return act()
        except Refused as refused:
            if refused.retry_after_s is None or time.monotonic() > until:
                raise
            time.sleep(min(refused.retry_after_s, 1) or 0.1)
