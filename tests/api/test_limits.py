"""How much a key may call and be refused, as arithmetic: a flood ends, and nobody else pays for it (H1, N7)."""

from __future__ import annotations

import uuid

from fencing.api.limits import HELD_AT_MOST_S, LEAST_AT_ONCE, Buckets, Held, refusals_of
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.services.allowances import Allowances, Size


def a_caller(rate: int = 2000) -> Caller:
    return Caller(credential_id=uuid.uuid4(), name="replica-1", role=Role.PATH, path="replica", rate_per_s=rate)


def wait_of(refusal: Refusal | None) -> float:
    assert refusal is not None
    assert refusal.code is Code.RATE_LIMITED
    wait = refusal.extras["retry_after"]
    assert isinstance(wait, float)
    return wait


def test_a_bucket_holds_what_it_holds_and_fills_again() -> None:
    allowances, size = Allowances(), Size(most=3, per_s=2)
    assert [allowances.take("a", size, now=10.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert allowances.take("b", size, now=10.0) == 0.0
    assert allowances.take("a", size, now=10.5) == 0.0
    assert allowances.take("a", size, now=1000.0) == 0.0
    assert [allowances.take("a", size, now=1000.0) for _ in range(3)] == [0.0, 0.0, 0.5]


def test_a_debt_is_paid_by_time() -> None:
    allowances, size = Allowances(), Size(most=10, per_s=2)
    allowances.owe("a", size, 10, now=0.0)
    assert allowances.wait_s("a", size, now=0.0) == 0.0
    allowances.owe("a", size, 6, now=0.0)
    assert allowances.wait_s("a", size, now=0.0) == 3.0
    assert allowances.wait_s("a", size, now=2.0) == 1.0
    assert allowances.wait_s("a", size, now=3.5) == 0.0


def test_a_key_that_is_refused_too_much_waits_and_the_others_do_not() -> None:
    buckets, flooding, other = Buckets(), a_caller(), a_caller()
    buckets.charge(flooding, refused=4000, now=0.0)
    assert buckets.take(flooding, now=0.0) is None
    buckets.charge(flooding, refused=1000, now=0.0)
    assert wait_of(buckets.take(flooding, now=0.0)) == 50.0
    assert wait_of(buckets.take(flooding, now=30.0)) == 20.0
    assert buckets.take(flooding, now=50.1) is None
    assert buckets.take(other, now=0.0) is None


def test_what_is_refused_in_a_day_has_a_bound() -> None:
    buckets, flooding, refused = Buckets(), a_caller(), 0
    for tenth in range(36_000):  # an hour, ten bulk calls a second
        if buckets.take(flooding, now=tenth / 10) is None:
            buckets.charge(flooding, refused=1000, now=tenth / 10)
            refused += 1000
    size = refusals_of(flooding)
    assert refused <= size.most + 3600 * size.per_s + 1000


def test_bytes_count_too_and_one_body_never_for_everything() -> None:
    buckets, flooding = Buckets(), a_caller()
    buckets.charge(flooding, refused=1, length=10**9, now=0.0)
    assert buckets.take(flooding, now=0.0) is None
    for _ in range(4):
        buckets.charge(flooding, refused=1, length=10**9, now=0.0)
    assert wait_of(buckets.take(flooding, now=0.0)) > 50


def test_a_slow_key_may_have_one_bulk_refused() -> None:
    slow = a_caller(rate=1)
    assert refusals_of(slow).most == LEAST_AT_ONCE
    assert refusals_of(a_caller(rate=10_000)).per_s == 100


def test_a_key_that_waits_is_known_for_a_few_seconds_only() -> None:
    held = Held()
    held.hold(b"Bearer a", Refusal(code=Code.RATE_LIMITED, detail="d", extras={"retry_after": 60.0}), now=0.0)
    assert wait_of(held.find(b"Bearer a", now=1.0)) == 59.0
    assert held.find(b"Bearer b", now=1.0) is None
    assert held.find(b"Bearer a", now=HELD_AT_MOST_S) is None
    held.hold(b"Bearer a", Refusal(code=Code.RATE_LIMITED, detail="d", extras={"retry_after": 0.001}), now=0.0)
    assert held.find(b"Bearer a", now=0.0) is None
