"""Each component as a reader's browser gets it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.template import Context, Template

from dashboard import samples
from dashboard.presenters.acts import Act, Change
from dashboard.presenters.figures import Series, bars
from dashboard.presenters.lists import Filter, FilterBar, Pager, choices
from dashboard.presenters.marks import KINDS

COMPONENTS = Path(__file__).resolve().parents[2] / "templates" / "components"
NOW = datetime(2026, 11, 30, 2, 14, 7, tzinfo=UTC)


def shown(source: str, **values: Any) -> str:
    """Render a template of one line."""
    html = Template("{% load components %}" + source).render(Context({"now": NOW, **values}))
    return " ".join(html.split())


def test_a_state_is_shape_and_colour_and_word() -> None:
    html = shown('{% status "step" "rejected" reason="late_divergence" %}')
    assert 'class="status refused"' in html
    assert 'href="#shape-barred"' in html
    assert ">rejected<" in html
    assert ">late divergence<" in html


def test_every_shape_is_in_the_sprite() -> None:
    sprite = (COMPONENTS / "sprite.html").read_text()
    marks = {mark.shape for _, known in KINDS.items() for mark in known.values()}
    assert all(f'id="shape-{shape}"' in sprite for shape in marks)


def test_every_icon_of_a_place_is_in_the_sprite() -> None:
    from dashboard.places import PLACES  # noqa: PLC0415 - beside its only use

    sprite = (COMPONENTS / "sprite.html").read_text()
    assert [place.icon for place in PLACES if f'id="icon-{place.icon}"' not in sprite] == []


def test_n_of_nothing_is_no_data() -> None:
    html = shown('{% ratio 0 0 "mixed grades" alarm="danger" %}')
    assert "no data" in html
    assert "0 %" not in html
    assert "danger" not in html


def test_n_above_zero_of_what_must_not_be_is_danger() -> None:
    html = shown('{% ratio 1 17961 "landed escapes" alarm="danger" href="/x" %}')
    assert 'class="ratio danger"' in html
    assert '<a class="what" href="/x">landed escapes</a>' in html
    assert "/ 17,961" in html


def test_a_digest_shows_twelve_digits_and_copies_the_whole() -> None:
    digest = samples.digest("a")
    html = shown('{% digest value label="payload" %}', value=digest)
    assert f'data-copy="{digest}"' in html
    assert f">{digest[7:19]}<" in html
    assert f"payload: copy digest {digest}" in html


def test_no_digest_is_told_in_words() -> None:
    assert "no digest" in shown("{% digest None %}")


def test_a_moment_is_exact_for_machines_and_short_for_people() -> None:
    html = shown("{% moment at %}", at=NOW)
    assert 'datetime="2026-11-30T02:14:07.000000Z"' in html
    assert ">02:14:07 UTC<" in html
    assert 'tabindex="0"' in html


def test_a_moment_in_a_row_is_no_stop_of_the_keyboard() -> None:
    assert "tabindex" not in shown("{% moment at short=True %}", at=NOW)


def test_a_sentence_starts_with_its_verdict() -> None:
    html = shown('{% sentence text hue="refused" %}', text="Rejected for <divergence>: nothing has left.")
    assert "<strong>Rejected for &lt;divergence&gt;:</strong> nothing has left." in html


@pytest.mark.parametrize("tag", ["{% spelt text %}", "{% quoted text %}", "{% name text %}", "{% json_view text %}"])
def test_text_from_outside_is_escaped_and_spelt(tag: str) -> None:
    html = shown(tag, text="</script>\u202e<b>")
    assert "</script>" not in html
    assert "<b>" not in html
    assert "&lt;/script&gt;" in html
    assert ">U+202E<" in html


def test_names_of_members_are_escaped_and_spelt_too() -> None:
    html = shown("{% json_view value %}", value={"<b>\u200b": 1})
    assert "<b>" not in html
    assert ">U+200B<" in html


def test_text_from_outside_says_what_may_deceive() -> None:
    assert "mixes Latin and Cyrillic" in shown("{% quoted text %}", text="p\u0430ypal")


def test_a_long_text_waits_behind_a_fold() -> None:
    assert "the rest of 2760 characters" in shown("{% quoted text %}", text=samples.PROSE)


def test_a_long_name_shows_its_ends_and_keeps_the_whole() -> None:
    html = shown('{% name text href="/runs/x" %}', text=samples.LONG_NAME)
    assert f'aria-label="{samples.LONG_NAME}"' in html
    assert samples.LONG_NAME[:16] in html
    assert html.count(samples.LONG_NAME) == 2


def test_a_marked_member_joins_the_walk() -> None:
    html = shown('{% json_view value marked="/a" %}', value={"a": 1})
    assert "data-diff" not in html
    html = shown("{% json_view value marked=marked %}", value={"a": 1, "b": {"c": 2}}, marked=["/a", "/b"])
    assert html.count("data-diff") == 2


def test_an_act_that_is_not_allowed_gives_the_reason_and_no_form() -> None:
    html = shown("{% act act %}", act=Act(id="a", opens="Waive…", says="", url="/x", why_not="You asked for it."))
    assert "You asked for it." in html
    assert 'aria-describedby="a-why"' in html
    assert "<form" not in html


def test_an_act_names_what_was_seen_and_says_what_happens() -> None:
    act = Act(id="a", opens="Replay…", says="Replay pay-invoice into epoch 8", url="/x", seen={"from_epoch": "7"})
    html = shown("{% act act %}", act=act, csrf_token="token")
    assert '<input type="hidden" name="from_epoch" value="7" data-seen>' in html
    assert "Replay pay-invoice into epoch 8</button>" in html
    assert 'value="token"' in html
    assert "open>" not in html


def test_an_act_after_a_conflict_is_open_and_shows_both_sides() -> None:
    act = Act(id="a", opens="…", says="…", url="/x", changes=(Change(what="phase", seen="<i>", now="committed"),))
    html = shown("{% act act %}", act=act)
    assert "open>" in html
    assert "&lt;i&gt;" in html
    assert 'role="alert"' in html


def test_a_field_with_an_error_keeps_its_input_and_says_what_is_wrong() -> None:
    form = samples.ReasonForm({"reason": "short", "verdict": "both"})
    html = shown("{% field form.reason %}", form=form)
    assert "short</textarea>" in html
    assert 'aria-invalid="true"' in html
    assert 'aria-describedby="id_reason_help id_reason_errors"' in html


def test_a_filter_bar_marks_what_is_active() -> None:
    bar = FilterBar(
        filters=(
            Filter(
                name="reason", label="Reason", value="timeout", choices=choices([("timeout", "timeout")], "timeout")
            ),
            Filter(name="run", label="Run", value='"><b>'),
        ),
        clear_url="/runs",
    )
    html = shown("{% filters bar %}", bar=bar)
    assert html.count("filter active") == 2
    assert '<option value="timeout" selected>' in html
    assert "<b>" not in html
    assert 'href="/runs">Show all' in html


def test_a_pager_says_when_there_is_nothing_older() -> None:
    html = shown("{% pager pager %}", pager=Pager(shown=3, what="steps", first_url="", next_url=""))
    assert "3 steps on this page" in html
    assert "no older ones" in html


def test_a_figure_carries_its_numbers_as_data_and_as_a_table() -> None:
    figure = samples.plots(NOW)[1]
    html = shown("{% figure figure %}", figure=figure)
    assert '<script id="plot-gap-spec" type="application/json">' in html
    assert "no data" in html
    assert html.count("<tr>") == 25


def test_a_figure_cannot_end_its_script() -> None:
    figure = bars("x", "x", ["</script>"], [Series(name="</script>", values=[1])])
    assert shown("{% figure figure %}", figure=figure).count("</script>") == 1


def test_an_empty_figure_is_no_data() -> None:
    html = shown("{% figure figure %}", figure=samples.plots(NOW)[3])
    assert "no data" in html
    assert "<script" not in html


def test_a_time_line_quotes_what_comes_from_outside() -> None:
    html = shown('{% timeline value label="history" %}', value=samples.events(NOW))
    assert "</script>" not in html
    assert ">U+202E<" in html
    assert "58 s" in html


def test_nothing_is_said_in_words() -> None:
    html = shown('{% empty "No step has diverged" "In 24 hours." href="/x" link="All" %}')
    assert "No step has diverged" in html
    assert '<a href="/x">All</a>' in html
    assert ">none<" in shown("{% facts items %}", items=[("note", "")])


def test_small_words() -> None:
    assert shown("{{ 21900|seconds }} {{ None|seconds }} {{ 1204|grouped }}") == "6 h 5 min no data 1,204"
    assert shown('{{ "grant_revoked"|words }} {% count 2 "vote" %} {% kbd "n" "p" %}') == (
        "grant revoked 2 votes <kbd>n</kbd> <kbd>p</kbd>"
    )
