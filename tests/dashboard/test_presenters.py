"""Values become what pages show, without a database."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import plotly.graph_objects  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import samples
from dashboard.presenters import digests, figures, lists, marks, moments, numbers, sentences, timelines
from dashboard.presenters.marks import Hue, Shape, mark_of
from fencing.protocol.fence import Phase

NOW = datetime(2026, 11, 30, 2, 14, 7, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("phase", "shape"),
    [
        ("committed", Shape.FILLED),
        ("proposed", Shape.HOLLOW),
        ("fenced", Shape.HALF),
        ("rejected", Shape.BARRED),
    ],
)
def test_a_phase_has_the_shape_of_the_brief(phase: str, shape: Shape) -> None:
    assert mark_of("step", phase).shape is shape


def test_every_phase_of_the_core_has_a_mark() -> None:
    assert {phase.value for phase in Phase} <= marks.KINDS["step"].keys()


@pytest.mark.parametrize("kind", marks.KINDS)
def test_two_states_of_a_kind_never_look_alike_without_colour(kind: str) -> None:
    seen = [(mark.shape, mark.word) for mark in marks.KINDS[kind].values()]
    assert len(set(seen)) == len(seen)


def test_danger_is_kept_for_what_left_and_should_not_have() -> None:
    dangers = {
        (kind, state) for kind, known in marks.KINDS.items() for state, m in known.items() if m.hue is Hue.DANGER
    }
    assert dangers == {("incident", "landed_escape"), ("incident", "doubled"), ("check", "broken")}


def test_a_state_that_the_table_lacks_is_shown_by_its_name() -> None:
    assert mark_of("step", "brand_new").word == "brand new"


def test_no_data_is_never_a_zero() -> None:
    for n, of in ((0, 0), (None, 5), (0, None)):
        assert not numbers.ratio(n, of, "x").has_data


def test_an_n_above_zero_takes_the_colour_of_its_alarm() -> None:
    assert numbers.ratio(1, 17961, "landed escapes", alarm=Hue.DANGER).hue is Hue.DANGER
    assert numbers.ratio(0, 17961, "landed escapes", alarm=Hue.DANGER).hue is Hue.GOOD
    assert numbers.ratio(3, 9, "votes").hue is Hue.NEUTRAL


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.0004, "0 ms"),
        (0.012, "12 ms"),
        (0.0996, "0.1 s"),
        (0.4, "0.4 s"),
        (1.8, "1.8 s"),
        (41.2, "41 s"),
        (60, "1 min"),
        (492, "8 min 12 s"),
        (21_900, "6 h 5 min"),
        (86_400, "1 d"),
        (273_600, "3 d 4 h"),
        (-79, "-1 min 19 s"),
    ],
)
def test_a_duration_reads_in_two_units_at_most(seconds: float, words: str) -> None:
    assert numbers.seconds(seconds) == words


@pytest.mark.parametrize(("octets", "words"), [(812, "812 B"), (61_440, "60 KiB"), (1_572_864, "1.5 MiB")])
def test_a_size_reads_in_powers_of_1024(octets: int, words: str) -> None:
    assert numbers.size(octets) == words


def test_a_count_has_its_noun() -> None:
    assert [numbers.plural(n, "vote") for n in (0, 1, 1204)] == ["0 votes", "1 vote", "1,204 votes"]
    assert numbers.plural(2, "entry", "entries") == "2 entries"


def test_equal_digests_have_equal_patterns_and_others_differ() -> None:
    one, other = samples.digest("a"), samples.same_start("a")
    assert digests.chip(one) == digests.chip(one)
    assert digests.chip(one).short == digests.chip(other).short
    assert digests.chip(one).pattern != digests.chip(other).pattern


@given(st.binary(min_size=32, max_size=32))
def test_a_pattern_stays_in_its_square(data: bytes) -> None:
    for column, row in re.findall(r"M(\d)(?: )(\d)", digests.pattern(data.hex())):
        assert int(column) < digests.SIDE > int(row)


@pytest.mark.parametrize("text", ["", "sha256:", "no digest", "sha256:xyz", "ab"])
def test_what_is_no_digest_has_no_pattern(text: str) -> None:
    assert digests.chip(text).pattern == ""


def test_a_moment_of_today_leaves_its_date_out() -> None:
    told = moments.moment(NOW - timedelta(hours=1), NOW)
    assert told == moments.Moment(
        iso="2026-11-30T01:14:07.123456Z", exact="2026-11-30 01:14:07.123456 UTC", short="01:14:07 UTC"
    )


def test_a_moment_of_another_day_keeps_it() -> None:
    told = moments.moment("2026-11-29T23:59:59.000001Z", NOW)
    assert told is not None
    assert told.short == "2026-11-29 23:59:59 UTC"


def test_a_moment_of_another_zone_is_told_in_utc() -> None:
    told = moments.moment(datetime(2026, 11, 30, 3, 0, tzinfo=timezone(timedelta(hours=1))), NOW)
    assert told is not None
    assert told.short == "02:00:00 UTC"


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        moments.moment("2026-11-29T23:59:59")


@pytest.mark.parametrize(
    ("text", "head", "rest"),
    [
        ("Rejected for divergence: nothing has left.", "Rejected for divergence:", "nothing has left."),
        ("Committed by **agreement**: both asked.", "Committed by agreement:", "both asked."),
        ("It waits. Nothing has left.", "It waits.", "Nothing has left."),
        ("No more than this", "No more than this", ""),
        ("At 02:14:07 UTC it left. Once.", "At 02:14:07 UTC it left.", "Once."),
    ],
)
def test_a_sentence_is_cut_after_its_verdict(text: str, head: str, rest: str) -> None:
    assert sentences.sentence(text) == sentences.Sentence(head=head, rest=rest)


def test_events_stand_in_order_on_a_true_scale() -> None:
    mark = mark_of("vote", "voted")
    told = [(10, "c"), (0, "a"), (1, "b")]
    made = timelines.timeline([timelines.Event(at=NOW + timedelta(seconds=s), mark=mark, text=t) for s, t in told])
    assert [(entry.text, entry.x, entry.gap) for entry in made.entries] == [
        ("a", 0, ""),
        ("b", 100, "1.0 s"),
        ("c", 1000, "9.0 s"),
    ]
    assert made.span == "10 s"


def test_events_of_one_instant_keep_their_order() -> None:
    mark = mark_of("vote", "voted")
    made = timelines.timeline([timelines.Event(at=NOW, mark=mark, text=text) for text in "ab"])
    assert [(entry.text, entry.x) for entry in made.entries] == [("a", 0), ("b", 0)]


def test_nothing_happened_is_a_time_line_too() -> None:
    assert timelines.timeline([]) == timelines.Timeline(entries=(), span="")


def test_a_longer_gap_is_never_drawn_shorter() -> None:
    drawn = [timelines.gap_size(gap) for gap in (0, 0.001, 0.4, 2, 60, 3600, 86_400, 8_640_000)]
    assert drawn == sorted(drawn)
    assert (drawn[0], drawn[-1]) == (0, 6)


def test_every_figure_fits_the_schema_of_plotly() -> None:
    for figure in samples.plots(NOW):
        plotly.graph_objects.Figure(figure.spec)


def test_a_table_says_what_its_figure_draws() -> None:
    series = [figures.Series(name="median", values=[0.5, None, 2])]
    made = figures.lines("gap", "Gap", ["a", "b", "c"], series, figures.Words(first="hour", unit="s"))
    assert made.columns == ("hour", "median (s)")
    assert made.rows == (("a", "0.5"), ("b", "no data"), ("c", "2"))
    assert made.spec["layout"]["yaxis"]["ticksuffix"] == " s"


def test_a_figure_of_gaps_alone_has_no_data() -> None:
    assert figures.bars("x", "X", ["a"], [figures.Series(name="n", values=[None])]).is_empty


def test_a_pager_keeps_the_filters_and_leaves_the_part_out() -> None:
    made = lists.pager(
        shown=50,
        what="steps",
        path="/runs",
        query={"tool": "a&b", "cursor": "x", "part": "rows", "run": ""},
        next_cursor="y",
    )
    assert made.next_url == "/runs?tool=a%26b&cursor=y"
    assert made.first_url == "/runs?tool=a%26b"


def test_the_first_page_has_no_way_back_and_the_last_none_on() -> None:
    made = lists.pager(shown=2, what="steps", path="/runs", query={}, next_cursor=None)
    assert (made.first_url, made.next_url) == ("", "")
