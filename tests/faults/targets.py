"""Other people's runs, as a thief or a fuzzer would find them, and how their parts are named in a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.factories import fresh
from tests.faults.desk import Desk
from tests.stories import MAIL, NOTE, OTHER_REFUND, REFUND


def make_targets(desk: Desk) -> list[dict[str, Any]]:
    """Somebody's steps: proposed, half voted, committed, admitted, in doubt; and what hangs on each of their runs."""
    proposed, half = desk.proposed(action=REFUND, context={"ticket": 1}), desk.proposed(action=REFUND)
    desk.vote(half, "production")
    (ready, token), (admitted, told), (doubted, doubt) = desk.committed(), desk.admitted(MAIL), desk.admitted(NOTE)
    ids = {"intent": doubt["intent"], "delivery": doubt["delivery"]}
    desk.done("gateway", "/gateway/outcomes", {**ids, "outcome": "unknown"})
    desk.vote(admitted, "third", action=OTHER_REFUND)
    (incident,) = desk.get("auditor", f"/incidents?run={admitted['run']}").json()["items"]
    assert desk.post("planner", "/runs", {"run": proposed["run"], "labels": 5}).status_code == 422
    (row,) = desk.get("auditor", f"/side-log?run={proposed['run']}").json()["items"]
    return [
        {**proposed, "ids": [row["id"]], "name": desk.granted(proposed, "wire")},
        {**half, "name": desk.granted(half, "refund_slow")},
        {**ready, "token": token, "intent": desk.step(ready)["intent"]["id"]},
        {**admitted, **told, "id": told["intent"], "action": MAIL, "incident": incident["id"]},
        {**doubted, **ids, "id": doubt["intent"], "action": NOTE},
    ]


def named(target: Mapping[str, Any]) -> dict[str, Any]:
    """What a thief would write about a target."""
    epochs = {"from_epoch": target["epoch"], "expected_epoch": target["epoch"]}
    return {**target, **epochs, "scope": {"run": target["run"]}, "name": target.get("name", fresh("grant"))}
