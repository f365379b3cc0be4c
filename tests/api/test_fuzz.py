"""Schemathesis against the document: whatever fits it or just does not, the answer is never a fault of ours.

Every call of the document is tried, alone and in bulk, by somebody who may make it; half of the time with the names of
a run, a step, a grant that are really there, so that a call gets further than the door.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from fencing.api.limits import BUCKETS
from fencing.protocol.callers import Role
from tests.api.conftest import REFUND, Api, Reply, make_key
from tests.factories import fresh
from tests.length import long_or

EXAMPLES: Final = long_or(8, long=300)
ROLES: Final = re.compile(r"Roles: ([a-z, ]+)")
# Whose key speaks for a role here.
ACTOR_OF: Final = {"path": "production"}
Known = Mapping[str, Any]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "not fitting"])
def test_no_call_fails_whatever_is_sent(api: Api, run: str, mode: GenerationMode) -> None:
    document = api.client.get("/api/v1/openapi.json").json()
    known = what_is_there(api, run)
    tried: dict[str, int] = {}
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        tried[f"{operation.method.upper()} {operation.path}"] = play(api, operation, mode, known)
    assert set(tried) == {f"{method.upper()} {path}" for path, its in document["paths"].items() for method in its}
    # Some reads have nothing that could be made wrong.
    assert all(count for name, count in tried.items() if name.startswith("POST") or mode is GenerationMode.POSITIVE)


def what_is_there(api: Api, run: str) -> Known:
    """Names of things that exist: in a path, in a body, in a query."""
    place = {"run": run, "step": "s1", "epoch": 7}
    grant = {"name": fresh("grant"), "run": run, "epoch": 7, "tool": "refund", "ttl_s": 60}
    issued = api.post("oncall", "/grants", {**grant, "reason": "The replica's host is down since 02:10."})
    assert issued.status_code == 201, issued.content
    for path in ("replica", "production"):
        assert api.post(path, "/votes", {**place, "action": REFUND}).status_code == 201
    assert api.post("planner", "/runs", {"run": run, "labels": 5}).status_code == 422
    (row,) = api.get("oncall", f"/side-log?run={run}").json()["items"]
    opened = {"from_epoch": 7, "expected_epoch": 7}
    return {**place, **opened, "name": grant["name"], "tool": "refund", "ids": [row["id"]], "action": REFUND}


def play(api: Api, operation: Any, mode: GenerationMode, known: Known) -> int:
    """Send what schemathesis makes for one call; tell how often."""
    found = ROLES.search(operation.definition.raw["description"])
    assert found is not None, operation.path
    role = found[1].split(",")[0].strip()
    key = api.keys.get(ACTOR_OF.get(role, role)) or make_key(role, Role(role)).key
    # A key that is refused so much would have to wait, and be told nothing else.
    BUCKETS.clear()
    sent = 0

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode), st.booleans())
    def check(case: Any, is_real: bool) -> None:
        nonlocal sent
        sent += 1
        answer = send(api.client, case, key, known if is_real else {})
        assert answer.status_code < 500, (case.method, case.formatted_path, case.query, case.body, answer.content)

    try:
        check()
    except Exception as error:
        # Some calls have nothing that could be made wrong.
        if "Unsatisfiable" not in type(error).__name__ and "negative" not in str(error).lower():
            raise
    return sent


def send(client: Client, case: Any, key: str, known: Known) -> Reply:
    """Send a made call through Django, as it would arrive, with what is known in place of what was made up."""
    address = case.formatted_path
    for name, value in known.items():
        if name in case.path_parameters:
            made_up = quote(str(case.path_parameters[name]), safe="")
            address = address.replace(f"/{made_up}", f"/{value}", 1) if made_up else address
    path = address + (f"?{urlencode({**case.query, **_given(known, case.query)}, doseq=True)}" if case.query else "")
    headers = {"Authorization": f"Bearer {key}"}
    if case.method == "GET":
        return client.get(path, headers=headers)
    made = case.body if isinstance(case.body, bytes) else json.dumps(real(case.body, known), default=str).encode()
    return client.generic(case.method, path, data=made, content_type="application/json", headers=headers)


def real(body: Any, known: Known) -> Any:
    """A body with the names of what is there, its items too."""
    if isinstance(body, dict) and isinstance(body.get("items"), list):
        return {**body, "items": [real(item, known) for item in body["items"]]}
    return {**body, **_given(known, body)} if isinstance(body, dict) else body


def _given(known: Known, made: Known) -> dict[str, Any]:
    return {name: value for name, value in known.items() if name in made}
