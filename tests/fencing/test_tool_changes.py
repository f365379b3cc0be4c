"""T1: administrators change tools; what weakens the fence waits for a second one."""

from __future__ import annotations

import json
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from fencing.environment import Mode
from fencing.models import AuditEvent, Deployment, SideLogRow, Step, ToolChange, ToolVersion
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.callers import Caller, Role
from fencing.protocol.tools import ToolDefinition, read_tool
from fencing.services.credentials import COMMAND_LINE
from fencing.services.tool_changes import (
    ChangeTool,
    DecideChange,
    approve_change,
    change_tool,
    expire_changes,
    refuse_change,
    withdraw_change,
)
from fencing.services.tools import LoadReport, load_definitions
from tests.factories import NO_DIGEST, make_user
from tests.fencing.beside import at_once
from tests.stories import Story, Told, told

REFUND: dict[str, Any] = {"tool": "refund", "policy": {"grant_approvals": 1}}
WEAKER: dict[str, Any] = {**REFUND, "effect": "read_only"}
STRICTER: dict[str, Any] = {"tool": "refund", "policy": {"grant_approvals": 2}}
REASON = "finance asked for it"


def administrator() -> Caller:
    person = make_user()
    return Caller(
        credential_id=None,
        name=person.username,
        role=Role.ADMINISTRATOR,
        person_id=person.pk,
        person=person.username,
    )


def digest_of(definition: dict[str, Any]) -> str:
    read = read_tool(definition)
    assert isinstance(read, ToolDefinition), read
    return read.digest


def change(definition: dict[str, Any], by: Caller, *, seen: int = 1, **members: Any) -> Told:
    request = {"reason": REASON} | members
    if "digest" not in request:
        request["digest"] = digest_of(definition)
    return told(change_tool(ChangeTool(definition=definition, seen=seen, **request), by))


def decide(act: Any, change_id: str, by: Caller, *, definition: dict[str, Any] = WEAKER, reason: str = REASON) -> Told:
    return told(act(change_id, DecideChange(digest=digest_of(definition), reason=reason), by))


def current() -> ToolVersion:
    return ToolVersion.objects.filter(tool="refund").latest("pk")


def trail() -> list[str]:
    return list(AuditEvent.objects.filter(kind="tool", subject="refund").order_by("pk").values_list("verb", flat=True))


def refused() -> list[str]:
    return list(SideLogRow.objects.filter(kind="tool").order_by("recorded_at").values_list("reason", flat=True))


@pytest.fixture
def lena(db: None) -> Caller:
    return administrator()


@pytest.fixture
def omar(db: None) -> Caller:
    return administrator()


@pytest.fixture
def tool(lena: Caller) -> ToolVersion:
    """The tool `refund`, registered by Lena."""
    assert change(REFUND, lena, seen=0)["status"] == 201
    return current()


@pytest.fixture
def waiting(tool: ToolVersion, lena: Caller) -> str:
    """Lena's change that makes it read-only."""
    answer = change(WEAKER, lena)
    assert (answer["status"], answer["state"]) == (201, "pending")
    return str(answer["change"])


# -- at once -----------------------------------------------------------------------------------------------------------


def test_a_first_version_is_no_change_however_little_it_fences(lena: Caller) -> None:
    answer = change(WEAKER, lena, seen=0)
    assert (answer["status"], answer["state"], answer["version"]) == (201, "current", 1)
    assert trail() == ["register_tool"]


def test_a_change_that_does_not_weaken_is_current_at_once(tool: ToolVersion, lena: Caller) -> None:
    answer = change(STRICTER, lena)
    assert (answer["status"], answer["version"], answer["weakens"]) == (201, 2, [])
    row = current()
    assert (row.person_id, row.reason, row.digest) == (lena.person_id, REASON, digest_of(STRICTER))
    event = AuditEvent.objects.get(verb="change_tool")
    assert event.before == {"version": 1, "registry": tool.pk, "digest": tool.digest, "weakens": []}
    assert event.after == {"version": 2, "registry": row.pk, "digest": row.digest, "weakens": [], "change": None}
    assert (event.actor, event.role, event.reason) == (lena.actor, "administrator", REASON)


def test_the_same_change_again_is_a_duplicate(tool: ToolVersion, lena: Caller) -> None:
    change(STRICTER, lena)
    again = change(STRICTER, lena)
    assert (again["status"], again["duplicate"], again["version"]) == (200, True, 2)
    assert ToolVersion.objects.count() == 2


