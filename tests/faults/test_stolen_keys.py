"""What a stolen key of each role can do: every call of the document, with plausible bodies about other people's runs.

A key does no more than its role (H1, N8). Which role may make which call is written down here from section 15 of the
protocol, not read from the code; a call that is not in this table fails the test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
import pytest

from fencing.models import Commit, Delivery
from fencing.services.recompute import Tallied, find_faults
from tests.factories import fresh
from tests.faults.desk import ROLES, Desk
from tests.faults.plausible import Operation
from tests.faults.state import changed, state
from tests.faults.targets import named
from tests.section15 import MAY, may
from tests.stories import OTHER_REFUND, REFUND

pytestmark = pytest.mark.usefixtures("db")

# Which tables of the core each role's calls may change at all. Everything else is as it was.
F8: Final = {"Step", "Commit", "Claim", "Intent", "Incident"}
TRACES: Final = {"AuditEvent", "FeedEvent", "Action"}
CHANGES: Final[Mapping[str, set[str]]] = {
    # A planner's key of another group: its own runs, and none is named here.
    "stranger": set(),
    "replica": {"Vote"} | F8 | TRACES,
    "gateway": {"Delivery", "Outcome"} | F8 | TRACES,
    "scorer": set(),
    # Lanes and attempts of its own.
    "publisher": {"AuditEvent"},
    "gate": set(),
    "auditor": set(),
    "oncall": {"Grant", "GrantApproval", "Acknowledgement"} | F8 | TRACES,
    "reviewer": {"Run", "EpochOpening", "Grant", "Outcome", "Acknowledgement"} | F8 | TRACES,
}
TOKEN: Final = "eyJ"


def send(desk: Desk, actor: str, operation: Operation, target: Mapping[str, Any]) -> Iterator[httpx.Response]:
    """Make a call in all its plausible forms."""
    address = operation.address(target)
    if operation.method == "GET":
        yield desk.get(actor, address)
        return
    for body in operation.bodies(target):
        yield desk.post(actor, address, body)
        if operation.has_bulk:
            yield desk.post(actor, address, {"items": [body]})


def test_the_table_names_every_call_and_each_is_told_with_its_roles(desk: Desk, calls: list[Operation]) -> None:
    assert {operation.name for operation in calls} <= set(MAY), "give the new call its roles, from the protocol"
    paths = desk.get("auditor", "/openapi.json").json()["paths"]
    for operation in calls:
        told = paths[f"/api/v1{operation.path}"][operation.method.lower()]["description"].partition("Roles: ")[2]
        roles = {role.strip(" .") for role in told.partition("(")[0].split(",")}
        assert roles | {"auditor"} == MAY[operation.name] | {"auditor"}, operation.name


@pytest.mark.parametrize("actor", CHANGES)
def test_a_stolen_key_makes_no_call_of_another_role(
    actor: str, desk: Desk, calls: list[Operation], targets: list[dict[str, Any]]
) -> None:
    known, before = named(targets[2]), state()
    forbidden = [operation for operation in calls if not may(operation.name, ROLES[actor])]
    assert forbidden
    for operation in forbidden:
        for answer in send(desk, actor, operation, known):
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden_role"), (operation.name, answer.text)
    assert changed(before) == set()


@pytest.mark.parametrize("actor", CHANGES)
def test_a_stolen_key_changes_only_what_its_role_may(
    actor: str, desk: Desk, calls: list[Operation], targets: list[dict[str, Any]]
) -> None:
    before, commits, faults = state(), Commit.objects.count(), set(find_faults(Tallied()))
    told = ""
    for operation in calls:
        if may(operation.name, ROLES[actor]):
            for target in targets:
                for answer in send(desk, actor, operation, named(target)):
                    assert answer.status_code < 500, (operation.name, answer.text)
                    told += answer.text
    assert changed(before) <= CHANGES[actor]
    assert Commit.objects.count() == commits
    if actor == "stranger":
        # Other people's runs are none of its business, not even that they are there to be listed.
        assert not [target["run"] for target in targets if f'"run":"{target["run"]}"' in told]
    if actor in ("stranger", "replica"):
        assert targets[2]["token"] not in told
    assert set(find_faults(Tallied())) <= faults


# ---- the strongest thefts ----


def test_a_stolen_replica_key_commits_nothing_alone_and_sees_nothing_before_it_votes(desk: Desk) -> None:
    place = desk.proposed(action=REFUND, context={"ticket": 4711})
    desk.vote(place, "production")
    (wanted,) = [
        each for each in desk.get("replica", "/votes/wanted?limit=500").json()["items"] if each["run"] == place["run"]
    ]
    assert set(wanted) <= {"run", "step", "epoch", "need", "context", "tools", "deadline_at"}
    seen = desk.get("replica", f"/runs/{place['run']}/steps/s1").text
    assert "4200" not in seen
    assert "sha256" not in seen
    assert TOKEN not in seen
    alone = desk.proposed()
    desk.vote(alone, "replica")
    assert desk.decided(alone, "proposed")["commit"] is None


def test_a_stolen_production_key_commits_nothing_without_the_replica_or_a_grant(desk: Desk) -> None:
    place = desk.proposed()
    desk.vote(place, "production")
    assert desk.decided(place, "proposed")["commit"] is None
    # The path comes from the key: it cannot speak for the other one.
    answer = desk.post("production", "/votes", {**place, "action": REFUND, "path": "replica"})
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_member")


def test_a_stolen_gateway_key_gets_out_nothing_but_what_was_committed(desk: Desk) -> None:
    undecided = desk.proposed(action=REFUND)
    place, token = desk.committed()
    other, other_token = desk.committed()
    before = Delivery.objects.count()
    parts = token.split(".")
    forged = [
        ({"action": REFUND}, "no_token"),
        ({"action": REFUND, **undecided}, "not_committed"),
        ({"action": REFUND, **undecided, "token": token}, "not_committed"),
        ({"action": OTHER_REFUND, "token": token}, "payload_mismatch"),
        ({"action": REFUND, "token": token[:-4] + "AAAA"}, "bad_token"),
        ({"action": REFUND, "token": ".".join([parts[0], other_token.split(".")[1], parts[2]])}, "bad_token"),
        ({"action": REFUND, "token": token, "run": other["run"], "step": "s1", "epoch": other["epoch"]}, None),
        ({"action": {"tool": "format_disk", "args": {}}, "token": token}, "unknown_tool"),
    ]
    for body, code in forged:
        answer = desk.post("gateway", "/gateway/admissions", body)
        assert answer.status_code == 403, answer.text
        assert code is None or answer.json()["code"] == code, (body, answer.text)
    assert Delivery.objects.count() == before
    assert desk.done("gateway", "/gateway/admissions", {"action": REFUND, "token": token})["admit"] is True
    assert desk.step(place)["intent"]["state"] == "in_flight"


def test_a_stolen_oncall_key_lets_nothing_out_by_itself(desk: Desk) -> None:
    """It may let production act alone; what production does not want stays undone, and the witness needs its digest."""
    place = desk.proposed()
    desk.granted(place)
    assert desk.decided(place, "proposed")["commit"] is None
    witness = {"name": fresh("grant"), "run": place["run"], "epoch": place["epoch"], "path": "replica", "ttl_s": 60}
    answer = desk.post("oncall", "/grants", {**witness, "tool": "refund", "reason": "The replica may do it alone."})
    assert (answer.status_code, answer.json()["code"]) == (422, "beyond_policy")
    name = desk.granted(desk.open(), "wire")
    own = desk.post("oncall", f"/grants/{name}/approve", {"reason": "Approved by myself."})
    assert (own.status_code, own.json()["code"]) == (403, "own_grant")


def test_a_stolen_planner_key_of_the_same_group_commits_nothing(desk: Desk) -> None:
    place = desk.proposed(action=REFUND, digest=None)
    desk.vote(place, "production")
    for body in ({**place, "action": OTHER_REFUND}, {**place, "action": REFUND, "key": "k9"}):
        assert desk.post("planner", "/steps", body).status_code == 409
    assert desk.post("planner", "/votes", {**place, "action": REFUND}).status_code == 403
    assert desk.post("planner", "/gateway/admissions", {"action": REFUND}).status_code == 403
    assert json.dumps(desk.step(place)["commit"]) == "null"
