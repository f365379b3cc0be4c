"""L5 as a table: what each end of a push call comes to; L9: which addresses are closed; breakers and rates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol.addresses import fault_of_address, fault_of_host
from fencing.protocol.breakers import FAULTS, LONGEST_REST_S, Breaker, Bucket, State
from fencing.protocol.errors import Refusal
from fencing.protocol.intents import MAX_BUSY_S, Kind
from fencing.protocol.policies import NothingDone, Policy
from fencing.protocol.pushing import LONGEST_PAUSE_S, End, Ended, classify, pause_s, retry_after_s
from fencing.protocol.tools import ToolDefinition, read_tool

NOW = datetime(2026, 10, 21, 7, 0, tzinfo=UTC)
PLAIN = Policy()
TELLING = Policy(
    nothing_done=(
        NothingDone(status=429),
        NothingDone(status=425),
        NothingDone(status=409, pointer="/code", equals="in_progress"),
    ),
    already_done=(NothingDone(status=409, pointer="/code", equals="exists"),),
)


def answered(status: int, body: Any = None, **values: Any) -> Ended:
    return Ended(how=End.ANSWERED, status=status, body=body, **values)


CASES = [
    (Ended(how=End.NOT_OPENED), PLAIN, Kind.NOT_SENT),
    (Ended(how=End.NOT_BEGUN), PLAIN, Kind.NOT_SENT),
    (Ended(how=End.LOST), PLAIN, Kind.UNKNOWN),
    (answered(200, {"id": 1}), PLAIN, Kind.SUCCEEDED),
    (answered(201, {}), PLAIN, Kind.SUCCEEDED),
    (answered(204), PLAIN, Kind.SUCCEEDED),
    (answered(200), PLAIN, Kind.UNKNOWN),
    (answered(302), PLAIN, Kind.UNKNOWN),
    (answered(304), PLAIN, Kind.UNKNOWN),
    (answered(400), PLAIN, Kind.FAILED),
    (answered(404, {"code": "x"}), PLAIN, Kind.FAILED),
    (answered(408), PLAIN, Kind.UNKNOWN),
    (answered(408), TELLING, Kind.UNKNOWN),
    (answered(409, {"code": "in_progress"}), PLAIN, Kind.UNKNOWN),
    (answered(409, {"code": "in_progress"}), TELLING, Kind.BUSY),
    (answered(409, {"code": "exists"}), PLAIN, Kind.UNKNOWN),
    (answered(409, {"code": "exists"}), TELLING, Kind.SUCCEEDED),
    (answered(409, {"code": "other"}), TELLING, Kind.UNKNOWN),
    (answered(409), TELLING, Kind.UNKNOWN),
    (answered(425), PLAIN, Kind.UNKNOWN),
    (answered(425), TELLING, Kind.BUSY),
    (answered(429), PLAIN, Kind.UNKNOWN),
    (answered(429), TELLING, Kind.BUSY),
    (answered(500), TELLING, Kind.UNKNOWN),
    (answered(503, {}), TELLING, Kind.UNKNOWN),
    (answered(504), PLAIN, Kind.UNKNOWN),
    (answered(101), PLAIN, Kind.UNKNOWN),
    (answered(600), PLAIN, Kind.UNKNOWN),
]


@pytest.mark.parametrize(("ended", "policy", "kind"), CASES)
def test_a_call_comes_to_what_the_table_says(ended: Ended, policy: Policy, kind: Kind) -> None:
    verdict = classify(ended, policy, now=NOW)
    assert verdict.kind is kind
    assert verdict.says
    assert verdict.is_fault is (kind in (Kind.UNKNOWN, Kind.NOT_SENT))
    assert (verdict.response is not None) is (kind in (Kind.SUCCEEDED, Kind.FAILED) and ended.body is not None)


@given(st.sampled_from(End), st.integers(0, 999), st.none() | st.just({}), st.sampled_from([PLAIN, TELLING]))
def test_nothing_failed_or_was_not_done_unless_the_tool_or_the_connection_says_so(
    how: End, status: int, body: Any, policy: Policy
) -> None:
    kind = classify(Ended(how=how, status=status, body=body), policy, now=NOW).kind
    if kind is Kind.FAILED:
        assert how is End.ANSWERED
        assert 400 <= status < 500
        assert status not in (408, 409, 425, 429)
    if kind is Kind.NOT_SENT:
        assert how in (End.NOT_OPENED, End.NOT_BEGUN)
    if how is End.LOST:
        assert kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2.0),
        (" 2 ", 2.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 1680.0),
        ("Wed, 21 Oct 2026 06:28:00 GMT", 0.0),
        ("86400", MAX_BUSY_S),
        ("31536000", MAX_BUSY_S),
        ("9" * 40, MAX_BUSY_S),
        ("Fri, 21 Oct 2099 07:28:00 GMT", MAX_BUSY_S),
        ("-5", None),
        ("²", None),
        ("1e3", None),
        ("", None),
        ("soon", None),
        (None, None),
    ],
)
def test_retry_after_is_read_or_left(text: str | None, seconds: float | None) -> None:
    assert retry_after_s(text, NOW) == seconds


@given(st.text(max_size=40))
def test_no_retry_after_breaks_anything(text: str) -> None:
    seconds = retry_after_s(text, NOW)
    assert seconds is None or 0 <= seconds <= MAX_BUSY_S


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_pauses_grow_and_stay_bounded(tries: int, chance: float) -> None:
    assert 0 < pause_s(tries, chance) <= LONGEST_PAUSE_S
    assert pause_s(tries, chance) <= pause_s(tries + 1, chance) + 1e-9


CLOSED = [
    "127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",  # noqa: S104
    "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:169.254.169.254", "::ffff:10.0.0.1",
    "64:ff9b::7f00:1", "2002:7f00:1::", "fe80::1%eth0", "198.18.0.1", "not an address",
]  # fmt: skip


@pytest.mark.parametrize("address", CLOSED)
def test_addresses_of_this_machine_and_of_private_networks_are_closed(address: str) -> None:
    assert fault_of_address(address) is not None


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_public_addresses_are_open(address: str) -> None:
    assert fault_of_address(address) is None


@pytest.mark.parametrize("host", ["2852039166", "0x7f.1", "0177.0.0.1", "127.1", "localhost", "a.localhost.", "::1"])
def test_a_host_that_is_closed_however_it_is_spelt_is_refused_when_it_is_registered(host: str) -> None:
    spelt = f"[{host}]" if ":" in host else host
    read = read_tool({"tool": "pay", "mode": "push", "endpoint": f"https://{spelt}/pay"})
    assert isinstance(read, Refusal)
    assert read.pointer == "/endpoint"


def test_a_name_is_asked_about_when_it_is_called() -> None:
    assert fault_of_host("localtest.me") is None


def test_what_belongs_to_a_push_tool_lies_at_its_endpoint_s_host() -> None:
    base = {"tool": "pay", "mode": "push", "endpoint": "https://bank.example/pay"}
    good = read_tool({**base, "read_back": "https://bank.example/e/{key}", "ledger": "https://bank.example/l"})
    assert isinstance(good, ToolDefinition)
    for member in ({"read_back": "https://other.example/{key}"}, {"ledger": "https://bank.example:8443/l"}):
        assert isinstance(read_tool({**base, **member}), Refusal)
    assert isinstance(read_tool({**base, "read_back": "https://bank.example/e"}), Refusal)


def test_what_came_later_leaves_older_definitions_with_their_digest() -> None:
    plain = read_tool({"tool": "pay"})
    assert isinstance(plain, ToolDefinition)
    assert not {"read_back", "ledger"} & set(plain.as_json())
    assert not {"max_in_flight", "rate_per_s", "already_done"} & set(plain.policy.as_json())
    paced = read_tool({"tool": "pay", "policy": {"max_in_flight": 3, "rate_per_s": 2, "already_done": [409]}})
    assert isinstance(paced, ToolDefinition)
    again = read_tool(paced.as_json())
    assert again == paced
    assert not [each for each in paced.is_weaker_than(plain) if "flight" in each]


# ---- breakers ----


def test_a_tool_that_does_not_answer_is_left_alone_and_tried_by_one_call() -> None:
    breaker = Breaker()
    for _ in range(FAULTS):
        assert breaker.room(NOW) is None
        breaker = breaker.after(is_fault=True, now=NOW)
    assert (breaker.state, breaker.room(NOW)) == (State.OPEN, 0)
    later = NOW + timedelta(seconds=3)
    assert breaker.room(later) == 1
    probing = breaker.probe(later, 30)
    assert probing.room(later) == 0
    assert probing.room(later + timedelta(seconds=31)) == 1
    assert probing.after(is_fault=False, now=later) == Breaker()
    worse = probing.after(is_fault=True, now=later)
    assert worse.state is State.OPEN
    assert worse.until is not None
    assert breaker.until is not None
    assert worse.until - later > breaker.until - NOW


@given(st.lists(st.booleans(), max_size=60))
def test_a_breaker_rests_for_a_bounded_time_and_any_answer_closes_it(faults: list[bool]) -> None:
    breaker = Breaker()
    for is_fault in faults:
        breaker = breaker.after(is_fault=is_fault, now=NOW)
        if not is_fault:
            assert breaker == Breaker()
        if breaker.until is not None:
            assert breaker.until <= NOW + timedelta(seconds=LONGEST_REST_S)


def test_a_rate_lets_a_second_s_worth_begin_at_once_and_no_more() -> None:
    bucket = Bucket.full(5, NOW)
    assert bucket.tokens == 5
    empty = Bucket(tokens=0, at=NOW)
    assert empty.filled(5, NOW + timedelta(seconds=0.4)).tokens == pytest.approx(2)
    assert empty.filled(5, NOW + timedelta(hours=1)).tokens == 5
    assert empty.filled(5, NOW - timedelta(hours=1)).tokens == 0
