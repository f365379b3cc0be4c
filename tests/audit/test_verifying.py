"""Verifying (U3): whatever a superuser does with triggers off is found, at its row, by its kind. C10, F15."""

from __future__ import annotations

import json
import time
import zipfile
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from fencing.jobs import verify as job
from fencing.models import AuditEvent, Seal, Verification
from fencing.models.seals import ENTRIES
from fencing.protocol import seal as protocol
from fencing.protocol.audit_faults import Fault, Kind
from fencing.protocol.tokens import SigningKey
from fencing.services import sealing, verifications, verifying
from fencing.services.credentials import COMMAND_LINE
from fencing.services.sealing import seal_audit
from fencing.services.signing import SEAL, public_keys, rotate_key, signing_key
from fencing.services.verifying import Checked
from tests.audit.conftest import Connection, change, write_rows
from tests.audit.test_evidence import run_checker
from tests.length import is_long


def look(*heads: Path) -> Fault | None:
    """Verify everything, and give the first fault."""
    newest, checked = verifying.last_seal(), Checked()
    keys = verifying.trusted_keys()
    for checked in verifying.check_seals(Checked(), 0 if newest is None else newest.number, keys):
        if checked.fault is not None:
            return checked.fault
    return verifying.check_heads(heads, keys) or verifying.check_end()


