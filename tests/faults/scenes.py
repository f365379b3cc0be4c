"""Each kind of call that writes, with everything that has to be there before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.factories import fresh
from tests.faults.desk import EPOCH, Desk
from tests.stories import NOTE, OTHER_REFUND, REFUND

REASON: Final = "The replica's host is down since 02:10."


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A call that is about to be sent. `again` is how its repetition may end once it was done; a 409 by its code."""

    actor: str
    path: str
    body: Mapping[str, Any]
    again: frozenset[str] = frozenset({"200"})


def run(_desk: Desk) -> Call:
    return Call(actor="planner", path="/runs", body={"run": fresh("run"), "epoch": EPOCH, "labels": {"ticket": "1"}})


def several_runs(_desk: Desk) -> Call:
    return Call(actor="planner", path="/runs", body={"items": [{"run": fresh("run")} for _ in range(20)]})


def restart(desk: Desk) -> Call:
    place = desk.proposed()
    desk.granted(place)
    body = {"run": place["run"], "expected_epoch": EPOCH, "reason": "The planner was restarted."}
    return Call(actor="planner", path="/epochs", body=body)


def proposal(desk: Desk) -> Call:
    return Call(actor="planner", path="/steps", body={**desk.open(), "action": REFUND, "context": {"ticket": 4711}})


def replay(desk: Desk) -> Call:
    place = desk.proposed(action=OTHER_REFUND)
    desk.vote(place, "production")
    desk.decided(place, "rejected")
    body = {"run": place["run"], "step": "s1", "from_epoch": EPOCH, "reason": "Once more."}
    return Call(actor="planner", path="/steps/replay", body=body)


def vote(desk: Desk) -> Call:
    return Call(actor="replica", path="/votes", body={**desk.proposed(), "action": REFUND, "rationale": "It is due."})


def vote_against_a_commit(desk: Desk) -> Call:
    place, _ = desk.committed()
    return Call(actor="third", path="/votes", body={**place, "action": OTHER_REFUND})


def vote_against_an_effect(desk: Desk) -> Call:
    place, _ = desk.admitted()
    return Call(actor="third", path="/votes", body={**place, "action": OTHER_REFUND})


def equivocation(desk: Desk) -> Call:
    place = desk.proposed()
    desk.vote(place, "replica")
    refused = frozenset({"equivocation"})
    return Call(actor="replica", path="/votes", body={**place, "action": OTHER_REFUND}, again=refused)


def grant(desk: Desk) -> Call:
    members = {"run": desk.open()["run"], "epoch": EPOCH, "tool": "refund", "ttl_s": 60, "reason": REASON}
    return Call(actor="oncall", path="/grants", body={"name": fresh("grant"), **members})


def approval(desk: Desk) -> Call:
    name = desk.granted(desk.open(), "wire")
    return Call(actor="oncall2", path=f"/grants/{name}/approve", body={"reason": "Checked with finance."})


def revocation(desk: Desk) -> Call:
    place = desk.proposed()
    name = desk.granted(place)
    desk.vote(place, "production")
    desk.decided(place, "committed")
    return Call(actor="oncall2", path=f"/grants/{name}/revoke", body={"reason": "The wrong customer."})


def admission(desk: Desk) -> Call:
    _, token = desk.committed()
    # L3: asking again gives no second permission, for the first one may be in somebody's hands.
    repeated = frozenset({"delivery_in_progress"})
    return Call(actor="gateway", path="/gateway/admissions", body={"token": token, "action": REFUND}, again=repeated)


def refused_admission(desk: Desk) -> Call:
    body = {**desk.proposed(), "action": REFUND}
    return Call(actor="gateway", path="/gateway/admissions", body=body, again=frozenset({"not_committed"}))


def outcome(desk: Desk) -> Call:
    _, told = desk.admitted()
    body = {"intent": told["intent"], "delivery": told["delivery"], "outcome": "succeeded", "response": {"id": "r-1"}}
    return Call(actor="gateway", path="/gateway/outcomes", body=body)


def failure(desk: Desk) -> Call:
    _, told = desk.admitted()
    body = {"intent": told["intent"], "delivery": told["delivery"], "outcome": "failed"}
    return Call(actor="gateway", path="/gateway/outcomes", body=body)


def resolution(desk: Desk) -> Call:
    _, told = desk.admitted(NOTE)
    ids = {"intent": told["intent"], "delivery": told["delivery"]}
    desk.done("gateway", "/gateway/outcomes", {**ids, "outcome": "unknown"})
    body = {"happened": True, "evidence": "Seen in the outbox."}
    return Call(actor="reviewer", path=f"/intents/{told['intent']}/resolve", body=body)


def resolved_incident(desk: Desk) -> Call:
    place, _ = desk.admitted()
    desk.vote(place, "third", action=OTHER_REFUND)
    (incident,) = desk.get("reviewer", f"/incidents?run={place['run']}").json()["items"]
    return Call(actor="reviewer", path=f"/incidents/{incident['id']}/resolve", body={"reason": "It was wanted."})


def acknowledgement(desk: Desk) -> Call:
    run_name = fresh("run")
    assert desk.post("planner", "/runs", {"run": run_name, "labels": 5}).status_code == 422
    (row,) = desk.get("oncall", f"/side-log?run={run_name}").json()["items"]
    return Call(actor="oncall", path="/side-log/acknowledge", body={"ids": [row["id"]], "reason": "Known."})


def refused_form(_desk: Desk) -> Call:
    body = {"run": fresh("run"), "labels": 5}
    return Call(actor="planner", path="/runs", body=body, again=frozenset({"invalid_value"}))


def refused_role(_desk: Desk) -> Call:
    return Call(actor="replica", path="/runs", body={"run": fresh("run")}, again=frozenset({"forbidden_role"}))


SCENES: Final[tuple[Callable[[Desk], Call], ...]] = (
    run,
    several_runs,
    restart,
    proposal,
    replay,
    vote,
    vote_against_a_commit,
    vote_against_an_effect,
    equivocation,
    grant,
    approval,
    revocation,
    admission,
    refused_admission,
    outcome,
    failure,
    resolution,
    resolved_incident,
    acknowledgement,
    refused_form,
    refused_role,
)
