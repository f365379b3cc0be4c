"""Keys of every role, the tools of the examples, and a client that speaks as one of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from django.test import Client

from fencing.api.limits import BUCKETS, HELD
from fencing.protocol.callers import Role
from fencing.services.credentials import COMMAND_LINE, IssuedKey, IssueKey, issue
from fencing.services.tools import LoadReport, load_definitions
from tests.factories import fresh, make_user

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse

Reply: TypeAlias = "_MonkeyPatchedWSGIResponse"

TOOLS = [
    {"tool": "refund", "effect": "side_effecting", "idempotent": True, "mode": "pull", "resources": ["/invoice"]},
    {"tool": "hold_for_review", "effect": "side_effecting", "idempotent": True, "mode": "pull"},
    {"tool": "lookup_invoice", "effect": "read_only", "mode": "pull"},
]
REFUND = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
NAMES = {
    "planner": Role.PLANNER,
    "stranger": Role.PLANNER,
    "production": Role.PATH,
    "replica": Role.PATH,
    "gateway": Role.GATEWAY,
    "auditor": Role.AUDITOR,
    "oncall": Role.ONCALL,
    "reviewer": Role.REVIEWER,
}


def make_key(name: str, role: Role, **values: Any) -> IssuedKey:
    """Issue a key of a role; a person is made for the roles that need one."""
    if role in (Role.ONCALL, Role.REVIEWER) and "user" not in values:
        values["user"] = make_user().username
    path = name if role is Role.PATH else None
    issued = issue(IssueKey(role=role, name=fresh(name), path=path, **values), COMMAND_LINE)
    assert isinstance(issued, IssuedKey), issued
    return issued


@dataclass(frozen=True, kw_only=True)
class Api:
    """Sends calls as one of the keys."""

    client: Client
    keys: Mapping[str, str]

    def get(self, as_: str | None, path: str, **headers: str) -> Reply:
        return self.client.get(f"/api/v1{path}", headers=self._headers(as_) | headers)

    def post(self, as_: str | None, path: str, body: object = None, *, raw: bytes | None = None) -> Reply:
        data = json.dumps(body).encode() if raw is None else raw
        return self.client.post(
            f"/api/v1{path}", data=data, content_type="application/json", headers=self._headers(as_)
        )

    def _headers(self, as_: str | None) -> dict[str, str]:
        return {} if as_ is None else {"Authorization": f"Bearer {self.keys[as_]}"}


@pytest.fixture
def keys(db: None) -> dict[str, str]:
    """A key of each role, by the names that the examples use."""
    return {name: make_key(name, role).key for name, role in NAMES.items()}


@pytest.fixture
def api(keys: dict[str, str], client: Client) -> Api:
    """The API, with the tools of the examples registered."""
    report = load_definitions(TOOLS, COMMAND_LINE)
    assert isinstance(report, LoadReport), report
    client.raise_request_exception = False
    return Api(client=client, keys=keys)


@pytest.fixture(autouse=True)
def full_buckets() -> None:
    """Let no test spend what another one has."""
    BUCKETS.clear()
    HELD.clear()


@pytest.fixture
def run(api: Api) -> str:
    """An open run of the planner's, with a proposed step `s1`, both at epoch 7."""
    name = fresh("run")
    assert api.post("planner", "/runs", {"run": name, "epoch": 7}).status_code == 201
    assert api.post("planner", "/steps", {"run": name, "step": "s1", "epoch": 7}).status_code == 201
    return name