def verify(**options: Any) -> str:
    out = StringIO()
    call_command("verify_audit", stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def sealed(audit: None, heads: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Twelve rows in three seals of four."""
    monkeypatch.setattr(sealing, "BATCH", 4)
    rows = write_rows(12)
    seal_audit()
    assert Seal.objects.count() == 3
    assert look(heads) is None
    return [row.pk for row in rows]


def test_untouched_rows_verify(sealed: list[int]) -> None:
    assert "12 rows in 3 seals" in verify()


def texts_of(row: int) -> dict[str, str | None]:
    names = ", ".join(f'"{name}"::text' for name in protocol.COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {names} FROM fencing_auditevent WHERE id = %s", [row])  # noqa: S608 - names of our own
        (values,) = cursor.fetchall()
    return dict(zip(protocol.COLUMNS, values, strict=True))


def flipped(text: str, index: int) -> str:
    """Another letter in place of one, of the same kind."""
    old = text[index]
    return (
        text[:index] + ("1" if old == "0" else "0" if old.isdigit() else "Q" if old != "Q" else "R") + text[index + 1 :]
    )


def test_each_changed_byte_of_a_row_is_found(sealed: list[int], superuser: Connection, heads: Path) -> None:
    row = sealed[5]
    changed = 0
    for column, text in texts_of(row).items():
        assert text is not None
        if column in ("at", "before", "after"):
            continue
        for index in range(len(text)):
            change(superuser, row, column, flipped(text, index))
            fault = look(heads)
            assert fault is not None, (column, index)
            assert (fault.kind, fault.row, fault.seal) == (Kind.EDITED, row, 2), (column, index)
            changed += 1
        change(superuser, row, column, text)
        assert look(heads) is None
    assert changed > 60


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("at", "at + interval '1 microsecond'"),
        ("at", "at - interval '1 microsecond'"),
        ("at", "'infinity'"),
        ("before", '\'{"state": "pendinf"}\''),
        ("before", "NULL"),
        ("after", '\'{"uses": 2, "share": 0.5, "state": "live"}\''),
        ("after", '\'{"uses": 1, "share": 0.50, "state": "live"}\''),
        ("after", '\'{"uses": "1", "share": 0.5, "state": "live"}\''),
        ("run", "NULL"),
        ("run", "''"),
        ("reason", "reason || ' '"),
        ("reason", "normalize(reason, NFD)"),
        ("source", "''"),
    ],
)
def test_what_is_no_letter_is_found_too(
    sealed: list[int], superuser: Connection, heads: Path, column: str, value: str
) -> None:
    row = sealed[1]
    superuser.execute(f'UPDATE fencing_auditevent SET "{column}" = {value} WHERE id = %s', [row])  # noqa: S608
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.row, fault.seal) == (Kind.EDITED, row, 1)
    with pytest.raises(CommandError, match=f"edited at row {row} "):
        verify()


def test_moving_text_from_one_column_to_the_next_is_found(
    sealed: list[int], superuser: Connection, heads: Path
) -> None:
    superuser.execute(
        "UPDATE fencing_auditevent SET actor = actor || left(role, 1), role = substr(role, 2) WHERE id = %s",
        [sealed[0]],
    )
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.row) == (Kind.EDITED, sealed[0])


def test_a_deleted_row_is_found(sealed: list[int], superuser: Connection, heads: Path) -> None:
    for row in (sealed[6], sealed[0]):
        superuser.execute("DELETE FROM fencing_auditevent WHERE id = %s", [row])
        fault = look(heads)
        assert fault is not None
        assert (fault.kind, fault.row) == (Kind.DELETED, row)


def test_an_inserted_row_is_found(sealed: list[int], superuser: Connection, heads: Path) -> None:
    gap = sealed[4]
    superuser.execute("DELETE FROM fencing_auditevent WHERE id = %s", [gap])
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval(pg_get_serial_sequence('fencing_auditevent', 'id'), %s)", [sealed[-1] + 10])
    rows = write_rows(2)
    seal_audit()
    between = sealed[-1] + 3
    superuser.execute(
        "INSERT INTO fencing_auditevent SELECT %s, at, actor, role, verb, kind, 'invented', run, before, after, reason,"
        " source, request FROM fencing_auditevent WHERE id = %s",
        [between, rows[0].pk],
    )
    first = look(heads)
    assert first is not None
    assert first.row == gap  # the first bad row is named
    superuser.execute("UPDATE fencing_seal SET count = count WHERE false")
    fault = verifying._fault_of(Seal.objects.get(number=4), Seal.objects.get(number=3).pure, public_keys(SEAL))  # noqa: SLF001
    assert fault is not None
    assert (fault.kind, fault.row, fault.seal) == (Kind.INSERTED, between, 4)


@pytest.mark.parametrize("row", [0, -5, 10**15])
def test_a_row_with_a_number_that_nobody_was_given_is_found(
    sealed: list[int], superuser: Connection, heads: Path, row: int
) -> None:
    AuditEvent.objects.bulk_create([AuditEvent(pk=row, actor="x", role="x", verb="x", kind="x", subject="x")])
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.row) == (Kind.INSERTED, row)


def test_two_rows_that_changed_places_are_found(sealed: list[int], superuser: Connection, heads: Path) -> None:
    one, other = sealed[1], sealed[2]
    superuser.execute("UPDATE fencing_auditevent SET id = -1 WHERE id = %s", [one])
    superuser.execute("UPDATE fencing_auditevent SET id = %s WHERE id = %s", [one, other])
    superuser.execute("UPDATE fencing_auditevent SET id = %s WHERE id = -1", [other])
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.row, fault.seal) == (Kind.REORDERED, one, 1)


def test_two_rows_of_different_seals_that_changed_places_are_found(
    sealed: list[int], superuser: Connection, heads: Path
) -> None:
    one, other = sealed[1], sealed[10]
    superuser.execute("UPDATE fencing_auditevent SET id = -1 WHERE id = %s", [one])
    superuser.execute("UPDATE fencing_auditevent SET id = %s WHERE id = %s", [one, other])
    superuser.execute("UPDATE fencing_auditevent SET id = %s WHERE id = -1", [other])
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.row, fault.seal) == (Kind.REORDERED, one, 1)


def test_a_tail_of_rows_that_was_cut_off_is_found(sealed: list[int], superuser: Connection, heads: Path) -> None:
    superuser.execute("DELETE FROM fencing_auditevent WHERE id >= %s", [sealed[10]])
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.row) == (Kind.CUT, sealed[10])


@pytest.mark.parametrize("kept", [2, 1, 0])
def test_a_tail_that_was_cut_off_with_its_seals_is_found(
    sealed: list[int], superuser: Connection, heads: Path, kept: int
) -> None:
    superuser.execute("DELETE FROM fencing_auditevent WHERE id >= %s", [sealed[kept * 4]])
    superuser.execute("DELETE FROM fencing_seal WHERE number > %s", [kept])
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.row, fault.seal) == (Kind.CUT, (0 if kept == 0 else sealed[kept * 4 - 1]) + 1, kept + 1)
    # Within the database alone nothing is wrong: that is what heads outside are for.
    for checked in verifying.check_seals(Checked(), kept, verifying.trusted_keys()):
        assert checked.fault is None
    with pytest.raises(CommandError, match="cut at row"):
        verify()


def test_rows_that_came_after_a_cut_hide_nothing(sealed: list[int], superuser: Connection, heads: Path) -> None:
    superuser.execute("DELETE FROM fencing_auditevent WHERE id >= %s", [sealed[8]])
    superuser.execute("DELETE FROM fencing_seal WHERE number > 2")
    write_rows(8)
    fault = look(heads)
    assert fault is not None
    assert fault.kind is Kind.CUT


def test_a_seal_that_is_gone_is_found(sealed: list[int], superuser: Connection, heads: Path) -> None:
    superuser.execute("DELETE FROM fencing_seal WHERE number = 2")
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.seal, fault.row) == (Kind.DELETED, 2, sealed[3] + 1)


@pytest.mark.parametrize("column", ["root", "previous", "last", "sealed_at", "kid", "after"])
def test_an_edited_seal_is_found(sealed: list[int], superuser: Connection, heads: Path, column: str) -> None:
    values = {"last": "last - 1", "after": "after - 1", "sealed_at": "sealed_at + interval '1 us'"}
    value = values.get(column, f"left(\"{column}\", -1) || 'x'")
    superuser.execute(f'UPDATE fencing_seal SET "{column}" = {value} WHERE number = 2')  # noqa: S608
    fault = look(heads)
    assert fault is not None
    assert fault.seal == 2
    assert fault.kind in (Kind.EDITED, Kind.FORKED)


def test_the_hashes_beside_a_seal_cannot_be_changed_with_the_rows(
    sealed: list[int], superuser: Connection, heads: Path
) -> None:
    """Who edits a row and the list of hashes meets the signed root."""
    row = sealed[5]
    change(superuser, row, "actor", "mallory")
    seal = Seal.objects.get(number=2)
    with connection.cursor() as cursor:
        cursor.execute(ENTRIES, [seal.after, seal.last])
        ((entries,),) = cursor.fetchall()
    superuser.execute("UPDATE fencing_seal SET entries = %s WHERE number = 2", [bytes(entries)])
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.seal, fault.row) == (Kind.EDITED, 2, seal.after + 1)
    assert "no longer be told" in fault.says
    # The list alone: the rows are as they were, and it says so.
    change(superuser, row, "actor", "anna-5")
    told = look(heads)
    assert told is not None
    assert "as they were" in told.says


def resealed(superuser: Connection, number: int, key: SigningKey) -> None:
    """Make a seal anew over the rows as they are, and sign it with some key, as who holds the key could."""
    row = Seal.objects.get(number=number)
    before = Seal.objects.filter(number=number - 1).first()
    with connection.cursor() as cursor:
        cursor.execute(ENTRIES, [row.after, row.last])
        ((entries,),) = cursor.fetchall()
    members = {name: getattr(row.pure, name) for name in protocol.BODY}
    fresh = protocol.Seal(
        **members | {"root": protocol.root_of(bytes(entries)), "previous": before.hash if before else protocol.GENESIS}
    )
    superuser.execute(
        "UPDATE fencing_seal SET entries = %s, root = %s, previous = %s, hash = %s, signature = %s WHERE number = %s",
        [bytes(entries), fresh.root, fresh.previous, fresh.hash, protocol.sign(fresh, key), number],
    )


def test_a_chain_that_was_made_anew_with_another_key_has_bad_signatures(
    sealed: list[int], superuser: Connection, heads: Path
) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - the thief's

    own = SigningKey(kid=signing_key(SEAL).kid, private=Ed25519PrivateKey.generate())
    change(superuser, sealed[5], "actor", "mallory")
    for number in (2, 3):
        resealed(superuser, number, own)
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.seal) == (Kind.BAD_SIGNATURE, 2)


def test_a_chain_that_was_made_anew_with_the_stolen_key_is_a_fork(
    sealed: list[int], superuser: Connection, heads: Path
) -> None:
    change(superuser, sealed[5], "actor", "mallory")
    for number in (2, 3):
        resealed(superuser, number, signing_key(SEAL))
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.seal, fault.row) == (Kind.FORKED, 2, sealed[3] + 1)


def test_a_missing_signature_is_found(sealed: list[int], superuser: Connection, heads: Path) -> None:
    superuser.execute("UPDATE fencing_seal SET signature = '' WHERE number = 3")
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.seal) == (Kind.BAD_SIGNATURE, 3)


def test_a_missing_head_is_found(sealed: list[int], heads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = heads.read_text().splitlines(keepends=True)
    heads.write_text(lines[0] + lines[2])
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.seal) == (Kind.HEAD_MISSING, 2)
    # Another copy makes up for it.
    copy = heads.with_name("witness.ndjson")
    copy.write_text(lines[1])
    assert look(heads, copy) is None
    # The newest may be on its way, for a minute.
    heads.write_text("".join(lines[:2]))
    assert look(heads) is None
    monkeypatch.setattr(verifying, "ON_ITS_WAY", -verifying.ON_ITS_WAY)
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.seal) == (Kind.HEAD_MISSING, 3)
    heads.unlink()
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.seal) == (Kind.HEAD_MISSING, 1)


def test_an_edited_head_is_told_from_an_edited_seal(sealed: list[int], heads: Path) -> None:
    lines = [json.loads(line) for line in heads.read_text().splitlines()]
    lines[1]["root"] = "sha256:" + "d" * 64
    heads.write_text("".join(json.dumps(line) + "\n" for line in lines))
    fault = look(heads)
    assert fault is not None
    assert (fault.kind, fault.seal) == (Kind.BAD_SIGNATURE, 2)


def test_seals_of_an_older_key_still_verify(sealed: list[int], heads: Path) -> None:
    rotate_key(SEAL)
    write_rows(2)
    seal_audit()
    assert len(set(Seal.objects.values_list("kid", flat=True))) == 2
    assert look(heads) is None


def test_keys_that_were_kept_elsewhere_replace_those_of_the_database(
    sealed: list[int], superuser: Connection, tmp_path: Path
) -> None:
    kept = tmp_path / "jwks.json"
    kept.write_text(json.dumps({"keys": list(public_keys(SEAL).values())}))
    assert "12 rows" in verify(keys=kept)
    kept.write_text(json.dumps({"keys": []}))
    with pytest.raises(CommandError, match="bad_signature"):
        verify(keys=kept)
    kept.write_text("[]")
    with pytest.raises(CommandError, match="no public keys"):
        verify(keys=kept)


def test_nothing_to_verify_is_a_failure_unless_it_was_expected(audit: None, heads: Path) -> None:
    with pytest.raises(CommandError, match="nothing: Not one row"):
        verify()
    assert "0 rows" in verify(expect_none=True)
    write_rows(3)
    with pytest.raises(CommandError, match="3 wait for a seal"):
        verify()
    with pytest.raises(CommandError, match="expected to be empty"):
        verify(expect_none=True)


def ask() -> Verification:
    return Verification.objects.get(pk=verifications.ask(COMMAND_LINE).id)


def test_a_verification_that_was_asked_for_is_worked_at_in_slices(
    sealed: list[int], heads: Path, valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "RUN_S", 0.0)
    asked = ask()
    assert verifications.ask(COMMAND_LINE).is_new is False
    seals = []
    while job.work():
        asked.refresh_from_db()
        assert asked.state == "running"
        seals.append((asked.seal, asked.rows, asked.up_to))
    asked.refresh_from_db()
    assert seals == [(1, 4, 3), (2, 8, 3)]
    assert (asked.state, asked.rows, asked.seal) == ("held", 12, 3)
    verbs = list(AuditEvent.objects.filter(kind="verification").order_by("id").values_list("verb", flat=True))
    assert verbs == ["ask_verification", "end_verification"]
    assert asked.unsealed == 1  # what was asked, and not yet that it has ended
    assert ask().state == "asked"


def test_a_verification_keeps_what_it_found(sealed: list[int], superuser: Connection, valkey: str) -> None:
    change(superuser, sealed[9], "reason", "because")
    asked = ask()
    assert job.work() is False
    asked.refresh_from_db()
    assert (asked.state, asked.fault_kind, asked.fault_row, asked.fault_seal) == ("failed", "edited", sealed[9], 3)
    assert asked.rows == 8
    event = AuditEvent.objects.get(verb="end_verification")
    assert event.after == {"state": "failed", "rows": 8, "seal": 2, "fault": "edited", "row": sealed[9]}


def test_the_database_keeps_what_a_verification_found(sealed: list[int], valkey: str) -> None:
    ask()
    job.work()
    from django.db import IntegrityError  # noqa: PLC0415 - used here alone

    with pytest.raises(IntegrityError, match="verification_stays"):
        Verification.objects.update(state="failed", fault_kind="edited")


def test_one_is_asked_for_each_day_by_itself(sealed: list[int], valkey: str) -> None:
    assert verifications.ask_if_due() is True
    assert verifications.ask_if_due() is False
    assert Verification.objects.get().asked_by == "fencer"


@pytest.mark.parametrize("rows", [1_000_000 if is_long() else 20_000])
def test_untouched_rows_by_the_million_verify_in_two_minutes(audit: None, heads: Path, rows: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fencing_auditevent (actor, role, verb, kind, subject, run, before, after, reason, source,"
            " request) SELECT 'planner-' || n %% 40, 'planner', 'move_step', 'step', 'run-' || n || '/refund/1',"
            " 'run-' || n, '{\"phase\": \"proposed\"}', jsonb_build_object('phase', 'committed', 'n', n), '',"
            " '192.0.2.1', md5(n::text) FROM generate_series(1, %s) AS n",
            [rows],
        )
    began = time.monotonic()
    while seal_audit(60.0).rows:
        pass
    sealed_in = time.monotonic() - began
    began = time.monotonic()
    assert f"{rows} rows" in verify()
    took = time.monotonic() - began
    print(f"{rows} rows: sealed in {sealed_in:.1f} s, verified in {took:.1f} s")  # noqa: T201 - the figure of --long
    # The small form says that they verify; only the long one is large enough to be timed.
    assert took < 120 or not is_long()


def test_an_export_verifies_offline_and_names_what_was_changed(sealed: list[int], tmp_path: Path) -> None:
    out = tmp_path / "audit.zip"
    call_command("export_audit", out, stdout=StringIO())
    folder = tmp_path / "empty"
    with zipfile.ZipFile(out) as archive:
        archive.extractall(folder)
    ended = run_checker(folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "12 rows of the audit lead to 3 signed seals" in ended.stdout
    path = folder / "audit.ndjson"
    lines = path.read_text().splitlines(keepends=True)
    for changed, says in (
        (lines[:5] + lines[6:], "there are 3 rows, and seal 2 was made over 4"),
        ([line.replace("anna-6", "mallory") for line in lines], "are not what seal 2 was made over"),
        (lines[:8], "ends with seal 2, and there are seals up to 3"),
        (lines[:4] + lines[8:], "goes from seal 1 on to seal 3"),
    ):
        path.write_text("".join(changed))
        ended = run_checker(folder)
        assert ended.returncode == 1
        assert says in ended.stdout, ended.stdout
    with pytest.raises(CommandError, match="there already"):
        call_command("export_audit", out)
