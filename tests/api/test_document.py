"""The OpenAPI document and its page: complete, true, and served without asking anybody else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from jsonschema import Draft202012Validator

from tests.api.conftest import REFUND, Api

CALLS = {
    ("post", "/runs"),
    ("get", "/runs"),
    ("get", "/runs/{run}"),
    ("post", "/epochs"),
    ("post", "/steps"),
    ("post", "/steps/replay"),
    ("post", "/votes"),
    ("get", "/votes/wanted"),
    ("get", "/runs/{run}/steps/{step}"),
    ("get", "/events"),
    ("post", "/forks"),
    ("post", "/forks/reconcile"),
    ("post", "/grants"),
    ("get", "/grants"),
    ("get", "/grants/{name}"),
    ("post", "/grants/{name}/approve"),
    ("post", "/grants/{name}/revoke"),
    ("post", "/grants/{name}/review"),
    ("get", "/grants/{name}/trail"),
    ("get", "/authority"),
    ("get", "/freezes"),
    ("post", "/freezes"),
    ("get", "/freezes/{freeze}"),
    ("post", "/freezes/{freeze}/lift"),
    ("post", "/gateway/admissions"),
    ("post", "/gateway/outcomes"),
    ("post", "/gateway/effects"),
    ("get", "/gateway/wanted"),
    ("get", "/intents"),
    ("get", "/intents/{intent}"),
    ("post", "/intents/{intent}/resolve"),
    ("post", "/intents/{intent}/adopt"),
    ("get", "/compensations"),
    ("get", "/compensations/{compensation}"),
    ("post", "/compensations"),
    ("post", "/compensations/{compensation}/approve"),
    ("post", "/compensations/{compensation}/waive"),
    ("post", "/compensations/{compensation}/record"),
    ("post", "/compensations/{compensation}/resolve"),
    ("get", "/incidents"),
    ("get", "/incidents/{incident}"),
    ("post", "/incidents/{incident}/resolve"),
    ("post", "/lanes"),
    ("get", "/lanes"),
    ("post", "/lanes/{lane}/resume"),
    ("post", "/lanes/{lane}/thresholds"),
    ("get", "/lanes/{lane}/gate"),
    ("post", "/attempts"),
    ("get", "/attempts/{attempt}"),
    ("post", "/attempts/restart"),
    ("post", "/fragments"),
    ("post", "/fragments/lease"),
    ("post", "/permits"),
    ("post", "/permits/spend"),
    ("post", "/publish"),
    ("get", "/side-log"),
    ("get", "/side-log/export"),
    ("post", "/side-log/acknowledge"),
    ("get", "/audit"),
    ("get", "/evidence/{kind}/{id}"),
    ("get", "/counters"),
    ("get", "/tools"),
}
BULK = {"/runs", "/steps", "/votes", "/gateway/admissions", "/gateway/outcomes", "/gateway/effects"} | {
    "/fragments",
    "/permits",
    "/permits/spend",
}


@pytest.fixture
def document(client: Client) -> dict[str, Any]:
    made: dict[str, Any] = client.get("/api/v1/openapi.json").json()
    return made


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method, path.removeprefix("/api/v1")): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_the_document_holds_every_call_of_the_protocol_that_is_built(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    assert set(operations(document)) == CALLS


def test_every_call_tells_its_roles_its_errors_and_that_it_needs_a_key(document: dict[str, Any]) -> None:
    for operation in operations(document).values():
        assert "Roles: " in operation["description"]
        assert operation["security"] == [{"key": []}]
        assert {"200", "401", "403", "422", "429", "503"} <= set(operation["responses"])


def test_bulk_is_offered_where_the_protocol_has_it_and_nowhere_else(document: dict[str, Any]) -> None:
    offered = {
        path
        for (method, path), operation in operations(document).items()
        if method == "post" and "anyOf" in operation["requestBody"]["content"]["application/json"]["schema"]
    }
    assert offered == BULK


def test_every_schema_is_one_and_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    names = set(document["components"]["schemas"])
    assert {found.rpartition("/")[2] for found in re.findall(r'"\$ref": "([^"]+)"', json.dumps(document))} <= names
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_answers_are_what_the_document_says(api: Api, run: str, document: dict[str, Any]) -> None:
    vote = {"run": run, "step": "s1", "epoch": 7, "action": REFUND}
    answers = {
        "run": api.get("planner", f"/runs/{run}").json(),
        "step": api.get("planner", f"/runs/{run}/steps/s1").json(),
        "recorded_vote": api.post("replica", "/votes", vote).json(),
        "problem": api.post("planner", "/runs", {}).json(),
        "counters": api.get("planner", "/counters").json(),
        "tool": api.get("planner", "/tools").json()["items"][0],
        "side_log_row": api.get("auditor", "/side-log").json()["items"][0],
        "audit_event": api.get("auditor", "/audit").json()["items"][0],
        "wanted_vote": api.get("production", "/votes/wanted").json()["items"][0],
    }
    for name, answer in answers.items():
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        faults = [
            f"{name}{list(fault.path)}: {fault.message}" for fault in Draft202012Validator(schema).iter_errors(answer)
        ]
        assert not faults


def test_the_page_asks_no_other_host_and_its_parts_are_in_the_package(client: Client) -> None:
    answer = client.get("/api/v1/docs")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "//" not in re.sub(r"<!--.*?-->", "", page).replace("://127.0.0.1", "")
    parts = re.findall(r'(?:src|href)="/?static/([^"]+)"', page)
    assert {"ninja/swagger-ui-bundle.js", "ninja/swagger-ui-init.js", "ninja/swagger-ui.css"} <= set(parts)
    assert all(finders.find(part) for part in parts)
    assert '"validatorUrl": null' in page
    assert "connect-src 'self'" in answer["Content-Security-Policy"]
    assert "script-src 'self'" in answer["Content-Security-Policy"]