def test_a_change_of_a_version_that_is_history_is_refused_and_told(
    tool: ToolVersion, lena: Caller, omar: Caller
) -> None:
    change(STRICTER, omar)
    answer = change({**REFUND, "policy": {"deadline_s": 9, "grant_approvals": 2}}, lena)
    assert (answer["code"], answer["current"], answer["decided_by"]) == ("changed", 2, omar.person)
    assert refused() == ["changed"]


def test_a_tool_that_somebody_else_registered_meanwhile_is_told(tool: ToolVersion, omar: Caller) -> None:
    answer = change(STRICTER, omar, seen=0)
    assert answer["code"] == "changed"
    assert current().version == 1


@pytest.mark.parametrize(
    ("definition", "members", "code"),
    [
        ({"tool": "refund", "effect": "sometimes"}, {"digest": NO_DIGEST}, "invalid_value"),
        (STRICTER, {"digest": NO_DIGEST}, "digest_mismatch"),
        (STRICTER, {"reason": "\u2800 \u200b"}, "reason_required"),
        ({**STRICTER, "compensator": {"tool": "nobody", "args": {}}}, {}, "invalid_tool"),
    ],
)
def test_what_cannot_be_registered_is_refused_and_on_record(
    tool: ToolVersion, lena: Caller, definition: dict[str, Any], members: dict[str, Any], code: str
) -> None:
    assert change(definition, lena, **members)["code"] == code
    assert refused() == [code]
    assert current() == tool


def test_nobody_but_an_administrator_changes_tools(tool: ToolVersion, waiting: str) -> None:
    for by in (Story().oncall, Story().reviewer, COMMAND_LINE):
        assert change(STRICTER, by)["code"] == "forbidden_role"
        for act in (approve_change, refuse_change, withdraw_change):
            assert decide(act, waiting, by)["code"] == "forbidden_role"
    assert current() == tool


# -- what waits --------------------------------------------------------------------------------------------------------


def test_a_change_that_weakens_waits_and_a_second_administrator_makes_it_current(
    tool: ToolVersion, waiting: str, lena: Caller, omar: Caller
) -> None:
    assert current() == tool
    answer = decide(approve_change, waiting, omar)
    assert (answer["state"], answer["version"], answer["missing"]) == ("approved", 2, 0)
    row = current()
    assert (str(row.change_id), row.person_id, row.digest) == (waiting, lena.person_id, digest_of(WEAKER))
    assert row.weakens == ["It becomes read-only, and skips the fence."]
    assert registry_at(current_registry())["refund"].is_read_only
    assert trail() == ["register_tool", "propose_tool_change", "approve_tool_change", "change_tool"]


def test_a_step_keeps_the_version_that_it_was_proposed_under(db: None, lena: Caller, omar: Caller) -> None:
    story = Story.begin()
    story.propose(tool="refund")
    definition = {**json.loads(bytes(current().definition)), "effect": "read_only"}
    answer = change(definition, lena)
    decide(approve_change, str(answer["change"]), omar, definition=definition)
    assert registry_at(current_registry())["refund"].is_read_only
    for path in (story.production, story.replica):
        story.vote(path)
    story.decide()
    assert story.step()["phase"] == "committed"
    story.propose("s2", tool="refund")
    assert story.step("s2")["phase"] == "exempt"


def test_who_proposed_a_change_does_not_approve_it(tool: ToolVersion, waiting: str, lena: Caller) -> None:
    assert decide(approve_change, waiting, lena)["code"] == "own_change"
    assert current() == tool
    assert refused() == ["own_change"]


def test_an_approval_that_names_another_definition_decides_nothing(
    tool: ToolVersion, waiting: str, omar: Caller
) -> None:
    answer = decide(approve_change, waiting, omar, definition=STRICTER)
    assert (answer["code"], answer["pointer"], answer["digest"]) == ("changed", "/digest", digest_of(WEAKER))
    assert current() == tool


def test_the_same_approval_again_is_a_duplicate_and_another_one_comes_too_late(
    waiting: str, lena: Caller, omar: Caller
) -> None:
    decide(approve_change, waiting, omar)
    again = decide(approve_change, waiting, omar)
    assert (again["status"], again["duplicate"], again["state"]) == (200, True, "approved")
    late = decide(approve_change, waiting, administrator())
    assert (late["code"], late["decided_by"]) == ("already_decided", omar.person)
    assert ToolVersion.objects.count() == 2


