from datetime import UTC, datetime

import pytest

from fencing.client.errors import BadAnswer
from fencing.client.objects import Admission, Run, Step, Wanted, read, read_list

STEP = {
    "run": "r",
    "step": "s",
    "epoch": 7,
    "phase": "committed",
    "reason": "agreement",
    "deadline_at": "2026-01-02T03:04:05.000006Z",
    "votes": [{"path": "replica", "digest": "sha256:ab", "abstain": None, "late": False, "received_at": None}],
    "commit": {"token": "t", "authority": "agreement", "grant": None, "payload_digest": "sha256:ab", "key": "k"},
    "revoked": None,
    "brand_new": {"a": 1},
}


def test_a_step_is_read_with_all_that_hangs_on_it() -> None:
    step = read(Step, STEP)
    assert step.commit is not None
    assert (step.commit.token, step.commit.authority) == ("t", "agreement")
    assert step.votes is not None
    assert [vote.path for vote in step.votes] == ["replica"]
    assert step.deadline_at == datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert step.is_decided


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"phase": None}, "/phase"),
        ({"epoch": "7"}, "/epoch"),
        ({"epoch": True}, "/epoch"),
        ({"deadline_at": "soon"}, "/deadline_at"),
        ({"votes": [{"digest": "x"}]}, "/votes/0/path"),
        ({"votes": "none"}, "/votes"),
        ({"commit": []}, "/commit"),
    ],
)
def test_an_answer_of_another_shape_is_refused_with_its_place(change: dict[str, object], place: str) -> None:
    with pytest.raises(BadAnswer, match=place):
        read(Step, STEP | change)


def test_a_missing_member_is_named() -> None:
    with pytest.raises(BadAnswer, match="/counter"):
        read(Run, {"run": "r", "epoch": 1})


def test_a_yes_has_to_be_a_truth_value() -> None:
    with pytest.raises(BadAnswer):
        read(Admission, {"admit": "true"})


@pytest.mark.parametrize("wrap", [lambda items: items, lambda items: {"items": items, "next": None}])
def test_a_list_is_read_bare_or_as_a_page(wrap: object) -> None:
    items = [{"run": "r", "step": "s", "epoch": 1, "need": "vote"}]
    assert read_list(Wanted, wrap(items))[0].need == "vote"  # type: ignore[operator]


def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(BadAnswer):
        read_list(Wanted, {"results": []})
