"""People and keys in a real browser: a person made, let in and shut out; a key made, copied, rotated and revoked."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Error, ViewportSize, expect

from fencing.models import Credential
from fencing.protocol.callers import Caller, Role
from fencing.services.credentials import COMMAND_LINE, IssueKey, authenticate, issue
from tests.browser.signing_in import Door
from tests.browser.watching import Watch, check_axe, check_fits, shoot
from tests.factories import fresh

PHONE: ViewportSize = {"width": 375, "height": 812}
WORDS = "a long new password"


def test_a_person_is_made_comes_in_by_the_link_and_is_shut_out(door: Door, watch: Watch) -> None:
    name = fresh("person")
    page = door.open("nils", "/people")
    check_axe(page)
    page.get_by_role("link", name="New person…").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("on-call:").check()
    check_axe(page)
    check_fits(page)
    shoot(page, "new-person")
    page.get_by_role("button", name="Make them, and show the link once").click()
    link = page.locator(".secret code").inner_text()
    check_axe(page)
    shoot(page, "link-shown")
    other = door.open("vera", "/more", anew=True)
    other.context.clear_cookies()
    other.set_viewport_size(PHONE)
    other.goto(link)
    check_axe(other)
    other.get_by_label("New password", exact=True).fill(WORDS)
    other.get_by_label("New password again").fill(WORDS)
    other.get_by_role("button", name="Set it").click()
    other.get_by_label("Name").fill(name)
    other.get_by_label("Password").fill(WORDS)
    other.keyboard.press("Enter")
    expect(other).to_have_url("/")
    page.get_by_role("link", name="I have it: go on").click()
    expect(page.get_by_text("1 session now")).to_be_visible()
    check_axe(page)
    check_fits(page)
    shoot(page, "person")
    page.get_by_text("Deactivate…").click()
    page.locator("#deactivate").get_by_label("Reason").fill("she left the house")
    page.get_by_role("button", name=f"Shut {name} out").click()
    expect(page.get_by_text("Deactivated: they are out.")).to_be_visible()
    watch.allowed.append("401")
    other.goto("/runs")
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    assert not User.objects.get(username=name).is_active


def test_groups_that_changed_meanwhile_are_laid_side_by_side_with_a_fresh_button(door: Door, watch: Watch) -> None:
    watch.allowed.append("409")
    name = fresh("person")
    User.objects.create_user(name)
    first = door.open("nils", f"/people/{name}")
    second = door.open("maya", f"/people/{name}", anew=True)
    for page, group in ((second, "reviewer:"), (first, "on-call:")):
        page.get_by_text("Groups…").click()
        page.get_by_label(group).check()
        page.locator("#groups").get_by_label("Reason").fill("the new rota")
        page.get_by_role("button", name="Store the groups").click()
        page.wait_for_load_state()
    table = first.get_by_role("region", name="What changed")
    expect(table.get_by_role("row", name=re.compile("groups none reviewer"))).to_be_visible()
    expect(first.get_by_label("on-call:")).to_be_checked()
    check_axe(first)
    check_fits(first)
    shoot(first, "conflict")
    first.get_by_role("button", name="Store the groups").click()
    expect(first.get_by_text("The groups are stored.")).to_be_visible()


def test_a_key_is_made_copied_and_never_shown_again(door: Door) -> None:
    page = door.open("nils", "/keys")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="New key of a machine…").click()
    check_axe(page)
    page.get_by_role("link", name="New key of the role gateway").click()
    page.get_by_label("Name").fill("bank")
    check_axe(page)
    check_fits(page)
    shoot(page, "new-key")
    page.get_by_role("button", name="Make it, and show it once").click()
    page.get_by_role("button", name="Copy the key").click()
    expect(page.locator("#say")).to_have_text("Copied.")
    key = page.evaluate("() => navigator.clipboard.readText()")
    assert isinstance(authenticate(f"Bearer {key}"), Caller)
    check_axe(page)
    check_fits(page)
    page.get_by_role("link", name="I have it: go on").click()
    expect(page.get_by_text("Live: it is good as gateway")).to_be_visible()
    expect(page.locator("body")).not_to_contain_text(key)
    # The page that showed it was the answer to a form: the browser asks before it would send that again.
    with pytest.raises(Error, match="ERR_CACHE_MISS"):
        page.go_back()
    expect(page.locator("body")).not_to_contain_text(key)


def test_a_key_is_rotated_and_revoked_on_a_phone(door: Door) -> None:
    issue(IssueKey(role=Role.PLANNER, name="billing-" + "long-" * 30 + "name"), COMMAND_LINE)
    name = Credential.objects.get().name
    page = door.open("nils", f"/keys/{name}")
    page.set_viewport_size(PHONE)
    check_axe(page)
    check_fits(page)
    page.get_by_text("Rotate…").click()
    page.get_by_label("Both are good for").select_option("an hour")
    page.get_by_role("button", name="Make its successor, and show it once").click()
    expect(page.get_by_text("is good until")).to_be_visible()
    page.goto(f"/keys/{name}")
    expect(page.get_by_text("It was rotated already")).to_be_visible()
    page.get_by_text("Revoke…").click()
    page.get_by_role("button", name=re.compile("Revoke billing-")).click()
    expect(page.get_by_text("Revoked. It opens nothing any more")).to_be_visible()
    check_axe(page)
    shoot(page, "key-revoked")
    page.goto("/keys")
    check_axe(page)
    check_fits(page)
    shoot(page, "keys")
    assert Credential.objects.filter(revoked_at=None).count() == 1


def test_somebody_on_call_makes_a_key_for_their_own_hand(door: Door) -> None:
    page = door.open("omar", "/keys")
    page.set_viewport_size(PHONE)
    page.get_by_text("A key for yourself…").click()
    page.get_by_label("It ends after").select_option("four hours")
    page.get_by_role("button", name="Make it, and show it once").click()
    key = page.locator(".secret code").inner_text()
    caller = authenticate(f"Bearer {key}")
    assert isinstance(caller, Caller)
    assert (caller.person, caller.role) == ("omar", Role.ONCALL)
    page.get_by_role("link", name="I have it: go on").click()
    expect(page.get_by_role("link", name=re.compile("omar:oncall"))).to_be_visible()