def test_a_change_that_was_refused_never_becomes_current(
    tool: ToolVersion, waiting: str, lena: Caller, omar: Caller
) -> None:
    assert decide(refuse_change, waiting, lena)["code"] == "own_change"
    assert decide(refuse_change, waiting, omar)["state"] == "refused"
    assert decide(refuse_change, waiting, omar)["duplicate"]
    for act in (approve_change, refuse_change):
        assert decide(act, waiting, administrator())["decided_by"] == omar.person
    assert current() == tool
    assert trail()[-1] == "refuse_tool_change"


def test_a_change_is_withdrawn_by_who_proposed_it(tool: ToolVersion, waiting: str, lena: Caller, omar: Caller) -> None:
    assert decide(withdraw_change, waiting, omar)["code"] == "not_your_change"
    assert decide(withdraw_change, waiting, lena, definition=STRICTER)["code"] == "changed"
    assert decide(withdraw_change, waiting, lena)["state"] == "withdrawn"
    assert decide(withdraw_change, waiting, lena)["duplicate"]
    assert decide(approve_change, waiting, omar)["code"] == "already_decided"
    assert current() == tool
    assert trail()[-1] == "withdraw_tool_change"


def test_a_change_that_is_nowhere_is_not_found(lena: Caller) -> None:
    for change_id in ("x", "00000000-0000-7000-8000-000000000000"):
        assert decide(approve_change, change_id, lena)["code"] == "not_found"


def test_a_decision_needs_a_reason_that_can_be_read(waiting: str, omar: Caller) -> None:
    assert decide(approve_change, waiting, omar, reason="\u200b")["code"] == "reason_required"
    assert ToolChange.objects.get(pk=waiting).closed_at is None


def test_two_changes_wait_beside_each_other_and_the_second_is_told_that_the_first_became_current(
    waiting: str, lena: Caller, omar: Caller
) -> None:
    other = {**REFUND, "advisory": ["/note"]}
    second = str(change(other, lena)["change"])
    assert second != waiting
    decide(approve_change, waiting, omar)
    answer = decide(approve_change, second, omar, definition=other)
    assert (answer["code"], answer["base"], answer["current"]) == ("changed", 1, 2)
    assert current().digest == digest_of(WEAKER)
    assert decide(refuse_change, second, omar, definition=other)["state"] == "refused"


def test_the_same_change_proposed_again_is_the_one_that_waits(waiting: str, lena: Caller, omar: Caller) -> None:
    for by in (lena, omar):
        again = change(WEAKER, by)
        assert (again["status"], again["change"], again["duplicate"]) == (200, waiting, True)


def test_a_change_of_a_week_ago_is_over_and_can_be_proposed_again(
    tool: ToolVersion, waiting: str, lena: Caller, omar: Caller
) -> None:
    assert expire_changes() == 0
    turn_back(waiting)
    assert decide(approve_change, waiting, omar)["code"] == "already_decided"
    assert expire_changes() == 1
    assert expire_changes() == 0
    assert ToolChange.objects.get(pk=waiting).closed_as == "expired"
    assert decide(approve_change, waiting, omar)["decided_by"] == "the clock"
    assert trail()[-1] == "expire_tool_change"
    assert current() == tool
    assert change(WEAKER, lena)["change"] != waiting


