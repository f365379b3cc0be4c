"""The pages of tools: the registry, a definition, what a change would change, and the second administrator's word."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.access import Group
from fencing.models import SideLogRow, ToolChange, ToolVersion
from fencing.protocol.tools import stored_tool
from fencing.services.credentials import COMMAND_LINE
from fencing.services.tools import load_definitions
from tests.factories import make_tool, make_tool_change, make_tool_change_approval
from tests.people import confirm
from tests.stories import Story

pytestmark = pytest.mark.django_db
SCRIPT = "</script><script>alert(1)</script>"
READS = ["/tools", "/tools/refund", "/tool-changes"]
WRITES = ["/new-tool", "/tools/refund/edit"]
POSTS = ["/new-tool/listing", "/new-tool/review", "/new-tool/register", "/tools/refund/review", "/tools/refund/change"]
REFUND: dict[str, Any] = {
    "tool": "refund",
    "sensitive": ["/card"],
    "advisory": ["/note"],
    "args_schema": {"type": "object", "properties": {"cents": {"maximum": 5000}}},
    "hints": {"annotations": {"readOnlyHint": True, "destructiveHint": False}},
}


@pytest.fixture
def tool() -> ToolVersion:
    load_definitions([REFUND], COMMAND_LINE)
    return ToolVersion.objects.get(tool="refund")


@pytest.fixture
def administrator(person: Callable[..., User]) -> Callable[[str], Client]:
    """Make a client of an administrator who has confirmed a moment ago."""

    def client_of(name: str) -> Client:
        client = Client()
        client.force_login(person(Group.ADMINISTRATOR, name=name))
        confirm(client)
        return client

    return client_of


@pytest.fixture
def lena(administrator: Callable[[str], Client]) -> Client:
    return administrator("lena")


@pytest.fixture
def omar(administrator: Callable[[str], Client]) -> Client:
    return administrator("omar")


def shown(client: Client, path: str, **query: str) -> str:
    answer = client.get(path, query)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def filled(page: str) -> dict[str, str]:
    """What a browser would send of the form of a definition as it stands on the page."""
    form = page[page.index('class="tool-form"') :]
    form = form[: form.index("</form>")]
    found: dict[str, str] = {}
    for field in re.finditer(
        r"<(input|textarea|select)\b([^>]*)>(.*?)(?=<(?:input|textarea|select|/fieldset|button)\b|$)", form, re.DOTALL
    ):
        kind, attributes, rest = field.groups()
        name = re.search(r'name="([^"]*)"', attributes)
        if name is None or name[1] == "csrfmiddlewaretoken":
            continue
        if kind == "input" and 'type="checkbox"' in attributes:
            if " checked" in attributes:
                found[name[1]] = "on"
        elif kind == "input":
            value = re.search(r'value="([^"]*)"', attributes)
            found[name[1]] = unescaped(value[1]) if value else ""
        elif kind == "textarea":
            found[name[1]] = unescaped(rest.partition("</textarea>")[0]).removeprefix("\n")
        else:
            chosen = re.search(r'<option value="([^"]*)" selected', rest)
            found[name[1]] = chosen[1] if chosen else ""
    return found


def words(page: str) -> str:
    """The text of a page without its tags."""
    return re.sub(r"\s+", " ", unescaped(re.sub(r"<[^>]*>", "", page)))


def unescaped(text: str) -> str:
    return html.unescape(text)


def reviewed(client: Client, path: str, **changes: str) -> str:
    """Send the form of a tool with changes, and give the page that tells what they would change."""
    form = filled(shown(client, path)) | changes
    url = path.removesuffix("/edit") + "/review"
    answer = client.post(url, form)
    assert answer.status_code == 200, answer.content.decode()
    return answer.content.decode()


def act_of(page: str, url: str) -> dict[str, str]:
    """The hidden fields of the form that posts to an address."""
    start = page.index(f'action="{url}')
    form = page[start : page.index("</form>", start)]
    return {
        name: unescaped(value)
        for name, value in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form)
        if name != "csrfmiddlewaretoken"
    }


def change(client: Client, page: str, url: str = "/tools/refund/change", **more: str) -> Any:
    return client.post(url, {**act_of(page, url), "reason": "finance asked for it", **more})


# -- who ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [each for each in Group if each is not Group.ADMINISTRATOR])
def test_everybody_in_a_group_reads_and_only_administrators_write(
    tool: ToolVersion, person: Callable[..., User], group: Group
) -> None:
    waiting = make_tool_change(base=tool)
    client = Client()
    client.force_login(person(group))
    confirm(client)
    for path in [*READS, f"/tool-changes/{waiting.pk}"]:
        assert client.get(path).status_code == 200, path
    for path in WRITES:
        assert client.get(path).status_code == 403, path
    for path in [*POSTS, *(f"/tool-changes/{waiting.pk}/{act}" for act in ("approve", "refuse", "withdraw"))]:
        assert client.post(path, {"reason": "x"}).status_code == 403, path
    assert ToolVersion.objects.count() == 1
    page = shown(client, "/tools/refund")
    assert "This is for the group administrator; you are not in it." in page


def test_a_get_never_changes_a_tool(tool: ToolVersion, lena: Client) -> None:
    waiting = make_tool_change(base=tool)
    for path in [*POSTS, *(f"/tool-changes/{waiting.pk}/{act}" for act in ("approve", "refuse", "withdraw"))]:
        assert lena.get(path).status_code == 405, path


def test_what_is_nowhere_is_not_found(lena: Client) -> None:
    for path in ("/tools/nobody", "/tools/nobody/edit", "/tool-changes/nothing", "/tools/a%00b"):
        assert lena.get(path).status_code == 404, path


def test_an_act_asks_who_one_is_and_keeps_what_was_typed(tool: ToolVersion, person: Callable[..., User]) -> None:
    client = Client()
    client.force_login(person(Group.ADMINISTRATOR))
    page = reviewed(client, "/tools/refund/edit", grant_approvals="2")
    answer = change(client, page)
    assert (answer.status_code, urlsplit(answer["Location"]).path) == (303, "/confirm")
    assert ToolVersion.objects.count() == 1
    confirm(client)
    way = client.session["fence_asked"]["next"]
    again = shown(client, way)
    assert "finance asked for it" in again
    assert change(client, again).status_code == 302
    assert ToolVersion.objects.count() == 2


# -- reading -----------------------------------------------------------------------------------------------------------


def test_the_registry_tells_what_the_fence_asks_of_each_tool(tool: ToolVersion, lena: Client) -> None:
    load_definitions([{"tool": "lookup", "effect": "read_only"}], COMMAND_LINE)
    page = shown(lena, "/tools")
    assert "production + replica · one for a grant of 15 min at most" in page
    assert "admitted without a vote" in page
    assert "No change waits." in page
    assert "lookup" not in shown(lena, "/tools", tool="fund", part="rows")
    assert "refund" not in shown(lena, "/tools", effect="read_only", part="rows")
    assert "No tool is like that" in shown(lena, "/tools", mode="push")
    assert "No tool is like that" in shown(lena, "/tools", waiting="yes")
    make_tool_change(base=tool)
    assert "1 change waiting" in shown(lena, "/tools", waiting="yes")


def test_an_empty_registry_says_what_to_do(lena: Client) -> None:
    assert "No tool yet" in shown(lena, "/tools")
    assert "No change ever waited" in shown(lena, "/tool-changes")


def test_a_tool_shows_its_definition_and_its_hints_as_hints(tool: ToolVersion, lena: Client) -> None:
    page = shown(lena, "/tools/refund")
    for said in (
        "Fenced",
        "production and replica agree",
        "/card",
        "/note",
        "it only reads",
        "registered as not read-only",
        "nothing is decided by it",
        "The first version.",
        "the command line",
    ):
        assert said in page, said


def test_a_push_tool_shows_where_it_is_called_and_the_name_of_its_credential_alone(lena: Client) -> None:
    pushed = {"tool": "pay", "mode": "push", "endpoint": "https://pay.example/v1", "credential": "pay-key"}
    load_definitions([pushed], COMMAND_LINE)
    page = shown(lena, "/tools/pay")
    assert "https://pay.example/v1" in page
    assert "pay-key" in page
    assert "kept outside the database" in page


def test_what_comes_from_outside_is_spelt_and_escaped(lena: Client) -> None:
    hints = {"description": f"harmless\u202e {SCRIPT}"}
    load_definitions([{**REFUND, "hints": hints, "args_schema": {"description": SCRIPT}}], COMMAND_LINE)
    page = shown(lena, "/tools/refund")
    assert SCRIPT not in page
    assert "U+202E" in page


def test_pages_cost_a_bounded_number_of_statements(
    tool: ToolVersion, lena: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(60):
        make_tool(tool=f"tool-{number}")
    for number in range(8):
        make_tool_change(base=make_tool(tool=f"waits-{number}"))
    for _ in range(5):
        make_tool_change_approval(change=make_tool_change(base=tool, approvals_needed=9))
    with django_assert_max_num_queries(20):
        shown(lena, "/tools")
    with django_assert_max_num_queries(18):
        shown(lena, "/tools/refund")
    with django_assert_max_num_queries(16):
        shown(lena, "/tool-changes")
    with django_assert_max_num_queries(28):
        shown(lena, f"/tool-changes/{ToolChange.objects.latest('proposed_at').pk}")


def test_the_list_goes_on_where_it_was_cut(lena: Client) -> None:
    for number in range(60):
        make_tool(tool=f"tool-{number:03}")
    first = shown(lena, "/tools")
    assert "tool-059" in first
    assert "tool-009" not in first
    following = re.search(r'href="(/tools\?cursor=[^"]*)" rel="next"', first)
    assert following
    assert "tool-009" in shown(lena, following[1])


def test_the_overview_tells_an_administrator_what_waits_for_them_and_nobody_else(
    tool: ToolVersion, lena: Client, omar: Client, person: Callable[..., User]
) -> None:
    other = Client()
    other.force_login(person(Group.REVIEWER, Group.ONCALL, name="noor"))
    change(lena, reviewed(lena, "/tools/refund/edit", effect="read_only"))
    assert "1 change of a tool to read" in words(shown(omar, "/"))
    for client in (lena, other):
        assert "change of a tool" not in words(shown(client, "/"))
    make_tool_change_approval(change=make_tool_change(approvals_needed=2), person=User.objects.get(username="omar"))
    assert "1 change of a tool to read" in words(shown(omar, "/"))


# -- writing -----------------------------------------------------------------------------------------------------------


def test_the_form_of_a_tool_says_what_its_definition_says(tool: ToolVersion, lena: Client) -> None:
    page = reviewed(lena, "/tools/refund/edit")
    assert "Nothing changes" in page
    assert 'action="/tools/refund/change' not in page


def test_looking_at_a_change_stores_nothing(tool: ToolVersion, lena: Client) -> None:
    page = reviewed(lena, "/tools/refund/edit", effect="read_only")
    assert "Weakens the fence" in page
    assert "It becomes read-only, and skips the fence." in page
    assert "No step of refund was proposed in the last week" in page
    assert (ToolVersion.objects.count(), ToolChange.objects.count()) == (1, 0)


def test_a_change_that_does_not_weaken_is_current_at_once(tool: ToolVersion, lena: Client) -> None:
    page = reviewed(lena, "/tools/refund/edit", grant_approvals="2", hints="")
    assert "Takes effect" in page
    answer = change(lena, page)
    assert answer["Location"] == "/tools/refund#main"
    row = ToolVersion.objects.latest("pk")
    assert (row.version, row.grant_approvals, row.reason) == (2, 2, "finance asked for it")
    page = shown(lena, "/tools/refund")
    assert "Grants need more approvals: 2 instead of 1." in page
    assert "finance asked for it" in page


def test_what_it_would_have_changed_is_told_before_it_is_proposed_and_to_whoever_approves(
    lena: Client, omar: Client
) -> None:
    story = Story.begin()
    story.agree("paid")
    page = reviewed(lena, "/tools/refund/edit", effect="read_only")
    assert "1 of 1 step of the last week would have ended otherwise" in page
    assert "steps that would have skipped the fence" in page
    url = urlsplit(change(lena, page)["Location"]).path
    story.agree("paid-later", key="later")
    page = shown(omar, url)
    assert "As the proposer saw it." in page
    assert "1 of 1 step of the last week would have ended otherwise" in page
    again = shown(omar, url, again="1")
    assert "2 of 2 steps of the last week would have ended otherwise" in again


def test_figures_that_a_form_made_up_are_read_again(tool: ToolVersion, lena: Client) -> None:
    page = reviewed(lena, "/tools/refund/edit", effect="read_only")
    change(lena, page, lookback="made:up")
    told: Any = ToolChange.objects.get().lookback
    assert told["replayed"]["steps"] == 0


def test_a_weakening_change_waits_and_a_second_administrator_approves_what_is_shown(
    tool: ToolVersion, lena: Client, omar: Client
) -> None:
    url = urlsplit(change(lena, reviewed(lena, "/tools/refund/edit", effect="read_only"))["Location"]).path
    waiting = ToolChange.objects.get()
    assert url == f"/tool-changes/{waiting.pk}"
    own = shown(lena, url)
    assert "You proposed it: another administrator approves it." in own
    assert f'action="{url}/approve' not in own
    page = shown(omar, url)
    assert act_of(page, f"{url}/approve") == {"digest": waiting.digest}
    assert waiting.digest in page
    answer = omar.post(f"{url}/approve", {"digest": waiting.digest, "reason": "read it line by line"})
    assert answer["Location"] == f"{url}#main"
    assert ToolVersion.objects.latest("pk").is_read_only
    done = shown(omar, url)
    assert "Approved" in done
    assert "read it line by line" in done
    assert "/approve" not in done
    assert "approved by omar" in words(shown(omar, "/tools/refund"))


def test_a_decision_on_what_changed_meanwhile_is_a_409_that_tells_what(
    tool: ToolVersion, lena: Client, omar: Client
) -> None:
    url = urlsplit(change(lena, reviewed(lena, "/tools/refund/edit", effect="read_only"))["Location"]).path
    page = shown(omar, url)
    change(lena, reviewed(lena, "/tools/refund/edit", grant_approvals="2"))
    answer = omar.post(f"{url}/approve", act_of(page, f"{url}/approve") | {"reason": "read it"})
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "It changed while you looked." in page
    assert "/policy/grant_approvals" in page
    assert "read it" in page
    assert ToolVersion.objects.count() == 2
    assert "Out of date" in shown(omar, url)


def test_a_decision_on_what_was_withdrawn_meanwhile_is_a_409_with_nothing_to_decide(
    tool: ToolVersion, lena: Client, omar: Client
) -> None:
    url = urlsplit(change(lena, reviewed(lena, "/tools/refund/edit", effect="read_only"))["Location"]).path
    typed = act_of(shown(omar, url), f"{url}/approve") | {"reason": "read it line by line"}
    lena.post(f"{url}/withdraw", act_of(shown(lena, url), f"{url}/withdraw") | {"reason": "too early"})
    answer = omar.post(f"{url}/approve", typed)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "There is nothing left of this to decide." in page
    assert re.search(r"<td[^>]*>.*waits.*</td><td[^>]*>.*withdrawn.*</td>", page)
    assert "read it line by line" in page
    assert f'action="{url}/approve"' not in page
    assert ToolVersion.objects.count() == 1


def test_a_change_from_an_older_version_is_a_409_that_tells_what_changed(
    tool: ToolVersion, lena: Client, omar: Client
) -> None:
    page = reviewed(lena, "/tools/refund/edit", deadline_s="9")
    change(omar, reviewed(omar, "/tools/refund/edit", grant_approvals="2"))
    answer = change(lena, page)
    told = answer.content.decode()
    assert answer.status_code == 409
    assert "It changed while you looked." in told
    assert "/policy/grant_approvals" in told
    assert "finance asked for it" in told
    # What is shown is compared anew: sent again, it would take the other's change back.
    assert "Grants need fewer approvals: 1 instead of 2." in told
    assert ToolVersion.objects.count() == 2


def test_a_change_is_refused_or_withdrawn_with_a_reason(tool: ToolVersion, lena: Client, omar: Client) -> None:
    for client, act, state in ((omar, "refuse", "Refused"), (lena, "withdraw", "Withdrawn")):
        url = urlsplit(change(lena, reviewed(lena, "/tools/refund/edit", effect="read_only"))["Location"]).path
        fields = act_of(shown(client, url), f"{url}/{act}")
        assert client.post(f"{url}/{act}", fields | {"reason": ""}).status_code == 422
        client.post(f"{url}/{act}", fields | {"reason": "it does write"})
        page = shown(omar, url)
        assert state in page
        assert "it does write" in page
    assert ToolVersion.objects.count() == 1
    assert "refused" in shown(omar, "/tool-changes", state="refused")
    assert "No change is like that" in shown(omar, "/tool-changes", state="approved")


def test_who_proposed_it_cannot_approve_it_by_hand(tool: ToolVersion, lena: Client) -> None:
    url = urlsplit(change(lena, reviewed(lena, "/tools/refund/edit", effect="read_only"))["Location"]).path
    waiting = ToolChange.objects.get()
    answer = lena.post(f"{url}/approve", {"digest": waiting.digest, "reason": "I know what I do"})
    assert answer.status_code == 403
    assert "another administrator approves it" in answer.content.decode()
    assert ToolVersion.objects.count() == 1
    assert SideLogRow.objects.get().reason == "own_change"


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("args_schema", '{\n  "type": "object",\n}', "This is not JSON"),
        ("args_schema", '{\n  "properties": {\n    "a": {"type": "objekt"}\n  }\n}', "/properties/a/type, line 3"),
        ("args_schema", '{"a": 1,\n"a": 2}', "/a, line 2"),
        ("hints", "[1]", "This must be an object."),
        ("compensator_args", '{\n"id": {"from": "action"}}', "no tool"),
        ("compensator_tool", "nobody at all", "This must be an identifier."),
        ("nothing_done", "[200]", "/0/status"),
        ("advisory", "/a\n\nb", "line 3: This must be a JSON Pointer"),
        ("advisory", '["/a", 5]', "/1, line 1"),
        ("required_paths", "", "At least one is needed."),
        ("trusted_path", "third", "one of the required paths"),
        ("deadline_s", "soon", "This must be an integer of 1 to 86400."),
        ("grace_s", "-1", "This must be an integer of 0 to 86400."),
        ("endpoint", "https://pay.example/", "A pull tool is called by its gateway"),
        ("mode", "push", "A push tool needs an endpoint."),
        ("optimistic", "on", "must be idempotent"),
        ("effect", "sometimes", "Select a valid choice"),
    ],
)
def test_what_is_wrong_with_a_definition_stands_beside_its_field_with_its_place(
    tool: ToolVersion, lena: Client, field: str, text: str, said: str
) -> None:
    if said == "no tool":
        text, said = '{\n"id": {"from": "action"}}', "This must be an identifier."
    form = filled(shown(lena, "/tools/refund/edit")) | {field: text}
    answer = lena.post("/tools/refund/review", form)
    page = unescaped(answer.content.decode())
    assert answer.status_code == 422
    assert said in page
    assert "Nothing was looked at yet" in page
    assert text in page
    assert (ToolVersion.objects.count(), ToolChange.objects.count()) == (1, 0)


def test_a_new_tool_is_looked_at_and_registered(lena: Client) -> None:
    page = reviewed(lena, "/new-tool", tool="wire", grant_approvals="2", effect="read_only")
    assert "A new tool" in page
    answer = change(lena, page, "/new-tool/register")
    assert answer["Location"] == "/tools/wire#main"
    row = ToolVersion.objects.get()
    assert (row.tool, row.version, row.is_read_only, row.grant_approvals) == ("wire", 1, True, 2)


def test_a_policy_that_nobody_could_serve_is_warned_of_while_it_is_made(
    lena: Client, person: Callable[..., User]
) -> None:
    page = reviewed(lena, "/new-tool", tool="wire", grant_approvals="2")
    assert "Its grants ask for 2 people, and no active person is on call" in page
    assert "Its compensations ask for one reviewer" in page
    person(Group.ONCALL, name="o-1")
    assert "and one active person is on call: nobody could approve one" in reviewed(
        lena, "/new-tool", tool="wire", grant_approvals="2"
    )
    person(Group.ONCALL, Group.REVIEWER, name="o-2")
    page = reviewed(lena, "/new-tool", tool="wire", grant_approvals="2")
    assert "nobody could" not in page


def test_a_new_tool_that_somebody_registered_meanwhile_is_a_409(lena: Client, omar: Client) -> None:
    page = reviewed(lena, "/new-tool", tool="wire")
    change(omar, reviewed(omar, "/new-tool", tool="wire", grant_approvals="2"), "/new-tool/register")
    answer = change(lena, page, "/new-tool/register")
    assert answer.status_code == 409
    assert "not registered" in answer.content.decode()
    assert ToolVersion.objects.get().grant_approvals == 2


def test_a_form_that_holds_another_definition_than_its_page_is_refused(tool: ToolVersion, lena: Client) -> None:
    page = reviewed(lena, "/tools/refund/edit", deadline_s="9")
    fields = act_of(page, "/tools/refund/change")
    other = json.dumps({**json.loads(fields["definition"]), "effect": "read_only"})
    answer = lena.post("/tools/refund/change", fields | {"definition": other, "reason": "x"})
    assert answer.status_code == 422
    for definition in ("{", '{"tool": "another"}'):
        answer = lena.post("/tools/refund/change", fields | {"definition": definition, "reason": "x"})
        assert answer.status_code == 404
    assert ToolVersion.objects.count() == 1
    assert ToolChange.objects.count() == 0


# -- listings ----------------------------------------------------------------------------------------------------------

LISTING: dict[str, Any] = {
    "tools": [
        {"name": "lookup", "annotations": {"readOnlyHint": True, "idempotentHint": True}},
        {"name": "refund", "description": "Refund.", "inputSchema": {"type": "object", "required": ["invoice"]}},
        {"name": "no identifier"},
    ]
}


def test_a_listing_fills_the_form_and_sets_nothing(tool: ToolVersion, lena: Client) -> None:
    pasted = {"listing": json.dumps(LISTING)}
    listed = lena.post("/new-tool/listing", pasted).content.decode()
    assert "3 tools" in listed
    assert "it only reads" in listed
    assert "registered" in listed
    form = filled(lena.post("/new-tool/listing", pasted | {"pick": "0"}).content.decode())
    assert (form["tool"], form["effect"], form.get("idempotent")) == ("lookup", "side_effecting", None)
    assert json.loads(form["hints"]) == LISTING["tools"][0]
    assert ToolVersion.objects.count() == 1


def test_a_listing_of_a_tool_that_is_registered_fills_the_form_of_its_change(tool: ToolVersion, lena: Client) -> None:
    answer = lena.post("/new-tool/listing", {"listing": json.dumps(LISTING), "pick": "1"})
    page = answer.content.decode()
    assert 'action="/tools/refund/review"' in page
    form = filled(page)
    assert json.loads(form["args_schema"]) == {"type": "object", "required": ["invoice"]}
    assert form["sensitive"] == "/card"
    told = lena.post("/tools/refund/review", form).content.decode()
    assert "The arguments are checked by another schema." in told


def test_a_name_that_cannot_be_one_is_left_out_of_the_form(lena: Client) -> None:
    answer = lena.post("/new-tool/listing", {"listing": json.dumps(LISTING["tools"][2])})
    assert filled(answer.content.decode())["tool"] == ""


@pytest.mark.parametrize(
    ("listing", "said"),
    [
        ("", "Paste a listing."),
        ("{", "This is not JSON"),
        ("5", "This is no listing of tools"),
        ('{"tools": []}', "holds no tool"),
        ('{"result": {"tools": [{"name": "a"},\n{"title": "b"}]}}', "/result/tools/1, line 2"),
        ('[{"name": "a", "inputSchema": []}]', "/0/inputSchema"),
    ],
)
def test_what_is_no_listing_is_told_with_its_place(lena: Client, listing: str, said: str) -> None:
    answer = lena.post("/new-tool/listing", {"listing": listing})
    assert answer.status_code == 422
    assert said in unescaped(answer.content.decode())


def test_every_definition_survives_its_form(lena: Client) -> None:
    full = {
        "tool": "full", "effect": "side_effecting", "idempotent": True, "optimistic": True, "mode": "push",
        "endpoint": "https://tools.example:8443/refund?v=1", "credential": "tools.example",
        "advisory": ["/note", "/a\nb"], "sensitive": ["/card/number"], "resources": ["/invoice"],
        "compensator": {"tool": "full", "args": {"id": {"from": "response", "pointer": "/id", "default": None}}},
        "args_schema": {"type": "object", "title": "caf\u00e9 \u202e <b>"},
        "hints": {"n": 1.5, "big": 9007199254740991},
        "policy": {
            "required_paths": ["production", "replica", "third"], "trusted_path": "third", "deadline_s": 60,
            "grace_s": 0, "max_grant_ttl_s": 300, "grant_approvals": 2, "compensation_approvals": 2, "lease_s": 20,
            "max_deliveries": 3, "timeout_s": 10,
            "nothing_done": [429, {"status": 409, "pointer": "/code", "equals": "in_progress"}],
        },
    }  # fmt: skip
    load_definitions([full], COMMAND_LINE)
    row = ToolVersion.objects.get(tool="full")
    assert "Nothing changes" in reviewed(lena, "/tools/full/edit")
    assert stored_tool(bytes(row.definition)).advisory == ("/note", "/a\nb")
