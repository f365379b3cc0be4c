"""The database gone before, during and after each kind of call and job (design 11).

Allowed ends of a call: 503 with Retry-After, or the call's own answer, where what was lost could be asked again. Its
repetition, once the database is back, brings exactly what one undisturbed call brings, once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from django.apps import apps
from django.db import connection, connections
from psycopg import sql

from fencing.models import Action, AuditEvent, Claim, Commit, GrantUse, Intent, SideLogRow, Tally
from fencing.services.fencing import decide_due
from fencing.services.recompute import Tallied, find_faults
from tests.faults.cutting import Cutter, Moment
from tests.faults.desk import Desk
from tests.faults.scenes import SCENES, Call
from tests.length import is_long

# What is only counted is no fact, and an action that was known before is not stored again.
NO_FACTS = (Action, Tally)
SIDE_LOG = SideLogRow._meta.db_table
Made = dict[str, int]
Scene = Callable[[Desk], Call]
Cut = tuple[int, Moment]

pytestmark = pytest.mark.usefixtures("db")


@pytest.fixture(autouse=True, scope="module")
def stored_states_hold(committed: None) -> Iterator[None]:
    """Whatever was cut off, what is stored must be what the facts tell."""
    before = set(find_faults(Tallied()))
    yield
    assert set(find_faults(Tallied())) <= before


def end_of(answer: httpx.Response) -> str:
    return str(answer.json()["code"]) if answer.status_code >= 400 else str(answer.status_code)


def rows() -> Made:
    """How many rows each table of facts holds."""
    models = [model for model in apps.get_app_config("fencing").get_models() if model not in NO_FACTS]
    counts = [sql.SQL("(SELECT count(*) FROM {})").format(sql.Identifier(model._meta.db_table)) for model in models]
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("SELECT {}").format(sql.SQL(", ").join(counts)))
        return dict(zip((model._meta.db_table for model in models), cursor.fetchone() or (), strict=True))


def made_since(before: Made) -> Made:
    now = rows()
    return {table: now[table] - count for table, count in before.items() if now[table] != count and table not in COUNTS}


def without_side_log(made: Made) -> Made:
    """A refusal is told each time that it is given: a repetition may add its own."""
    return {table: count for table, count in made.items() if table != SIDE_LOG}


def send(desk: Desk, call: Call) -> httpx.Response:
    return desk.post(call.actor, call.path, call.body)


# Refusals and decisions are counted in rows that a tick adds up at any moment.
COUNTS = frozenset({"fencing_change", "fencing_total"})


def cuts(questions: int) -> list[Cut]:
    """Where to cut a call that asks so many questions: all of it in the long form, ends and a middle in the small."""
    everywhere = [(at, moment) for at in range(questions) for moment in Moment]
    if is_long():
        return everywhere
    last, middle = questions - 1, random.randrange(questions)  # noqa: S311 - a test's dice
    chosen = {(0, Moment.BEFORE), (middle, Moment.AFTER), (last, Moment.BEFORE), (last, Moment.AFTER)}
    return [cut for cut in everywhere if cut in chosen]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_call_whose_database_goes_away_comes_to_its_own_end_when_it_is_repeated(
    scene: Scene, desk: Desk, cutter: Cutter
) -> None:
    call, before = scene(desk), rows()
    cutter.count()
    wanted, made = end_of(send(desk, call)), made_since(before)
    assert wanted not in {"internal", "unavailable"}
    assert cutter.questions >= 1
    for at, moment in cuts(cutter.questions):
        call, before, answer = cut_off(scene, desk, cutter, at, moment)
        stored, told = made_since(before), f"cut {moment} question {at}: {answer.text}"
        assert without_side_log(stored) in ({}, without_side_log(made)), told
        if end_of(answer) == "unavailable":
            assert int(answer.headers["retry-after"]) >= 1
        else:
            assert end_of(answer) in ({wanted} | call.again if stored else {wanted}), told
        again = end_of(send(desk, call))
        assert again in (call.again if stored else {wanted}), (told, again)
        assert without_side_log(made_since(before)) == without_side_log(made), told
        assert made_since(before).get(SIDE_LOG, 0) >= made.get(SIDE_LOG, 0), told


def cut_off(scene: Scene, desk: Desk, cutter: Cutter, at: int, moment: Moment) -> tuple[Call, Made, httpx.Response]:
    """Send a fresh call and cut it; it may ask less than the one before, and is cut at its own last question then."""
    while True:
        call, before = scene(desk), rows()
        cutter.arm(at, moment, stays_away=moment is Moment.BEFORE)
        answer = send(desk, call)
        if cutter.mend():
            return call, before, answer
        at = cutter.questions - 1


STREAMS = ("/side-log/export",)


def test_a_read_whose_database_goes_away_is_told_to_come_back(desk: Desk, cutter: Cutter) -> None:
    place, _ = desk.admitted()
    document = desk.get("auditor", "/openapi.json").json()
    paths = [path.removeprefix("/api/v1") for path, methods in document["paths"].items() if "get" in methods]
    for path in paths:
        address = path.replace("{run}", place["run"]).replace("{step}", "s1")
        cutter.count()
        wanted = desk.get("auditor", address).status_code
        for at, moment in cuts(cutter.questions):
            cutter.arm(at, moment, stays_away=moment is Moment.BEFORE)
            try:
                answer = desk.get("auditor", address)
            except httpx.RemoteProtocolError:
                # A file that had begun to leave ends in the middle, and its reader can tell.
                assert path in STREAMS, address
                cutter.mend()
                continue
            cutter.mend()
            assert answer.status_code in {503, wanted}, (address, answer.text)
            assert answer.status_code == wanted or int(answer.headers["retry-after"]) >= 1
            assert desk.get("auditor", address).status_code == wanted


def test_a_database_that_is_away_from_the_start_is_told_at_once(desk: Desk, cutter: Cutter) -> None:
    calls = [scene(desk) for scene in SCENES]
    before = rows()
    cutter.go_away()
    answers = [send(desk, call) for call in calls]
    cutter.mend()
    assert {end_of(answer) for answer in answers} == {"unavailable"}
    assert made_since(before) == {}
    for call in calls:
        assert send(desk, call).status_code < 500


# ---- jobs ----


def through(cutter: Cutter, job: Callable[[], Any]) -> None:
    """Run a job on a connection whose line can be cut, whatever becomes of it."""

    def run() -> None:
        own = connections["default"]
        own.settings_dict = {**own.settings_dict, "HOST": str(cutter.sockets)}
        try:
            job()
        except Exception:
            # It may fail in any way, by what was cut; what counts is what it leaves.
            if not cutter.has_cut:
                raise
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result(30)


def test_a_fencer_whose_database_goes_away_leaves_all_or_nothing_of_its_decision(desk: Desk, cutter: Cutter) -> None:
    def ready() -> list[dict[str, Any]]:
        """One step agreed, one under a grant, one that diverged."""
        agreed, alone, diverged = (desk.proposed() for _ in range(3))
        desk.vote(agreed, "replica", "production")
        desk.granted(alone)
        desk.vote(alone, "production")
        desk.vote(diverged, "replica")
        desk.vote(diverged, "production", action={"tool": "refund", "args": {"invoice": 9, "cents": 1}})
        return [agreed, alone, diverged]

    ready()
    cutter.count()
    through(cutter, decide_due)
    assert cutter.questions > 3
    for at, moment in cuts(cutter.questions):
        places, before = ready(), rows()
        cutter.arm(at, moment, stays_away=moment is Moment.BEFORE)
        through(cutter, decide_due)
        cutter.mend()
        left = made_since(before)
        # The agreement is a transaction of its own.
        assert left.get(Commit._meta.db_table, 0) in {0, 1, 2}
        whole = {left.get(model._meta.db_table, 0) for model in (Commit, Intent, Claim)}
        assert len(whole) == 1, left
        phases = [desk.decided(place, phase)["reason"] for place, phase in zip(places, PHASES, strict=True)]
        assert phases == ["agreement", "grant", "divergence"]
        made = made_since(before)
        assert (made[Commit._meta.db_table], made[GrantUse._meta.db_table]) == (2, 1)
        runs = [place["run"] for place in places]
        assert AuditEvent.objects.filter(verb="commit_step", run__in=runs).count() == 2


PHASES = ("committed", "committed", "rejected")
