"""Bounds that no case file can hold, on the live system: sizes, depths, bulk, keys that end, and reads that wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.actors import player_for
from tests.live import LiveSystem
from tests.playing import Names, Player, Reply, Step, fresh_names

REFUND = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
MAX_CANONICAL = 256 * 1024
MAX_DEPTH = 64
# The bytes around the text of `sized`.
FRAME = len('{"args":{"s":""},"tool":"refund"}')


@pytest.fixture(scope="module")
def player(live_system: LiveSystem) -> Player:
    """Everybody's keys for the live system."""
    return player_for(live_system)


@pytest.fixture
def names(player: Player) -> Names:
    """A run in epoch 1 with a proposed step."""
    names = fresh_names()
    player.play_steps([post("planner", "/runs", run="${run}"), propose()], names)
    return names


def post(actor: str, path: str, **body: Any) -> Step:
    return {"as": actor, "call": f"POST {path}", "body": body}


def propose(step: str = "s1", **members: Any) -> Step:
    return post("planner", "/steps", run="${run}", step=step, epoch=1, **members)


def vote(path: str, action: Any, step: str = "s1") -> Step:
    return post(path, "/votes", run="${run}", step=step, epoch=1, action=action)


def expecting(call: Step, status: int, **body: Any) -> Step:
    return {**call, "expect": {"status": status, "body": body}}


def nested(depth: int) -> dict[str, Any]:
    """An action of so many levels: itself, its arguments, and arrays in each other."""
    inner: Any = []
    for _ in range(depth - 3):
        inner = [inner]
    return {"tool": "refund", "args": {"a": inner}}


