"""Every call of the API against every role, no key, and people's sessions: as the table of protocol 15 has it."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from django.contrib.auth.models import Group as GroupRow
from django.contrib.auth.models import User
from django.test import Client

from fencing.api.limits import BUCKETS
from fencing.protocol.callers import KEY_ROLES, Role
from fencing.protocol.groups import Group
from tests.api.conftest import make_key
from tests.people import confirm
from tests.section15 import MAY, may

# Answered without a key (H, the last row); what an operator allows them to is another matter.
OPEN: Final = ("/healthz", "/readyz", "/metrics", "/.well-known/jwks.json", "/api/v1/openapi.json", "/api/v1/docs")


@pytest.fixture
def calls(db: None, client: Client) -> list[tuple[str, str]]:
    """Every call that the document tells of."""
    document: dict[str, Any] = client.get("/api/v1/openapi.json").json()
    found = [
        (method, path.removeprefix("/api/v1")) for path, methods in document["paths"].items() for method in methods
    ]
    assert found
    return found


def name_of(method: str, path: str) -> str:
    return f"{method.upper()} {path}"


def ask(client: Client, method: str, path: str, **headers: str) -> Any:
    url = "/api/v1" + re.sub(r"{\w+}", "x-1", path)
    if method == "get":
        return client.get(url, headers=headers)
    return client.post(url, data=b"{}", content_type="application/json", headers=headers)


def test_every_call_stands_in_the_table(calls: list[tuple[str, str]]) -> None:
    assert sorted({name_of(*call) for call in calls} - set(MAY)) == []


@pytest.mark.parametrize("role", sorted(KEY_ROLES))
def test_each_role_makes_its_calls_and_no_other(client: Client, calls: list[tuple[str, str]], role: Role) -> None:
    issued = make_key("production" if role is Role.PATH else role, role)
    for method, path in calls:
        BUCKETS.clear()
        answer = ask(client, method, path, Authorization=f"Bearer {issued.key}")
        is_refused = answer.status_code == 403 and answer.json()["code"] == "forbidden_role"
        assert is_refused is not may(name_of(method, path), role), f"{role} {method} {path}: {answer.status_code}"
        assert answer.status_code < 500


def test_without_a_key_nothing_is_answered(client: Client, calls: list[tuple[str, str]]) -> None:
    for method, path in calls:
        assert ask(client, method, path).status_code == 401, path
        assert ask(client, method, path, Authorization="Bearer fk_planner_wrong").status_code == 401, path


def test_a_session_in_the_browser_is_no_key(client: Client, calls: list[tuple[str, str]]) -> None:
    """Whoever is signed in, in every group and confirmed: another site must not be able to speak for them."""
    user = User.objects.create(username="lena")
    user.groups.set(GroupRow.objects.get_or_create(name=group)[0] for group in Group)
    client.force_login(user)
    confirm(client, by_second_factor=True)
    for method, path in calls:
        assert ask(client, method, path).status_code == 401, path


@pytest.mark.parametrize("path", OPEN)
def test_what_needs_no_key_is_answered_without_one(db: None, client: Client, path: str) -> None:
    assert client.get(path).status_code in (200, 503)
