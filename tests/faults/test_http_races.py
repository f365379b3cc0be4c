"""Races of design 11 over HTTP, on a whole system: short cuts, careful ways and real workers beside each other.

Each names every end that is allowed. `tests/fencing/test_service_races.py` has them between services, where one of two
can be held to come first for certain; here chance decides, round after round.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from tests.factories import fresh
from tests.faults.own import Own, eventually
from tests.length import long_or
from tests.playing import Reply

ROUNDS: Final = long_or(4, long=300)
# Between services it is two hundred in every run of the suite.
MIXED_ROUNDS: Final = long_or(40, long=5000)
ROUNDS_OF_RUN: Final = 20
REFUND: Final = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
OTHER: Final = {"tool": "refund", "args": {"invoice": 9, "cents": 1}}
REASON: Final = "The replica's host is down since 02:10."
DECIDED_S: Final = 20.0
Told = dict[str, Any]
Act = Callable[[], Told]


@dataclass(kw_only=True)
class Scene:
    """One run on the live system, in epoch 1, and who acts in it. Every call is sent once."""

    own: Own
    run: str
    threads: ThreadPoolExecutor

    def send(self, actor: str, call: str, **body: Any) -> Told:
        """Send a call; a refusal comes back with its code. No fault of ours and no deadlock reaches a client."""
        reply: Reply = self.own.player.send({"as": actor, "call": call, **({"body": body} if body else {})})
        assert reply.status < 500, reply
        return {"status": reply.status, **reply.body}

    def at_once(self, *acts: Act) -> list[Told]:
        """Let acts begin at the same moment, and give what each was told."""
        gate = threading.Barrier(len(acts))

        def behind(act: Act) -> Told:
            gate.wait(20)
            return act()

        futures = [self.threads.submit(behind, act) for act in acts]
        return [future.result(60) for future in futures]

    # ---- acts ----

    def propose(self, step: str, **members: Any) -> Told:
        return self.send("planner", "POST /steps", run=self.run, step=step, epoch=1, **members)

    def vote(self, path: str, step: str, action: Any = REFUND) -> Told:
        return self.send(path, "POST /votes", run=self.run, step=step, epoch=1, action=action)

    def grant(self, **members: Any) -> str:
        scope = {"run": self.run, "epoch": 1, "ttl_s": 600, "reason": REASON, "name": fresh("grant")} | members
        told = self.send("oncall", "POST /grants", **scope)
        assert told["status"] == 201, told
        return str(scope["name"])

    def revoke(self, grant: str) -> Told:
        return self.send("oncall2", f"POST /grants/{grant}/revoke", reason="The wrong customer.")

    def admit(self, token: str) -> Told:
        return self.send("gateway", "POST /gateway/admissions", token=token, action=REFUND)

    def report(self, admitted: Told, outcome: str) -> Told:
        ids = {"intent": admitted["intent"], "delivery": admitted["delivery"]}
        return self.send("gateway", "POST /gateway/outcomes", **ids, outcome=outcome)

    # ---- what is there ----

    def step(self, step: str, epoch: int = 1) -> Told:
        return self.send("planner", f"GET /runs/{self.run}/steps/{step}?epoch={epoch}")

    def end(self, step: str) -> tuple[Any, Any]:
        """Wait for the decision."""
        return ending(self.send("planner", f"GET /runs/{self.run}/steps/{step}?epoch=1&wait={DECIDED_S:.0f}"))

    def committed(self, step: str) -> str:
        """Have both paths agree; give the token."""
        self.propose(step, key=step)
        for path in ("replica", "production"):
            self.vote(path, step)
        assert self.end(step)[0] == "committed"
        return str(self.step(step)["commit"]["token"])

    def granted(self, step: str, **members: Any) -> tuple[str, str]:
        """Have production act alone; give the token and the grant."""
        grant = self.grant(step=step, tool="refund", **members)
        self.propose(step, key=step)
        self.vote("production", step)
        assert self.end(step)[0] == "committed"
        return str(self.step(step)["commit"]["token"]), grant


def ending(step: Told) -> tuple[Any, Any]:
    return step["phase"], step["reason"]


def ends(*told: Told) -> list[str]:
    """The ends of calls, sorted: a refusal's code, else the status."""
    return sorted(str(each.get("code", each["status"])) for each in told)


