"""On-call acts within a minute, on a desk and on a phone: a grant is issued, approved, used, revoked and reviewed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from fencing.models import Freeze, Grant, GrantReview
from fencing.services import freezes
from fencing.services.requests import SetFreeze
from tests.browser.signing_in import Door
from tests.browser.watching import check_axe, check_fits, shoot
from tests.stories import REFUND, Story, told

REASON = "the replica's host is down since 02:10"
WIRE: dict[str, Any] = {"tool": "wire", "args": {"to": "IBAN 9", "cents": 4200}}
DEVICES = {"desktop": (1280, 800), "phone": (375, 812)}


@dataclass(kw_only=True)
class Hand:
    """Somebody's hand: it counts what it does."""

    page: Page
    taps: int = 0
    fields: int = 0

    def tap(self, what: Locator) -> None:
        self.taps += 1
        what.click()

    def fill(self, what: Locator, text: str) -> None:
        self.fields += 1
        expect(what).to_be_focused()  # nobody has to look for the field, or tap it
        self.page.keyboard.type(text)


def waiting_step(story: Story, step: str = "pay-invoice", action: Any = REFUND) -> str:
    """A step for which production has voted, and the replica is silent."""
    story.propose(step)
    story.vote(story.production, action, step)
    return f"/runs/{story.run}/steps/{step}"


def reason_of(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Reason")


def grant_of(story: Story) -> Grant:
    return Grant.objects.get(run__name=story.run)


@pytest.fixture(autouse=True)
def patience(context: BrowserContext) -> Iterator[None]:
    """Wait as long as a busy machine needs."""
    context.set_default_timeout(20_000)
    expect.set_options(timeout=15_000)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, context: BrowserContext) -> str:
    """Both devices, one after the other."""
    return str(request.param)


def as_on(page: Page, device: str) -> Page:
    width, height = DEVICES[device]
    page.set_viewport_size({"width": width, "height": height})
    return page


def test_from_the_link_to_a_live_grant_it_is_two_taps_and_one_field(door: Door, device: str) -> None:
    story = Story.begin()
    page = as_on(door.open("omar", waiting_step(story)), device)
    hand = Hand(page=page)
    hand.tap(page.get_by_role("link", name="Grant…"))
    words = page.locator("#words")
    expect(words).to_contain_text("production alone")
    expect(words).to_contain_text(f"in {story.run}")
    expect(words).to_contain_text("Now it would let 1 step through")
    expect(words).to_contain_text("cents 4200")
    hand.fill(reason_of(page), REASON)
    hand.tap(page.get_by_role("button", name="Issue: let production alone commit refund once"))
    expect(page.get_by_text("Issued. It is live;")).to_be_visible()
    assert (hand.taps, hand.fields) == (2, 1)
    grant = grant_of(story)
    assert (grant.step_name, grant.tool, grant.path, grant.max_uses, grant.reason) == (
        "pay-invoice", "refund", "production", 1, REASON,
    )  # fmt: skip
    expect(page.get_by_text(re.compile(r"14:\d\d left")).first).to_be_visible()
    story.decide()
    uses = page.get_by_role("region", name="Uses")
    expect(uses.get_by_role("link", name="pay-invoice")).to_be_visible(timeout=10_000)
    hand.tap(uses.get_by_role("link", name="pay-invoice"))
    expect(page.get_by_text("Committed under a grant")).to_be_visible()


