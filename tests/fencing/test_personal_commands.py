"""`grant`, `freeze` and `lift`: a personal key or nothing, the services' own refusals, and the same trail."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command, load_command_class

from fencing.management import personal
from fencing.models import AuditEvent, Freeze, Grant, SideLogRow
from fencing.protocol.callers import Role
from fencing.services.credentials import COMMAND_LINE, IssuedKey, IssueKey, issue
from tests.factories import fresh, make_user
from tests.stories import EPOCH, REFUND, Story

pytestmark = pytest.mark.django_db
REASON = "the replica's host is down"


@pytest.fixture
def story(valkey: str) -> Story:
    return Story.begin()


def key_of(role: Role, user: str | None = None) -> str:
    issued = issue(IssueKey(role=role, name=fresh("key"), user=user), COMMAND_LINE)
    assert isinstance(issued, IssuedKey)
    return issued.key


@pytest.fixture
def ann() -> str:
    """The key of a person on call."""
    return key_of(Role.ONCALL, make_user().username)


@pytest.fixture
def bob() -> str:
    return key_of(Role.ONCALL, make_user().username)


@pytest.fixture
def eve() -> str:
    """The key of a reviewer."""
    return key_of(Role.REVIEWER, make_user().username)


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command with somebody's key in the environment; what it printed."""

    def said(key: str, *words: str) -> str:
        monkeypatch.setenv(personal.VARIABLE, key)
        out = StringIO()
        call_command(*words, stdout=out)
        return out.getvalue()

    return said


def issuing(story: Story, *more: str) -> list[str]:
    return ["grant", "issue", "--run", story.run, "--ttl", "60", "--reason", REASON, *more]


def test_a_grant_goes_through_its_whole_life_by_commands(story: Story, say: Any, ann: str, bob: str, eve: str) -> None:
    issued = json.loads(say(ann, *issuing(story, "--tool", "wire", "--json")))
    assert (issued["state"], issued["epoch"], issued["reason"]) == ("pending", EPOCH, REASON)
    name = issued["name"]
    with pytest.raises(CommandError, match=r"^own_grant: "):
        say(ann, "grant", "approve", name, "--reason", "mine")
    assert "Live: " in say(bob, "grant", "approve", name, "--reason", "checked with finance")
    assert f"{name}: live, production alone for tool wire" in say(eve, "grant", "list", "--state", "live")
    story.propose("s1")
    story.vote(story.production, {"tool": "wire", "args": {}}, "s1")
    story.decide()
    revoked = say(bob, "grant", "revoke", name, "--reason", "wrong customer")
    assert f"stopped: 1\n  s1 of epoch {EPOCH}, intent " in revoked
    assert "already out: 0" in revoked
    assert "(known already" in say(bob, "grant", "revoke", name, "--reason", "wrong customer")
    reviewed = json.loads(say(eve, "grant", "review", name, "--reason", "it did what it should", "--json"))
    assert reviewed["review"]["reason"] == "it did what it should"
    verbs = AuditEvent.objects.filter(kind="grant", subject=name).order_by("id").values_list("verb", "source")
    assert [verb for verb, _ in verbs] == [
        *("issue_grant", "approve_grant", "use_grant", "revoke_grant", "review_grant")
    ]
    assert {source for verb, source in verbs if verb != "use_grant"} == {personal.source()}


def test_the_epoch_and_the_name_are_made_where_they_are_left_out(story: Story, say: Any, ann: str) -> None:
    story.restart()
    first = json.loads(say(ann, *issuing(story, "--tool", "refund", "--json")))
    second = json.loads(say(ann, *issuing(story, "--tool", "send_note", "--json")))
    assert (first["epoch"], second["epoch"]) == (EPOCH + 1, EPOCH + 1)
    assert first["name"] != second["name"]
    named = [*issuing(story, "--tool", "solo_note", "--name", "night-shift"), "--epoch", str(EPOCH + 1)]
    assert "night-shift in" in say(ann, *named)
    assert "(known already" in say(ann, *named)


def test_a_preview_tells_and_issues_nothing(story: Story, say: Any, ann: str) -> None:
    story.propose("s1")
    story.vote(story.production, REFUND, "s1")
    told = say(ann, *issuing(story, "--tool", "refund", "--preview"))
    assert f"Lets production alone commit refund in {story.run}, epoch {EPOCH}, once" in told
    assert f"It would let through now: 1\n  s1 of epoch {EPOCH}: refund" in told
    assert not Grant.objects.exists()
    with pytest.raises(CommandError, match="it would be refused: beyond_policy"):
        say(ann, *issuing(story, "--preview"))