@pytest.fixture
def scene(own: Own) -> Iterator[Scene]:
    run = fresh("run")
    assert own.say("planner", "POST /runs", run=run).status == 201
    with ThreadPoolExecutor(8) as threads:
        yield Scene(own=own, run=run, threads=threads)


@pytest.fixture(autouse=True, scope="module")
def stored_states_hold(own: Own) -> Iterator[None]:
    """Whatever came first, what is stored must be what the facts tell, and no divergence was committed (I1)."""
    yield
    eventually(lambda: "stored states equal recomputed ones" in own.recompute())
    assert own.say("auditor", "GET /counters").body["i1_divergent_commits"]["n"] == 0


# ---- proposals and votes ----


def test_the_same_proposal_at_once_is_one_step_and_another_one_is_refused(scene: Scene) -> None:
    for number in range(ROUNDS):
        got = scene.at_once(*[partial(scene.propose, f"s{number}")] * 3)
        assert ends(*got) == ["200", "200", "201"]
        acts = [partial(scene.propose, f"c{number}", key=key) for key in ("a", "b")]
        assert ends(*scene.at_once(*acts)) == ["201", "step_conflict"]


def test_the_same_vote_at_once_is_one_vote(scene: Scene) -> None:
    for number in range(ROUNDS):
        scene.propose(f"s{number}")
        got = scene.at_once(*[partial(scene.vote, "production", f"s{number}")] * 3)
        assert ends(*got) == ["200", "200", "201"]
        assert len(scene.step(f"s{number}")["votes"]) == 1


def test_two_different_votes_of_one_path_at_once_are_both_on_record(scene: Scene) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        scene.propose(step)
        votes = [partial(scene.vote, "production", step, action) for action in (REFUND, OTHER)]
        assert ends(*scene.at_once(*votes)) == ["201", "equivocation"]
        assert scene.end(step) == ("rejected", "equivocation")
        assert len(scene.step(step)["votes"]) == 2


def test_two_different_votes_at_once_under_a_live_grant_never_stay_committed(scene: Scene) -> None:
    scene.grant(tool="refund", max_uses=2 * ROUNDS)
    for number in range(ROUNDS):
        step = f"s{number}"
        scene.propose(step, key=step)
        got = scene.at_once(partial(scene.vote, "production", step), partial(scene.vote, "replica", step, OTHER))
        assert ends(*got) == ["201", "201"]
        eventually(lambda: scene.step(step)["phase"] == "rejected", DECIDED_S)  # noqa: B023 - ends in its round
        assert scene.step(step)["reason"] in {"divergence", "late_divergence"}
        assert scene.step(step)["commit"] is None


def test_the_last_vote_beside_a_divergent_one(scene: Scene) -> None:
    """Either the third path comes first and all is a divergence, or the commit does and is taken back (F8)."""
    for number in range(ROUNDS):
        step = f"s{number}"
        scene.propose(step, key=step)
        scene.vote("replica", step)
        votes = scene.at_once(partial(scene.vote, "production", step), partial(scene.vote, "third", step, OTHER))
        assert ends(*votes) == ["201", "201"]
        eventually(lambda: scene.step(step)["phase"] == "rejected", DECIDED_S)  # noqa: B023 - ends in its round
        assert scene.step(step)["reason"] in {"divergence", "late_divergence"}
        intent = scene.step(step)["intent"]
        assert intent is None or intent["state"] == "cancelled"


# ---- admissions ----


def test_admission_beside_a_divergent_vote(scene: Scene) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        token = scene.committed(step)
        admission, vote = scene.at_once(partial(scene.admit, token), partial(scene.vote, "third", step, OTHER))
        assert vote["vote"] == "late"
        incidents = scene.send("reviewer", f"GET /incidents?run={scene.run}&step={step}")["items"]
        if admission.get("admit"):
            assert ending(scene.step(step)) == ("committed", "agreement")
            assert [each["kind"] for each in incidents] == ["late_divergence"]
        else:
            assert (admission["code"], incidents) == ("revoked", [])
            assert ending(scene.step(step)) == ("rejected", "late_divergence")


