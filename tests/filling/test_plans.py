"""No page and no list reads through a whole table: each statement enters an index, or it says here why not.

Asked of the planner with sequential scans switched off: one that is left is one for which there is no index at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from fencing.jobs.fence import sweep
from fencing.jobs.notify import look
from fencing.models import Intent, Run, Step
from fencing.protocol.callers import Role
from fencing.services.credentials import COMMAND_LINE, IssuedKey, IssueKey, issue
from tests.factories import fresh

# What grows with every step. Tools, people, keys, grants and incidents are few, or a person's work.
LARGE: Final = (
    "run",
    "step",
    "vote",
    "action",
    "intent",
    "claim",
    "commit",
    "delivery",
    "outcome",
    "auditevent",
    "feedevent",
    "sidelogrow",
    "epochopening",
)
SCAN: Final = re.compile(rf"(Seq Scan|Scan\b.*) on fencing_({'|'.join(LARGE)})\b")
# A clock that moves with each row cannot be looked up in an index.
MOVING: Final = re.compile(r"Filter: .*[<>]=? \(?clock_timestamp\(\)")
READS: Final = (
    "/counters",
    "/runs",
    "/runs?run={run}",
    "/runs/{run}",
    "/runs/{run}/steps/{step}?epoch=1",
    "/intents",
    "/intents?state=failed",
    "/intents?state=in_doubt",
    "/intents?run={run}",
    "/intents?run={run}&step={step}",
    "/intents?tool=book_transfer",
    "/intents/{intent}",
    "/side-log",
    "/side-log?reason=late_vote",
    "/side-log?run={run}",
    "/side-log?kind=admission",
    "/side-log?resource=1000010",
    "/side-log?acknowledged=false",
    "/side-log?by=nobody",
    "/side-log?tool=refund_invoice",
    "/side-log?attempt=a-1",
    "/side-log?counted_as=attempted_escape",
    "/side-log?since=2020-01-01T00:00:00Z&step=none",
    "/audit",
    "/audit?run={run}",
    "/audit?kind=step&subject={run}/{step}/1",
    "/incidents",
    "/grants",
    "/grants?state=live",
    "/authority",
    "/tools",
)
OF_PLANNERS: Final = ("/runs", "/intents", "/events?limit=500", "/runs/{run}")
OF_PATHS: Final = ("/votes/wanted",)
OF_GATEWAYS: Final = ("/gateway/wanted", "/gateway/wanted?tool=refund_invoice")
PAGES: Final = (
    "/",
    "/?window=168",
    "/runs",
    "/runs/{run}",
    "/runs/{run}/steps/{step}",
    "/divergences",
    "/grants",
    "/reviews",
    "/outages",
    "/outages/replica",
    "/freezes",
    "/authority",
    "/tools",
    "/tools/refund_invoice",
    "/tool-changes",
    "/people",
    "/keys",
    "/side-log",
    "/side-log?state=all&class=refusal",
    "/notices",
    "/notices?whose=all",
    "/health",
)


@pytest.fixture
def names(db: None) -> dict[str, str]:
    """A run in the middle of the history, a step of it, and an intent."""
    step = Step.objects.filter(phase="committed").order_by("id")[20]
    return {"run": step.run.name, "step": step.name, "intent": str(Intent.objects.filter(run=step.run)[0].id)}


@pytest.fixture
def everybody(db: None) -> Iterator[Client]:
    """A client of somebody who is in every group. Nothing that a visit leaves stays."""
    with transaction.atomic():
        person = get_user_model().objects.create_user(fresh("person"))
        person.groups.set(Group.objects.all())
        client = Client()
        client.force_login(person)
        yield client
        transaction.set_rollback(True)


def bad_nodes(statement: str) -> list[str]:
    """The nodes of a statement's plan that read a large table as a whole."""
    found, scan = [], None
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement}")
        for (line,) in cursor.fetchall():
            if "Scan" in line:
                scan = SCAN.search(line)
            if scan is not None and ("Seq Scan" in scan[0] or MOVING.search(line)):
                found.append(f"{scan[0]}: {line.strip()} in {statement[:300]}")
    return found


def bad_nodes_of(queries: CaptureQueriesContext) -> list[str]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        asked = [query["sql"] for query in queries if re.match(r"\s*(SELECT|WITH)\b", query["sql"])]
        return [node for statement in asked for node in bad_nodes(statement)]


def scans(client: Client, path: str, headers: dict[str, str]) -> list[str]:
    """What a visit asks the database that no index answers."""
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(path, headers=headers)
    assert answer.status_code == 200, f"{path}: {answer.status_code}"
    return bad_nodes_of(queries)


def key_of(role: Role, **values: Any) -> dict[str, str]:
    issued = issue(IssueKey(role=role, name=fresh(str(role)), **values), COMMAND_LINE)
    assert isinstance(issued, IssuedKey)
    return {"Authorization": f"Bearer {issued.key}"}


@pytest.mark.parametrize("path", READS)
def test_a_list_enters_an_index(path: str, everybody: Client, names: dict[str, str]) -> None:
    assert scans(everybody, "/api/v1" + path.format(**names), key_of(Role.AUDITOR)) == []


@pytest.mark.parametrize("path", OF_PLANNERS)
def test_what_a_planner_reads_enters_an_index(path: str, everybody: Client, names: dict[str, str]) -> None:
    group = Run.objects.get(name=names["run"]).owner_group
    assert scans(everybody, "/api/v1" + path.format(**names), key_of(Role.PLANNER, group=group)) == []


@pytest.mark.parametrize("path", [*OF_PATHS, *OF_GATEWAYS])
def test_what_machines_wait_for_enters_an_index(path: str, everybody: Client, names: dict[str, str]) -> None:
    key = key_of(Role.PATH, path="replica") if path in OF_PATHS else key_of(Role.GATEWAY)
    assert scans(everybody, "/api/v1" + path, key) == []


@pytest.mark.parametrize("path", PAGES)
def test_a_page_enters_indexes(path: str, everybody: Client, names: dict[str, str]) -> None:
    assert scans(everybody, path.format(**names), {}) == []


def test_a_sweep_with_nothing_due_enters_indexes(everybody: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        sweep()
    assert len(queries) >= 4
    assert bad_nodes_of(queries) == []


def test_a_look_for_what_people_are_told_of_enters_indexes(everybody: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        look()
    assert len(queries) >= 10
    assert bad_nodes_of(queries) == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT FROM fencing_vote WHERE model = 'x'",
        "SELECT FROM fencing_step WHERE decided_at > clock_timestamp() - interval '1 hour' ORDER BY decided_at LIMIT 1",
    ],
)
def test_a_table_without_an_index_for_it_is_found(statement: str, everybody: Client) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        assert bad_nodes(statement) != []
