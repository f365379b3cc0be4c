"""Files over real HTTP: read while they arrive, by nobody who may not, in the same memory however large they are."""

# ruff: noqa: F811 - fixtures come out of `scenes` by their names

from __future__ import annotations

import contextlib
import http.client
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import Group as GroupRow
from django.test import Client
from django.urls import reverse

from dashboard.access import Group
from fencing.api.arriving import MAX_READ
from fencing.asgi import UPLOADS
from fencing.gateway.ledger_intake import MAX_FILE
from fencing.models import Ledger
from tests.api.scenes import Scenery, committed, scenery  # noqa: F401
from tests.api.serving import Web
from tests.factories import make_user
from tests.fencing.beside import wait_until
from tests.length import long_or

MIB = 1024 * 1024
# Beyond what the shell reads of any other body; what is kept of it in memory would be seen.
SIZE = long_or(MAX_READ + 32 * MIB, long=MAX_FILE)
# The pieces of one body under way, and what the process allocates for its first request of this kind.
MOST_MORE = 24 * MIB
BOUNDARY = "a-boundary-that-no-row-holds"
PIECE = b"".join(b'{"external_id":"re_%09d","idempotency_key":"nobody knows this"}\n' % each for each in range(1024))
(ADDRESS,) = UPLOADS


@dataclass(kw_only=True)
class Person:
    """Somebody with a browser's cookies, and the token of the form."""

    web: Web
    cookies: str
    token: str
    folder: Path

    def post(self, size: int, token: str | None = None) -> tuple[int, str]:
        """Upload a file of about a size, piece by piece; give the status, and where that leads."""
        connection, tail = self.begin(size, size // len(PIECE), token)
        with contextlib.closing(connection):
            connection.send(tail)
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.getheader("Location") or ""

    def begin(self, size: int, pieces: int, token: str | None = None) -> tuple[http.client.HTTPConnection, bytes]:
        """Send the beginning of a file of about a size, and give what would end it."""
        head, tail = self.around(token)
        connection = http.client.HTTPConnection(self.web.base_url.removeprefix("http://"), timeout=60)
        connection.putrequest("POST", ADDRESS)
        for name, value in self.headers(len(head) + size // len(PIECE) * len(PIECE) + len(tail)).items():
            connection.putheader(name, value)
        connection.endheaders(head)
        for _ in range(pieces):
            connection.send(PIECE)
        return connection, tail

    def around(self, token: str | None = None) -> tuple[bytes, bytes]:
        """What stands before the file, and behind it."""
        fields = {"csrfmiddlewaretoken": token or self.token, "tool": "refund"}
        parts = [
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n' for n, v in fields.items()
        ]
        file = 'Content-Disposition: form-data; name="file"; filename="bank.ndjson"\r\n\r\n'
        return f"{''.join(parts)}--{BOUNDARY}\r\n{file}".encode(), f"\r\n--{BOUNDARY}--\r\n".encode()

    def headers(self, length: int) -> dict[str, str]:
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        return {"Content-Type": kind, "Content-Length": str(length), "Cookie": self.cookies}


def peak_of(web: Web) -> int:
    """The most memory that a web process ever had, in bytes."""
    told = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{web.process.pid}/status").read_text(encoding="utf-8"))
    assert told
    return int(told[1]) * 1024


def signed_in(group: Group) -> tuple[str, str]:
    """The cookies of somebody new in a group, and the token that their forms carry."""
    person, client = make_user(), Client()
    person.groups.set(GroupRow.objects.filter(name=group))
    client.force_login(person)
    page = client.get(reverse("dashboard:health" if group is not Group.REVIEWER else "dashboard:reconciliation"))
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.content.decode())
    return "; ".join(f"{name}={each.value}" for name, each in client.cookies.items()), token[1] if token else ""


@pytest.fixture(scope="module")
def web(scenery: Scenery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Web, Path]]:
    folder, _ = scenery()
    data = tmp_path_factory.mktemp("data")
    with Web.start(folder, FENCE_DATA=str(data)) as web:
        yield web, data / "ledgers"


@pytest.fixture
def reviewer(db: None, web: tuple[Web, Path]) -> Person:
    cookies, token = committed(lambda: signed_in(Group.REVIEWER))
    return Person(web=web[0], cookies=cookies, token=token, folder=web[1])


@pytest.fixture
def viewer(db: None, web: tuple[Web, Path]) -> Person:
    cookies, token = committed(lambda: signed_in(Group.VIEWER))
    return Person(web=web[0], cookies=cookies, token=token, folder=web[1])


def lying(folder: Path) -> list[Path]:
    """The files that lie in the folder of ledgers."""
    return list(folder.iterdir()) if folder.exists() else []


def test_a_file_far_larger_than_any_body_is_taken_in_the_same_memory(reviewer: Person) -> None:
    assert reviewer.post(MIB)[0] == 302
    before = peak_of(reviewer.web)
    status, leads_to = reviewer.post(SIZE)
    assert (status, leads_to.startswith("/reconciliation/")) == (302, True)
    assert peak_of(reviewer.web) - before < MOST_MORE
    kept = Ledger.objects.latest("asked_at")
    assert SIZE - MIB < kept.size == (reviewer.folder / kept.place).stat().st_size
    assert "Traceback" not in reviewer.web.output.read_text()
    for each in lying(reviewer.folder):
        each.unlink()


def test_an_upload_that_breaks_off_leaves_nothing(reviewer: Person) -> None:
    before = Ledger.objects.count(), lying(reviewer.folder)
    connection, _ = reviewer.begin(64 * MIB, 100)
    wait_until(lambda: lying(reviewer.folder) != before[1])
    connection.close()
    wait_until(lambda: (Ledger.objects.count(), lying(reviewer.folder)) == before)
    assert reviewer.post(MIB)[0] == 302


def test_nothing_is_read_of_somebody_who_may_not(viewer: Person, reviewer: Person) -> None:
    def only_begins(person: Person) -> bytes:
        port = int(person.web.base_url.rpartition(":")[2])
        head = "".join(f"{name}: {value}\r\n" for name, value in person.headers(MAX_FILE // 2).items())
        with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
            raw.sendall(f"POST {ADDRESS} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
            return raw.recv(4096)

    # They are answered while all of the body is still to come.
    assert only_begins(viewer).startswith(b"HTTP/1.1 403")
    nobody = Person(web=viewer.web, cookies="", token="", folder=viewer.folder)
    assert only_begins(nobody).startswith(b"HTTP/1.1 302")
    assert b"onnection: close" in only_begins(viewer)


def test_a_form_that_is_not_the_pages_own_is_refused(reviewer: Person) -> None:
    before = lying(reviewer.folder)
    assert reviewer.post(MIB, token="a" * 64)[0] == 403
    wait_until(lambda: lying(reviewer.folder) == before)


def test_what_is_larger_than_any_file_is_refused_at_once(reviewer: Person) -> None:
    port = int(reviewer.web.base_url.rpartition(":")[2])
    head = "".join(f"{name}: {value}\r\n" for name, value in reviewer.headers(2 * MAX_FILE).items())
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall(f"POST {ADDRESS} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
        assert raw.recv(4096).startswith(b"HTTP/1.1 413")


def test_the_pages_that_take_files_are_those_that_read_them_as_they_arrive() -> None:
    assert {reverse("dashboard:upload_ledger")} == UPLOADS
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE < MAX_FILE
