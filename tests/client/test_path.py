import itertools
from collections.abc import Callable
from typing import Any

import pytest

from fencing.client import Ballot, Equivocation, NotAllowed, Path, Receipt, Refused, UnknownStep, Wanted
from fencing.client.calls import Lost, Reply
from tests.client.scripted import Answer, Play, ScriptedServer, problem, refused, reply

Make = Callable[..., Any]
REFUND = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
RECORDED = {"vote": "recorded", "phase": "proposed", "digest": "sha256:" + "a" * 64}
PATH = Path("http://127.0.0.1:9", "key")


def wanted(step: str = "s", need: str = "vote", **more: Any) -> dict[str, Any]:
    return {"run": "r", "step": step, "epoch": 7, "need": need, "context": {"invoice": 9}, **more}


def page(*items: dict[str, Any]) -> Reply:
    return reply({"items": list(items), "next": None})


def serve(play: Play, decide: Callable[[Wanted], Any], turns: int) -> list[tuple[str, Receipt | Refused]]:
    """Let a path serve until it was asked so often whether to stop."""
    heard: list[tuple[str, Receipt | Refused]] = []
    stops = iter([False] * turns + [True])
    talk = Path.serve(
        PATH, decide, stop=lambda: next(stops), heard=lambda each, answer: heard.append((each.step, answer))
    )
    play(talk)
    return heard


def votes(play: Play) -> list[Any]:
    return [call.body for call in play.calls if call.path == "/votes"]


def test_a_path_reads_what_it_must_vote_on_and_votes(client: Make, server: ScriptedServer) -> None:
    path = client(Path)
    server.will(
        Answer(body={"items": [wanted(tools=[{"tool": "refund"}])], "next": None}),
        Answer(status=201, body=RECORDED),
    )
    (each,) = path.wanted(wait_s=5)
    assert (each.context, each.tools) == ({"invoice": 9}, [{"tool": "refund"}])
    receipt = path.vote(each.run, each.step, each.epoch, action=REFUND, model="m-1", prompt="p", rationale="because")
    assert (receipt.vote, receipt.digest) == ("recorded", RECORDED["digest"])
    assert server.requests[0].query == {"wait": "5.000"}
    assert server.requests[1].body == {
        "run": "r",
        "step": "s",
        "epoch": 7,
        "action": REFUND,
        "model": "m-1",
        "prompt": "p",
        "rationale": "because",
    }


def test_a_vote_is_repeated_after_a_lost_answer_and_the_second_is_a_duplicate(
    client: Make, server: ScriptedServer
) -> None:
    server.will(Answer(is_dropped=True), Answer(body=RECORDED | {"vote": "duplicate", "duplicate": True}))
    assert client(Path).vote("r", "s", 7, digest="sha256:" + "a" * 64).duplicate


def test_a_second_and_different_vote_is_told_as_equivocation(client: Make, server: ScriptedServer) -> None:
    server.will(problem(409, "equivocation"), problem(404, "unknown_step"))
    path = client(Path)
    with pytest.raises(Equivocation):
        path.vote("r", "s", 7, action=REFUND)
    with pytest.raises(UnknownStep):
        path.vote("r", "s", 7, abstain="no idea")


def test_serving_votes_what_the_function_decides() -> None:
    play = Play(page(wanted("a"), wanted("b")), reply(RECORDED), reply(RECORDED))
    heard = serve(play, lambda each: REFUND if each.step == "a" else Ballot(abstain="not mine"), 3)
    assert [vote.get("action", vote.get("abstain")) for vote in votes(play)] == [REFUND, "not mine"]
    assert [step for step, _ in heard] == ["a", "b"]


def test_a_function_that_fails_abstains_with_its_reason() -> None:
    def decide(_each: Wanted) -> dict[str, Any]:
        raise TimeoutError("the model host is down \ud800")

    play = Play(page(wanted()), reply(RECORDED))
    serve(play, decide, 2)
    assert votes(play) == [{"run": "r", "step": "s", "epoch": 7, "abstain": "TimeoutError: the model host is down ?"}]


def test_an_action_that_cannot_be_voted_becomes_an_abstention() -> None:
    play = Play(page(wanted()), refused(422, "unsafe_number", pointer="/action/args/cents"), reply(RECORDED))
    serve(play, lambda _each: {"tool": "refund", "args": {"cents": 2**60}}, 2)
    assert "unsafe_number at /action/args/cents" in votes(play)[1]["abstain"]


@pytest.mark.parametrize(
    ("status", "code"), [(409, "stale_epoch"), (404, "unknown_step"), (409, "already_committed"), (409, "equivocation")]
)
def test_a_step_that_moved_on_meanwhile_does_not_end_the_loop(status: int, code: str) -> None:
    play = Play(page(wanted("a"), wanted("b")), refused(status, code), reply(RECORDED))
    heard = serve(play, lambda _each: REFUND, 3)
    assert isinstance(heard[0][1], Refused)
    assert isinstance(heard[1][1], Receipt)


def test_a_key_that_may_not_vote_ends_the_loop() -> None:
    with pytest.raises(NotAllowed):
        serve(Play(page(wanted()), refused(403, "forbidden_role")), lambda _each: REFUND, 9)
    with pytest.raises(NotAllowed):
        serve(Play(refused(401, "unauthenticated")), lambda _each: REFUND, 9)


def test_an_outage_is_waited_out() -> None:
    lost = [Lost(is_sent=False, why="nobody listens")] * PATH.repetition.tries
    play = Play(*lost, page(wanted()), reply(RECORDED))
    heard = serve(play, lambda _each: REFUND, 3)
    assert [step for step, _ in heard] == ["s"]
    assert sum(pause.least_s for pause in play.pauses) > 5


def test_a_step_on_which_the_path_abstained_is_decided_again_after_a_rest_that_grows() -> None:
    tries: list[float] = []

    def decide(_each: Wanted) -> Ballot:
        tries.append(play.now)
        return Ballot(abstain="not yet")

    # The step stays listed: an abstention is no vote.
    play = Play(takes_s=0.01, by=lambda call: page(wanted()) if call.method == "GET" else reply(RECORDED))
    serve(play, decide, 200)
    gaps = [later - sooner for sooner, later in itertools.pairwise(tries)]
    assert len(tries) >= 4
    assert gaps == sorted(gaps)
    assert gaps[0] >= 1
    assert gaps[-1] > 2 * gaps[0]


def test_an_action_wanted_after_a_digest_is_sent_with_that_digest_so_that_a_changed_mind_is_refused() -> None:
    play = Play(
        page(wanted()), reply(RECORDED), page(wanted(need="action")), refused(422, "digest_mismatch"), reply(RECORDED)
    )
    serve(play, lambda each: REFUND if each.need == "action" else Ballot(digest=RECORDED["digest"]), 4)
    assert votes(play)[1] == {
        "run": "r",
        "step": "s",
        "epoch": 7,
        "action": REFUND,
        "digest": RECORDED["digest"],
    }
