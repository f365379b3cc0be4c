"""The lanes of the hot calls over real HTTP: whatever is not plain is answered as every other request is."""

# ruff: noqa: F811 - fixtures come out of `scenes` by their names

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import httpx
import psycopg
import pytest

from fencing.api.bodies import Body
from fencing.api.lanes import Kind, Lane, Ride
from fencing.api.road import Road
from fencing.models import AuditEvent, SideLogRow, Vote, cold
from fencing.protocol.callers import Role
from fencing.services import credentials
from fencing.services.credentials import COMMAND_LINE
from tests.api.conftest import REFUND, make_key
from tests.api.scenes import Scene, committed, decide, scene, scenery, shared  # noqa: F401
from tests.api.serving import database_url
from tests.factories import fresh

OTHER = {"tool": "refund", "args": {"invoice": 9, "cents": 1}}


def vote_of(scene: Scene, step: str = "s1", **members: Any) -> dict[str, Any]:
    return {"run": scene.run, "step": step, "epoch": 7, "action": REFUND, **members}


def test_a_plain_step_goes_its_whole_way_through_the_lanes(scene: Scene) -> None:
    address = scene.propose()
    scene.vote()
    decide()
    gateway = make_committed_gateway(scene)
    with scene.client() as planner, scene.web.client(gateway) as tool:
        step = planner.get(address).json()
        admitted = tool.post("/gateway/admissions", json={"action": REFUND, "token": step["commit"]["token"]})
        assert admitted.status_code == 200
        again = tool.post("/gateway/admissions", json={"action": REFUND, "token": step["commit"]["token"]})
        assert (again.status_code, again.json()["code"]) == (409, "delivery_in_progress")
        report = {**{name: admitted.json()[name] for name in ("intent", "delivery")}, "outcome": "succeeded"}
        told = tool.post("/gateway/outcomes", json={**report, "response": {"ok": [1.5, "x"]}})
        assert told.json()["outcome"]["response"] == {"ok": [1.5, "x"]}
        assert told.json() == planner.get(f"/intents/{admitted.json()['intent']}").json()
        assert tool.post("/gateway/outcomes", json={**report, "response": {"ok": [1.5, "x"]}}).json()["duplicate"]
        after = tool.post("/gateway/admissions", json={"action": REFUND, "token": step["commit"]["token"]}).json()
        assert (after["admit"], after["outcome"]["outcome"]) == (False, "succeeded")


def make_committed_gateway(scene: Scene, **values: Any) -> str:
    return committed(lambda: make_key("gateway", Role.GATEWAY, **values)).key


def test_a_key_that_ends_is_refused_at_once_though_the_process_knows_it_well(scene: Scene) -> None:
    issued = committed(lambda: make_key("replica", Role.PATH))
    scene.propose()
    scene.propose("s2")
    with scene.web.client(issued.key) as path:
        assert path.post("/votes", json=vote_of(scene)).status_code == 201
        committed(lambda: credentials.revoke(issued.name, COMMAND_LINE))
        assert path.post("/votes", json=vote_of(scene, "s2")).status_code == 401
    assert committed(lambda: Vote.objects.filter(step__name="s2", step__run__name=scene.run).count()) == 0


def test_a_key_of_the_wrong_role_is_refused_and_told(scene: Scene) -> None:
    scene.propose()
    with scene.client() as planner:
        answer = planner.post("/votes", json=vote_of(scene))
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden_role")
    found = committed(lambda: SideLogRow.objects.filter(run=scene.run, reason="forbidden_role").count())
    assert found == 1


def test_a_gateway_that_is_not_for_the_tool_is_refused(scene: Scene) -> None:
    address = scene.propose()
    scene.vote()
    decide()
    other = make_committed_gateway(scene, tools=("hold_for_review",))
    with scene.client() as planner, scene.web.client(other) as tool:
        token = planner.get(address).json()["commit"]["token"]
        answer = tool.post("/gateway/admissions", json={"action": REFUND, "token": token})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden_role")


def test_a_planner_of_another_group_may_neither_propose_nor_read(scene: Scene) -> None:
    address = scene.propose()
    stranger = committed(lambda: make_key("stranger", Role.PLANNER)).key
    with scene.web.client(stranger) as other:
        proposal = other.post("/steps", json={"run": scene.run, "step": "s9", "epoch": 7})
        read = other.get(address)
    assert (proposal.status_code, proposal.json()["code"]) == (403, "not_your_run")
    assert (read.status_code, read.json()["code"]) == (403, "not_your_run")


def test_a_path_reads_no_step_before_its_vote_and_the_phase_alone_after_it(scene: Scene) -> None:
    address = scene.propose()
    with scene.client("replica") as path:
        assert path.get(address).json()["code"] == "forbidden_role"
        path.post("/votes", json=vote_of(scene))
        assert set(path.get(address).json()) == {"run", "step", "epoch", "phase"}


def test_a_request_id_goes_into_the_answer_and_the_audit(scene: Scene) -> None:
    scene.propose()
    name = fresh("request")
    with scene.client("replica") as path:
        answer = path.post("/votes", json=vote_of(scene), headers={"X-Request-ID": name})
        odd = path.post("/votes", json=vote_of(scene), headers={"X-Request-ID": "two words"})
    assert answer.headers["X-Request-ID"] == name
    assert odd.headers["X-Request-ID"] != "two words"
    row = committed(lambda: AuditEvent.objects.get(request=name))
    assert (row.verb, row.source, row.role) == ("vote", "127.0.0.1", "path")


