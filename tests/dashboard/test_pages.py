"""A page and its live parts are one view and one template."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory

from dashboard import places
from dashboard.pages import Page, answer, tag_of

SignedIn = Callable[..., Client]


def test_a_part_is_the_part_of_its_page(signed_in: SignedIn) -> None:
    client = signed_in()
    page, part = client.get("/gallery").content.decode(), client.get("/gallery?part=clock").content.decode()
    assert "<html" not in part
    assert part.split("<details")[1] in page


def test_a_part_that_did_not_change_is_a_304(signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.utils.timezone.now", lambda: datetime(2026, 11, 30, tzinfo=UTC))
    client = signed_in()
    first = client.get("/gallery?part=rows")
    again = client.get("/gallery?part=rows", headers={"If-None-Match": first["ETag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert again["ETag"] == first["ETag"]


def test_a_compressed_part_that_did_not_change_is_a_304_too(
    signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django.utils.timezone.now", lambda: datetime(2026, 11, 30, tzinfo=UTC))
    client = signed_in()
    first = client.get("/gallery?part=rows", headers={"Accept-Encoding": "gzip"})
    again = client.get("/gallery?part=rows", headers={"Accept-Encoding": "gzip", "If-None-Match": first["ETag"]})
    assert (first["Content-Encoding"], first["ETag"][:2]) == ("gzip", "W/")
    assert again.status_code == 304


def test_the_page_carries_the_tags_of_its_parts(signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.utils.timezone.now", lambda: datetime(2026, 11, 30, tzinfo=UTC))
    client = signed_in()
    tag = client.get("/gallery?part=rows")["ETag"]
    assert tag.strip('"') in client.get("/gallery").content.decode()


def test_a_part_that_changed_has_another_tag(signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in()
    tags = []
    for minute in (0, 1):
        monkeypatch.setattr("django.utils.timezone.now", lambda at=minute: datetime(2026, 11, 30, 0, at, tzinfo=UTC))
        tags.append(client.get("/gallery?part=clock")["ETag"])
    assert tags[0] != tags[1]


def test_a_part_that_is_not_there_is_a_404(signed_in: SignedIn) -> None:
    assert signed_in().get("/gallery?part=nothing").status_code == 404


def test_the_token_of_a_form_does_not_make_a_part_new() -> None:
    one, other = (f'<input name="csrfmiddlewaretoken" value="{token}">'.encode() for token in ("a", "b"))
    assert tag_of(one) == tag_of(other)
    assert tag_of(one) != tag_of(b"x" + one)


def test_a_part_asks_only_for_what_it_shows(rf: RequestFactory) -> None:
    asked = []
    page = Page(title="x", parts={"clock": "dashboard/gallery/clock.html"})
    response: HttpResponse = answer(
        rf.get("/?part=clock"), "dashboard/gallery.html", page, {"ticking": lambda: asked.append(1)}
    )
    assert response.status_code == 200
    assert asked == []


def test_a_part_is_read_from_the_address_of_its_page_with_its_filters(signed_in: SignedIn) -> None:
    html = signed_in().get("/gallery?tool=a%26b&cursor=x").content.decode()
    assert 'hx-get="/gallery?tool=a%26b&amp;cursor=x&amp;part=rows"' in html


def test_the_bar_of_a_phone_holds_four_places_at_most_and_the_named_ones_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places.Place, "url", property(lambda place: f"/{place.name}"))
    assert [place.name for place in places.on_the_bar()] == ["overview", "runs", "grants", "compensations"]


def test_until_all_places_exist_the_bar_takes_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"overview", "runs", "divergences", "simulator", "audit"}
    monkeypatch.setattr(places.Place, "url", property(lambda place: place.name if place.name in there else ""))
    assert [place.name for place in places.on_the_bar()] == ["overview", "runs", "divergences", "audit"]
