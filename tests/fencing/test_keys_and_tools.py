"""The commands that issue keys and load tools: what they print, refuse, keep secret, and put into the audit."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, transaction
from pytest_django import Settings

from fencing.environment import Mode
from fencing.models import AuditEvent, Credential, ToolVersion
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Refusal
from fencing.services.credentials import COMMAND_LINE, authenticate
from fencing.services.tools import REGISTRY_LOCK, LoadReport, load_definitions
from tests.factories import fresh, make_user

REFUND: dict[str, Any] = {"tool": "refund", "effect": "side_effecting", "mode": "pull", "policy": {"grace_s": 5}}


def said(*words: str) -> str:
    """Run a command; what it printed."""
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue().strip()


def write(path: Path, value: object) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def known(key: str) -> Caller:
    """Whose key it is."""
    caller = authenticate(f"Bearer {key}")
    assert isinstance(caller, Caller)
    return caller


@pytest.fixture
def production(settings: Settings) -> None:
    """Production mode."""
    settings.FENCE_MODE = Mode.PRODUCTION


def test_a_key_is_printed_once_and_opens_what_its_role_may(db: None) -> None:
    name = fresh("replica")
    key = said("issue_key", "--role", "path", "--path", "replica", "--name", name)
    caller = authenticate(f"Bearer {key}")
    assert not isinstance(caller, Refusal)
    assert (caller.role, caller.path, caller.name) == ("path", "replica", name)
    event = AuditEvent.objects.get(verb="issue_key", subject=name)
    assert (event.actor, event.after) == ("command line", {"role": "path", "path": "replica"})
    assert key not in str(AuditEvent.objects.values_list())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--role", "path", "--name", "x"], "name it"),
        (["--role", "planner", "--name", "x", "--path", "replica"], "only a key of the role path"),
        (["--role", "planner", "--name", "x y"], "not an identifier"),
        (["--role", "oncall", "--name", "x"], "belongs to a person"),
        (["--role", "planner", "--name", "x", "--user", "nobody"], "belongs to a person"),
        (["--role", "oncall", "--name", "x", "--user", "nobody"], "no active person"),
        (["--role", "planner", "--name", "x", "--tool", "refund"], "only a key of the role gateway"),
        (["--role", "planner", "--name", "x", "--expires-in", "0"], "one second"),
        (["--role", "planner", "--name", "x", "--rate", "0"], "one request"),
        (["--role", "king", "--name", "x"], "invalid choice"),
    ],
)
def test_what_does_not_fit_a_role_is_refused_with_the_reason(db: None, words: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        said("issue_key", *words)
    assert not Credential.objects.filter(name="x").exists()


def test_a_name_is_never_used_again(db: None) -> None:
    name = fresh("planner")
    said("issue_key", "--role", "planner", "--name", name)
    said("revoke_key", name)
    with pytest.raises(CommandError, match="never used again"):
        said("issue_key", "--role", "planner", "--name", name)
    assert AuditEvent.objects.filter(subject=name).count() == 2


def test_a_persons_key_lives_twelve_hours_at_most(db: None) -> None:
    person, name = make_user().username, fresh("oncall")
    said("issue_key", "--role", "oncall", "--name", name, "--user", person)
    row = Credential.objects.get(name=name)
    assert row.expires_at is not None
    assert 43_190 <= (row.expires_at - row.created_at).total_seconds() <= 43_210
    with pytest.raises(CommandError, match="43200"):
        said("issue_key", "--role", "oncall", "--name", "x", "--user", person, "--expires-in", "43201")


def test_in_production_nobody_gets_a_persons_key_for_a_name_alone(db: None, production: None, tmp_path: Path) -> None:
    person = make_user().username
    with pytest.raises(CommandError, match="browser"):
        said("issue_key", "--role", "oncall", "--name", "x", "--user", person)
    with pytest.raises(CommandError, match="production"):
        said("conformance_keys", str(tmp_path / "keys.json"))
    assert not (tmp_path / "keys.json").exists()
    assert said("issue_key", "--role", "auditor", "--name", fresh("auditor")).startswith("fk_auditor_")


def test_revoking_is_repeated_without_harm_and_needs_a_name_that_is_there(db: None) -> None:
    name = fresh("gate")
    said("issue_key", "--role", "gate", "--name", name)
    assert said("revoke_key", name) == said("revoke_key", name)
    with pytest.raises(CommandError, match="no key named"):
        said("revoke_key", "nobody")


def test_conformance_keys_makes_fourteen_keys_of_four_new_people_each_time(db: None, tmp_path: Path) -> None:
    file = write(tmp_path / "keys.json", "an older file that everybody could read")
    file.chmod(0o644)
    tools = write(tmp_path / "tools.json", [REFUND])
    callers = []
    for _ in range(2):
        said("conformance_keys", str(file), "--tools", str(tools))
        keys = json.loads(file.read_text())
        assert len(keys) == 14
        callers.append({name: known(key) for name, key in keys.items()})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first, second = callers
    people = [found[name].person for found in callers for name in ("oncall", "oncall2", "reviewer", "reviewer2")]
    assert len(set(people)) == 8
    assert first["planner"].group == first["planner2"].group != second["planner"].group
    assert (first["replica"].path, first["production"].path) == ("replica", "production")
    assert current_registry() > 0


def test_loading_the_same_definitions_again_is_no_new_version(db: None, tmp_path: Path) -> None:
    file = write(tmp_path / "tools.json", [REFUND, {"tool": "lookup", "effect": "read_only", "mode": "pull"}])
    assert "refund: version 1" in said("load_tools", str(file))
    before = current_registry()
    assert "0 changed" in said("load_tools", str(file))
    assert current_registry() == before


def test_a_changed_definition_is_a_new_version_and_the_old_registry_stays(db: None) -> None:
    load_definitions([REFUND], COMMAND_LINE)
    before = current_registry()
    report = load_definitions([{**REFUND, "policy": {"grace_s": 0}}], COMMAND_LINE)
    assert isinstance(report, LoadReport)
    (change,) = report.changes
    assert (change.tool, change.version) == ("refund", 2)
    assert change.weakens
    assert registry_at(before)["refund"].policy.grace_s == 5
    assert registry_at(report.registry)["refund"].policy.grace_s == 0
    event = AuditEvent.objects.filter(verb="change_tool", subject="refund").latest("id")
    assert event.after is not None
    assert event.after["digest"] == change.digest
    assert event.before is not None
    assert event.before["digest"] == registry_at(before)["refund"].digest


def test_in_production_a_change_that_weakens_the_fence_waits_and_one_that_does_not_is_taken(
    db: None, production: None, tmp_path: Path
) -> None:
    file = write(tmp_path / "tools.json", [REFUND])
    said("load_tools", str(file))
    assert "refund: waits for 2 administrators" in said(
        "load_tools", str(write(file, [{**REFUND, "effect": "read_only"}]))
    )
    assert "refund: version 2" in said("load_tools", str(write(file, [{**REFUND, "policy": {"grace_s": 9}}])))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "JSON"),
        ("{}", "JSON list"),
        ('[{"tool": "a b", "effect": "read_only", "mode": "pull"}]', "/0/tool"),
        ('[{"tool": "a", "tool": "b"}]', "/0/tool"),
        (json.dumps([REFUND, REFUND]), "twice"),
        (json.dumps([{**REFUND, "compensator": {"tool": "no_such", "args": {}}}]), "no_such"),
        (json.dumps([REFUND, {"tool": "x", "effect": "sometimes"}]), "/1"),
    ],
)
def test_a_file_with_a_fault_loads_nothing_and_names_the_place(
    db: None, tmp_path: Path, content: str, why: str
) -> None:
    with pytest.raises(CommandError, match=why):
        said("load_tools", str(write(tmp_path / "tools.json", content)))
    assert not ToolVersion.objects.exists()


def test_a_file_that_is_not_there_is_told(db: None, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        said("load_tools", str(tmp_path / "nothing.json"))


def test_a_second_loader_waits_for_the_first(db: None, connect_as: Callable[[str], psycopg.Connection[Any]]) -> None:
    other = connect_as("fence_owner")
    other.execute("SELECT pg_advisory_xact_lock(%s)", [REGISTRY_LOCK])
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '300ms'")
    with pytest.raises(OperationalError, match="lock timeout"), transaction.atomic():
        load_definitions([REFUND], COMMAND_LINE)
    other.rollback()
    assert isinstance(load_definitions([REFUND], COMMAND_LINE), LoadReport)


@pytest.mark.parametrize("command", ["issue_key", "revoke_key", "load_tools", "conformance_keys"])
def test_every_command_tells_what_it_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        call_command(command, "--help")
    assert end.value.code == 0
    assert len(capsys.readouterr().out) > 500
