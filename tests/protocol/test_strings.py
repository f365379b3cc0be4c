"""Random and exhaustive strings: repeatable, not empty of meaning, and told so that a page can play them again."""

import json
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from fencing.protocol import branches, compensations
from fencing.protocol.ledgers import Match
from fencing.protocol.simulate import forms, stage, symbols
from fencing.protocol.simulate.forms import NoTrace, read_trace, replayed, trace_form
from fencing.protocol.simulate.strings import Tally, opening, play, play_again, random_string, try_all, try_random
from fencing.protocol.world import World
from fencing.protocol.world.events import Event, Work
from tests.length import long_or
from tests.protocol.faults import replica_alone

SEEDS = 400
"""In so many strings every kind of event happens."""


def some(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - a seed, no secret


def test_random_strings_break_nothing_and_reach_what_matters() -> None:
    tally = Tally()
    count, length = long_or((400, 40), long=(100_000, 70))
    assert try_random(count, some(7), tally=tally, length=length) is None
    assert all(figure.is_right for figure in tally.figures)
    reached = {name for name, number in tally.seen.items() if number}
    assert reached >= {
        "step committed agreement",
        "step committed grant",
        "step committed effect_failed",
        "step rejected divergence",
        "step rejected equivocation",
        "step rejected late_divergence",
        "step rejected superseded",
        "step rejected timeout",
        "step exempt read_only",
        "step agreed agreement",
        "admit taken",
        "admit not_committed",
        "admit payload_mismatch",
        "admit revoked",
        "admit in_doubt",
        "admit delivery_in_progress",
        "report outcome_conflict",
        "resolve taken",
        "replay taken",
        "restart stale_epoch",
        "cast stale_epoch",
        "cast equivocation",
        "cast already_committed",
    }
    assert reached >= {f"branch {state.value}" for state in branches.State}
    assert reached >= {f"row {match.value}" for match in Match}
    assert reached >= {"generation 2", "step rejected branch_lost", "adopt taken", "reconcile already_reconciled"}
    undoings = [name.split() for name in reached if name.startswith("undoing ")]
    assert {state for _, state, _ in undoings} >= set(compensations.State) - {compensations.State.WAIVED}
    assert {cause for *_, cause in undoings} == set(compensations.Cause)


def test_every_short_string_keeps_the_invariants() -> None:
    tally = Tally()
    assert try_all(long_or(3, long=5), tally=tally) is None
    assert tally.strings > 1000
    assert all(figure.is_right for figure in tally.figures)


def test_a_seed_makes_the_same_strings_each_time() -> None:
    first, second = ([symbol.name for symbol in random_string(some(3))] for _ in range(2))
    assert first == second
    assert first != [symbol.name for symbol in random_string(some(4))]


def test_the_exhaustive_search_gives_a_shortest_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    replica_alone(monkeypatch)
    found = try_all(4, tally=Tally())
    assert found is not None
    assert [type(event).__name__ for _, event in found.happenings] == ["Propose", "Cast", "Work"]
    assert found.violations[0].property == "I1"


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    try_random(100, some(1), tally=Tally(), progress=lambda *numbers: told.append(numbers))
    assert told == [(50, 100), (100, 100)]


def test_a_letter_that_means_nothing_here_is_passed_over() -> None:
    played = play([symbols.admit("a token"), symbols.again(), symbols.WORK], opening())
    assert [event for _, event in played.happenings] == [Work()]


# ---- forms ----


def happenings() -> tuple[Any, ...]:
    """One event of every kind, at least."""
    found: dict[type, Any] = {}
    for seed in range(SEEDS):
        for happening in play(random_string(some(seed)), opening()).happenings:
            found.setdefault(type(happening[1]), happening)
        if len(found) == len(forms.KINDS):
            break
    return tuple(sorted(found.values(), key=lambda each: each[0]))


def test_every_event_is_written_and_read_back() -> None:
    written = json.loads(json.dumps(trace_form(happenings(), property="I1")))
    assert len(written["events"]) == len(forms.KINDS)
    assert read_trace(written, stage.tools) == happenings()


def test_a_trace_is_played_again_to_the_same_end() -> None:
    played = play(random_string(some(5)), opening())
    again = play_again(played.happenings, opening())
    worlds = replayed(played.happenings, World.opened(stage.tools))
    assert again.scene.world.record == played.scene.world.record == worlds[-1].record
    assert len(worlds) == len(played.happenings) + 1


@pytest.mark.parametrize(
    "form",
    [
        None,
        [],
        {},
        {"format": "fence-trace/2", "events": []},
        {"format": "fence-trace/1", "events": None},
        {"format": "fence-trace/1", "events": [{}]},
        {"format": "fence-trace/1", "events": [{"at": "yesterday", "event": {"kind": "work"}}]},
        {"format": "fence-trace/1", "events": [{"at": "2026-01-01T00:00:00Z", "event": {"kind": "exec"}}]},
        {"format": "fence-trace/1", "events": [{"at": "2026-01-01T00:00:00Z", "event": {"kind": "work", "x": 1}}]},
        {"format": "fence-trace/1", "events": [{"at": "2026-01-01T00:00:00Z", "event": "work"}]},
        {
            "format": "fence-trace/1",
            "events": [{"at": "2026-01-01T00:00:00Z", "event": {"kind": "admit", "action": 1}}],
        },
    ],
)
def test_what_is_no_trace_is_told_so(form: Any) -> None:
    with pytest.raises(NoTrace):
        read_trace(form, stage.tools)


@pytest.mark.parametrize(("_at", "event"), happenings())
def test_an_event_is_told_in_one_line(_at: timedelta, event: Event) -> None:
    line = forms.event_text(event)
    assert line.startswith(type(event).__name__.lower())
    assert line.isprintable()
    assert len(line) < 400
