"""Who sees the pages, and what goes out with each."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from django.contrib.auth.models import Group as GroupRow
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.test import Client, RequestFactory
from django.urls import reverse

from dashboard import access, middleware, views
from dashboard.access import Group
from fencing.protocol.callers import Role

SignedIn = Callable[..., Client]
TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
SCRIPTS = Path(__file__).resolve().parents[2] / "static" / "js"
PAGES = ["/", "/more", "/gallery"]


@pytest.mark.parametrize("path", PAGES)
def test_a_stranger_is_sent_to_sign_in_and_comes_back(db: None, client: Client, path: str) -> None:
    response = client.get(f"{path}?tool=refund")
    assert response.status_code == 302
    assert response["Location"] == f"/sign-in?next={path}%3Ftool%3Drefund"


def test_a_link_survives_sign_in(db: None, client: Client, person: Callable[..., User]) -> None:
    person(Group.VIEWER)
    given = {"login": "lena", "password": "correct horse battery", "next": "/gallery?part=rows"}
    response = client.post("/sign-in", given)
    assert response["Location"] == "/gallery?part=rows"


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/",
        "//evil.example/",
        "javascript:alert(1)",
        "/\\evil.example",
        "http:///evil.example",
        "\x00//evil.example",
    ],
)
def test_a_sign_in_never_leads_to_another_host(client: Client, person: Callable[..., User], elsewhere: str) -> None:
    person(Group.VIEWER)
    given = {"login": "lena", "password": "correct horse battery", "next": elsewhere}
    assert client.post("/sign-in", given)["Location"] == "/"
    assert elsewhere not in client.get("/sign-in", {"next": elsewhere}, follow=True).content.decode()


def test_a_wrong_password_keeps_the_name_and_the_way(client: Client, person: Callable[..., User]) -> None:
    person(Group.VIEWER)
    response = client.post("/sign-in", {"login": "lena", "password": "wrong", "next": "/gallery"})
    html = response.content.decode()
    assert response.status_code == 422
    assert 'value="lena"' in html
    assert '<input type="hidden" name="next" value="/gallery">' in html
    assert "wrong" not in html.replace('class="field wrong"', "")


def test_who_is_signed_in_does_not_sign_in_again(signed_in: SignedIn) -> None:
    assert signed_in().get("/sign-in?next=/more")["Location"] == "/more"


def test_signing_out_is_a_post_and_ends_the_session(signed_in: SignedIn) -> None:
    client = signed_in()
    assert client.get("/sign-out").status_code == 405
    assert client.get("/more").status_code == 200
    assert client.post("/sign-out")["Location"] == "/sign-in"
    assert client.get("/more").status_code == 302


def test_a_posted_form_of_a_stranger_is_not_the_way_back(db: None, client: Client) -> None:
    assert client.post("/sign-out")["Location"] == "/sign-in"


def test_a_form_that_came_too_late_leads_back_to_the_page_that_it_stood_on(db: None, client: Client) -> None:
    for page, way in (
        ("http://testserver/keys/bank?x=1", "/sign-in?next=/keys/bank%3Fx%3D1"),
        ("http://evil.example/keys", "/sign-in"),
        ("http://testserver/", "/sign-in"),
    ):
        assert client.post("/keys/bank/revoke", headers={"Referer": page})["Location"] == way


def test_a_live_part_of_somebody_signed_out_is_a_bare_401(db: None, client: Client) -> None:
    response = client.get("/gallery?part=rows", headers={"HX-Request": "true"})
    assert (response.status_code, response.content) == (401, b"")


def test_a_person_in_no_group_is_told_so_and_can_leave(client: Client, person: Callable[..., User]) -> None:
    client.force_login(person())
    response = client.get("/gallery")
    assert response.status_code == 403
    assert "in none of the groups" in response.content.decode()
    assert client.get("/more").status_code == 200
    assert client.post("/sign-out").status_code == 302


@pytest.mark.parametrize("group", list(Group))
def test_each_group_may_see(signed_in: SignedIn, group: Group) -> None:
    assert signed_in(group).get("/gallery").status_code == 200


def test_migrations_leave_the_groups(db: None) -> None:
    assert set(GroupRow.objects.values_list("name", flat=True)) >= set(Group)


def test_a_caller_acts_in_a_role_of_the_persons_groups(rf: RequestFactory, person: Callable[..., User]) -> None:
    request = rf.get("/", REMOTE_ADDR="192.0.2.7")
    request.user = person(Group.REVIEWER)
    caller = access.caller_of(request, Role.REVIEWER)
    assert (caller.role, caller.person, caller.address) == (Role.REVIEWER, "lena", "192.0.2.7")
    assert access.reader_of(request).role is Role.AUDITOR
    with pytest.raises(PermissionDenied, match="for the group on-call"):
        access.caller_of(request, Role.ONCALL)


def test_the_reason_beside_a_button_is_the_reason_of_the_refusal(person: Callable[..., User]) -> None:
    assert access.why_not(person(Group.VIEWER), Role.REVIEWER) == "This is for the group reviewer; you are not in it."
    assert access.why_not(person(Group.REVIEWER, name="omar"), Role.REVIEWER) == ""


def test_a_person_who_was_switched_off_is_in_no_group(person: Callable[..., User]) -> None:
    user = person(Group.REVIEWER)
    user.is_active = False
    assert access.groups_of(user) == frozenset()


@pytest.mark.parametrize("path", [*PAGES, "/sign-in", "/no-such-page", "/static/css/base.css"])
def test_everything_goes_out_under_the_strict_policy(signed_in: SignedIn, path: str) -> None:
    response = signed_in().get(path)
    assert response["Content-Security-Policy"] == middleware.POLICY
    assert response["X-Content-Type-Options"] == "nosniff"
    response.close()


def test_the_policy_lets_nothing_inline_and_nobody_else_in() -> None:
    assert "unsafe" not in middleware.POLICY
    assert "http" not in middleware.POLICY
    assert middleware.POLICY.startswith("default-src 'none';")


def test_pages_are_kept_by_no_cache_and_static_files_are(signed_in: SignedIn) -> None:
    client = signed_in()
    assert client.get("/more")["Cache-Control"] == "private, no-store"
    with closing(client.get("/static/css/base.css")) as sheet:
        assert "no-store" not in sheet["Cache-Control"]


def test_a_page_that_is_not_there_says_so(signed_in: SignedIn) -> None:
    response = signed_in().get("/no-such-page")
    assert response.status_code == 404
    assert "Nothing here" in response.content.decode()


def test_a_form_without_its_token_does_nothing(person: Callable[..., User]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person(Group.VIEWER))
    response = client.post("/sign-out")
    assert response.status_code == 403
    assert "Nothing was done" in response.content.decode()
    assert client.get("/more").status_code == 200


def failing(fault: Exception, rf: RequestFactory) -> tuple[int, str]:
    try:
        raise fault
    except type(fault):
        response = views.server_error(rf.get("/"))
    return response.status_code, response.content.decode()


def test_a_database_that_is_away_is_503_and_asks_for_nothing(rf: RequestFactory) -> None:
    status, html = failing(OperationalError("secret host"), rf)
    assert status == 503
    assert "secret" not in html


def test_a_fault_of_ours_is_500_and_shows_nothing_of_it(rf: RequestFactory) -> None:
    status, html = failing(ZeroDivisionError("secret"), rf)
    assert status == 500
    assert "secret" not in html


@pytest.mark.parametrize("template", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name)
def test_no_template_has_inline_script_or_style(template: Path) -> None:
    assert inline_in(template.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "<style>a {}</style>",
        '<p style="x">',
        "<p STYLE='x'>",
        '<a onclick="x">',
        "<script>x</script>",
        '<a href="javascript:x">',
        '<script nonce="x">',
        "<p hx-on:click='x'>",
        '<div hx-vals="js:{}">',
        '<link rel="stylesheet" href="https://cdn.example/x.css">',
    ],
)
def test_the_search_for_inline_things_can_find_them(source: str) -> None:
    assert inline_in(source)


def inline_in(source: str) -> list[str]:
    """Find what the policy forbids, or would have to forbid."""
    patterns = [
        r"<style\b",
        r"\sstyle\s*=",
        r"\son[a-z]+\s*=",
        r"<script(?![^>]*\bsrc=)",
        r"javascript:",
        r"hx-on",
        r"js:\{",
        r"(?:src|href|action)=[\"']?(?:https?:)?//",
    ]
    return [pattern for pattern in patterns if re.search(pattern, source, re.IGNORECASE)]


def test_no_module_makes_code_out_of_text() -> None:
    for module in SCRIPTS.glob("*.js"):
        assert not re.search(r"\beval\(|new Function|insertAdjacentHTML|document\.write", module.read_text()), (
            module.name
        )


def test_the_script_of_plotly_comes_out_of_its_package(client: Client) -> None:
    response = client.get("/static/plotly/plotly.min.js")
    assert b"plotly.js" in b"".join(response.streaming_content)[:300]  # type: ignore[attr-defined]
    assert client.get("/static/plotly/widgetbundle.js").status_code == 404


def test_places_without_a_page_are_not_shown(signed_in: SignedIn) -> None:
    html = signed_in().get("/more").content.decode()
    assert reverse("dashboard:overview") in html
    assert "None" not in html
