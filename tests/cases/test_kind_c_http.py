"""Faults that people reported of canonical forms (kind c), sent to the whole system: what is refused leaves nothing.

`test_kind_c.py` plays them through the pure core.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.playing import Names, Player, fresh_names


@pytest.fixture
def names(player: Player) -> Names:
    """A run with one proposed step."""
    names = fresh_names()
    player.play_steps(
        [
            {"as": "planner", "call": "POST /runs", "body": {"run": "${run}"}},
            {"as": "planner", "call": "POST /steps", "body": {"run": "${run}", "step": "s1", "epoch": 1}},
        ],
        names,
    )
    return names


def vote(path: str, names: Names, args: str) -> dict[str, Any]:
    """A vote whose arguments stand in the body as they are written here."""
    raw = '{"run": "%s", "step": "s1", "epoch": 1, "action": {"tool": "refund", "args": %s}}'
    return {"as": path, "call": "POST /votes", "raw": raw % (names["run"], args)}


def votes_on_record(player: Player, names: Names) -> list[Any]:
    found = player.send({"as": "planner", "call": f"GET /runs/{names['run']}/steps/s1?epoch=1"}).body["votes"]
    assert isinstance(found, list)
    return found


def refused(player: Player, call: dict[str, Any]) -> tuple[int, str]:
    """The status and code of a call."""
    reply = player.send(call)
    return reply.status, reply.body["code"]


def test_c04_a_vote_on_a_number_does_not_open_its_neighbour(player: Player, names: Names) -> None:
    for path, number in (("replica", "9007199254740992"), ("production", "9007199254740993")):
        assert refused(player, vote(path, names, f'{{"id": {number}}}')) == (422, "unsafe_number")
    assert votes_on_record(player, names) == []


@pytest.mark.parametrize(
    "args",
    ['{"amount": 1, "amount": 999999}', '{"deep": [{"er": {"amount": 1, "amount": 999999}}]}'],
    ids=["flat", "deep"],
)
def test_c05_a_name_that_stands_twice_reaches_no_vote(player: Player, names: Names, args: str) -> None:
    assert refused(player, vote("production", names, args)) == (422, "duplicate_name")
    assert votes_on_record(player, names) == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_c07_what_is_not_finite_is_neither_stored_nor_sent_back(player: Player, names: Names, number: str) -> None:
    call = vote("production", names, f'{{"score": {number}}}')
    assert refused(player, call) == (422, "not_finite")
    assert votes_on_record(player, names) == []
    rows = player.send({"as": "auditor", "call": f"GET /side-log?reason=not_finite&limit=500&run={names['run']}"})
    assert rows.status == 200
    assert not isinstance(rows.body, str), "a strict reader can read what we send"


def test_c12_a_null_character_is_kept_and_comes_back(player: Player, names: Names) -> None:
    for path in ("replica", "production"):
        assert player.send(vote(path, names, r'{"note": "a\u0000b"}')).status == 201
    steps: list[dict[str, Any]] = [
        {
            "as": "planner",
            "call": "GET /runs/${run}/steps/s1?wait=10",
            "within": 10,
            "expect": {"body": {"phase": "committed"}},
            "save": {"token": "/commit/token", "intent": "/intent/id"},
        },
        {
            "as": "auditor",
            "call": "GET /intents/${intent}",
            "expect": {"body": {"action": {"tool": "refund", "args": {"note": "a\0b"}}}},
        },
        {"as": "auditor", "call": "GET /audit?run=${run}", "expect": {"body": {"items": {"$has": {"verb": "vote"}}}}},
    ]
    player.play_steps(steps, names)


def test_c13_a_number_of_thousands_of_digits_is_refused_at_once_and_hurts_nobody(player: Player, names: Names) -> None:
    assert refused(player, vote("production", names, '{"amount": %s}' % ("9" * 5000))) == (422, "unsafe_number")
    assert player.send(vote("production", names, '{"amount": 1}')).status == 201


@pytest.mark.parametrize(
    "deep",
    ["[" * 20_000 + "]" * 20_000, '{"a":' * 2_000 + "1" + "}" * 2_000, "[" * 20_000],
    ids=["arrays", "objects", "open"],
)
def test_c14_absurd_depth_is_refused_wherever_it_stands(player: Player, names: Names, deep: str) -> None:
    run = names["run"]
    bodies = {
        ("production", "POST /votes"): vote("production", names, f'{{"a": {deep}}}')["raw"],
        ("planner", "POST /steps"): f'{{"run": "{run}", "step": "s2", "epoch": 1, "context": {deep}}}',
        ("gateway", "POST /gateway/admissions"): f'{{"action": {{"tool": "refund", "args": {{"a": {deep}}}}}}}',
        ("gateway", "POST /gateway/outcomes"): (
            f'{{"intent": "x", "delivery": "y", "outcome": "succeeded", "response": {deep}}}'
        ),
        ("planner", "POST /runs"): deep,
    }
    for (actor, call), raw in bodies.items():
        answer = refused(player, {"as": actor, "call": call, "raw": raw})
        assert answer in {(422, "too_deep"), (400, "bad_json")}, call
    assert votes_on_record(player, names) == []