def turn_back(change_id: str) -> None:
    """Let a change's time be over; its row is fixed, so the guard is lifted for this statement."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE fencing_toolchange DISABLE TRIGGER USER")
        cursor.execute("UPDATE fencing_toolchange SET expires_at = %s WHERE id = %s", [timezone.now(), change_id])
        cursor.execute("ALTER TABLE fencing_toolchange ENABLE TRIGGER USER")


# -- load_tools --------------------------------------------------------------------------------------------------------


@pytest.fixture
def production(db: None, settings: Settings) -> None:
    """A process and a database of production."""
    settings.FENCE_MODE = Mode.PRODUCTION
    Deployment.objects.update(mode=Mode.PRODUCTION.value)


def load(*definitions: dict[str, Any]) -> LoadReport:
    report = load_definitions(definitions, COMMAND_LINE)
    assert isinstance(report, LoadReport), report
    return report


def test_in_production_what_the_command_line_weakens_waits_for_two_administrators(
    production: None, lena: Caller, omar: Caller
) -> None:
    load(REFUND)
    report = load(WEAKER, {"tool": "lookup", "effect": "read_only"})
    assert [change.tool for change in report.changes] == ["lookup"]
    (waits,) = report.waiting
    assert (waits.tool, waits.approvals_needed, waits.is_new) == ("refund", 2, True)
    assert current().version == 1
    first = decide(approve_change, waits.id, lena)
    assert (first["state"], first["missing"]) == ("pending", 1)
    assert decide(approve_change, waits.id, lena)["duplicate"]
    assert current().version == 1
    assert decide(approve_change, waits.id, omar)["state"] == "approved"
    assert current().is_read_only


def test_nobody_withdraws_what_the_command_line_proposed_but_anybody_refuses_it(production: None, lena: Caller) -> None:
    load(REFUND)
    (waits,) = load(WEAKER).waiting
    assert decide(withdraw_change, waits.id, lena)["code"] == "not_your_change"
    assert decide(refuse_change, waits.id, lena)["state"] == "refused"


def test_in_production_loading_again_finds_what_waits_already(production: None, tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([REFUND]))
    call_command("load_tools", str(file), stdout=StringIO())
    file.write_text(json.dumps([WEAKER]))
    said = []
    for _ in range(2):
        out = StringIO()
        call_command("load_tools", str(file), stdout=out)
        said.append(out.getvalue())
    assert "refund: waits for 2 administrators (change " in said[0]
    assert "  weaker: It becomes read-only, and skips the fence." in said[0]
    assert "refund: waits already for 2 administrators (change " in said[1]
    assert "0 changed, 1 waiting" in said[1]
    assert ToolChange.objects.count() == 1


def test_a_database_that_was_prepared_for_production_is_production_whatever_a_process_says(db: None) -> None:
    Deployment.objects.update(mode=Mode.PRODUCTION.value)
    load(REFUND)
    assert load(WEAKER).waiting


def test_outside_production_what_weakens_is_current_at_once(db: None) -> None:
    load(REFUND)
    (loaded,) = load(WEAKER).changes
    assert (loaded.version, loaded.weakens) == (2, ("It becomes read-only, and skips the fence.",))


# -- at once, on real connections --------------------------------------------------------------------------------------


def ends(*results: Told) -> list[Any]:
    return sorted(str(result.get("code") or result.get("state")) for result in results)


def test_of_two_approvals_at_once_one_makes_the_version(committed: None) -> None:
    lena, omar, noor = administrator(), administrator(), administrator()
    change(REFUND, lena, seen=0)
    waiting = str(change(WEAKER, lena)["change"])
    got = at_once(
        partial(decide, approve_change, waiting, omar),
        partial(decide, approve_change, waiting, noor),
        partial(decide, approve_change, waiting, omar),
    )
    assert ToolVersion.objects.filter(tool="refund").count() == 2
    assert ToolChange.objects.get().closed_as == "approved"
    assert ends(*got) in (
        ["already_decided", "already_decided", "approved"],  # noor came first
        ["already_decided", "approved", "approved"],  # omar came first, and his other click is a duplicate
    )


def test_an_approval_beside_a_withdrawal_ends_as_one_of_both(committed: None) -> None:
    lena, omar = administrator(), administrator()
    change(REFUND, lena, seen=0)
    for _ in range(4):
        waiting = str(change({**WEAKER, "hints": {"n": ToolChange.objects.count()}}, lena)["change"])
        definition = {**WEAKER, "hints": {"n": ToolChange.objects.count() - 1}}
        got = at_once(
            partial(decide, approve_change, waiting, omar, definition=definition),
            partial(decide, withdraw_change, waiting, lena, definition=definition),
        )
        row = ToolChange.objects.get(pk=waiting)
        assert ends(*got) in (["already_decided", "approved"], ["already_decided", "withdrawn"])
        assert (row.closed_as == "approved") == ToolVersion.objects.filter(change=row).exists()
        if row.closed_as == "approved":
            return


def test_of_two_changes_at_once_one_is_told_that_it_changed(committed: None) -> None:
    lena, omar = administrator(), administrator()
    change(REFUND, lena, seen=0)
    other = {**REFUND, "policy": {"grant_approvals": 1, "deadline_s": 9}}
    got = at_once(partial(change, STRICTER, lena), partial(change, other, omar))
    assert ends(*got) == ["changed", "current"]
    assert ToolVersion.objects.filter(tool="refund").count() == 2


def test_everything_about_a_change_is_in_the_audit(waiting: str, omar: Caller) -> None:
    decide(approve_change, waiting, omar, reason="read it line by line")
    proposed = AuditEvent.objects.get(verb="propose_tool_change")
    assert proposed.after is not None
    assert proposed.after["change"] == waiting
    assert proposed.after["digest"] == digest_of(WEAKER)
    approved = AuditEvent.objects.get(verb="approve_tool_change")
    assert (approved.actor, approved.reason) == (omar.actor, "read it line by line")
    assert Step.objects.count() == 0
