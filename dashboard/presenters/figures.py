"""Figures for Plotly as plain JSON, each with the table of the same numbers that stands beneath it.

Colours are names of tokens (`var(--good)`): the browser puts in what the theme says. Tests hold each figure against
Plotly's own schema, so that no request pays for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dashboard.presenters.marks import Hue
from dashboard.presenters.numbers import grouped

Spec = dict[str, Any]
Cell = str | int | float | None

HEIGHT: Final = 220
_AXIS: Final[Spec] = {
    "automargin": True,
    "fixedrange": True,
    "zeroline": False,
    "showline": True,
    "linecolor": "var(--line)",
    "gridcolor": "var(--line)",
    "tickfont": {"size": 11, "color": "var(--ink-3)"},
    # Ticks that are not seen keep the words off the line.
    "ticks": "outside",
    "ticklen": 5,
    "tickcolor": "rgba(0,0,0,0)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One row of numbers with its name and colour; None is a gap, not a zero."""

    name: str
    values: Sequence[float | None]
    hue: Hue = Hue.NEUTRAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure: `spec` is what Plotly draws, `columns` and `rows` say the same. `id` is unique on its page."""

    id: str
    title: str
    spec: Spec
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to draw."""
        return not self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words around a figure: the heading of the labels, the unit of the values, a note beneath.

    `is_lying` lays bars on their side, for long labels.
    """

    first: str = ""
    unit: str = ""
    note: str = ""
    is_lying: bool = False


PLAIN: Final = Words()


def bars(name: str, title: str, labels: Sequence[str], series: Sequence[Series], words: Words = PLAIN) -> Figure:
    """Draw series as stacked bars over labels (times, reasons)."""
    first, second = ("y", "x") if words.is_lying else ("x", "y")
    traces = [
        {
            "type": "bar",
            "name": one.name,
            first: list(labels),
            second: list(one.values),
            "orientation": "h" if words.is_lying else "v",
            "marker": {"color": f"var(--{_ink(one.hue)})"},
        }
        for one in series
    ]
    layout: Spec = {"barmode": "stack", "bargap": 0.45 if words.is_lying else 0.25}
    if words.is_lying:
        layout["yaxis"] = {**_AXIS, "type": "category", "autorange": "reversed", "showgrid": False}
        layout["xaxis"] = {**_AXIS, "rangemode": "tozero"}
    return _drawn(name, title, {"data": traces, "layout": layout}, labels, series, words)


def lines(name: str, title: str, labels: Sequence[str], series: Sequence[Series], words: Words = PLAIN) -> Figure:
    """Draw series as lines over labels."""
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": one.name,
            "x": list(labels),
            "y": list(one.values),
            "connectgaps": False,
            "line": {"color": f"var(--{_ink(one.hue)})", "width": 1.75},
        }
        for one in series
    ]
    return _drawn(name, title, {"data": traces, "layout": {}}, labels, series, words)


def figure(
    name: str, title: str, spec: Spec, *, columns: Sequence[str], rows: Sequence[Sequence[Cell]], note: str = ""
) -> Figure:
    """Take any Plotly figure (`{"data": …, "layout": …}`): its layout gets the house's fonts, colours and margins.

    `name` is the figure's id on its page. Without rows it is shown as "no data".
    """
    layout = {**base_layout(), **spec.get("layout", {})}
    return Figure(
        id=name,
        title=title,
        spec={"data": spec["data"], "layout": layout},
        columns=tuple(columns),
        rows=tuple(tuple(_written(cell) for cell in row) for row in rows),
        note=note,
    )


def base_layout() -> Spec:
    """Give the layout that all figures share."""
    return {
        "height": HEIGHT,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 12, "color": "var(--ink-2)"},
        "xaxis": {**_AXIS, "showgrid": False},
        "yaxis": {**_AXIS, "rangemode": "tozero"},
        "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
        "hovermode": "closest",
        # A finger that scrolls the page must get past a figure.
        "dragmode": False,
        "hoverlabel": {"bgcolor": "var(--surface)", "bordercolor": "var(--line-2)", "font": {"color": "var(--ink)"}},
    }


def _drawn(name: str, title: str, spec: Spec, labels: Sequence[str], series: Sequence[Series], words: Words) -> Figure:
    columns = [words.first, *(f"{one.name} ({words.unit})" if words.unit else one.name for one in series)]
    has_values = any(value is not None for one in series for value in one.values)
    rows = [[label, *(one.values[index] for one in series)] for index, label in enumerate(labels)] if has_values else []
    layout = {"showlegend": len(series) > 1, **spec["layout"]}
    if words.unit:
        layout.setdefault("yaxis", {**_AXIS, "rangemode": "tozero"})["ticksuffix"] = f" {words.unit}"
    return figure(name, title, {**spec, "layout": layout}, columns=columns, rows=rows, note=words.note)


def _ink(hue: Hue) -> str:
    return f"{hue}-fill"


def _written(cell: Cell) -> str:
    if cell is None:
        return "no data"
    if isinstance(cell, float) and not cell.is_integer():
        return f"{cell:,.3g}" if abs(cell) < 1 else f"{cell:,.2f}"
    return cell if isinstance(cell, str) else grouped(int(cell))
