"""What a tool calls sensitive, as each key reads it (U5): known to who proposed it and who carries it out, alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from fencing.gateway import undoings
from fencing.protocol.callers import Role
from fencing.protocol.masking import MASKED
from fencing.services.credentials import COMMAND_LINE
from fencing.services.fencing import decide_due
from fencing.services.signing import ensure_keys
from fencing.services.tools import load_definitions
from tests.api.conftest import Api, make_key
from tests.factories import fresh

CARD = "4111-1111-1111-1111"
POLICY = {"grace_s": 0, "lease_s": 60}
COMPENSATOR = {"tool": "return_money", "args": {"card": {"from": "action", "pointer": "/args/card"}}}
TOOLS = [
    {"tool": "return_money", "sensitive": ["/card"], "policy": POLICY},
    {"tool": "pay_card", "sensitive": ["/card", "/holder/name"], "compensator": COMPENSATOR, "policy": POLICY},
]
PAY = {"tool": "pay_card", "args": {"card": CARD, "cents": 4200}}
# H1: the roles that may read intents, and whether they read the card.
READERS = {
    "planner": True,
    "gateway": True,
    "gateway-of-others": False,
    "scorer": False,
    "publisher": False,
    "gate": False,
    "auditor": False,
    "oncall": False,
    "reviewer": False,
}


@pytest.fixture
def paid(keys: dict[str, str], client: Client) -> tuple[Api, str]:
    """An API, and the intent of a committed payment."""
    ensure_keys()
    load_definitions(TOOLS, COMMAND_LINE)
    more = {name: make_key(name, Role(name)).key for name in ("scorer", "publisher", "gate")}
    more["gateway-of-others"] = make_key("gateway", Role.GATEWAY, tools=("return_money",)).key
    more["reviewer2"] = make_key("reviewer", Role.REVIEWER).key
    api, run = Api(client=client, keys=keys | more), fresh("run")
    api.post("planner", "/runs", {"run": run, "epoch": 7})
    api.post("planner", "/steps", {"run": run, "step": "s1", "epoch": 7})
    for path in ("replica", "production"):
        api.post(path, "/votes", {"run": run, "step": "s1", "epoch": 7, "action": PAY})
    while decide_due():
        pass
    step = api.get("planner", f"/runs/{run}/steps/s1").json()
    token, intent = step["commit"]["token"], step["intent"]["id"]
    admitted = api.post("gateway", "/gateway/admissions", {"token": token, "action": PAY}).json()
    report = {"intent": intent, "delivery": admitted["delivery"], "outcome": "unknown"}
    told = api.post("gateway", "/gateway/outcomes", report).json()
    assert (told["state"], told["action"]) == ("in_doubt", PAY)
    return api, intent


def check_shown(answer: Any, action: dict[str, Any], *, sees: bool) -> None:
    """Check that an answer shows the card, or that there is one, and all the rest."""
    assert answer["action"] == {**action, "args": {**action["args"], "card": CARD if sees else MASKED}}
    assert (CARD in str(answer)) is sees


@pytest.mark.parametrize("who", READERS)
def test_intents_show_what_is_sensitive_to_who_has_to_know_it(paid: tuple[Api, str], who: str) -> None:
    api, intent = paid
    listed = api.get(who, "/intents?tool=pay_card").json()["items"]
    assert [each["id"] for each in listed] == [intent]
    for answer in (*listed, api.get(who, f"/intents/{intent}").json()):
        check_shown(answer, PAY, sees=READERS[who])


def test_a_path_and_a_planner_of_others_read_no_intent(paid: tuple[Api, str]) -> None:
    api, intent = paid
    assert api.get("replica", f"/intents/{intent}").status_code == 403
    assert api.get("stranger", "/intents").json()["items"] == []
    assert api.get("stranger", f"/intents/{intent}").status_code == 404


def test_a_decision_is_answered_without_what_the_reviewer_did_not_ask_to_reveal(paid: tuple[Api, str]) -> None:
    api, intent = paid
    resolved = api.post("reviewer", f"/intents/{intent}/resolve", {"happened": True, "evidence": "in the ledger"})
    check_shown(resolved.json(), PAY, sees=False)
    asked = api.post("reviewer", "/compensations", {"intent": intent, "reason": "it was paid twice"}).json()
    back = {"tool": "return_money", "args": {"card": CARD}}
    check_shown(asked, back, sees=False)
    for who, sees in (READERS | {"gateway-of-others": True}).items():
        found = api.get(who, f"/compensations/{asked['id']}").json()
        assert [found] == api.get(who, "/compensations").json()["items"]
        check_shown(found, back, sees=sees)
    decision = {"digest": asked["digest"], "reason": "seen with finance"}
    check_shown(api.post("reviewer2", f"/compensations/{asked['id']}/approve", decision).json(), back, sees=False)
    undoings.release_due()
    wanted = api.get("gateway", "/gateway/wanted?tool=return_money").json()["items"]
    assert [each["action"] for each in wanted] == [back]
