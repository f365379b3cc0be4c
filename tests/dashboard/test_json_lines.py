"""A JSON value becomes lines that say exactly what it holds."""

from __future__ import annotations

from dashboard import samples
from dashboard.presenters.json_lines import MAX_LINES, Kind, Line, json_view


def written(lines: tuple[Line, ...]) -> list[str]:
    return [
        "".join(piece.text for piece in line.name)
        + line.kind[0]
        + (line.sign or "".join(piece.text for piece in (line.text.head if line.text else ())))
        for line in lines
    ]


def test_members_and_items_stand_one_a_line() -> None:
    view = json_view({"tool": "refund", "args": {"n": 1, "x": None, "deep": {"in": {"er": [1, 2]}}}})
    assert written(view.lines) == [
        "o{",
        "tooltrefund",
        "argso{",
        "nn1",
        "xwnull",
        "deepo{",
        "ini{er: [1, 2]}",
        "c}",
        "c}",
        "c}",
    ]


def test_a_short_value_stands_on_one_line_unless_something_in_it_is_marked() -> None:
    value = {"line": {"sku": "A", "n": 1}}
    assert len(json_view(value).lines) == 3
    marked = json_view(value, marked={"/line/n"}).lines
    assert [line.pointer for line in marked if line.is_marked] == ["/line/n"]


def test_pointers_escape_what_pointers_must() -> None:
    (_, line, _) = json_view({"a/b~c": 1}).lines
    assert line.pointer == "/a~1b~0c"


def test_a_bare_value_is_a_view_too() -> None:
    assert [line.kind for line in json_view("text").lines] == [Kind.TEXT]
    assert written(json_view({}).lines) == ["b{}"]
    assert written(json_view(value=True).lines) == ["wtrue"]


def test_a_value_with_more_lines_than_fit_is_cut_and_stays_well_formed() -> None:
    view = json_view({"rows": [{"n": n, "more": {"x": {"y": {"z": n}}}} for n in range(3 * MAX_LINES)]})
    opened = sum(line.kind is Kind.OPEN for line in view.lines)
    assert view.cut
    assert opened == sum(line.kind is Kind.CLOSE for line in view.lines)


def test_what_begins_far_down_is_closed_unless_it_holds_something_marked() -> None:
    value = {"rows": [{"n": {"x": {"y": {"z": n}}}} for n in range(100)]}
    view = json_view(value, marked={"/rows/90/n/x/y/z"})
    folds = {line.pointer: line.is_open for line in view.lines if line.kind is Kind.OPEN}
    assert folds["/rows"]
    assert folds["/rows/90"]
    assert not folds["/rows/91"]


def test_an_action_that_nobody_would_like_to_read_can_be_shown() -> None:
    view = json_view(samples.action())
    hidden = [piece.text for line in view.lines if line.text for piece in line.text.head if piece.is_spelt]
    assert "U+202E" in hidden
