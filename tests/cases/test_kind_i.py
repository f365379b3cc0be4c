"""Public reports about pages (kind i): markup, formulas, and lists that grow."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

import pytest
import redis
from django.contrib.auth.models import Group as GroupRow
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from fencing.api.dependencies import workers_seen
from fencing.protocol.groups import Group
from fencing.protocol.notices import Kind, sentence_of
from fencing.services.notices import raise_notice
from tests.cases.reports import check_coverage
from tests.factories import make_side_log_row

pytestmark = pytest.mark.django_db
IDS: Final = tuple(f"I{number:02}" for number in range(1, 7))
ELSEWHERE: Final[Mapping[str, str]] = {
    "I02": "every column of a file, and every nasty cell: tests/dashboard/test_side_log.py",
}
MARKUP: Final = (
    "<img src=x onerror=alert(1)>",
    "k</script><script>alert(2)</script>",
    "<svg onload=alert(3)>",
    "'><b>x",
)
WORKERS: Final = 600


@pytest.fixture
def everybody(db: None) -> Client:
    """Somebody who is in every group."""
    person = User.objects.create(username="lena")
    person.groups.set([GroupRow.objects.get_or_create(name=group)[0] for group in Group])
    client = Client()
    client.force_login(person)
    return client


def test_every_report_is_played() -> None:
    check_coverage(sys.modules[__name__], "i", IDS, ELSEWHERE)


@pytest.mark.parametrize("markup", [*MARKUP, "javascript:alert(4)"])
def test_i01_markup_runs_nowhere(everybody: Client, markup: str) -> None:
    row = make_side_log_row(run=markup, step=markup, tool=markup, detail=markup, resources=[markup])
    raise_notice(Kind.PENDING_APPROVAL, markup, page=markup, facts={"what": "grant", "name": markup, "by": markup})
    message = sentence_of(Kind.PENDING_APPROVAL, {"what": "grant", "name": markup}).text
    assert markup[:40] in message, "a message is text, and says what is there"
    pages = ("/side-log", f"/side-log/{row.pk}", f"/side-log/acknowledge?row={row.pk}", "/notices?whose=all", "/audit")
    for path in pages:
        html = everybody.get(path).content.decode()
        assert markup not in html or not markup.startswith(("<", "k<", "'>")), path
        assert 'href="javascript:' not in html, path
    lines = b"".join(everybody.get("/side-log/file?format=ndjson&state=all").streaming_content).decode()  # type: ignore[attr-defined]
    assert "</script>" not in lines or markup.startswith("k<"), "a file is a file, and its type says so"


def test_i03_a_page_asks_as_much_of_many_rows_as_of_few(
    everybody: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """Seconds at a million rows: tests/filling/test_million.py, long. Polls: tests/browser/test_live_parts.py."""
    for number in range(120):
        make_side_log_row(run=f"r-{number}")
    for path, most in (("/side-log", 14), ("/audit", 20), ("/health", 20), ("/", 60)):
        with django_assert_max_num_queries(most):
            assert everybody.get(path).status_code == 200


def reads(client: redis.Redis) -> int:
    """How often Valkey has read from a connection."""
    count: int = client.info("stats")["total_reads_processed"]
    return count


def test_i04_six_hundred_workers_are_read_at_once(everybody: Client, valkey: str) -> None:
    client = redis.Redis.from_url(valkey)
    pipe = client.pipeline()
    beat = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    for number in range(WORKERS):
        key = f"rq:worker:w{number}"
        pipe.sadd("rq:workers", key)
        pipe.hset(key, mapping={"last_heartbeat": beat, "queues": "fence,default", "state": "idle"})
    pipe.execute()
    before = reads(client)
    found = workers_seen()
    assert found is not None
    assert (len(found), found[0].queues) == (WORKERS, ("fence", "default"))
    assert reads(client) - before < WORKERS / 4, "one look-up a worker would be as many as there are workers"


@pytest.mark.parametrize("query", ["page=1", "page=9999", "page=abc", "page=-1", "cursor=abc", "cursor=-1", "limit=-1"])
@pytest.mark.parametrize("path", ["/side-log", "/audit", "/notices", "/runs"])
def test_i05_a_page_number_is_answered_quickly_and_sanely(everybody: Client, path: str, query: str) -> None:
    assert everybody.get(f"{path}?{query}").status_code == 200


def counting(statement: str) -> bool:
    return bool(re.search(r'count\(\*\)[^)]*FROM "?fencing_(sidelogrow|auditevent)', statement, re.IGNORECASE))


@pytest.mark.parametrize("path", ["/side-log", "/audit", "/"])
def test_i05_no_page_counts_a_whole_table(
    everybody: Client, path: str, django_assert_max_num_queries: Callable[..., DjangoAssertNumQueries]
) -> None:
    make_side_log_row()
    with django_assert_max_num_queries(80) as asked:  # type: ignore[attr-defined]
        everybody.get(path)
    assert not [each["sql"] for each in asked.captured_queries if counting(each["sql"])]


def test_i06_a_path_is_escaped_a_feed_is_text_and_the_way_on_is_ours(everybody: Client, client: Client) -> None:
    page = everybody.get("/overview/x'onmouseover='alert(1)")
    assert page.status_code == 404
    assert "'onmouseover='alert(1)" not in page.content.decode()
    assert "script-src 'self'" in page["Content-Security-Policy"]
    assert "'unsafe-inline'" not in page["Content-Security-Policy"].partition("script-src")[2].partition(";")[0]
    feed = client.get("/metrics")
    assert feed["Content-Type"].startswith("text/plain")
    assert feed["X-Content-Type-Options"] == "nosniff"
    answer = client.post("/sign-in?next=//evil.test", {"login": "lena", "password": "no"})
    assert "evil.test" not in answer.headers.get("Location", "")
    file = everybody.get("/side-log/file?format=csv&state=all")
    assert (file["X-Content-Type-Options"], file["Content-Type"].partition(";")[0]) == ("nosniff", "text/csv")
