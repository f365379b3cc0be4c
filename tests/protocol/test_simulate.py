"""Section 16: the figures, what each injected class moves, and that the suite can fail."""

import pytest

from fencing.protocol.errors import Code, Refusal
from fencing.protocol.simulate.figures import Figure, figures_of
from fencing.protocol.simulate.traces import Escape, Flags, Gateway, Trace, all_flags, all_traces, play
from fencing.protocol.world.events import Admit
from tests.protocol.faults import ASKED_FOR, Plant, expired_grant_that_vetoes

TRACES = all_traces()


def test_the_figures_are_those_of_the_protocol() -> None:
    assert figures_of(TRACES).lines == (
        "leaky      traces=32 escape_rate=26/32  early=16/32 after_reject=8/32 veto=2/32",
        "leaky      P1_divergent_commits=0/32",
        "enforcing  traces=32 attempted=24/32  early=16/32 after_reject=8/32",
        "enforcing  landed=0/32",
        "enforcing  P1_divergent_commits=0/32",
        "enforcing  P1_without_exemption=0/32 (the grant covers refund alone)",
        "moved      reorder=2/16 divergence=16/16 early_dispatch=16/16 expired_grant=4/16",
    )
    assert figures_of(TRACES).faults == ()


def test_every_combination_of_the_flags_is_played_once_through_both_gateways() -> None:
    assert len({trace.flags for trace in TRACES}) == 32
    assert {flags.name for flags in all_flags()} >= {"plain", "reorder divergence early_dispatch grant expired_grant"}
    assert all({run.gateway for run in trace.runs} == set(Gateway) for trace in TRACES)


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.flags.name)
def test_the_enforcing_gateway_lets_through_exactly_what_was_agreed(trace: Trace) -> None:
    run = trace.run(Gateway.ENFORCING)
    calls = [line for line in run.lines if isinstance(line.event, Admit)]
    last = calls[-1].result
    if trace.flags.divergence:
        assert isinstance(last, Refusal)
        assert last.code is Code.NOT_COMMITTED
    else:
        assert not isinstance(last, Refusal)
        assert last.number == 1
    assert len(calls) == (2 if trace.flags.early_dispatch else 1)


def test_the_leaky_gateway_dispatches_nothing_after_a_leak() -> None:
    run = play(Flags(early_dispatch=True)).run(Gateway.LEAKY)
    assert [line.escape for line in run.lines if isinstance(line.event, Admit)] == [Escape.EARLY]


def test_a_figure_without_anything_counted_is_no_data() -> None:
    assert str(Figure(name="I4_mixed_grades", n=0, of=0)) == "I4_mixed_grades=no data"


@pytest.mark.parametrize("plant", ASKED_FOR[1:4], ids=lambda plant: plant.__name__)
def test_a_planted_fault_changes_the_figures(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert figures_of(all_traces()).faults


def test_a_wrong_figure_says_what_it_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    expired_grant_that_vetoes(monkeypatch)
    faults = figures_of(all_traces()).faults
    assert "attempted=26/32 and must be 24" in faults


def test_a_class_that_moves_nothing_is_a_fault() -> None:
    calm = {trace.flags: trace for trace in TRACES if not trace.flags.grant}
    figures = figures_of(tuple(calm.values()))
    assert "expired_grant moves nothing: the suite could not see it" in figures.faults