def test_what_is_typed_is_said_in_words_before_it_is_sent(door: Door) -> None:
    story = Story.begin()
    waiting_step(story)
    page = door.open("omar", "/new-grant")
    words = page.locator("#words")
    expect(words).to_contain_text("Nothing is chosen yet")
    page.get_by_role("textbox", name="Run").fill(story.run)
    page.get_by_label("Tool", exact=True).fill("refund")
    expect(words).to_contain_text("refund")
    expect(words).to_contain_text("epoch 7, once")
    page.get_by_role("textbox", name="How often").fill("2")
    expect(words).to_contain_text("epoch 7, twice")
    expect(page.get_by_role("button", name="Issue: let production alone commit refund twice")).to_be_visible()
    page.get_by_label("Tool", exact=True).fill("no_such_tool")
    expect(words).to_contain_text("No tool no_such_tool is registered.")
    page.get_by_label("Tool", exact=True).fill("refund")
    expect(words).to_contain_text("Now it would let 1 step through")
    reason_of(page).fill(REASON)
    page.get_by_role("button", name="Issue: let production alone commit refund twice").click()
    expect(page.get_by_text("Issued. It is live;")).to_be_visible()
    assert grant_of(story).epoch == 7


def test_a_second_person_approves_with_the_facts_that_the_issuer_saw(door: Door, device: str) -> None:
    story = Story.begin()
    page = as_on(door.open("omar", waiting_step(story, action=WIRE)), device)
    page.get_by_role("link", name="Grant…").click()
    expect(page.locator("#preview-title + *, .issue-right")).to_contain_text(["lena"])
    reason_of(page).fill(REASON)
    page.get_by_role("button", name="Ask a second person: let production alone commit wire once").click()
    expect(page.get_by_text("It lets nothing through until a second person approves it.")).to_be_visible()
    own = page.get_by_role("button", name="Approve…")
    expect(own).to_have_attribute("aria-disabled", "true")
    expect(own).to_have_accessible_description("A second person approves, never the issuer.")
    url = page.url
    other = as_on(door.open("lena", "/", anew=True), device)
    other.get_by_role("link", name="Approve \u203a").click()
    other.get_by_role("link", name="Look at it \u203a").click()
    expect(other.locator("#what")).to_contain_text("to IBAN 9")
    expect(other.locator("#what")).to_contain_text("Now it would let 1 step through")
    expect(other.get_by_text(REASON).first).to_be_visible()
    other.get_by_role("link", name="Approve…").click()
    reason_of(other).last.fill("seen with finance")
    other.get_by_role("button", name="Approve: let production alone commit wire once").click()
    expect(other.get_by_text("Approved: it is live now.")).to_be_visible()
    story.decide()
    expect(page.get_by_role("region", name="Uses")).to_contain_text("pay-invoice")
    assert url.startswith(page.url.split("#")[0])


def test_who_approves_what_ended_meanwhile_sees_what_changed_and_keeps_the_reason(door: Door) -> None:
    """The page of its own that answers 409: nothing is left to decide."""
    door.watch.allowed.append("409")
    story = Story.begin()
    waiting_step(story, action=WIRE)
    name = str(story.grant(tool="wire", step="pay-invoice", reason="the replica's host is down")["name"])
    page = door.open("lena", f"/grants/{name}")
    page.get_by_role("link", name="Approve…").click()
    typed = "seen with finance: the invoice is due to\u202eday, and " + "nobody else may pay it " * 40
    reason_of(page).last.fill(typed)
    story.revoke(name)
    page.get_by_role("button", name="Approve: let production alone commit wire once").click()
    expect(page.get_by_role("alert")).to_contain_text("There is nothing left of this to decide.")
    table = page.get_by_role("region", name="What changed")
    expect(table.get_by_role("row", name=re.compile("state pending revoked"))).to_be_visible()
    expect(page.get_by_role("figure")).to_contain_text("seen with finance")
    check_axe(page)
    check_fits(page)
    shoot(page, "conflict-over")
    page.get_by_role("link", name="See what it is now").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert grant_of(story).live_at is None


