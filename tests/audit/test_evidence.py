"""Evidence packs (U4): everything about one thing, checked by bare Python in an empty folder, flipped bytes named."""

from __future__ import annotations

import functools
import io
import json
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.contrib.auth.models import Group as GroupRow
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.access import Group
from fencing.evidence import check
from fencing.management import personal
from fencing.models import AuditEvent, SideLogRow
from fencing.protocol.callers import Role
from fencing.queries import evidence
from fencing.queries.evidence import Pack, make_pack
from fencing.services.revealing import reveal
from fencing.services.sealing import seal_audit
from fencing.services.signing import pack_key
from tests.api.conftest import make_key
from tests.factories import fresh, make_user
from tests.marking import Marking
from tests.people import confirm
from tests.stories import EPOCH, Story, register

# Without types, so that old Pythons run it.
checker: Any = check
SECRET = "DE89 3704 0044 0532 0130 00"


@pytest.fixture
def story(audit: None, valkey: str, monkeypatch: pytest.MonkeyPatch) -> Story:
    """A refund with a sensitive account, committed under a grant that the replica then contradicted too late."""
    monkeypatch.setattr(evidence, "PATIENCE_S", 0.1)
    story = Story.begin()
    register([{"tool": "pay", "effect": "side_effecting", "mode": "pull", "sensitive": ["/account"]}])
    return story


@pytest.fixture
def step(story: Story) -> str:
    action = {"tool": "pay", "args": {"account": SECRET, "cents": 4200}}
    story.propose(context={"ticket": 4711}, action=action)
    story.vote(story.production, action, rationale="the customer paid twice", model="m1")
    story.vote(story.replica, action, rationale="I agree", model="m2")
    story.decide()
    seal_audit()
    return f"{story.run}/s1/{EPOCH}"


def made(kind: str, name: str, **options: Any) -> Pack:
    pack = make_pack(kind, name, key=pack_key(), **options)
    assert pack is not None
    return pack


def unpacked(pack: Pack, folder: Path) -> Path:
    with zipfile.ZipFile(io.BytesIO(pack.data)) as archive:
        archive.extractall(folder)
    return folder


