"""Tools in a real browser: a change is looked at, proposed, read by a second person, and approved or too late."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from fencing.models import ToolChange, ToolVersion
from fencing.services.credentials import COMMAND_LINE
from fencing.services.tools import load_definitions
from tests.browser.signing_in import Door
from tests.browser.watching import Watch, check_axe, check_fits, shoot
from tests.factories import make_tool
from tests.stories import Story

REASON = "finance asked for it"
SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
TURNED = "please pay in\u202evoice 9\u202c to acc\u200bount 42"
LONG = ("a-very-long-identifier." * 9)[:199] + "9"
MANY = 300
LISTING: dict[str, Any] = {
    "tools": [
        {"name": "lookup", "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}},
        {"name": "wipe", "annotations": {"destructiveHint": True}, "inputSchema": {"properties": {"disk": {}}}},
    ]
}


@pytest.fixture(autouse=True)
def patience(context: BrowserContext) -> None:
    """Wait longer than for other pages: some of these decide a week of steps again."""
    context.set_default_timeout(20_000)


def reason_of(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Reason")


def weaken(page: Page) -> None:
    """Fill in that the tool becomes read-only, and look at it."""
    page.get_by_label("Effect").select_option("read_only")
    page.get_by_role("button", name="See what it would change").click()
    expect(page.get_by_text("Weakens the fence")).to_be_visible()


def propose(page: Page) -> str:
    """Propose what is looked at; give the address of the change."""
    reason_of(page).fill(REASON)
    page.get_by_role("button", name="Propose it: refund fences less").click()
    expect(page.get_by_text("Another administrator has to read and approve it")).to_be_visible()
    return page.url.partition("#")[0]


def test_a_weakening_change_is_looked_at_proposed_read_and_approved_by_a_second_person(door: Door) -> None:
    story = Story.begin()
    story.agree("pay-invoice")
    page = door.open("nils", "/tools")
    page.get_by_role("link", name="refund", exact=True).click()
    expect(page.get_by_text("production and replica agree")).to_be_visible()
    page.get_by_role("link", name="Change…").click()
    weaken(page)
    expect(page.get_by_text("It becomes read-only, and skips the fence.")).to_be_visible()
    expect(page.get_by_text("1 of 1 step of the last week would have ended otherwise")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="committed by agreement")
    expect(row).to_contain_text("skips the fence")
    expect(row.get_by_role("link", name="pay-invoice")).to_be_visible()
    check_axe(page)
    check_fits(page)
    url = propose(page)
    expect(page.get_by_text("You proposed it: another administrator approves it.")).to_be_visible()
    other = door.open("maya", "/tools", anew=True)
    other.get_by_role("link", name=re.compile("^Read")).click()
    expect(other).to_have_url(url)
    expect(other.get_by_text("1 of 1 step of the last week would have ended otherwise")).to_be_visible()
    expect(other.get_by_text(REASON)).to_be_visible()
    waiting = ToolChange.objects.get()
    digest = other.locator(".decides").get_by_role("button")
    expect(digest).to_contain_text(waiting.digest[7:19])
    check_axe(other)
    check_fits(other)
    other.get_by_text("Approve…").click()
    reason_of(other).first.fill("read it line by line")
    other.get_by_role("button", name="Approve: refund fences less from now on").click()
    expect(other.get_by_text("Approved. It is version 2 now.")).to_be_visible()
    assert ToolVersion.objects.filter(tool="refund").latest("pk").is_read_only
    other.get_by_role("navigation", name="Where this is").get_by_role("link", name="refund").click()
    expect(other.get_by_text("Read-only").first).to_be_visible()
    expect(other.get_by_text("approved by maya")).to_be_visible()


def test_an_approval_that_comes_too_late_is_a_409_with_what_changed(door: Door, watch: Watch) -> None:
    watch.allowed.append("409 (Conflict)")  # the browser tells of every answer that is no success
    Story.begin()
    page = door.open("nils", "/tools/refund/edit")
    weaken(page)
    url = propose(page)
    other = door.open("maya", url, anew=True)
    page.goto("/tools/refund/edit")
    page.get_by_label("People for a grant").select_option("2")
    page.get_by_role("button", name="See what it would change").click()
    expect(page.get_by_text("Takes effect")).to_be_visible()
    reason_of(page).fill(REASON)
    page.get_by_role("button", name="Make it version 2 of refund").click()
    expect(page.get_by_text("Stored as version 2.")).to_be_visible()
    other.get_by_text("Approve…").click()
    reason_of(other).first.fill("read it line by line")
    other.get_by_role("button", name="Approve: refund fences less from now on").click()
    alert = other.get_by_role("alert").filter(has_text="It changed while you looked.")
    expect(alert).to_contain_text("/policy/grant_approvals")
    expect(other.get_by_text("Out of date").first).to_be_visible()
    expect(reason_of(other).first).to_have_value("read it line by line")
    assert ToolVersion.objects.filter(tool="refund").count() == 2


def test_what_is_no_json_is_told_while_one_types_and_with_its_place_by_the_server(door: Door, watch: Watch) -> None:
    watch.allowed.append("422 (Unprocessable Entity)")
    load_definitions([{"tool": "refund"}], COMMAND_LINE)
    page = door.open("nils", "/tools/refund/edit")
    schema = page.get_by_label("Schema of the arguments")
    schema.fill('{\n  "type": "object"\n  "required": []\n}')
    expect(page.get_by_text("Not JSON yet: line 3")).to_be_visible()
    schema.fill('{\n  "properties": {\n    "cents": {"type": "entier"}\n  }\n}')
    expect(page.get_by_text("Well-formed JSON.")).to_be_visible()
    page.get_by_role("button", name="See what it would change").click()
    expect(page.get_by_text("/properties/cents/type, line 3:")).to_be_visible()
    expect(schema).to_have_value('{\n  "properties": {\n    "cents": {"type": "entier"}\n  }\n}')
    check_axe(page)


def test_a_listing_fills_the_form_and_its_hints_set_nothing(door: Door) -> None:
    page = door.open("nils", "/new-tool")
    page.get_by_text("Fill it in from an MCP listing…").click()
    page.get_by_label("MCP listing").fill(json.dumps(LISTING))
    page.get_by_role("button", name="Read the listing").click()
    expect(page.get_by_role("row").filter(has_text="wipe")).to_contain_text("it may destroy something")
    check_axe(page)
    page.get_by_role("button", name="Fill in lookup").click()
    expect(page.get_by_text("Filled in from the listing.")).to_be_visible()
    expect(page.get_by_text("it only reads")).to_be_visible()
    expect(page.get_by_label("Effect")).to_have_value("side_effecting")
    expect(page.get_by_label("Idempotent")).not_to_be_checked()
    page.get_by_role("button", name="See what would be registered").click()
    expect(page.get_by_text("A new tool")).to_be_visible()
    reason_of(page).fill(REASON)
    page.get_by_role("button", name="Register lookup").click()
    expect(page.get_by_text("Stored as version 1.")).to_be_visible()
    expect(page.get_by_text("registered as not read-only")).to_be_attached()


def ugly() -> dict[str, Any]:
    """A definition of sixty members with names and words that nobody would choose."""
    members = {
        f"member_{number}": {"type": ["string", "null"], "maxLength": 40 + number, "description": TURNED}
        for number in range(57)
    }
    members |= {SCRIPT: {"const": SCRIPT}, LONG: {"pattern": "^a+$"}, "lines": {"items": {"required": ["sku"]}}}
    return {
        "tool": "refund",
        "mode": "push",
        "endpoint": "https://tools.example/" + "a-long-way/" * 20 + "?v=1",
        "credential": "tools.example",
        "advisory": ["/note", f"/{LONG}"],
        "sensitive": ["/card/number", "/iban"],
        "resources": ["/invoice"],
        "args_schema": {"type": "object", "properties": members, "required": ["member_1"]},
        "hints": {"description": TURNED + SCRIPT, "annotations": {"readOnlyHint": True, "destructiveHint": True}},
        "policy": {"nothing_done": [429, {"status": 409, "pointer": "/error/code", "equals": "in_progress"}]},
    }


def test_ugly_and_large_data_fit_on_a_desk_and_on_a_phone(door: Door) -> None:
    for number in range(MANY):
        make_tool(tool=f"tool-{number:03}", effect="read_only" if number % 7 == 0 else "side_effecting")
    make_tool(tool=LONG)
    definition = ugly()
    load_definitions([definition], COMMAND_LINE)
    page = door.open("nils", "/tools")
    expect(page.get_by_text(f"{MANY + 2} tools")).to_be_visible()
    check_axe(page)
    check_fits(page)
    page.get_by_role("link", name="refund", exact=True).click()
    check_axe(page)
    check_fits(page)
    page.get_by_role("link", name="Change…").click()
    check_axe(page)
    check_fits(page)
    schema = definition["args_schema"]
    loosened = {
        name: {**rule, "maxLength": 999} if "maxLength" in rule else rule for name, rule in schema["properties"].items()
    }
    page.get_by_label("Schema of the arguments").fill(json.dumps({**schema, "properties": loosened}))
    page.get_by_label("Endpoint").fill("https://evil.example/" + "b" * 300)
    weaken(page)
    expect(page.get_by_text("looser").first).to_be_visible()
    check_axe(page)
    check_fits(page)
    shoot(page, "tool-review")
    url = propose(page)
    other = door.open("maya", url, anew=True)
    check_fits(other)
    shoot(other, "tool-change")
    other.get_by_text("Refuse…").click()
    reason_of(other).last.fill(TURNED)
    other.get_by_role("button", name=re.compile("Refuse the change")).click()
    expect(other.get_by_text("Refused").first).to_be_visible()
    other.goto("/tool-changes")
    check_axe(other)
    check_fits(other)