def test_revoking_tells_what_it_stopped_and_what_had_gone_out(door: Door) -> None:
    story = Story.begin()
    name = str(story.grant(tool="refund", max_uses=2)["name"])
    tokens = []
    for step in ("left", "waits"):
        waiting_step(story, step, {"tool": "refund", "args": {"invoice": step, "cents": 1}})
        story.decide()
        tokens.append(story.token(step))
    story.admit(tokens[0], {"tool": "refund", "args": {"invoice": "left", "cents": 1}})
    page = as_on(door.open("lena", f"/grants/{name}"), "phone")
    page.get_by_role("link", name="Revoke…").click()
    reason_of(page).last.fill("the replica is back")
    page.get_by_role("button", name=f"Revoke {name[:20]}").click()
    expect(page.get_by_text("Revoked. Stopped: 1. Already out: 1.")).to_be_visible()
    reached = page.locator("#reached")
    expect(reached.get_by_role("link", name="waits")).to_be_visible()
    expect(reached.get_by_role("link", name="left")).to_be_visible()
    page.reload()
    expect(page.locator("#reached").get_by_role("link", name="waits")).to_be_visible()
    expect(page.get_by_role("link", name="Revoke…")).to_have_count(0)


def test_another_person_reviews_what_went_live_by_one_word(door: Door) -> None:
    story = Story.begin()
    _, name = story.go_alone()
    page = door.open("lena", "/")
    page.get_by_role("region", name="Waiting for a person").get_by_role("link", name="Review \u203a").click()
    page.get_by_role("row", name=re.compile(re.escape(name))).get_by_role("link", name="Review…").click()
    reason_of(page).last.fill("")
    page.get_by_role("button", name="Store my review").click()
    reason_of(page).last.fill("right: the host was down, the refund was due")
    page.get_by_role("button", name="Store my review").click()
    expect(page.get_by_text("Your review is stored.")).to_be_visible()
    assert GrantReview.objects.get(grant__name=name).person.get_username() == "lena"


# -- a freeze --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["step", "run", "overview"])
def test_a_freeze_is_two_taps_and_a_reason(door: Door, place: str) -> None:
    story = Story.begin()
    step = waiting_step(story)
    page = as_on(door.open("omar", {"step": step, "run": f"/runs/{story.run}", "overview": "/"}[place]), "phone")
    hand = Hand(page=page)
    hand.tap(page.get_by_role("link", name="Freeze…"))
    hand.fill(reason_of(page).last, "it refunds everybody")
    hand.tap(page.get_by_role("button", name=re.compile("^Freeze .*now$")))
    expect(page.get_by_text("Frozen. What was stopped")).to_be_visible()
    assert (hand.taps, hand.fields) == (2, 1)
    freeze = Freeze.objects.get()
    assert (freeze.tool, freeze.run and freeze.run.name) == {
        "step": ("refund", None), "run": (None, story.run), "overview": (None, None),
    }[place]  # fmt: skip


def test_while_it_is_frozen_every_page_says_so_and_another_person_lifts_it(door: Door) -> None:
    story = Story.begin()
    page = door.open("omar", waiting_step(story))
    page.get_by_role("link", name="Freeze…").click()
    reason_of(page).last.fill("it refunds everybody")
    page.get_by_role("button", name=re.compile("^Freeze .*now$")).click()
    own = page.get_by_role("button", name="Lift…")
    expect(own).to_have_accessible_description("You set this freeze: another person lifts it.")
    other = door.open("lena", "/runs", anew=True)
    banner = other.get_by_role("region", name="What everybody has to know")
    expect(banner).to_contain_text("refund")
    expect(banner).to_contain_text("it refunds everybody")
    banner.get_by_role("link", name="Look at it \u203a").click()
    other.locator("#lift summary").click()
    reason_of(other).last.fill("the tool was mended and tried")
    other.get_by_role("button", name="Lift the freeze: what is committed is admitted again").click()
    expect(other.get_by_text("Lifted. What is committed is admitted again")).to_be_visible()
    other.goto("/runs")
    expect(other.get_by_role("heading", name="Runs")).to_be_visible()
    expect(other.get_by_role("region", name="What everybody has to know")).to_have_count(0)


