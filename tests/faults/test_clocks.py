"""Hosts whose clocks differ by ten minutes, and clients who say what time it is: the database's clock decides (N3)."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

import pytest
from django.db import connection
from psycopg import sql

from fencing.protocol.callers import Role
from fencing.services.credentials import COMMAND_LINE
from fencing.services.tools import LoadReport, load_definitions
from tests.api.conftest import make_key
from tests.api.serving import Web, database_url
from tests.faults.desk import Desk
from tests.live import TOP

pytestmark = pytest.mark.usefixtures("db")

SHIFT_S: Final = 600
NEAR_S: Final = 60
SHIFTED: Final = str(Path(__file__).parent / "shifted")
BRISK: Final = {"tool": "brisk", "args": {"to": "oncall"}}
# Moments that lie ahead when they are written. Every other one says when something was.
AHEAD: Final = ("expires_at", "deadline_at", "lease_until", "pending_until", "due_at", "not_before", "review_due_at")


@dataclass(kw_only=True)
class Host:
    """A worker on a host whose clock is wrong by some seconds."""

    process: subprocess.Popen[str]

    @classmethod
    @contextlib.contextmanager
    def start(cls, shift_s: int) -> Iterator[Host]:
        """Start it on the test database."""
        ours = {"FENCE_ROLE": "fencer", "FENCE_DATABASE_URL_FENCER": database_url("fence_fencer")}
        environment = os.environ | ours | wrong(shift_s) | {"DATABASE_URL": ""}
        command = [sys.executable, "-m", "tests.faults.wrong_clock"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, cwd=TOP, env=environment, text=True, **pipes) as process:
            yield cls(process=process)
            process.terminate()

    def work(self) -> float:
        """Have everything done that is due; give what the host takes the time to be."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("work\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def wrong(shift_s: int) -> dict[str, str]:
    """What a process has in its environment on a host whose clock is wrong."""
    return {"PYTHONPATH": SHIFTED, "CLOCK_SHIFT_S": str(shift_s)}


@dataclass(kw_only=True)
class Hosts:
    """A web host ten minutes ahead, and workers on hosts ten minutes behind and ahead."""

    desk: Desk
    behind: Host
    ahead: Host

    def work(self) -> None:
        """Let both workers do what they take to be due."""
        self.ahead.work()
        self.behind.work()

    def end(self, place: dict[str, Any]) -> tuple[str, str | None]:
        """How a step stands."""
        step = self.desk.step(place)
        return step["phase"], step["reason"]