REFUSED: dict[str, tuple[list[str], str]] = {
    "no scope": ([], "beyond_policy"),
    "an unknown tool": (["--tool", "refnud"], "unknown_tool"),
    "no identifier": (["--tool", "re fund"], "invalid_identifier"),
    "an old epoch": (["--tool", "refund", "--epoch", "3"], "stale_epoch"),
    "no use": (["--tool", "refund", "--uses", "0"], "invalid_value"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_the_services_refuse_is_refused_here_and_logged(story: Story, say: Any, ann: str, how: str) -> None:
    more, code = REFUSED[how]
    with pytest.raises(CommandError, match=f"^{code}: "):
        say(ann, *issuing(story, *more))
    row = SideLogRow.objects.get()
    assert row.reason == code
    assert row.by is not None
    assert not Grant.objects.exists()


def test_a_freeze_is_set_and_lifted_by_two_people(story: Story, say: Any, ann: str, bob: str) -> None:
    story.agree()
    told = say(ann, "freeze", "--run", story.run, "--reason", "something is wrong")
    assert f"run {story.run} is frozen" in told
    assert f"stopped: 1\n  {story.run} s1 of epoch {EPOCH}" in told
    freeze = str(Freeze.objects.get().id)
    with pytest.raises(CommandError, match=r"^own_freeze: "):
        say(ann, "lift", freeze, "--reason", "it is fine")
    assert "is no longer frozen" in say(bob, "lift", freeze, "--reason", "it is fine")
    everything = json.loads(say(ann, "freeze", "--everything", "--reason", "all of it", "--json"))
    assert everything["scope"] == {"tool": None, "run": None}


@pytest.mark.parametrize("scope", [[], ["--everything", "--tool", "refund"]])
def test_nobody_freezes_everything_by_leaving_something_out(story: Story, say: Any, ann: str, scope: list[str]) -> None:
    with pytest.raises(CommandError, match="say --everything"):
        say(ann, "freeze", *scope, "--reason", "something is wrong")
    assert not Freeze.objects.exists()


# ---- who may ----


@pytest.mark.parametrize("words", ["grant issue", "grant approve", "grant revoke", "freeze", "lift"])
def test_a_reviewers_key_does_not_act_for_on_call_and_is_logged(story: Story, say: Any, eve: str, words: str) -> None:
    more = {
        "grant issue": issuing(story, "--tool", "refund")[2:],
        "freeze": ["--run", story.run, "--reason", "x"],
        "lift": ["x", "--reason", "x"],
    }
    with pytest.raises(CommandError, match=r"^forbidden_role: "):
        say(eve, *words.split(), *more.get(words, ["x", "--reason", "x"]))
    assert SideLogRow.objects.get().reason == "forbidden_role"


@pytest.mark.parametrize("how", ["a planner's", "none at all", "nonsense", "a key that was revoked"])
def test_without_a_good_personal_key_nothing_is_done(story: Story, say: Any, how: str) -> None:
    keys = {"a planner's": key_of(Role.PLANNER), "none at all": "", "nonsense": "fk_oncall_" + "x" * 43}
    key = keys.get(how) or (key_of(Role.ONCALL, make_user().username) if "revoked" in how else "")
    if "revoked" in how:
        from fencing.models import Credential  # noqa: PLC0415 - here alone
        from fencing.models.fields import ClockTimestamp  # noqa: PLC0415 - as above

        Credential.objects.filter(role="oncall").update(revoked_at=ClockTimestamp())
    with pytest.raises(CommandError, match=r"^unauthenticated: "):
        say(key, *issuing(story, "--tool", "refund"))
    assert not Grant.objects.exists()


def test_a_key_is_asked_for_where_a_person_can_answer(
    story: Story, say: Any, ann: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda _prompt: f"  {ann}\n")
    assert "Live: " in say("", *issuing(story, "--tool", "refund"))


@pytest.mark.parametrize("command", ["grant", "freeze", "lift"])
def test_no_command_takes_a_key_as_an_argument(command: str) -> None:
    """The list of processes is for everybody to read."""
    parser = load_command_class("fencing", command).create_parser("manage.py", command)
    assert personal.VARIABLE in " ".join(parser.format_help().split())
    choices = [action.choices for action in parser._actions if isinstance(action.choices, dict)]  # noqa: SLF001
    parsers = [parser, *(each for found in choices for each in found.values())]
    taken = [option for each in parsers for option in each._option_string_actions]  # noqa: SLF001
    assert "--reason" in taken
    assert not [option for option in taken if "key" in option]