def sized(length: int, sign: str = "x") -> dict[str, Any]:
    """An action whose canonical form has so many bytes."""
    width = len(sign.encode())
    return {"tool": "refund", "args": {"s": sign * ((length - FRAME) // width) + "x" * ((length - FRAME) % width)}}


def test_an_action_is_as_deep_as_allowed_and_no_deeper(player: Player, names: Names) -> None:
    too_deep = expecting(
        vote("replica", nested(MAX_DEPTH + 1)), 422, code="too_deep", pointer={"$re": "^/action/args/a/0"}
    )
    player.play_steps(
        [
            too_deep,
            expecting(vote("replica", nested(MAX_DEPTH)), 201),
            expecting(vote("production", nested(MAX_DEPTH)), 201),
            {
                "as": "planner",
                "call": "GET /runs/${run}/steps/s1?wait=10",
                "within": 10,
                "expect": {"body": {"phase": "committed"}},
                "save": {"token": "/commit/token"},
            },
            expecting(
                post("gateway", "/gateway/admissions", token="${token}", action=nested(MAX_DEPTH)), 200, admit=True
            ),
            expecting(post("gateway", "/gateway/admissions", action=nested(MAX_DEPTH + 1)), 422, code="too_deep"),
            expecting(propose("s2", action=nested(MAX_DEPTH + 1)), 422, code="too_deep"),
            expecting(propose("s2", action=nested(MAX_DEPTH)), 201),
        ],
        names,
    )


@pytest.mark.parametrize("sign", ["x", "\u20ac", "\U0001f378"])
def test_an_action_is_as_large_as_allowed_and_no_larger(player: Player, names: Names, sign: str) -> None:
    """What counts are the bytes of the canonical form, however many the escapes of the body take."""
    player.play_steps(
        [
            expecting(vote("replica", sized(MAX_CANONICAL + 1, sign)), 413, code="too_large"),
            expecting(vote("replica", sized(MAX_CANONICAL, sign)), 201),
            expecting(vote("production", sized(MAX_CANONICAL, sign)), 201),
            expecting(propose("s2", action=sized(MAX_CANONICAL + 1, sign)), 413, code="too_large"),
            expecting(
                post("gateway", "/gateway/admissions", action=sized(MAX_CANONICAL + 1, sign)), 413, code="too_large"
            ),
            {
                "as": "auditor",
                "call": "GET /side-log?run=${run}&reason=too_large",
                "expect": {"body": {"items": {"$has": {"reason": "too_large"}}}},
            },
            {
                "as": "planner",
                "call": "GET /runs/${run}/steps/s1?wait=10",
                "within": 10,
                "expect": {"body": {"phase": "committed"}},
            },
        ],
        names,
    )


def test_in_a_bulk_one_item_that_is_too_large_or_too_deep_hurts_no_other(player: Player, names: Names) -> None:
    place = {"run": names["run"], "step": "s1", "epoch": 1}
    bodies = [sized(MAX_CANONICAL + 1), nested(MAX_DEPTH + 1), REFUND]
    reply = player.send(post("replica", "/votes", items=[{**place, "action": action} for action in bodies]))
    assert [(each["status"], each.get("code")) for each in reply.body["results"]] == [
        (413, "too_large"),
        (422, "too_deep"),
        (201, None),
    ]


def test_a_bulk_has_a_thousand_items_and_no_more(player: Player) -> None:
    names = fresh_names()
    items = [{"run": f"{names['run']}-{number}"} for number in range(1001)]
    too_many = player.send(post("planner", "/runs", items=items))
    assert (too_many.status, too_many.body["code"]) == (413, "too_many_items")
    reply = player.send(post("planner", "/runs", items=items[:1000]))
    assert [each["status"] for each in reply.body["results"]] == [201] * 1000
    again = player.send(post("planner", "/runs", items=items[:1000]))
    assert {(each["status"], each["duplicate"]) for each in again.body["results"]} == {(200, True)}


def test_a_thousand_steps_are_agreed_in_bulk_and_read_from_the_feed(player: Player) -> None:
    names = fresh_names()
    after = _end_of_feed(player)
    place = {"run": names["run"], "epoch": 1}
    player.play_steps([post("planner", "/runs", run="${run}")], names)
    steps = [{**place, "step": f"s{number}", "key": f"k{number}"} for number in range(1000)]
    assert player.send(post("planner", "/steps", items=steps)).status == 200
    for path in ("replica", "production"):
        votes = [{**place, "step": each["step"], "action": REFUND} for each in steps]
        reply = player.send(post(path, "/votes", items=votes))
        assert {each["status"] for each in reply.body["results"]} == {201}
    tokens: dict[str, str] = {}
    until = time.monotonic() + 60
    while len(tokens) < 1000:
        assert time.monotonic() < until, len(tokens)
        page = player.send({"as": "planner", "call": f"GET /events?after={after}&wait=5&limit=500"}).body
        after = page["next"]
        mine = [item["step"] for item in page["items"] if item["step"]["run"] == names["run"]]
        tokens |= {step["step"]: step["commit"]["token"] for step in mine if step["phase"] == "committed"}
    calls = [{"token": token, "action": REFUND} for token in tokens.values()]
    admitted = player.send(post("gateway", "/gateway/admissions", items=calls)).body["results"]
    assert {each["admit"] for each in admitted} == {True}
    assert len({each["idempotency_key"] for each in admitted}) == 1000
    outcomes = [{"intent": each["intent"], "delivery": each["delivery"], "outcome": "succeeded"} for each in admitted]
    settled = player.send(post("gateway", "/gateway/outcomes", items=outcomes)).body["results"]
    assert {each["state"] for each in settled} == {"succeeded"}


def _end_of_feed(player: Player) -> str:
    page = player.send({"as": "planner", "call": "GET /events?limit=500"}).body
    while page["items"]:
        page = player.send({"as": "planner", "call": f"GET /events?limit=500&after={page['next']}"}).body
    return str(page["next"])


def test_the_feed_tells_each_turn_of_a_step_in_order(player: Player, names: Names) -> None:
    after = _end_of_feed(player)
    hold = {"tool": "hold_for_review", "args": {"invoice": 9}}
    decided = {"as": "planner", "call": "GET /runs/${run}/steps/s1?epoch=1&wait=10", "within": 10}
    replay = post("planner", "/steps/replay", run="${run}", step="s1", from_epoch=1, reason="again")
    player.play_steps(
        [
            vote("replica", REFUND),
            vote("production", REFUND),
            {**decided, "expect": {"body": {"phase": "committed"}}},
            {**vote("third", hold), "expect": {"status": 201}},
            {**decided, "expect": {"body": {"phase": "rejected"}}},
            replay,
        ],
        names,
    )
    items: list[Any] = []
    while len(items) < 3:
        page = player.send({"as": "planner", "call": f"GET /events?after={after}&wait=5"}).body
        after = page["next"]
        items += [each for each in page["items"] if each["step"]["run"] == names["run"]]
    assert [each["what"] for each in items] == ["decided", "revoked", "replayed"]
    assert [each["step"]["epoch"] for each in items] == [1, 1, 2]
    # Each event carries the step as it stands, so a token that was taken back is never read there.
    assert {each["step"]["commit"] is None for each in items} == {True}
    # The same cursor gives the same again, and nothing twice after it.
    assert not [
        each
        for each in player.send({"as": "planner", "call": f"GET /events?after={after}"}).body["items"]
        if each["step"]["run"] == names["run"]
    ]


def answered_while(player: Player, waiting: Step, act: Callable[[], None]) -> tuple[Reply, float]:
    """Send a call that waits, act a moment later, and give the answer and how long it took after the act."""
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(player.send, waiting)
        time.sleep(0.5)
        assert not future.done(), future.result()
        act()
        began = time.monotonic()
        return future.result(30), time.monotonic() - began


def test_a_path_that_waits_hears_of_a_step_at_once(player: Player, names: Names) -> None:
    def quiet() -> bool:
        return not player.send({"as": "third", "call": "GET /votes/wanted"}).body["items"]

    if not quiet():
        pytest.fail("steps of another test wait for the third path")
    reply, seconds = answered_while(
        player,
        {"as": "third", "call": "GET /votes/wanted?wait=20"},
        lambda: player.play_steps([propose("s2", tool="triple_note", context={"why": "asked"})], names),
    )
    (item,) = reply.body["items"]
    assert (item["run"], item["step"], item["need"], item["context"]) == (names["run"], "s2", "vote", {"why": "asked"})
    assert seconds < 15
    player.play_steps([vote("third", {"tool": "triple_note", "args": {}}, "s2")], names)


def test_a_gateway_that_waits_hears_of_an_effect_at_once(player: Player, names: Names) -> None:
    action = {"tool": "close_ticket", "args": {"title": "t"}}
    player.play_steps([vote("replica", action)], names)
    reply, seconds = answered_while(
        player,
        {"as": "gateway", "call": "GET /gateway/wanted?wait=20&tool=close_ticket"},
        lambda: player.play_steps([vote("production", action)], names),
    )
    (item,) = reply.body["items"]
    assert item["action"] == action
    assert seconds < 15
    admitted = player.send(post("gateway", "/gateway/admissions", token=item["token"], action=action)).body
    assert admitted["intent"] == item["intent"]


def test_reads_that_wait_hold_up_nobody(player: Player, names: Names) -> None:
    """More of them than the service has threads, and a vote is heard meanwhile."""
    waiting = {"as": "planner", "call": f"GET /runs/{names['run']}/steps/s1?epoch=1&wait=10"}
    with ThreadPoolExecutor(60) as threads:
        futures = [threads.submit(player.send, waiting) for _ in range(60)]
        time.sleep(1)
        for path in ("replica", "production"):
            player.play_steps([vote(path, REFUND)], names)
        # Votes that were held up until these reads had ended would leave them with a step that is only proposed.
        assert {future.result(30).body["phase"] for future in futures} == {"committed"}


def test_a_key_that_ended_opens_nothing(player: Player, live_system: LiveSystem) -> None:
    name = fresh_names()["u"]
    key = live_system.manage("issue_key", "--role", "planner", "--name", name).stdout.strip()
    own = Player(base_url=player.base_url, keys={"planner": key})
    assert own.send(post("planner", "/runs", run=f"run-{name}")).status == 201
    live_system.manage("revoke_key", name)
    refused = own.send(post("planner", "/runs", run=f"run-{name}"))
    assert (refused.status, refused.body["code"]) == (401, "unauthenticated")

    brief = live_system.manage("issue_key", "--role", "planner", "--name", f"{name}-b", "--expires-in", "1")
    own = Player(base_url=player.base_url, keys={"planner": brief.stdout.strip()})
    time.sleep(1.1)
    assert own.send({"as": "planner", "call": "GET /runs"}).status == 401


def test_a_key_that_calls_too_often_is_told_to_wait(player: Player, live_system: LiveSystem) -> None:
    name = fresh_names()["u"]
    slow = live_system.manage("issue_key", "--role", "auditor", "--name", name, "--rate", "2").stdout.strip()
    own = Player(base_url=player.base_url, keys={"auditor": slow})
    replies = [own.send({"as": "auditor", "call": "GET /tools?limit=1"}) for _ in range(12)]
    refused = [reply for reply in replies if reply.status == 429]
    assert refused
    assert {reply.body["code"] for reply in refused} == {"rate_limited"}
    assert all(int(reply.headers["retry-after"]) >= 1 for reply in refused)
    assert player.send({"as": "auditor", "call": "GET /tools?limit=1"}).status == 200