def test_prose_goes_to_cold_storage(scene: Scene) -> None:
    scene.propose()
    with scene.client("replica") as path:
        assert path.post("/votes", json=vote_of(scene, rationale="because " * 1000)).status_code == 201
    ref = committed(lambda: Vote.objects.get(step__run__name=scene.run).rationale_ref)
    assert ref
    assert cold.get(ref) in (None, ("because " * 1000).encode())  # the web process has a folder of its own


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "bad_json"),
        (b'{"run": "r", "run": "r"}', 422, "duplicate_name"),
        (b'{"items": []}', 422, "invalid_value"),
        (b'{"run": "no such run", "step": "s", "epoch": 1, "digest": "x"}', 422, "invalid_identifier"),
        (b"[]", 422, "invalid_value"),
    ],
)
def test_what_is_wrong_is_refused_as_everywhere(scene: Scene, body: bytes, status: int, code: str) -> None:
    with scene.client("replica") as path:
        answer = path.post("/votes", content=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_bulk_of_plain_and_other_items_answers_each_in_its_place(scene: Scene) -> None:
    for step in ("s1", "s2", "s3"):
        scene.propose(step)
    with scene.client("replica") as path:
        first = path.post("/votes", json=vote_of(scene, "s2"))
        items = [
            vote_of(scene, "s1"),
            vote_of(scene, "s2"),
            vote_of(scene, "nowhere"),
            vote_of(scene, "s3"),
            vote_of(scene, "s3"),
            vote_of(scene, "s1", action=OTHER),
            {**vote_of(scene, "s3"), "epoch": 8},
        ]
        answers = path.post("/votes", json={"items": items}).json()["results"]
    assert first.status_code == 201
    told = [(each["status"], each.get("code", each.get("vote"))) for each in answers]
    assert told == [
        (201, "recorded"),
        (200, "duplicate"),
        (404, "unknown_step"),
        (201, "recorded"),
        (200, "duplicate"),
        (409, "equivocation"),
        (409, "future_epoch"),
    ]


def test_a_flood_of_plain_calls_is_slowed_down_and_nothing_of_it_is_lost(scene: Scene) -> None:
    slow = committed(lambda: make_key("production", Role.PATH, rate_per_s=1)).key
    scene.propose()
    with scene.web.client(slow) as path:
        answers = [path.post("/votes", json=vote_of(scene)) for _ in range(12)]
    statuses = [answer.status_code for answer in answers]
    assert statuses[0] == 201
    assert statuses.count(429) >= 3
    assert set(statuses) == {200, 201, 429}
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers if answer.status_code == 429)


def test_what_another_transaction_holds_waits_without_holding_up_the_others(scene: Scene) -> None:
    scene.propose("held")
    scene.propose("free")
    with psycopg.connect(database_url()) as owner, scene.client("replica") as path:
        owner.execute(
            "SELECT FROM fencing_step WHERE name = 'held' AND run_id = (SELECT id FROM fencing_run WHERE name = %s)"
            " FOR UPDATE",
            [scene.run],
        )
        with pytest.raises(httpx.ReadTimeout):
            path.post("/votes", json=vote_of(scene, "held"), timeout=0.8)
        assert path.post("/votes", json=vote_of(scene, "free"), timeout=5).status_code == 201
    with scene.client("replica") as path:
        late = path.post("/votes", json=vote_of(scene, "held"), timeout=10)
    assert late.status_code in (200, 201)


def test_a_head_request_has_no_body(scene: Scene) -> None:
    address = scene.propose()
    with scene.client() as planner:
        answer = planner.head(address)
    assert (answer.status_code, answer.content) == (200, b"")


def test_the_answer_is_the_one_of_the_careful_way(scene: Scene) -> None:
    address = scene.propose()
    scene.vote()
    decide()
    with scene.client() as planner:
        lane = planner.get(address).json()
        careful = planner.get(address.partition("?")[0]).json()  # without an epoch it is not plain
        feed = planner.get("/events?limit=500").json()["items"]
    assert lane == careful
    assert json.dumps(lane) in [json.dumps(each["step"]) for each in feed]


class Short(Lane):
    """A lane whose every request is plain, and whose statements are over at once."""

    def __init__(self) -> None:
        kind = Kind(name="short", route="", roles=frozenset(), read=lambda _: None, course=lambda _: iter(()))  # type: ignore[arg-type,return-value]
        super().__init__(kind, Road(), lambda _: asyncio.sleep(0))
        self.taken = 0

    async def _is_read(self, ride: Ride) -> bool:
        return ride is not None

    async def _take(self, rides: Sequence[Ride]) -> None:
        self.taken += len(rides)


def test_who_comes_just_as_a_statement_ends_is_carried_too() -> None:
    async def play() -> int:
        lane = Short()

        async def ride_on() -> None:
            for _ in range(100):
                await lane.ride({}, Body(data=b""))

        await asyncio.wait_for(asyncio.gather(*[ride_on() for _ in range(3)]), 10)
        return lane.taken

    assert asyncio.run(play()) == 300
