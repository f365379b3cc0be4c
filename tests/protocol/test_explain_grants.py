"""Grants and refusals in words."""

from typing import Any

import pytest

from fencing.protocol import fence, grants
from fencing.protocol.errors import Code
from fencing.protocol.explain import (
    Heard,
    Story,
    Tone,
    explain_grant,
    explain_refusal,
    explain_tried,
)
from fencing.protocol.fence import Committed, Phase
from tests.protocol.values import NOW, RULES, grant, later, step, vote

# ---- grants ----


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (
            grant(max_uses=2),
            (
                "Live: night-shift-3 lets production alone commit refund in epoch 7, twice, until 02:15:00 UTC (in "
                "60 s); used 0 of 2."
            ),
        ),
        (
            grant(step="pay", tool=None, max_uses=3),
            (
                "Live: night-shift-3 lets production alone commit any tool on step pay in epoch 7, 3 times, until "
                "02:15:00 UTC (in 60 s); used 0 of 3."
            ),
        ),
        (
            grant(expires_at=None, pending_until=later(900)),
            (
                "Pending: night-shift-3 would let production alone commit refund in epoch 7, once, as soon as a "
                "second person approves it before 02:29:00 UTC (in 15 min)."
            ),
        ),
        (
            grant(uses=1),
            (
                "Used up: night-shift-3 let production alone commit refund in epoch 7, once, and every use is taken "
                "(used 1 of 1). What it let through needs it until 02:15:00 UTC."
            ),
        ),
        (
            grant(expires_at=NOW),
            (
                "Expired: night-shift-3 is over since 02:14:00 UTC (used 0 of 1). It lets nothing through, and "
                "stands in nobody's way."
            ),
        ),
        (
            grant(expires_at=None, pending_until=NOW),
            (
                "Expired: night-shift-3 was not approved before 02:14:00 UTC (used 0 of 1). It lets nothing through, "
                "and stands in nobody's way."
            ),
        ),
        (
            grant(revoked_at=later(-86400)),
            (
                "Revoked: night-shift-3 was revoked at 2025-12-31 02:14:00 UTC (used 0 of 1). It lets nothing "
                "through, and stands in nobody's way."
            ),
        ),
        (
            grant(voided_at=NOW),
            (
                "Void: night-shift-3 ended with its epoch or its step's replay at 02:14:00 UTC (used 0 of 1). It "
                "lets nothing through, and stands in nobody's way."
            ),
        ),
    ],
)
def test_the_sentence_of_a_grant(facts: grants.Grant, sentence: str) -> None:
    assert explain_grant(facts, now=NOW).text == sentence


def story(*votes: fence.Vote, **more: Any) -> Story:
    heard = tuple(Heard(path=each.path, at=NOW, digest=each.digest) for each in votes)
    facts = {"step": step(*votes), "reason": None, "rules": RULES, "now": NOW, "heard": heard, **more}
    return Story(**facts)


@pytest.mark.parametrize(
    ("facts", "told_of", "sentence"),
    [
        (grant(), story(vote("replica")), "night-shift-3 did not help: it lets production act, not replica."),
        (grant(), story(), "night-shift-3 was not asked: nobody voted."),
        (
            grant(),
            story(vote("production"), vote("replica")),
            "night-shift-3 was not needed: production and replica voted.",
        ),
        (grant(), story(vote("production")), "night-shift-3 was not needed: it covers what was voted."),
        (
            grant(),
            story(vote("production"), commit=Committed(authority="grant", digest="", grant=grant(), stands=True)),
            "night-shift-3 is what it was committed under.",
        ),
        (
            grant(),
            story(vote("production"), step=step(vote("production"), phase=Phase.FENCED, fenced_by="night-shift-3")),
            "night-shift-3 is what it is fenced under.",
        ),
    ],
)
def test_what_a_grant_did_for_a_step(facts: grants.Grant, told_of: Story, sentence: str) -> None:
    assert explain_tried(facts, told_of).text == sentence


# ---- refusals ----


def test_a_refused_admission_says_that_it_was_an_attempted_escape() -> None:
    sentence = explain_refusal("not_committed", "The step is proposed.", is_admission=True)
    assert sentence.text == "Attempted escape, refused as not committed: The step is proposed. Nothing left."
    assert explain_refusal("not_committed", "No.").text == "Refused, not committed: No."
    waits = explain_refusal("delivery_in_progress", "Another delivery is in flight.", is_admission=True)
    assert (waits.tone, waits.text) == (Tone.WAITING, "Not now, delivery in progress: Another delivery is in flight.")


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_sentence(code: Code) -> None:
    assert explain_refusal(code.value, "Because.", is_admission=True).text