@pytest.fixture(scope="module")
def hosts(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    policy = {"grace_s": 0, "lease_s": 1, "max_deliveries": 3}
    report = load_definitions([{"tool": "brisk", "idempotent": True, "policy": policy}], COMMAND_LINE)
    assert isinstance(report, LoadReport)
    folder = tmp_path_factory.mktemp("clocks")
    with Host.start(-SHIFT_S) as behind, Host.start(SHIFT_S) as ahead, Web.start(folder, **wrong(SHIFT_S)) as web:
        other = Desk(web=web, keys=desk.keys)
        yield Hosts(desk=other, behind=behind, ahead=ahead)
        other.close()


def now() -> float:
    """The database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        (seconds,) = cursor.fetchone()
        return float(seconds)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    told: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return told


def test_the_hosts_clocks_are_wrong(hosts: Hosts) -> None:
    assert abs(hosts.behind.work() - now() + SHIFT_S) < NEAR_S
    assert abs(hosts.ahead.work() - now() - SHIFT_S) < NEAR_S
    told = hosts.desk.get("auditor", "/tools").headers["date"]
    assert abs(parsedate_to_datetime(told).timestamp() - now() - SHIFT_S) < NEAR_S


def test_a_step_is_agreed_delivered_and_settled_by_the_databases_clock(hosts: Hosts) -> None:
    desk = hosts.desk
    place = desk.proposed()
    desk.vote(place, "replica", "production", action=BRISK)
    hosts.work()
    step = desk.step(place)
    assert step["phase"] == "committed"
    token = step["commit"]["token"]
    assert abs(claims(token)["iat"] - now()) < NEAR_S
    first = desk.done("gateway", "/gateway/admissions", {"token": token, "action": BRISK})
    assert abs(moment(first["lease_until"]) - now()) < NEAR_S
    # The lease ends after a second, not before and not ten minutes later, whoever looks.
    assert desk.post("gateway", "/gateway/admissions", {"token": token, "action": BRISK}).json()["code"] == IN_PROGRESS
    time.sleep(1.1)
    hosts.work()
    again = desk.done("gateway", "/gateway/admissions", {"token": token, "action": BRISK})
    assert again["idempotency_key"] == first["idempotency_key"]
    ids = {"intent": again["intent"], "delivery": again["delivery"]}
    settled = desk.done("gateway", "/gateway/outcomes", {**ids, "outcome": "succeeded"})
    assert abs(moment(settled["outcome"]["at"]) - now()) < NEAR_S


IN_PROGRESS: Final = "delivery_in_progress"


def test_a_deadline_passes_by_the_databases_clock_alone(hosts: Hosts) -> None:
    short, long = hosts.desk.proposed(deadline_s=1), hosts.desk.proposed(deadline_s=300)
    hosts.work()
    assert hosts.end(long) == ("proposed", None)
    time.sleep(1.1)
    hosts.behind.work()
    assert hosts.end(short) == ("rejected", "timeout")
    hosts.ahead.work()
    assert hosts.end(long) == ("proposed", None)


def test_a_grant_lives_and_ends_by_the_databases_clock_alone(hosts: Hosts) -> None:
    desk = hosts.desk
    place = desk.proposed()
    name = desk.granted(place, "brisk")
    grant = desk.get("oncall", f"/grants/{name}").json()
    assert (grant["state"], round(moment(grant["expires_at"]) - now(), -1)) == ("live", 60)
    desk.vote(place, "production", action=BRISK)
    hosts.ahead.work()
    step = desk.step(place)
    assert (step["phase"], step["reason"]) == ("committed", "grant")
    assert abs(claims(step["commit"]["token"])["exp"] - moment(grant["expires_at"])) <= 1
    admitted = desk.done("gateway", "/gateway/admissions", {"token": step["commit"]["token"], "action": BRISK})
    assert admitted["admit"] is True


def test_a_grant_that_has_ended_is_over_for_a_host_that_is_behind(hosts: Hosts) -> None:
    desk = hosts.desk
    place = desk.proposed()
    members = {"name": f"{place['run']}.g", "run": place["run"], "epoch": place["epoch"], "tool": "brisk", "ttl_s": 1}
    desk.done("oncall", "/grants", {**members, "reason": "The replica's host is down since 02:10."})
    time.sleep(1.1)
    desk.vote(place, "production", action=BRISK)
    hosts.behind.work()
    assert hosts.end(place) == ("proposed", None)
    assert desk.get("oncall", f"/grants/{members['name']}").json()["state"] == "expired"


def test_a_key_lives_by_the_databases_clock_alone(hosts: Hosts) -> None:
    brief = make_key("planner", Role.PLANNER, expires_in_s=60).key
    with hosts.desk.web.client(brief) as client:
        assert client.get("/tools").status_code == 200


def test_no_moment_that_was_stored_is_that_of_a_wrong_host(hosts: Hosts) -> None:
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS, [list(AHEAD)])
        columns = cursor.fetchall()
        assert len(columns) > 20
        for table, column in columns:
            cursor.execute(sql.SQL(FARTHEST).format(sql.Identifier(column), sql.Identifier(table)))
            (farthest,) = cursor.fetchone()
            assert farthest is None or farthest < SHIFT_S - 2 * NEAR_S, (table, column, farthest)


# How far ahead of the database's clock anything lies. What lies behind may just be old.
FARTHEST: Final = "SELECT extract(epoch FROM max({}) - clock_timestamp())::float FROM {}"
COLUMNS: Final = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = 'public' AND table_name LIKE 'fencing\\_%%' AND data_type = 'timestamp with time zone'
AND column_name <> ALL (%s)
"""
