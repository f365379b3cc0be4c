import pytest

from fencing.client.calls import Call, Lost, Repeat
from fencing.client.errors import Refused, TryLater, Unreachable
from fencing.client.repetition import ONCE, Repetition, asked
from tests.client.scripted import Play, refused, reply

READ = Call(method="GET", path="/runs/r")
ADMISSION = Call(method="POST", path="/gateway/admissions", body={}, repeat=Repeat.UNSENT)
CUT = Lost(is_sent=True, why="the connection broke")
CLOSED = Lost(is_sent=False, why="nobody listens")
THREE = Repetition(tries=3, first_s=1, growth=2, longest_s=10, jitter=0.5)


def test_a_call_whose_answer_was_lost_is_sent_again() -> None:
    play = Play(CUT, CUT, reply({"run": "r"}))
    assert play(asked(READ, THREE)) == {"run": "r"}
    assert play.calls == [READ] * 3


def test_tries_end_and_the_error_tells_how_many_there_were() -> None:
    play = Play(CUT, CLOSED, CUT)
    with pytest.raises(Unreachable, match="tried 3 times") as caught:
        play(asked(READ, THREE))
    assert (caught.value.attempts, caught.value.sent) == (3, True)


def test_an_admission_whose_answer_was_lost_is_never_sent_again() -> None:
    play = Play(CUT)
    with pytest.raises(Unreachable) as caught:
        play(asked(ADMISSION, THREE))
    assert caught.value.sent
    assert play.calls == [ADMISSION]


def test_an_admission_that_never_left_may_be_sent() -> None:
    play = Play(CLOSED, reply({"admit": True}))
    assert play(asked(ADMISSION, THREE)) == {"admit": True}


def test_an_admission_stops_at_the_first_that_left_even_after_some_that_did_not() -> None:
    play = Play(CLOSED, CUT)
    with pytest.raises(Unreachable):
        play(asked(ADMISSION, THREE))
    assert len(play.calls) == 2


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_an_admission_is_not_repeated_by_machine_after_any_answer(status: int) -> None:
    play = Play(refused(status, "unavailable"))
    with pytest.raises((TryLater, Unreachable)):
        play(asked(ADMISSION, THREE))
    assert play.calls == [ADMISSION]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_other_calls_are_repeated_when_the_service_or_its_proxy_asks_for_patience(status: int) -> None:
    play = Play(refused(status, "unavailable"), reply({}))
    assert play(asked(READ, THREE)) == {}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500])
def test_a_refusal_is_a_result_and_is_not_asked_for_twice(status: int) -> None:
    play = Play(refused(status, "some_code"))
    with pytest.raises(Refused):
        play(asked(READ, THREE))
    assert play.calls == [READ]


def test_pauses_grow_to_a_limit_and_leave_a_share_to_chance() -> None:
    patient = Repetition(tries=6, first_s=1, growth=3, longest_s=10, jitter=0.5)
    pauses = [patient.pause_after(attempt, None) for attempt in range(1, 6)]
    assert [(pause.least_s, pause.spread_s) for pause in pauses if pause] == [
        (0.5, 0.5),
        (1.5, 1.5),
        (4.5, 4.5),
        (5.0, 5.0),
        (5.0, 5.0),
    ]
    assert patient.pause_after(6, None) is None


def test_a_retry_after_is_never_undercut() -> None:
    play = Play(reply({}, 429, **{"retry-after": "7"}), reply({}))
    play(asked(READ, THREE))
    assert play.pauses[0].least_s >= 7


def test_a_retry_after_beyond_all_patience_ends_the_repetition_and_is_told() -> None:
    play = Play(reply({"code": "rate_limited"}, 429, **{"retry-after": "11"}))
    with pytest.raises(TryLater) as caught:
        play(asked(READ, THREE))
    assert caught.value.retry_after_s == 11


def test_a_retry_after_that_is_a_date_leaves_the_pause_to_the_client() -> None:
    play = Play(reply({}, 503, **{"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}), reply({}))
    assert play(asked(READ, THREE)) == {}


def test_once_is_once() -> None:
    play = Play(CLOSED)
    with pytest.raises(Unreachable, match="tried 1 time"):
        play(asked(READ, ONCE))
