"""The page of one step: why it is as it is, what each path asked for, and what a reviewer did about it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.access import Group
from fencing.models import AuditEvent, EpochOpening, SideLogRow, Verdict
from fencing.protocol import fence
from tests.dashboard.conftest import SignedIn
from tests.factories import make_side_log_row
from tests.stories import EPOCH, MAIL, NOTE, OTHER_MAIL, OTHER_REFUND, REFUND, Story, digest, register

pytestmark = pytest.mark.django_db
MOST_QUERIES = 20


@pytest.fixture
def story() -> Story:
    return Story.begin()


def path_of(story: Story, step: str = "s1", act: str = "") -> str:
    return f"/runs/{story.run}/steps/{step}{act}"


def diverged(story: Story, step: str = "s1", production: Any = OTHER_REFUND, replica: Any = REFUND) -> str:
    """A step on which both paths want something else."""
    story.propose(step)
    story.vote(story.production, production, step)
    story.vote(story.replica, replica, step)
    story.decide()
    return path_of(story, step)


def shown(client: Client, path: str, **query: str) -> str:
    answer = client.get(path, query)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


# -- reading ---------------------------------------------------------------------------------------------------------


def test_a_rejected_step_says_why_and_that_nothing_left(signed_in: SignedIn, story: Story) -> None:
    page = shown(signed_in(), diverged(story))
    assert "No commit token exists, and nothing was sent." in page
    assert "No commit token exists for this step." in page
    assert fence.I1 in page
    assert "other arguments of the same tool" in page


def test_the_grant_that_was_tried_says_why_it_did_not_help(signed_in: SignedIn, story: Story) -> None:
    story.grant(name="night-shift-3", tool="refund")
    page = shown(signed_in(), diverged(story))
    assert "night-shift-3" in page
    assert "a visible divergence beats every grant" in page


def test_what_a_path_said_and_what_it_did_not_stand_beside_each_other(signed_in: SignedIn, story: Story) -> None:
    story.propose()
    story.vote(story.production)
    assert "has not voted yet" in shown(signed_in(), path_of(story))


def test_an_abstention_is_quoted(signed_in: SignedIn, story: Story) -> None:
    story.propose()
    story.vote(story.replica, None, abstain="<b>no answer</b>")
    page = shown(signed_in(), path_of(story))
    assert "&lt;b&gt;no answer&lt;/b&gt;" in page


def test_a_vote_by_digest_has_no_action_to_show(signed_in: SignedIn, story: Story) -> None:
    story.propose()
    story.vote(story.production)
    story.vote(story.replica, None, digest=digest(OTHER_REFUND))
    story.decide()
    assert "voted by digest, without its action" in shown(signed_in(), path_of(story))


def test_a_path_that_said_two_things_is_compared_with_itself(signed_in: SignedIn, story: Story) -> None:
    story.propose()
    story.vote(story.production)
    story.vote(story.production, OTHER_REFUND)
    story.decide()
    page = shown(signed_in(), path_of(story))
    assert "production, vote 2" in page


def test_what_the_planner_pinned_is_compared_where_the_paths_agree_on_something_else(
    signed_in: SignedIn, story: Story
) -> None:
    story.propose(action=dict(OTHER_REFUND))
    for path in (story.production, story.replica):
        story.vote(path)
    story.decide()
    assert "the proposal" in shown(signed_in(), path_of(story))


def test_another_side_can_be_chosen(signed_in: SignedIn, story: Story) -> None:
    diverged(story)
    story.vote(story.production, NOTE)
    client = signed_in()
    first = client.get(path_of(story)).context["comparison"]()
    chosen = client.get(path_of(story), {"against": str(first.others[0].index)}).context["comparison"]()
    assert chosen.right.title == first.others[0].title


@pytest.mark.parametrize("against", ["0", "99", "-1", "x", "9" * 30])
def test_a_side_that_is_not_there_changes_nothing(signed_in: SignedIn, story: Story, against: str) -> None:
    assert "replica" in shown(signed_in(), diverged(story), against=against)


def test_prose_that_the_fence_does_not_compare_says_so(signed_in: SignedIn, story: Story) -> None:
    page = shown(signed_in(), diverged(story, production=MAIL, replica=OTHER_MAIL))
    assert "advisory: the fence does not compare this" in page
    assert "both asked for the same" in page


def test_a_commit_shows_what_its_token_says_and_never_the_token(signed_in: SignedIn, story: Story) -> None:
    token = story.agree()
    story.report(story.admit(token), "succeeded", response={"id": "re_1"})
    answer = signed_in().get(path_of(story))
    page = answer.content.decode()
    assert token not in page
    assert all(part not in page for part in token.split(".") if len(part) > 20)
    claims = dict(answer.context["claims"]())
    assert (claims["iss"], claims["step"], claims["dig"], claims["auth"]) == (
        "commit-fence",
        "s1",
        digest(REFUND),
        "agreement",
    )
    assert "re_1" in page


def test_a_revoked_commit_says_that_its_token_opens_nothing(signed_in: SignedIn, story: Story) -> None:
    _, grant = story.go_alone()
    story.revoke(grant)
    page = shown(signed_in(), path_of(story))
    assert "Its commit token is void, and nothing was sent." in page
    assert "grant revoked" in page


def test_late_votes_and_refused_calls_are_there(signed_in: SignedIn, story: Story) -> None:
    token = story.agree()
    story.vote(story.third, OTHER_REFUND)
    story.admit(token, OTHER_REFUND)
    page = shown(signed_in(), path_of(story))
    refused = SideLogRow.objects.filter(run=story.run, step="s1").count()
    assert refused
    assert f"{refused} row" in page[page.index("Refused calls") :][:200]
    assert "voted late" in page


def test_every_epoch_is_linked_with_the_reason_of_its_replay(signed_in: SignedIn, story: Story) -> None:
    diverged(story)
    story.replay()
    client = signed_in()
    newest = shown(client, path_of(story))
    assert "epoch 8" in newest
    assert "?epoch=7" in newest
    assert "try again" in newest
    assert "Replayed into" in shown(client, path_of(story), epoch="7")


@pytest.mark.parametrize("epoch", ["6", "0", "-1", "seven", "9" * 30, "\u0667"])
def test_an_epoch_that_is_not_there_is_not_found(signed_in: SignedIn, story: Story, epoch: str) -> None:
    diverged(story)
    assert signed_in().get(path_of(story), {"epoch": epoch}).status_code == 404


def test_a_step_or_run_that_is_not_there_is_not_found(signed_in: SignedIn, story: Story) -> None:
    client = signed_in()
    assert client.get(path_of(story, "none")).status_code == 404
    assert client.get("/runs/none/steps/none").status_code == 404


def test_text_from_outside_is_escaped_and_its_hidden_characters_are_spelt(signed_in: SignedIn, story: Story) -> None:
    script = "</script><script>alert(1)</script>"
    ugly = {"tool": "refund", "args": {"invoice": 9, "note": script + "\u202e"}}
    page = shown(signed_in(), diverged(story, production=ugly))
    assert script not in page
    assert "U+202E" in page
    assert "\u202e" not in page


def test_sensitive_members_are_masked(signed_in: SignedIn) -> None:
    register([{"tool": "pay_card", "sensitive": ["/card"]}])
    story = Story()
    story.open()
    cards = [{"tool": "pay_card", "args": {"card": number, "cents": 1}} for number in ("4111222233334444", "4000")]
    page = shown(signed_in(), diverged(story, production=cards[0], replica=cards[1]))
    assert "4111222233334444" not in page
    assert "another value" in page


# -- live parts ------------------------------------------------------------------------------------------------------


def test_the_facts_refresh_while_the_step_is_undecided_and_no_longer(signed_in: SignedIn, story: Story) -> None:
    client = signed_in()
    story.propose()
    assert "live-facts" in shown(client, path_of(story))
    token = story.agree("s2")
    assert "live-facts" in shown(client, path_of(story, "s2"))
    story.report(story.admit(token), "succeeded")
    assert "live-facts" not in shown(client, path_of(story, "s2"))


def test_a_part_that_did_not_change_is_not_sent_again(signed_in: SignedIn, story: Story) -> None:
    client = signed_in()
    story.propose()
    first = client.get(path_of(story), {"part": "facts"})
    again = client.get(path_of(story), {"part": "facts"}, headers={"If-None-Match": first["ETag"]})
    story.vote(story.production)
    changed = client.get(path_of(story), {"part": "facts"}, headers={"If-None-Match": first["ETag"]})
    assert (first.status_code, again.status_code, changed.status_code) == (200, 304, 200)


# -- cost ------------------------------------------------------------------------------------------------------------


def test_a_step_costs_the_same_queries_however_much_was_said_about_it(
    signed_in: SignedIn, story: Story, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = signed_in(Group.REVIEWER)
    story.grant(tool="refund")
    diverged(story)
    with django_assert_max_num_queries(MOST_QUERIES):
        shown(client, path_of(story))
    for number in range(40):
        make_side_log_row(run=story.run, step="s1", epoch=EPOCH, detail=f"call {number}")
        story.vote(story.production, {"tool": "refund", "args": {"invoice": number}})
        story.grant(step=f"other-{number}", tool="refund")
    for number in range(10):
        story.replay(from_epoch=EPOCH + number)
        story.propose(epoch=EPOCH + number + 1)
        story.restart(EPOCH)
    with django_assert_max_num_queries(MOST_QUERIES):
        shown(client, path_of(story), epoch=str(EPOCH))


# -- replays ---------------------------------------------------------------------------------------------------------


def replayed(client: Client, story: Story, seen: int = EPOCH, reason: str = "checked with finance") -> Any:
    return client.post(path_of(story, act="/replay"), {"from_epoch": str(seen), "reason": reason})


def test_a_reviewer_replays_into_a_fresh_epoch(signed_in: SignedIn, story: Story) -> None:
    client = signed_in(Group.REVIEWER)
    diverged(story)
    answer = replayed(client, story)
    assert (answer.status_code, answer["Location"]) == (302, f"{path_of(story)}?epoch=8#main")
    opening = EpochOpening.objects.get(run__name=story.run, kind="replay")
    assert (opening.from_epoch, opening.reason, opening.person.get_username()) == (7, "checked with finance", "lena")
    assert "Replayed into epoch 8" in shown(client, answer["Location"])


def test_a_replay_needs_a_reason_and_keeps_what_was_seen(signed_in: SignedIn, story: Story) -> None:
    diverged(story)
    answer = replayed(signed_in(Group.REVIEWER), story, reason=" ")
    assert answer.status_code == 422
    assert "Say why" in answer.content.decode()
    assert "live-facts" not in answer.content.decode()
    assert not EpochOpening.objects.filter(kind="replay").exists()


@pytest.mark.parametrize("seen", ["", "x", "7.0", "-7", "9" * 40])
def test_a_replay_from_no_number_is_shown_again(signed_in: SignedIn, story: Story, seen: str) -> None:
    diverged(story)
    client = signed_in(Group.REVIEWER)
    assert client.post(path_of(story, act="/replay"), {"from_epoch": seen, "reason": "again"}).status_code in (404, 422)
    assert not EpochOpening.objects.filter(kind="replay").exists()


def test_a_replay_that_was_done_meanwhile_leads_to_its_epoch(signed_in: SignedIn, story: Story) -> None:
    client = signed_in(Group.REVIEWER)
    diverged(story)
    story.replay()
    answer = replayed(client, story)
    assert answer["Location"].endswith("?epoch=8#main")
    assert "was replayed already" in shown(client, answer["Location"])


def test_a_replay_from_an_epoch_that_is_over_shows_what_changed(signed_in: SignedIn, story: Story) -> None:
    client = signed_in(Group.REVIEWER)
    diverged(story)
    story.restart()
    story.propose(epoch=8)
    answer = replayed(client, story)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "Nothing was done. Epoch 7 is closed for this: it goes on in epoch 8." in page
    assert SideLogRow.objects.filter(kind="replay", reason="stale_epoch").count() == 1


def test_after_a_conflict_the_form_names_what_is_new_and_keeps_the_reason(signed_in: SignedIn, story: Story) -> None:
    client = signed_in(Group.REVIEWER)
    diverged(story)
    story.restart()
    story.propose(epoch=8)
    story.vote(story.production, OTHER_REFUND, epoch=8)
    story.vote(story.replica, REFUND, epoch=8)
    story.decide()
    page = replayed(client, story).content.decode()
    assert "It changed while you looked." in page
    assert "checked with finance" in page
    assert 'name="from_epoch" value="8"' in page
    assert replayed(client, story, seen=8).status_code == 302


@pytest.mark.parametrize("group", [Group.VIEWER, Group.ONCALL, Group.AUDITOR])
def test_only_reviewers_replay_and_judge(signed_in: SignedIn, story: Story, group: Group) -> None:
    client = signed_in(group)
    page = shown(client, diverged(story))
    assert "This is for the group reviewer; you are not in it." in page
    assert replayed(client, story).status_code == 403
    assert judged(client, story).status_code == 403
    assert not EpochOpening.objects.filter(kind="replay").exists()
    assert not Verdict.objects.exists()


def test_nothing_is_done_by_following_a_link(signed_in: SignedIn, story: Story) -> None:
    client = signed_in(Group.REVIEWER)
    diverged(story)
    assert client.get(path_of(story, act="/replay"), {"from_epoch": "7", "reason": "again"}).status_code == 405
    assert client.get(path_of(story, act="/verdict")).status_code == 405


@pytest.mark.parametrize("act", ["/replay", "/verdict"])
def test_an_act_on_a_step_that_is_not_there_is_not_found(signed_in: SignedIn, story: Story, act: str) -> None:
    client = signed_in(Group.REVIEWER)
    body = {"from_epoch": "7", "reason": "again", "epoch": "7", "verdict": "both_wrong"}
    assert client.post(path_of(story, "none", act), body).status_code == 404


# -- verdicts --------------------------------------------------------------------------------------------------------


def judged(client: Client, story: Story, verdict: str = "replica_right", seen: str = "", note: str = "") -> Any:
    body = {"epoch": str(EPOCH), "seen": seen, "verdict": verdict, "note": note}
    return client.post(path_of(story, act="/verdict"), body)


def test_a_verdict_is_stored_with_its_note_and_shown(signed_in: SignedIn, story: Story) -> None:
    client = signed_in(Group.REVIEWER)
    diverged(story)
    answer = judged(client, story, note="the invoice was paid twice")
    assert (answer.status_code, answer["Location"]) == (302, f"{path_of(story)}?epoch=7#main")
    page = shown(client, answer["Location"])
    assert "The replica was right" in page
    assert "the invoice was paid twice" in page
    assert AuditEvent.objects.filter(verb="give_verdict", actor__startswith="lena").count() == 1


def test_a_verdict_has_to_be_chosen(signed_in: SignedIn, story: Story) -> None:
    diverged(story)
    client = signed_in(Group.REVIEWER)
    for wrong in ("", "nobody"):
        assert judged(client, story, verdict=wrong, note="kept").status_code == 422
    assert not Verdict.objects.exists()


def test_of_two_reviewers_the_second_sees_what_the_first_said(signed_in: SignedIn, story: Story, person: Any) -> None:
    diverged(story)
    first = signed_in(Group.REVIEWER)
    second = Client()
    second.force_login(person(Group.REVIEWER, name="omar"))
    judged(first, story, note="first")
    answer = judged(second, story, verdict="both_wrong", note="second")
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "the replica was right (lena)" in page
    assert "no verdict" in page
    newest = Verdict.objects.get()
    assert f'name="seen" value="{newest.id}"' in page
    assert judged(second, story, verdict="both_wrong", seen=str(newest.id)).status_code == 302
    assert Verdict.objects.count() == 2


def test_an_agreement_has_nothing_to_judge(signed_in: SignedIn, story: Story) -> None:
    story.agree()
    client = signed_in(Group.REVIEWER)
    assert "Give a verdict" not in shown(client, path_of(story))
    answer = judged(client, story)
    assert answer.status_code == 409
    assert "there is nothing to judge" in answer.content.decode()
