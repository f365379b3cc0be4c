"""L10 as values: what a freeze is about, which grants it ends, and who lifts it."""

from datetime import datetime

import pytest

from fencing.protocol import freezes, grants
from fencing.protocol.errors import Code
from fencing.protocol.explain import Tone, explain_freeze, explain_grant
from fencing.protocol.freezes import Freeze
from fencing.protocol.grants import FROZEN, Grant
from tests.protocol.values import NOW, grant, later


def freeze(tool: str | None = None, run: str | None = None, at: datetime = NOW, name: str = "f-1") -> Freeze:
    return Freeze(id=name, tool=tool, run=run, at=at)


CALLS = [(run, tool) for run in ("r", "q", None) for tool in ("refund", "mail", None)]


@pytest.mark.parametrize(
    ("frozen", "covered"),
    [
        (freeze(), set(CALLS)),
        (freeze("refund"), {("r", "refund"), ("q", "refund"), (None, "refund")}),
        (freeze(run="r"), {("r", "refund"), ("r", "mail"), ("r", None)}),
        (freeze("refund", "r"), {("r", "refund")}),
    ],
)
def test_a_freeze_covers_its_scope_and_nothing_else(
    frozen: Freeze, covered: set[tuple[str | None, str | None]]
) -> None:
    assert {(run, tool) for run, tool in CALLS if freezes.covers(frozen, run=run, tool=tool)} == covered


def test_the_oldest_freeze_is_told_by_name_and_scope() -> None:
    both = [freeze(at=later(5), name="young"), freeze("refund", at=NOW, name="old")]
    refusal = freezes.check_frozen(both, run="r", tool="refund")
    assert refusal is not None
    assert (refusal.code, refusal.extras["freeze"]) == (Code.FROZEN, "old")
    assert "froze tool refund at 2026-01-01T02:14:00.000000Z" in refusal.detail
    assert freezes.check_frozen(both[1:], run="r", tool="mail") is None
    assert freezes.check_frozen([], run="r", tool="refund") is None


@pytest.mark.parametrize(
    ("facts", "tool", "of_step", "ends"),
    [
        (grant(), "refund", None, True),
        (grant(), None, None, True),
        (grant(), "mail", None, False),
        (grant(tool=None, step="pay"), "refund", "refund", True),
        (grant(tool=None, step="pay"), "refund", "mail", False),
        (grant(tool=None, step="pay"), "refund", None, False),
        (grant(tool=None, step="pay"), None, None, True),
        (grant(step="pay"), "refund", "mail", True),
        (grant(uses=1), "refund", None, True),
        (grant(expires_at=None, pending_until=later(900)), "refund", None, True),
        (grant(expires_at=NOW), "refund", None, False),
        (grant(uses=1, expires_at=NOW), "refund", None, False),
        (grant(uses=1, expired_at=NOW), "refund", None, False),
        (grant(revoked_at=NOW), "refund", None, False),
        (grant(voided_at=NOW), None, None, False),
    ],
)
def test_a_freeze_ends_what_is_not_over_and_in_its_scope(
    facts: Grant, tool: str | None, of_step: str | None, *, ends: bool
) -> None:
    assert grants.is_voided_by_freeze(facts, tool=tool, tool_of_step=of_step, now=NOW) is ends


def test_what_rests_on_a_grant_that_a_freeze_ended_is_revoked_and_not_closed_with_its_epoch() -> None:
    assert grants.ended_as(grant(voided_at=NOW, void_reason=FROZEN), NOW) == "grant_revoked"
    assert grants.ended_as(grant(voided_at=NOW, void_reason="epoch_closed"), NOW) == "epoch_closed"


def test_the_one_who_set_it_is_told_so_before_anything_else() -> None:
    lifted = {"by": "bob", "at": "2026-01-01T02:14:00.000000Z"}
    for known in (None, lifted):
        refusal = freezes.check_lift(by_setter=True, lifted=known)
        assert refusal is not None
        assert refusal.code is Code.OWN_FREEZE
    late = freezes.check_lift(by_setter=False, lifted=lifted)
    assert late is not None
    assert (late.code, late.extras) == (Code.ALREADY_DECIDED, {"decided_by": "bob", "decided_at": lifted["at"]})
    assert freezes.check_lift(by_setter=False, lifted=None) is None


def test_a_freeze_is_told_in_one_sentence() -> None:
    stands = explain_freeze(tool=None, run="run-88", by="ann", at=NOW, reason="wrong\u202e", lifted=None, now=later(60))
    assert stands.tone is Tone.REFUSED
    assert stands.text == (
        "Run run-88 is frozen: ann set it at 02:14:00 UTC: “wrong[U+202E]”. Nothing of it is admitted, and no grant of "
        "it is live, until another person lifts it."
    )
    lifted = explain_freeze(
        tool="refund", run=None, by="ann", at=NOW, reason="wrong", lifted=("bob", later(60)), now=later(90)
    )
    assert lifted.text == (
        "Tool refund was frozen: ann set it at 02:14:00 UTC: “wrong”. bob lifted it at 02:15:00 UTC."
    )


def test_a_grant_that_a_freeze_ended_says_so() -> None:
    assert (
        "was ended by a freeze at 02:14:00 UTC" in explain_grant(grant(voided_at=NOW, void_reason=FROZEN), now=NOW).text
    )
