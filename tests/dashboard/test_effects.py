"""Pages of effects, doubts, incidents and resources: what a person reads, may say, and hears when too late."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.access import Group
from fencing.gateway import ledgers
from fencing.models import AuditEvent, Incident, Intent, ObservedEffect
from fencing.services.requests import ObserveEffect
from tests.factories import fresh
from tests.pushing import LOCAL, Serving, definition, serving
from tests.stories import NOTE, REFUND, Action, Story, Told, register, told

pytestmark = pytest.mark.django_db
MakePerson = Callable[..., User]


@pytest.fixture
def story() -> Story:
    return Story.begin()


@pytest.fixture
def reviewer(person: MakePerson) -> Client:
    client = Client()
    client.force_login(person(Group.REVIEWER, name="rita"))
    return client


def in_doubt(story: Story, step: str = "s1") -> Told:
    """Leave an effect of a tool that is not idempotent without an answer."""
    admitted = story.admit(story.agree(step, NOTE, key=step), NOTE)
    assert story.report(admitted, "unknown")["state"] == "in_doubt"
    return admitted


def escape(story: Story, action: Action = REFUND) -> Told:
    row = ObserveEffect(tool=action["tool"], action=dict(action), external_id=fresh("x"))
    return told(ledgers.observe_effects([row], story.gateway)[0])


def shown(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def facts_in(page: str, form: str) -> str:
    """The facts that a form carries of what was shown."""
    found = re.search(rf'data-keep="{form}".*?name="facts" value="([^"]*)"', page, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_list_shows_what_left_and_how_it_ended(story: Story, reviewer: Client) -> None:
    admitted = in_doubt(story)
    page = shown(reviewer, "/effects")
    assert f"/effects/{admitted['intent']}" in page
    assert "in doubt" in page
    assert "No effect fits" in shown(reviewer, "/effects?state=failed")
    assert "send_note" in shown(reviewer, f"/effects?tool=send_note&run={story.run}&state=nonsense")


def test_the_list_asks_the_same_few_questions_however_many_there_are(
    story: Story, reviewer: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(12):
        in_doubt(story, f"s{number}")
    shown(reviewer, "/effects")
    with django_assert_max_num_queries(22):
        shown(reviewer, "/effects")
    with django_assert_max_num_queries(22):
        shown(reviewer, "/doubt")


@pytest.mark.parametrize(("answer", "state"), [("happened", "succeeded"), ("did-not-happen", "ready")])
def test_a_reviewer_gives_either_answer_with_evidence(story: Story, reviewer: Client, answer: str, state: str) -> None:
    intent = in_doubt(story)["intent"]
    assert intent in shown(reviewer, "/doubt")
    url = f"/effects/{intent}/{answer}"
    empty = reviewer.post(url, {"evidence": "  "})
    assert (empty.status_code, Intent.objects.get(id=intent).state) == (422, "in_doubt")
    assert "Say what you saw" in empty.content.decode()
    done = reviewer.post(url, {"evidence": "entry 12 of the outbox"}, follow=True)
    assert Intent.objects.get(id=intent).state == state
    assert "Recorded that it" in done.content.decode()
    assert "entry 12 of the outbox" in shown(reviewer, f"/effects/{intent}")
    assert intent not in shown(reviewer, "/doubt")


def test_who_comes_too_late_sees_what_was_decided_and_keeps_what_they_wrote(story: Story, reviewer: Client) -> None:
    intent = in_doubt(story)["intent"]
    facts = facts_in(shown(reviewer, f"/effects/{intent}"), "not-happened")
    story.resolve({"intent": intent}, happened=True)
    late = reviewer.post(f"/effects/{intent}/did-not-happen", {"evidence": "my own look", "facts": facts})
    assert late.status_code == 409
    assert "my own look" in late.content.decode()
    assert "succeeded" in late.content.decode()


def test_others_see_the_reason_on_the_button_and_cannot_say(story: Story, person: MakePerson) -> None:
    intent = in_doubt(story)["intent"]
    client = Client()
    client.force_login(person(Group.ONCALL))
    assert "This is for the group reviewer" in shown(client, f"/effects/{intent}")
    assert client.post(f"/effects/{intent}/happened", {"evidence": "x"}).status_code == 403
    assert Intent.objects.get(id=intent).state == "in_doubt"


def test_sensitive_arguments_are_masked(story: Story, reviewer: Client) -> None:
    register([{"tool": "send_note", "sensitive": ["/to"], "policy": {"grace_s": 0, "lease_s": 1}}])
    intent = in_doubt(story)["intent"]
    page = shown(reviewer, f"/effects/{intent}")
    assert "oncall&quot;" not in page
    assert "•••" in page


def test_an_escape_is_found_and_adopted_from_the_effect_that_it_holds_back(story: Story, reviewer: Client) -> None:
    found = escape(story)
    story.agree()
    intent = story.step()["intent"]["id"]
    page = shown(reviewer, f"/effects/{intent}")
    assert "Adopt an escape" in page
    answer = reviewer.post(
        f"/effects/{intent}/adopt", {"incident": found["incident"], "reason": "the same refund"}, follow=True
    )
    assert "Adopted" in answer.content.decode()
    assert Intent.objects.get(id=intent).state == "succeeded"
    wrong = reviewer.post(f"/effects/{intent}/adopt", {"incident": "nonsense", "reason": "x"})
    assert wrong.status_code == 422


# ---- incidents ----


def test_an_incident_is_taken_noted_and_resolved(story: Story, reviewer: Client) -> None:
    incident = escape(story)["incident"]
    assert f"/incidents/{incident}" in shown(reviewer, "/incidents")
    assert "cents" in shown(reviewer, f"/incidents/{incident}")
    reviewer.post(f"/incidents/{incident}/take")
    reviewer.post(f"/incidents/{incident}/note", {"note": "asked the bank"})
    row = Incident.objects.get(id=incident)
    assert (row.owner.username, row.note) == ("rita", "asked the bank")
    assert AuditEvent.objects.filter(verb__in=["take_incident", "note_incident"]).count() == 2
    assert reviewer.post(f"/incidents/{incident}/resolve", {"reason": ""}).status_code == 422
    done = reviewer.post(f"/incidents/{incident}/resolve", {"reason": "the bank took it back"}, follow=True)
    assert "the bank took it back" in done.content.decode()
    assert incident not in shown(reviewer, "/incidents")
    assert incident in shown(reviewer, "/incidents?state=resolved&kind=landed_escape&resource=9")
    assert reviewer.post(f"/incidents/{incident}/take").status_code == 409


def test_the_sentence_counts_what_should_not_be_there(story: Story, reviewer: Client) -> None:
    assert "No incident is open" in shown(reviewer, "/incidents")
    escape(story)
    assert "1 of them of effects that should not be there" in shown(reviewer, "/incidents")


# ---- a resource ----


def test_a_resource_tells_who_authorised_it_first(story: Story, reviewer: Client) -> None:
    admitted = story.admit(story.agree())
    story.report(admitted, "succeeded")
    page = shown(reviewer, "/resource?q=9")
    assert "authorised by agreement of the paths" in page
    assert f"/effects/{admitted['intent']}" in page
    assert "Nothing that is on record" in shown(reviewer, "/resource?q=nobody")
    assert "Show everything" in shown(reviewer, "/resource")
    escape(story)  # the delivery's own
    escape(story)
    assert "happened without authority" in shown(reviewer, "/resource?q=9")
    assert ObservedEffect.objects.count() == 2


# ---- read-back ----


@pytest.fixture
def server(settings: Settings) -> Iterator[Serving]:
    settings.FENCE_TOOL_HOSTS = LOCAL
    with serving() as made:
        yield made


def test_the_tool_is_asked_and_decides_nothing(story: Story, reviewer: Client, server: Serving) -> None:
    register([{**definition(server, "send_note"), "policy": {"grace_s": 0, "lease_s": 1}}])
    admitted = in_doubt(story)
    url = f"/effects/{admitted['intent']}/read-back"
    assert "it did not happen" in reviewer.post(url, follow=True).content.decode()
    server.ledger.act(admitted["idempotency_key"], dict(NOTE), once=True)
    assert "it happened, as eff-1" in reviewer.post(url, follow=True).content.decode()
    assert Intent.objects.get(id=admitted["intent"]).state == "in_doubt"
    asked = AuditEvent.objects.filter(verb="read_back").order_by("id")
    assert [(row.after or {})["happened"] for row in asked] == [False, True]


def test_a_tool_that_does_not_answer_says_nothing(story: Story, reviewer: Client, settings: Settings) -> None:
    settings.FENCE_TOOL_HOSTS = LOCAL
    with serving() as server:
        pass  # it is gone before anybody asks
    register([{**definition(server, "send_note"), "policy": {"grace_s": 0, "lease_s": 1, "timeout_s": 1}}])
    admitted = in_doubt(story)
    began = time.monotonic()
    page = reviewer.post(f"/effects/{admitted['intent']}/read-back", follow=True).content.decode()
    assert "did not take the connection" in page
    assert time.monotonic() - began < 5
