"""Sealing (U2): nothing is skipped, nobody waits, and of several sealers none forks the chain."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction
from pytest_django import Settings

from fencing.jobs import seal as job
from fencing.models import AuditEvent, Seal, Verification
from fencing.models.seals import ENTRIES, hashed_sql, texts_sql
from fencing.protocol import seal as protocol
from fencing.queries.sealing import sealing_state
from fencing.services import sealing
from fencing.services.heads import BadHead, append_heads, last_head, read_heads
from fencing.services.sealing import HeadsAhead, seal_audit
from fencing.services.signing import SEAL, public_keys
from tests.audit.conftest import write_rows
from tests.fencing.beside import at_once, connect_as

INSERT = (
    "INSERT INTO fencing_auditevent (actor, role, verb, kind, subject, reason, source, request)"
    " VALUES ('late', 'system', 'come', 'row', 'late', '', '', '') RETURNING id"
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for a transaction that this very test holds open."""
    monkeypatch.setattr(sealing, "PATIENCE_S", 0.1)


def sealed_rows() -> list[int]:
    return [
        number for seal in Seal.objects.order_by("number") for number, _ in protocol.entries_in(bytes(seal.entries))
    ]


def test_what_was_written_is_sealed_and_then_nothing_waits(audit: None, heads: Path) -> None:
    rows = write_rows(5)
    assert sealing_state().unsealed == 5
    assert seal_audit().rows == 5
    assert sealed_rows() == [row.pk for row in rows]
    state = sealing_state()
    assert (state.unsealed, state.lag_s) == (0, 0.0)
    assert state.last is not None
    assert state.last.last == rows[-1].pk
    assert seal_audit().seals == 0


def test_every_column_of_the_audit_is_hashed() -> None:
    columns = [field.column for field in AuditEvent._meta.concrete_fields]
    assert columns == ["id", *protocol.COLUMNS]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"run": None, "before": None, "after": None},
        {"run": "", "reason": "", "source": ""},
        {"reason": "a;1:b;-;", "subject": "12:x;"},
        {"before": {"n": 1.0, "ü": ["\U0001f986", None]}, "after": "null"},
        {"after": {"big": 9007199254740991, "small": 1e-7}},
    ],
)
def test_the_database_and_the_core_write_the_same_bytes(audit: None, values: dict[str, object]) -> None:
    (row,) = write_rows(1, **values)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {hashed_sql()} FROM ({texts_sql()}) AS texts", [row.pk - 1, row.pk])  # noqa: S608 - names of our own
        ((written,),) = cursor.fetchall()
        texts = ", ".join(f'"{name}"::text' for name in protocol.COLUMNS[1:])
        cursor.execute(f"SELECT at, {texts} FROM fencing_auditevent WHERE id = %s", [row.pk])  # noqa: S608 - names of our own
        ((at, *columns),) = cursor.fetchall()
        cursor.execute(ENTRIES, [row.pk - 1, row.pk])
        ((entries,),) = cursor.fetchall()
    microseconds = protocol.since_2000(protocol.moment_text(at))
    assert protocol.row_bytes([microseconds, *columns]) == written.encode()
    assert bytes(entries) == protocol.entry_of(row.pk, [microseconds, *columns])


def test_a_row_that_commits_late_is_not_skipped(audit: None) -> None:
    with connect_as("fence_app") as late:
        (number,) = late.execute(INSERT).fetchone() or (0,)
        rows = write_rows(2)
        assert rows[0].pk > number
        held = seal_audit()
        assert held.is_held
        assert not Seal.objects.exists()
        assert sealing_state().unsealed == 2
        late.commit()
        seal_audit()
    assert sealed_rows() == [number, *(row.pk for row in rows)]


def test_a_number_that_was_handed_out_before_its_transaction_had_one_is_waited_for(audit: None) -> None:
    """A snapshot's xmin knows nothing of it: no transaction number is there yet, and a row number is."""
    with connect_as("fence_app") as late:
        late.execute("LOCK TABLE fencing_auditevent IN ROW EXCLUSIVE MODE")
        late.execute("SELECT nextval(pg_get_serial_sequence('fencing_auditevent', 'id'))")
        assert late.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,)
        write_rows(1)
        assert seal_audit().is_held
        late.rollback()
        assert seal_audit().rows == 1