def run_checker(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the checker as who got the pack does: no packages, no environment, nothing of this repository."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "check.py", *words],
        cwd=folder, env={}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def said(folder: Path) -> str:
    """What the checker finds wrong, in this process; empty where nothing is."""
    try:
        checker.check(str(folder))
    except checker.Bad as bad:
        return str(bad)
    return ""


def test_a_pack_of_a_step_holds_everything_and_checks_with_bare_python(step: str, tmp_path: Path) -> None:
    folder = unpacked(made("step", step), tmp_path / "empty")
    ended = run_checker(folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith("GOOD\n")
    assert "The list of files is signed." in ended.stdout
    facts = {path.stem: json.loads(path.read_text()) for path in (folder / "facts").glob("*.json")}
    assert [vote["path"] for vote in facts["votes"]] == ["production", "replica"]
    assert facts["step"][0]["phase"] == "committed"
    assert facts["token"]["step"] == "s1"
    assert len(facts["commits"]) == len(facts["intents"]) == 1
    assert "token" not in facts["commits"][0]
    assert len(facts["who"]) >= 3
    rows = [json.loads(line) for line in (folder / "audit.ndjson").read_text().splitlines()]
    assert {row["verb"] for row in rows} >= {"propose_step", "vote", "move_step", "commit_step", "open_intent"}
    assert all(row["seal"] for row in rows)
    assert sorted(path.read_text() for path in (folder / "prose").iterdir()) == [
        "I agree", "the customer paid twice", '{"ticket": 4711}',
    ]  # fmt: skip
    assert list((folder / "tools").iterdir())


def test_a_zip_is_checked_as_it_is(step: str, tmp_path: Path) -> None:
    folder = unpacked(made("step", step), tmp_path / "empty")
    (tmp_path / "pack.zip").write_bytes(made("step", step).data)
    assert run_checker(folder, str(tmp_path / "pack.zip")).returncode == 0
    assert run_checker(folder, str(tmp_path / "nothing.zip")).returncode == 1


def test_every_flipped_byte_is_named(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each file bytes at the ends and by chance between. The file is named; which row, the next test tells."""
    # The same signature over the same bytes is judged once: in plain Python that takes a while.
    monkeypatch.setattr(checker, "is_signed", functools.cache(checker.is_signed))
    folder = unpacked(made("step", step), tmp_path / "empty")
    assert said(folder) == ""
    chance, flips = random.Random(1), 0  # noqa: S311 - a seed that tells the same again
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name, data = path.relative_to(folder).as_posix(), path.read_bytes()
        places = {0, len(data) - 1, *(chance.randrange(len(data)) for _ in range(24))}
        for place in sorted(places):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            told = said(folder)
            assert name.rpartition("/")[2].partition(".")[0] in told or name in told, (name, place, told)
            flips += 1
        path.write_bytes(data)
    assert flips > 300
    assert said(folder) == ""


def test_a_flipped_letter_of_a_row_names_the_row(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "is_signed", functools.cache(checker.is_signed))
    folder = unpacked(made("step", step), tmp_path / "empty")
    path = folder / "audit.ndjson"
    lines = path.read_text().splitlines()
    for index, line in enumerate(lines):
        row = json.loads(line)
        for column in ("at", "actor", "verb", "subject", "source", "after"):
            if not row[column]:
                continue
            text = row[column]
            changed = {**row, column: text[:-2] + ("1" if text[-2] != "1" else "2") + text[-1]}
            path.write_text("\n".join([*lines[:index], json.dumps(changed), *lines[index + 1 :]]) + "\n")
            assert f"(row {row['id']})" in said(folder)


def test_missing_added_and_swapped_parts_are_named(step: str, tmp_path: Path) -> None:
    folder = unpacked(made("step", step), tmp_path / "empty")
    (folder / "facts" / "more.json").write_text("{}")
    assert "facts/more.json was added" in said(folder)
    (folder / "facts" / "more.json").unlink()
    (folder / "facts" / "votes.json").rename(folder / "votes.away")
    assert "facts/votes.json is missing" in said(folder) or "votes.json cannot be read" in said(folder)
    (folder / "votes.away").rename(folder / "facts" / "votes.json")
    path = folder / "audit.ndjson"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    assert "out of order" in said(folder)
    path.write_text("\n".join(lines[1:]) + "\n")
    assert "audit.ndjson" in said(folder)


def test_a_pack_that_somebody_else_signed_does_not_check_with_keys_that_one_has(step: str, tmp_path: Path) -> None:
    """Keys in a pack prove nothing about whose they are: who has the public keys elsewhere uses those."""
    folder = unpacked(made("step", step), tmp_path / "empty")
    keys = tmp_path / "jwks.json"
    keys.write_text((folder / "keys.json").read_text())
    assert run_checker(folder, "--keys", str(keys)).returncode == 0
    keys.write_text('{"keys": []}')
    ended = run_checker(folder, "--keys", str(keys))
    assert ended.returncode == 1
    assert "names a key that is not known" in ended.stdout


def test_the_checker_and_the_core_judge_signatures_alike() -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    for message in (b"", b"a", bytes(1000)):
        signature = key.sign(message)
        assert checker.is_signed(public, message, signature)
        assert not checker.is_signed(public, message + b"x", signature)
        for place in (0, 31, 32, 63):
            broken = signature[:place] + bytes([signature[place] ^ 1]) + signature[place + 1 :]
            assert not checker.is_signed(public, message, broken)
        # The same number once around the group's order: another spelling of a good signature is none.
        response = int.from_bytes(signature[32:], "little") + checker.ORDER
        assert not checker.is_signed(public, message, signature[:32] + response.to_bytes(32, "little"))
    assert not checker.is_signed(bytes([255] * 32), b"", bytes(64))


def test_what_is_sensitive_is_masked_unless_somebody_may_see_it(step: str, story: Story, tmp_path: Path) -> None:
    pack = made("step", step)
    folder = unpacked(pack, tmp_path / "masked")
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert SECRET.encode() not in everything
    assert run_checker(folder).returncode == 0
    assert "sensitive members are masked" in run_checker(folder).stdout
    assert reveal("step", step, "the court asks for it", story.reviewer, as_evidence=True) is None
    shown = unpacked(made("step", step, reveals=True), tmp_path / "shown")
    (action,) = (shown / "actions").iterdir()
    assert json.loads(action.read_text())["args"]["account"] == SECRET
    assert run_checker(shown).returncode == 0
    event = AuditEvent.objects.get(verb="reveal_sensitive")
    assert (event.kind, event.subject, event.reason) == ("step", step, "the court asks for it")


def test_only_a_reviewer_reveals_and_says_why(story: Story, step: str) -> None:
    for caller, reason, code in (
        (story.oncall, "I want to see it", "forbidden_role"),
        (story.gateway, "I want to see it", "forbidden_role"),
        (story.reviewer, " \u200b ", "reason_required"),
    ):
        refusal = reveal("step", step, reason, caller)
        assert refusal is not None
        assert refusal.code == code
    assert not AuditEvent.objects.filter(verb="reveal_sensitive").exists()
    assert SideLogRow.objects.filter(kind="reveal").count() == 3


def test_a_pack_of_a_grant_holds_its_trail_and_what_it_let_through(story: Story, tmp_path: Path) -> None:
    _, name = story.go_alone("s2")
    seal_audit()
    folder = unpacked(made("grant", name), tmp_path / "empty")
    assert run_checker(folder).returncode == 0, run_checker(folder).stdout
    facts = {path.stem: json.loads(path.read_text()) for path in (folder / "facts").glob("*.json")}
    assert facts["grant"][0]["name"] == name
    assert facts["trail"]["items"][0]["what"] == "asked"
    rows = [json.loads(line) for line in (folder / "audit.ndjson").read_text().splitlines()]
    assert "issue_grant" in {row["verb"] for row in rows}


def test_rows_that_were_written_a_moment_ago_are_shown_and_not_proven(story: Story, tmp_path: Path) -> None:
    story.propose("s3")
    folder = unpacked(made("step", f"{story.run}/s3/{EPOCH}"), tmp_path / "empty")
    ended = run_checker(folder)
    assert ended.returncode == 0
    assert "1 rows had no seal yet" in ended.stdout


@pytest.mark.parametrize("name", ["x", "x/y", "x/y/1", "x/y/z", "x/y/1/2", "x/y/" + "9" * 400, "", "/", "//"])
def test_there_is_no_pack_of_what_is_not_there(audit: None, name: str) -> None:
    assert make_pack("step", name) is None
    assert make_pack("grant", name) is None
    assert make_pack("nothing", name) is None


def test_the_command_writes_a_pack_for_who_has_a_key(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "pack.zip"
    monkeypatch.setenv(personal.VARIABLE, "fk_nobody")
    with pytest.raises(CommandError, match="unauthenticated"):
        call_command("evidence", "step", step, out=out)
    monkeypatch.setenv(personal.VARIABLE, make_key(fresh("o"), Role.ONCALL).key)
    call_command("evidence", "step", step, out=out, stdout=io.StringIO())
    with zipfile.ZipFile(out) as archive:
        assert SECRET.encode() not in b"".join(map(archive.read, archive.namelist()))
    with pytest.raises(CommandError, match="forbidden_role"):
        call_command("evidence", "step", step, out=out, reveal="because I can")
    monkeypatch.setenv(personal.VARIABLE, make_key(fresh("r"), Role.REVIEWER).key)
    call_command("evidence", "step", step, out=out, reveal="the court asks for it", stdout=io.StringIO())
    with zipfile.ZipFile(out) as archive:
        assert SECRET.encode() in b"".join(map(archive.read, archive.namelist()))
    with pytest.raises(CommandError, match="not_found"):
        call_command("evidence", "grant", "nothing")
    with pytest.raises(CommandError, match="no evidence of a cake"):
        call_command("evidence", "cake", "x")


def test_the_api_gives_packs_to_watchers(step: str, client: Client) -> None:
    key = make_key(fresh("a"), Role.AUDITOR).key
    found = client.get(f"/api/v1/evidence/step/{step}", headers={"Authorization": f"Bearer {key}"})
    assert found.status_code == 200
    assert found["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(found.content)) as archive:
        assert archive.testzip() is None
    for path in ("step/x/y/1", "grant/x", "cake/x", "step/..%2f..%2fx", f"step/{'x' * 300}"):
        missing = client.get(f"/api/v1/evidence/{path}", headers={"Authorization": f"Bearer {key}"})
        assert missing.status_code == 404, path


Person = Callable[..., Client]


@pytest.fixture
def signed_in(audit: None) -> Person:
    def client_of(*groups: Group) -> Client:
        person = make_user()
        person.groups.set(GroupRow.objects.filter(name__in=groups))
        client = Client()
        client.force_login(person)
        return client

    return client_of


def test_the_pages_lead_to_the_pack_and_reveal_it_to_a_reviewer(step: str, signed_in: Person) -> None:
    oncall, reviewer = signed_in(Group.ONCALL), signed_in(Group.REVIEWER)
    run, name, epoch = step.split("/")
    page = oncall.get(f"/runs/{run}/steps/{name}?epoch={epoch}").content.decode()
    assert f"/evidence/step/{step}" in page
    assert SECRET not in page
    assert "Take the pack" in oncall.get(f"/evidence/step/{step}").content.decode()
    assert oncall.get(f"/evidence-pack/step/{step}")["Content-Type"] == "application/zip"
    assert oncall.post(f"/evidence-revealed/step/{step}", {"reason": "I want to see it"}).status_code == 403
    confirm(reviewer)
    assert reviewer.post(f"/evidence-revealed/step/{step}", {"reason": ""}).status_code == 422
    shown = reviewer.post(f"/evidence-revealed/step/{step}", {"reason": "the court asks for it"})
    with zipfile.ZipFile(io.BytesIO(shown.content)) as archive:
        assert SECRET.encode() in b"".join(map(archive.read, archive.namelist()))
    assert AuditEvent.objects.filter(verb="reveal_sensitive", subject=step).count() == 1


def test_a_reviewer_reveals_a_step_once(step: str, signed_in: Person) -> None:
    reviewer = signed_in(Group.REVIEWER)
    run, name, epoch = step.split("/")
    url = f"/runs/{run}/steps/{name}/reveal"
    asked = reviewer.post(url, {"epoch": epoch, "reason": "the customer asks what we sent"})
    assert asked.status_code == 303  # confirm first
    assert not AuditEvent.objects.filter(verb="reveal_sensitive").exists()
    confirm(reviewer)
    shown = reviewer.post(url, {"epoch": epoch, "reason": "the customer asks what we sent"})
    assert SECRET in shown.content.decode()
    assert shown["Cache-Control"] == "no-store"
    assert AuditEvent.objects.get(verb="reveal_sensitive").subject == step
    assert SECRET not in reviewer.get(f"/runs/{run}/steps/{name}?epoch={epoch}").content.decode()
    assert signed_in(Group.ONCALL).post(url, {"epoch": epoch, "reason": "let me see"}).status_code == 403


def test_a_pack_of_a_grade_holds_its_fragments_and_what_was_dropped(story: Story, tmp_path: Path) -> None:
    marking = Marking.begin(expected=3)
    marking.send(0)
    marking.restart()
    marking.whole(2, 3)
    marking.send(2, 1)
    assert make_pack("grade", marking.attempt, key=pack_key()) is None
    assert marking.publish()["result"] == "publish"
    seal_audit()
    folder = unpacked(made("grade", marking.attempt), tmp_path / "empty")
    assert said(folder) == ""
    facts = {path.stem: json.loads(path.read_text()) for path in (folder / "facts").glob("*.json")}
    assert [(each["epoch"], each["seq"]) for each in facts["fragments"]] == [(2, 0), (2, 1), (2, 2)]
    assert facts["grade"][0]["fragments"] == [each["id"] for each in facts["fragments"]]
    assert [each["number"] for each in facts["epochs"]] == [1, 2]
    assert len(facts["refused"]) == 1
    rows = [json.loads(line) for line in (folder / "audit.ndjson").read_text().splitlines()]
    assert {row["verb"] for row in rows} >= {"make_attempt", "restart_attempt", "publish_grade"}
