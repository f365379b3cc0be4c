"""Every rule that can be seen over HTTP, as cases played against a real system: our own, and those of the suite.

The cases are played beside each other in a few threads, since many of them only wait for a clock; each has a test of
its own here, which tells what it found.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.actors import player_for
from tests.live import TOP, LiveSystem
from tests.playing import Case, load_cases

OWN: Final = load_cases(sorted((Path(__file__).parent / "cases").glob("*.json")))
SUITE: Final = TOP.parent / "shared" / "conformance" / "cases"
FILES: Final = ("fence.json", "http.json", "gateway.json", "grants.json", "grades.json")
# Played as soon as their part is built.
LATER: Final = {"L-08": "the tools' own ledgers"}
THREADS: Final = 6
# What the last cases left due is decided within two ticks.
SETTLED_S: Final = 3


def suite_cases() -> list[Case]:
    """The cases of the suite that touch what is built, where it lies beside this checkout."""
    cases = load_cases(SUITE / name for name in FILES if (SUITE / name).exists())
    return [case for case in cases if case["id"] not in LATER]


GIVEN: Final = suite_cases()


def told(case: Case) -> str:
    """Name a case in a report."""
    return str(case["id"])


@pytest.fixture(scope="module")
def performances(request: pytest.FixtureRequest, live_system: LiveSystem) -> Iterator[Mapping[str, Future[list[str]]]]:
    """The cases of this run that were asked for, being played: the faults of each by its id."""
    specs = (getattr(item, "callspec", None) for item in request.session.items if item.path == Path(__file__))
    named = (spec.params.get("case") for spec in specs if spec is not None)
    # Where the suite does not lie beside the checkout, pytest puts a mark of its own in place of its cases.
    cases = [case for case in named if isinstance(case, dict)]
    player = player_for(live_system)
    # The longest first, or the last one would be waited for alone.
    cases.sort(key=waiting_time, reverse=True)
    with ThreadPoolExecutor(THREADS) as threads:
        yield {case["id"]: threads.submit(player.play, case) for case in cases}
        threads.shutdown(cancel_futures=True)


def waiting_time(case: Case) -> float:
    """How long a case sleeps, in all its variants."""
    return len(case.get("for", [1])) * sum(float(step.get("sleep", 0)) for step in case["steps"])


@pytest.mark.parametrize("case", OWN, ids=told)
def test_our_case_holds(case: Case, performances: Mapping[str, Future[list[str]]]) -> None:
    faults = performances[case["id"]].result()
    assert not faults, "\n".join(faults)


@pytest.mark.skipif(not GIVEN, reason=f"the conformance suite does not lie beside this checkout ({SUITE})")
@pytest.mark.parametrize("case", GIVEN, ids=told)
def test_a_case_of_the_suite_holds(case: Case, performances: Mapping[str, Future[list[str]]]) -> None:
    faults = performances[case["id"]].result()
    assert not faults, "\n".join(faults)


def test_what_is_stored_equals_what_the_facts_tell_after_all_of_them(
    performances: Mapping[str, Future[list[str]]], live_system: LiveSystem
) -> None:
    for performance in performances.values():
        performance.exception()
    time.sleep(SETTLED_S)
    assert "stored states equal recomputed ones" in live_system.manage("recompute").stdout


def test_each_case_has_an_id_of_its_own() -> None:
    ids = [case["id"] for case in [*OWN, *GIVEN]]
    assert len(ids) == len(set(ids))