def test_admission_beside_a_revocation_agree_on_what_is_out(scene: Scene) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        token, grant = scene.granted(step)
        admission, revocation = scene.at_once(partial(scene.admit, token), partial(scene.revoke, grant))
        is_out = admission.get("admit") is True
        assert is_out or admission["code"] == "revoked", admission
        assert [each["step"] for each in revocation["already_out" if is_out else "stopped"]] == [step]
        assert revocation["stopped" if is_out else "already_out"] == []


def test_admission_beside_the_expiry_of_its_grant(scene: Scene) -> None:
    """All have a token of one grant, and are asked for around its last moment: in time, or not at all."""
    names = [f"s{number}" for number in range(8)]
    for name in names:
        scene.propose(name, key=name)
    scene.grant(tool="refund", max_uses=len(names), ttl_s=LIFE_S)
    ended = time.monotonic() + LIFE_S
    for name in names:
        scene.vote("production", name)
    tokens = {name: str(scene.step(name)["commit"]["token"]) for name in names if scene.end(name)[0] == "committed"}
    assert tokens, "none was committed in the life of the grant"

    def around(name: str, seconds: float) -> Told:
        time.sleep(max(0.0, ended + seconds - time.monotonic()))
        return scene.admit(tokens[name])

    acts = [partial(around, name, -0.25 + 0.06 * number) for number, name in enumerate(tokens)]
    for name, told in zip(tokens, scene.at_once(*acts), strict=True):
        is_out = told.get("admit") is True
        assert is_out or told["code"] == "grant_expired", told
        with scene.own.connect() as database:
            assert database.execute(IN_TIME, [scene.run, name]).fetchone() == (True if is_out else None,)
        eventually(lambda: (scene.step(name)["phase"] == "committed") is is_out)  # noqa: B023 - ends in its round


LIFE_S: Final = 3
IN_TIME: Final = """
SELECT d.admitted_at < g.expires_at FROM fencing_commit c JOIN fencing_run r ON r.id = c.run_id
JOIN fencing_grant g ON g.id = c.grant_id LEFT JOIN fencing_delivery d ON d.commit_id = c.id
WHERE r.name = %s AND c.step_name = %s
"""


def test_of_several_admissions_at_once_one_is_let_through(scene: Scene) -> None:
    for number in range(ROUNDS):
        token = scene.committed(f"s{number}")
        got = scene.at_once(*[partial(scene.admit, token)] * 4)
        assert ends(*got) == ["200", *["delivery_in_progress"] * 3]


# ---- replays, restarts, grants, outcomes ----


def test_of_two_replays_at_once_one_opens_the_epoch(scene: Scene) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        scene.propose(step)
        scene.vote("replica", step)
        scene.vote("production", step, OTHER)
        assert scene.end(step)[0] == "rejected"
        replay = {"run": scene.run, "step": step, "from_epoch": 1, "reason": "Once more."}
        got = scene.at_once(*[partial(scene.send, who, "POST /steps/replay", **replay) for who in PLANNERS])
        assert ends(*got) == ["200", "201"]
        assert len({each["epoch"] for each in got}) == 1


PLANNERS: Final = ("planner", "planner2")


def test_of_two_restarts_at_once_one_gets_the_epoch(scene: Scene) -> None:
    for epoch in range(1, ROUNDS + 1):
        restart = {"run": scene.run, "expected_epoch": epoch, "reason": "Took over."}
        got = scene.at_once(*[partial(scene.send, who, "POST /epochs", **restart) for who in PLANNERS])
        assert ends(*got) == ["201", "stale_epoch"]


def test_a_restart_beside_the_last_vote(scene: Scene) -> None:
    for _ in range(ROUNDS):
        scene.run = fresh("run")
        assert scene.send("planner", "POST /runs", run=scene.run)["status"] == 201
        scene.propose("s1")
        scene.vote("replica", "s1")
        restart = {"run": scene.run, "expected_epoch": 1, "reason": "Took over."}
        vote, opened = scene.at_once(
            partial(scene.vote, "production", "s1"), partial(scene.send, "planner", "POST /epochs", **restart)
        )
        assert opened["status"] == 201
        assert vote.get("code", vote.get("vote")) in {"recorded", "late", "stale_epoch"}
        assert scene.end("s1") in {("rejected", "superseded"), ("committed", "agreement")}
        assert (scene.end("s1")[1] == "superseded") is (opened["superseded"] == ["s1"])


