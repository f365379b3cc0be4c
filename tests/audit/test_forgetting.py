"""Forgetting (U5): prose goes for good, by run or by age; what was decided on it and sealed still verifies."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from fencing.models import AuditEvent, Forgotten, Step, Vote, cold
from fencing.models.facts import read_clock
from fencing.queries.evidence import make_pack
from fencing.services.credentials import COMMAND_LINE
from fencing.services.forgetting import Done, Wanted, forget
from fencing.services.sealing import seal_audit
from tests.audit.test_evidence import run_checker, unpacked
from tests.stories import EPOCH, REFUND, Story

WHY = "the customer asked to be forgotten"


@pytest.fixture
def story(audit: None, valkey: str) -> Story:
    return tell(Story.begin())


def tell(story: Story) -> Story:
    """Let a step have a context, and two votes with rationales, one of them unlike all others."""
    story.propose(context={"run": story.run})
    story.vote(story.production, REFUND, rationale=f"{story.run}: he paid twice")
    story.vote(story.replica, REFUND, rationale="looks fine")
    story.decide()
    return story


def refs_of(story: Story) -> list[str]:
    found = [*Step.objects.filter(run__name=story.run).values_list("context_ref", flat=True)]
    found += (
        Vote.objects.filter(step__run__name=story.run).order_by("received_at").values_list("rationale_ref", flat=True)
    )
    return [str(ref) for ref in found]


def forgotten(**options: Any) -> str:
    out = StringIO()
    call_command("forget", reason=WHY, yes=True, stdout=out, **options)
    return out.getvalue()


def test_the_prose_of_a_run_is_gone_and_everything_verifies(story: Story, heads: Path, tmp_path: Path) -> None:
    refs = refs_of(story)
    assert all(cold.get(ref) for ref in refs)
    digests = list(Vote.objects.order_by("id").values_list("digest", flat=True))
    seal_audit()
    assert "3 texts" in forgotten(run=story.run)
    assert [cold.get(ref) for ref in refs] == [None, None, None]
    assert story.step()["phase"] == "committed"
    assert list(Vote.objects.order_by("id").values_list("digest", flat=True)) == digests
    event = AuditEvent.objects.get(verb="forget_prose")
    assert (event.kind, event.subject, event.run, event.reason) == ("prose", story.run, story.run, WHY)
    assert event.after is not None
    assert event.after["texts"] == 3
    seal_audit()
    call_command("verify_audit", stdout=StringIO())
    pack = make_pack("step", f"{story.run}/s1/{EPOCH}")
    assert pack is not None
    ended = run_checker(unpacked(pack, tmp_path / "empty"))
    assert ended.returncode == 0
    assert ended.stdout.count("forgotten 20") == 3


def test_forgetting_again_changes_nothing(story: Story) -> None:
    forgotten(run=story.run)
    assert "forgotten: 0 texts" in forgotten(run=story.run)
    assert AuditEvent.objects.filter(verb="forget_prose").count() == 1
    assert Forgotten.objects.count() == 3


def test_what_a_crash_left_is_deleted_by_the_repetition(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    delete = cold.delete
    monkeypatch.setattr(cold, "delete", lambda _ref: False)
    forgotten(run=story.run)
    assert all(cold.get(ref) for ref in refs_of(story))
    monkeypatch.setattr(cold, "delete", delete)
    assert "3 were gone already" in forgotten(run=story.run)
    assert not any(cold.get(ref) for ref in refs_of(story))


def test_by_age_what_was_said_again_since_stays(story: Story) -> None:
    border = read_clock()
    other = tell(Story.begin())
    done = forget(Wanted(run=None, before=border, reason=WHY), COMMAND_LINE)
    assert done == Done(forgotten=2, already=0, kept=1)
    assert [cold.get(ref) is None for ref in refs_of(story)] == [True, True, False]
    assert all(cold.get(ref) for ref in refs_of(other))


def test_a_run_of_others_keeps_its_own_prose(story: Story) -> None:
    other = tell(Story.begin())
    forgotten(run=story.run)
    assert [cold.get(ref) is None for ref in refs_of(other)] == [False, False, True]


def test_the_command_asks_for_what_and_why(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, says in (
        ({"reason": WHY}, "say what"),
        ({"reason": " ", "run": story.run}, "Say why"),
        ({"reason": WHY, "run": "no-such-run"}, "no run"),
        ({"reason": WHY, "older_than": "soon"}, "no age"),
    ):
        with pytest.raises(CommandError, match=says):
            call_command("forget", yes=True, **options)
    monkeypatch.setattr("builtins.input", lambda _asked: "no")
    with pytest.raises(CommandError, match="nothing was done"):
        call_command("forget", run=story.run, reason=WHY)
    monkeypatch.setattr("builtins.input", lambda _asked: "yes")
    call_command("forget", older_than="30d", reason=WHY, stdout=StringIO())
    assert not Forgotten.objects.exists()
