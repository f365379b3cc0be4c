"""The pages of notices: what I was told of, the way from a message to its object, where and when I am told, health."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from pytest_django import DjangoAssertNumQueries
from redis.backoff import NoBackoff
from redis.retry import Retry

from dashboard.access import Group
from dashboard.notice_pages import address_of
from fencing.models import AuditEvent, Notice, QuietHours, Sighting, Target, Telling
from fencing.protocol.notices import Kind
from fencing.services.notices import raise_notice, spread_due
from fencing.services.telling import tell_due
from tests.dashboard.conftest import SignedIn
from tests.factories import make_notice, make_target, make_telling
from tests.people import confirm
from tests.receivers import WebServer, nobody, serving

pytestmark = pytest.mark.django_db
SECRET = "s3cr3t-t0ken-of-mine"
POOL = ThreadPoolExecutor(2)


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving(WebServer()) as server:
        yield server


def asked(kind: Kind = Kind.PENDING_APPROVAL, page: str = "grant night-shift") -> Notice:
    raise_notice(kind, "grant night-shift", page=page, facts={"what": "grant", "name": "night-shift", "by": "omar"})
    spread_due()
    return Notice.objects.get()


def add(client: Client, **given: object) -> str:
    answer = client.post("/you/notices/add", {"name": "chat", "kinds": [], **given}, follow=True)
    return str(answer.content.decode())


# ---- notices ----


def test_i_see_what_i_was_told_of_and_the_overview_leads_there(signed_in: SignedIn) -> None:
    client = signed_in(Group.ONCALL)
    assert "Nothing waits for you" in client.get("/notices").content.decode()
    notice = asked()
    html = client.get("/notices").content.decode()
    assert "approval asked for" in html
    assert "grant night-shift, asked for by omar" in html
    assert "1 notice that nobody has seen" in client.get("/?part=waiting").content.decode()
    page = client.get(f"/notices/{notice.pk}").content.decode()
    assert "on their page" in page
    assert "Then it goes to administrator" in page


def test_others_notices_are_listed_where_they_are_asked_for(signed_in: SignedIn) -> None:
    asked()
    client = signed_in(Group.AUDITOR)
    assert "approval asked for</a>" not in client.get("/notices").content.decode()
    assert "approval asked for</a>" in client.get("/notices?whose=all").content.decode()


def test_the_way_from_a_message_marks_it_as_seen_when_it_is_sent_and_not_before(signed_in: SignedIn) -> None:
    client = signed_in(Group.ONCALL)
    notice = asked()
    shown = client.get(f"/notices/{notice.pk}/open")
    assert "data-onward" in shown.content.decode()
    assert not Sighting.objects.exists(), "a scanner or a preview opens it too"
    answer = client.post(f"/notices/{notice.pk}/open")
    assert (answer.status_code, answer["Location"]) == (302, "/grants/night-shift")
    assert Sighting.objects.get().person.username == "lena"
    notice.refresh_from_db()
    assert (notice.due_at, notice.seen_at is not None) == (None, True)


def test_the_way_from_a_message_survives_signing_in(client: Client, db: None) -> None:
    notice = make_notice()
    answer = client.get(f"/notices/{notice.pk}/open")
    assert answer.status_code == 302
    assert f"next=/notices/{notice.pk}/open" in answer["Location"]


@pytest.mark.parametrize(
    ("page", "address"),
    [
        ("grant night-shift", "/grants/night-shift"),
        ("step run-88 pay ?epoch=7", "/runs/run-88/steps/pay?epoch=7"),
        ("health", "/health"),
        ("/runs", "/runs"),
        ("", ""),
        ("no_such_page x", ""),
        ("//evil.test/x", ""),
        ("https://evil.test", ""),
        ("grant a b c", ""),
    ],
)
def test_a_notice_leads_to_these_pages_alone(page: str, address: str) -> None:
    assert address_of(page) == address


def test_a_notice_of_a_page_that_is_not_there_leads_to_itself(signed_in: SignedIn) -> None:
    client = signed_in(Group.ONCALL)
    notice = asked(page="no_such_page x")
    assert client.post(f"/notices/{notice.pk}/open")["Location"] == f"/notices/{notice.pk}"


# ---- where I am told ----


def test_a_place_is_added_after_a_confirmation_and_gets_a_test(signed_in: SignedIn, web: WebServer) -> None:
    client = signed_in(Group.ONCALL)
    url = f"json://127.0.0.1:{web.port}/{SECRET}"
    assert client.post("/you/notices/add", {"name": "chat", "address": url}).status_code == 303
    assert not Target.objects.exists()
    confirm(client)
    html = add(client, address=url)
    assert "A test is on its way" in html
    tell_due(POOL)
    assert [body["title"] for _, body in web.calls] == ["Fence: A test"]
    html = client.get("/you/notices?part=places").content.decode()
    assert "works" in html
    assert "JSON" in html


def test_nothing_of_an_address_is_ever_shown_logged_or_kept_in_the_open(
    signed_in: SignedIn, caplog: pytest.LogCaptureFixture
) -> None:
    client = signed_in(*Group)
    confirm(client)
    pages = [
        add(client, address=f"json://me:{SECRET}@127.0.0.1:{nobody()}/{SECRET}"),
        add(client, name="two", address=f"nonsense://{SECRET}"),
        add(client, name="chat", address=f"json://127.0.0.1/{SECRET}"),
    ]
    tell_due(POOL)
    notice = Notice.objects.get()
    pages += [client.get(path).content.decode() for path in ("/you/notices", "/health", f"/notices/{notice.pk}")]
    assert not [page for page in pages if SECRET in page]
    assert SECRET not in caplog.text
    for model in (Target, Telling, Notice, AuditEvent):
        assert SECRET not in str(list(model.objects.values_list())), model
    assert not [each for each in Session.objects.all() if SECRET in str(each.get_decoded())]


def test_what_was_typed_before_a_confirmation_comes_back_without_the_address(signed_in: SignedIn) -> None:
    client = signed_in(Group.ONCALL)
    sent = client.post("/you/notices/add", {"name": "my chat", "address": f"json://127.0.0.1/{SECRET}"})
    assert sent.status_code == 303
    assert SECRET not in str(client.session.get("fence_kept"))


def test_places_are_ones_own(signed_in: SignedIn) -> None:
    place = make_target()
    client = signed_in(Group.ONCALL)
    for act in ("test", "end"):
        assert client.post(f"/you/notices/{place.pk}/{act}").status_code == 404
    place.refresh_from_db()
    assert place.ended_at is None
    assert place.name not in client.get("/you/notices").content.decode()


def test_an_ended_place_is_forgotten_and_what_waited_is_not_sent(signed_in: SignedIn) -> None:
    client = signed_in(Group.ONCALL)
    mine = make_target(person=User.objects.get(username="lena"))
    waiting = make_telling(target=mine, state="waiting", due_at=Notice.objects.get_or_create(
        kind="doubt", subject="x")[0].raised_at)  # fmt: skip
    assert client.post(f"/you/notices/{mine.pk}/end").status_code == 302
    mine.refresh_from_db()
    waiting.refresh_from_db()
    assert (mine.locked, mine.ended_at is not None, waiting.state) == ("", True, "withdrawn")
    assert AuditEvent.objects.filter(verb="end_target").count() == 1


def test_quiet_hours_are_set_and_audited(signed_in: SignedIn) -> None:
    client = signed_in(Group.REVIEWER)
    given = {"zone": "Europe/Berlin", "begin": "22:00", "end": "07:00"}
    assert client.post("/you/notices/quiet", given).status_code == 302
    row = QuietHours.objects.get()
    assert (row.zone, f"{row.begin:%H:%M}", f"{row.end:%H:%M}") == ("Europe/Berlin", "22:00", "07:00")
    assert AuditEvent.objects.get(verb="set_quiet_hours").after == given
    for wrong in ({**given, "zone": "Mars/Base"}, {**given, "end": ""}, {**given, "zone": "../etc"}):
        assert client.post("/you/notices/quiet", wrong).status_code == 422


# ---- health ----


def test_health_tells_each_part_and_a_target_that_is_down(
    signed_in: SignedIn, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    make_target(name="pager", failures=4, error="A Connection error occurred sending JSON notification to •••.")
    client = signed_in()
    with django_assert_max_num_queries(20):
        html = client.get("/health").content.decode()
    for word in ("PostgreSQL", "Valkey", "notify", "fence", "sealing", "1 target fails", "pager", "A Connection error"):
        assert word in html, word


def test_health_without_valkey_says_so_within_seconds(signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = redis.Redis(unix_socket_path="/nowhere", socket_connect_timeout=0.2, retry=Retry(NoBackoff(), 1))
    monkeypatch.setattr("fencing.api.dependencies._client", lambda: gone)
    monkeypatch.setattr("fencing.services.beats._client", lambda: gone)
    client = signed_in()
    started = time.monotonic()
    html = client.get("/health").content.decode()
    assert time.monotonic() - started < 5
    assert "Valkey is away" in html
    assert "No worker is seen" in html


@pytest.mark.parametrize("count", [1, 30])
def test_the_list_takes_as_many_statements_for_many_as_for_one(
    signed_in: SignedIn, django_assert_max_num_queries: DjangoAssertNumQueries, count: int
) -> None:
    for _ in range(count):
        make_notice()
    client = signed_in(Group.ONCALL)
    with django_assert_max_num_queries(12):
        assert len(client.get("/notices?whose=all").context["rows"]) == count