def test_an_approval_beside_a_revocation_leaves_the_grant_revoked(scene: Scene) -> None:
    for number in range(ROUNDS):
        grant = scene.grant(tool="wire_transfer", step=f"s{number}")
        approve = partial(scene.send, "oncall2", f"POST /grants/{grant}/approve", reason="Checked with finance.")
        withdraw = partial(scene.send, "oncall", f"POST /grants/{grant}/revoke", reason="The wrong customer.")
        approval, revocation = scene.at_once(approve, withdraw)
        assert revocation["status"] == 200
        assert approval["status"] == 200 or approval["code"] == "already_decided", approval
        assert scene.send("auditor", f"GET /grants/{grant}")["state"] == "revoked"


def test_two_reports_that_contradict_each_other_at_once(scene: Scene) -> None:
    for number in range(ROUNDS):
        step = f"s{number}"
        admitted = scene.admit(scene.committed(step))
        reports = [partial(scene.report, admitted, outcome) for outcome in ("succeeded", "failed")]
        got = scene.at_once(*reports)
        assert ends(*got) == ["200", "outcome_conflict"]
        won = next(each["state"] for each in got if "state" in each)
        assert scene.send("auditor", f"GET /intents/{admitted['intent']}")["state"] == won


# ---- everything at once ----


def test_rounds_of_admission_vote_and_restart_reach_no_client_as_a_deadlock(scene: Scene) -> None:
    """Two steps want one effect; one gets a divergent vote, the other one that agrees, and both are asked for."""
    chance = random.Random(7)  # noqa: S311 - a test's dice
    allowed = {None, "revoked", "delivery_in_progress"}
    tokens: dict[str, str] = {}
    for number in range(MIXED_ROUNDS):
        epoch = number % ROUNDS_OF_RUN + 1
        if epoch == 1:
            scene.run = fresh("run")
            assert scene.send("planner", "POST /runs", run=scene.run)["status"] == 201
            tokens = in_bulk(scene, {f"{letter}{n}": f"k{n}" for n in range(1, ROUNDS_OF_RUN + 1) for letter in "st"})
        one, other = f"s{epoch}", f"t{epoch}"
        restart = {"run": scene.run, "expected_epoch": epoch, "reason": "Took over."}
        acts: list[Act] = [
            partial(scene.send, "planner", "POST /epochs", **restart),
            partial(scene.admit, tokens[one]),
            partial(scene.admit, tokens[other]),
            partial(scene.vote, "third", one, OTHER),
            partial(scene.vote, "third", other),
        ]
        chance.shuffle(acts)
        got = scene.at_once(*acts)
        assert {each.get("code") for each in got} <= allowed, got
        assert sum(each.get("admit") is True for each in got) == 1, got


def in_bulk(scene: Scene, names: dict[str, str]) -> dict[str, str]:
    """Commit steps with keys, in bulk; give their tokens."""
    items = [{"run": scene.run, "step": name, "epoch": 1, "key": key} for name, key in names.items()]
    for first in range(0, len(items), 1000):
        some = items[first : first + 1000]
        assert scene.send("planner", "POST /steps", items=some)["status"] == 200
        votes = [{"run": scene.run, "step": each["step"], "epoch": 1, "action": REFUND} for each in some]
        for path in ("replica", "production"):
            assert scene.send(path, "POST /votes", items=votes)["status"] == 200
    with scene.own.connect() as database:

        def found() -> dict[str, str]:
            return dict(database.execute(TOKENS, [scene.run]).fetchall())

        eventually(lambda: len(found()) == len(names))
        return found()


TOKENS: Final = """
SELECT c.step_name, c.token FROM fencing_commit c JOIN fencing_run r ON r.id = c.run_id WHERE r.name = %s
"""