# -- an outage -------------------------------------------------------------------------------------------------------


@pytest.fixture
def silence(settings: Any) -> None:
    """Call a path silent at once."""
    settings.FENCE_SILENCE_S = 0


def test_one_confirmation_helps_every_step_that_waits(door: Door, silence: None) -> None:
    story = Story.begin()
    for number in range(5):
        waiting_step(story, f"pay-{number}", {"tool": "refund", "args": {"invoice": number, "cents": 1}})
    page = as_on(door.open("omar", "/runs"), "phone")
    banner = page.get_by_role("region", name="What everybody has to know")
    expect(banner).to_contain_text("5 steps in 1 run wait for it")
    banner.get_by_role("link", name="See the steps").click()
    page.get_by_role("checkbox", name=re.compile("pay-3 in")).uncheck()
    reason_of(page).fill(REASON)
    page.get_by_role("button", name="Issue 4 grants: each chosen step may go on once").click()
    expect(page.get_by_text("4 issued")).to_be_visible()
    assert Grant.objects.filter(run__name=story.run).count() == 4
    story.decide()
    page.get_by_role("link", name="See how far each step is").click()
    expect(page.get_by_text("4 of 4 steps committed")).to_be_visible()


# -- what must hold on every page ------------------------------------------------------------------------------------


def ugly_system(story: Story) -> list[str]:
    """Pages with deceiving words, many steps, a pending grant, a live one, an ended one and a freeze."""
    turned = "please pay in\u202evoice 9 " + "and so on " * 60
    name = str(story.grant(tool="refund", max_uses=12, name="g-" + "very-long." * 15 + "x", reason=turned)["name"])
    for step in ("left", "waits", "a-very-long-step-name." * 8 + "x"):
        waiting_step(story, step, {"tool": "refund", "args": {"invoice": step[:8], "note": turned}})
    story.decide()
    waiting_step(story, "wired", WIRE)
    pending = str(story.grant(tool="wire", step="wired", reason=turned)["name"])
    _, over = story.go_alone("noted", {"tool": "send_note", "args": {"to": "x"}})
    story.revoke(over)
    frozen = told(freezes.freeze(SetFreeze(scope={"tool": "solo_note"}, reason=turned), story.oncall))["id"]
    scope = f"run={story.run}&tool=refund"
    places = [
        "/grants",
        f"/grants/{name}",
        f"/grants/{pending}",
        f"/grants/{over}",
        f"/new-grant?{scope}",
        "/reviews",
    ]
    return ["/", *places, "/outages/replica", "/freezes", f"/freezes/{frozen}", "/authority"]


def test_axe_finds_nothing_and_nothing_scrolls_sideways(door: Door, silence: None) -> None:
    story = Story.begin()
    places = ugly_system(story)
    page = door.open("omar", "/grants")
    for path in places:
        page.goto(path)
        expect(page.get_by_role("main")).to_be_visible()
        check_axe(page)
        check_fits(page)


def test_a_second_click_while_the_first_is_on_its_way_changes_nothing(door: Door) -> None:
    story = Story.begin()
    waiting_step(story)
    page = door.open("omar", f"/new-grant?run={story.run}&step=pay-invoice&tool=refund")
    reason_of(page).fill(REASON)
    page.get_by_role("button", name=re.compile("^Issue: ")).dblclick()
    expect(page.get_by_text(re.compile("Issued. It is live;|It was issued already"))).to_be_visible()
    page.go_back()  # the page is read anew, with a fresh name: what was issued is in its own way, and is named
    door.watch.allowed.append("409 (Conflict)")
    reason_of(page).fill(REASON)
    page.get_by_role("button", name=re.compile("^Issue: ")).click()
    expect(page.get_by_role("alert").get_by_role("link")).to_have_text(grant_of(story).name)
    assert Grant.objects.filter(run__name=story.run).count() == 1