def test_writers_that_come_later_are_not_waited_for(audit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load there is always somebody: only those who hold a smaller number matter."""
    (row,) = write_rows(1)
    first, second = connect_as("fence_app"), connect_as("fence_app")
    first.execute(INSERT)
    looks = 0

    def look(statement: str, values: list[object] | None = None) -> object:
        nonlocal looks
        if statement == sealing.WRITERS:
            looks += 1
            if looks == 2:
                second.execute(INSERT)
                first.commit()
        return one(statement, values)

    one = sealing._one  # noqa: SLF001 - the door to the database
    monkeypatch.setattr(sealing, "_one", look)
    assert sealing.settled(5.0) == (row.pk, False)
    second.rollback()
    first.close()
    second.close()


def test_sealing_keeps_no_writer_waiting(audit: None) -> None:
    write_rows(3)
    with transaction.atomic():
        assert sealing._seal_next(AuditEvent.objects.latest("pk").pk) is not None  # noqa: SLF001 - held open
        with connect_as("fence_app") as writer:
            writer.execute("SET lock_timeout = '1s'")
            writer.execute(INSERT)


def test_a_row_beyond_the_sequence_is_not_sealed(audit: None) -> None:
    rows = write_rows(2)
    AuditEvent.objects.bulk_create([AuditEvent(pk=10**15, actor="x", role="x", verb="x", kind="x", subject="x")])
    seal_audit()
    more = write_rows(2)
    seal_audit()
    assert sealed_rows() == [row.pk for row in [*rows, *more]]


def test_many_rows_are_sealed_in_batches(audit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "BATCH", 4)
    rows = write_rows(10)
    assert seal_audit().seals == 3
    assert sealed_rows() == [row.pk for row in rows]
    seals = list(Seal.objects.order_by("number"))
    assert [seal.count for seal in seals] == [4, 4, 2]
    assert [seal.after for seal in seals] == [0, seals[0].last, seals[1].last]
    assert all(protocol.is_signed(seal.pure, public_keys(SEAL)) for seal in seals)


def test_who_made_the_second_seal_brings_the_first_head_too(
    audit: None, heads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who made the first one may come later, or never."""
    monkeypatch.setattr(sealing, "BATCH", 2)
    rows = write_rows(4)
    for _ in range(2):
        assert sealing._seal_next(rows[-1].pk) is not None  # noqa: SLF001 - two who have not brought their heads yet
    sealing._bring_heads(2)  # noqa: SLF001 - the second of them
    assert [head.number for head in read_heads(heads)] == [1, 2]


def test_many_sealers_at_once_make_one_chain(audit: None, heads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "BATCH", 7)
    rows = write_rows(100)
    at_once(*[seal_audit] * 6)
    seal_audit()
    assert sealed_rows() == [row.pk for row in rows]
    numbers = [seal.number for seal in Seal.objects.order_by("number")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [head.number for head in read_heads(heads)] == numbers


def test_without_its_lock_two_sealers_still_make_one_chain(audit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is advice. Both read the same last seal; one finds its place taken, whatever it is told."""
    write_rows(10)
    gate, one, made = threading.Barrier(2), sealing._one, sealing._make  # noqa: SLF001 - the race is made here

    def no_lock(statement: str, values: list[object] | None = None) -> object:
        return True if "advisory" in statement else one(statement, values)

    def together(before: Seal | None, after: int, last: int) -> protocol.Seal:
        gate.wait(5)
        return made(before, after, last)

    top = AuditEvent.objects.latest("pk").pk
    monkeypatch.setattr(sealing, "_one", no_lock)
    monkeypatch.setattr(sealing, "_make", together)
    ends = at_once(*[lambda: sealing._seal_next(top)] * 2)  # noqa: SLF001 - one batch each
    assert sorted(end is None for end in ends) == [False, True]
    assert Seal.objects.count() == 1


def copy_of(seal: Seal, **values: object) -> Seal:
    names = [field.attname for field in Seal._meta.concrete_fields]
    return Seal(**{name: getattr(seal, name) for name in names} | values)


@pytest.mark.parametrize(
    "values",
    [
        {"number": 2, "hash": "sha256:" + "a" * 64},
        {"number": 2, "previous": "sha256:" + "b" * 64, "hash": "sha256:" + "a" * 64},
        {"number": 3, "hash": "sha256:" + "a" * 64},
    ],
)
def test_the_database_refuses_a_seal_that_hangs_elsewhere(audit: None, values: dict[str, object]) -> None:
    write_rows(3)
    seal_audit()
    first = Seal.objects.get()
    with pytest.raises(IntegrityError):
        copy_of(first, **values).save(force_insert=True)
    # Rightly hung, it would have been taken.
    good = {
        "number": 2,
        "previous": first.hash,
        "after": first.last,
        "last": first.last + 3,
        "hash": "sha256:" + "a" * 64,
    }
    copy_of(first, **good).save(force_insert=True)


def test_web_processes_cannot_seal(audit: None) -> None:
    write_rows(1)
    seal_audit()
    with connect_as("fence_app") as app, pytest.raises(psycopg.errors.InsufficientPrivilege):
        app.execute("INSERT INTO fencing_seal SELECT * FROM fencing_seal")


def test_heads_that_a_crash_left_out_are_added(audit: None, heads: Path) -> None:
    write_rows(1)
    seal_audit()
    write_rows(1)
    sealing._seal_next(AuditEvent.objects.latest("pk").pk)  # noqa: SLF001 - and here it crashes
    assert [head.number for head in read_heads(heads)] == [1]
    with heads.open("ab") as file:
        file.write(b'{"number": 2, "prev')  # cut short by the crash
    seal_audit()
    assert [head.number for head in read_heads(heads)] == [1, 2]
    newest = last_head(heads)
    assert newest is not None
    assert newest.hash == Seal.objects.get(number=2).hash


def test_a_file_of_heads_is_for_its_owner_alone(audit: None, heads: Path) -> None:
    write_rows(1)
    seal_audit()
    assert heads.stat().st_mode & 0o777 == 0o600
    assert json.loads(heads.read_text())["number"] == 1


def test_a_strange_line_in_the_file_of_heads_stops_sealing(audit: None, heads: Path) -> None:
    write_rows(1)
    seal_audit()
    with heads.open("a") as file:
        file.write("who was here\n")
    with pytest.raises(BadHead):
        seal_audit()


@pytest.mark.parametrize("is_cut", [True, False])
def test_sealing_stops_where_the_heads_know_better(
    superuser: psycopg.Connection, heads: Path, valkey: str, *, is_cut: bool
) -> None:
    """Going on would write a second seal of the same number over what the file has of the first."""
    write_rows(2)
    seal_audit()
    write_rows(2)
    seal_audit()
    if is_cut:
        superuser.execute("DELETE FROM fencing_seal WHERE number = 2")
    else:
        superuser.execute("UPDATE fencing_seal SET hash = 'sha256:' || repeat('c', 64) WHERE number = 2")
    write_rows(1)
    with pytest.raises(HeadsAhead):
        seal_audit()
    assert job.drain() == job.drain() == 0
    found = Verification.objects.get()  # once, however often it was tried
    assert (found.state, found.fault_kind) == ("failed", "cut" if is_cut else "forked")
    assert found.fault_seal == 2


def test_without_a_place_for_heads_rows_wait_and_nothing_is_lost(
    audit: None, heads: Path, valkey: str, settings: Settings
) -> None:
    write_rows(1)
    heads.parent.parent.joinpath("blocked").write_text("a file")
    settings.FENCE_HEADS = heads.parent.parent / "blocked"
    assert job.drain() == 0
    settings.FENCE_HEADS = heads.parent
    assert job.drain() == 1


def test_an_empty_file_begins_where_the_machine_begins(
    audit: None, heads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody removed is for a verification to find, not for the sealer to fill in."""
    write_rows(1)
    seal_audit()
    heads.unlink()
    monkeypatch.setattr(sealing, "FIRST", -sealing.FIRST)
    write_rows(1)
    seal_audit()
    assert [head.number for head in read_heads(heads)] == [2]


def test_appending_asks_under_the_lock_what_is_missing(tmp_path: Path) -> None:
    seal = protocol.Seal(
        number=4,
        previous=protocol.GENESIS,
        after=0,
        last=1,
        count=1,
        root=protocol.GENESIS,
        at="",
        kid="",
        signature="",
    )
    asked: list[protocol.Seal | None] = []

    def fetch(newest: protocol.Seal | None) -> list[protocol.Seal]:
        asked.append(newest)
        return [seal] if newest is None else []

    path = tmp_path / "heads"
    assert append_heads(fetch, path) == 1
    assert append_heads(fetch, path) == 0
    assert [each and each.number for each in asked] == [None, 4]


def test_the_job_seals_and_the_tick_finds_what_no_wake_up_told(
    audit: None, valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[str] = []
    monkeypatch.setattr(job, "wake", woken.append)
    job.sweep()
    assert woken == []
    write_rows(2)
    job.sweep()
    assert woken == ["seal"]
    assert job.drain() == 2
    job.sweep()
    assert woken == ["seal"]
