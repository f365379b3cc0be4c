"""Lanes and attempts in words, cells and a line of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from django.urls import reverse

from dashboard.presenters.figures import HEIGHT, Figure, Spec, base_layout, figure
from dashboard.presenters.marks import Mark, mark_of
from dashboard.presenters.numbers import grouped, seconds
from fencing.models import LaneThresholds
from fencing.protocol.explain.grades import explain_attempt, explain_gate
from fencing.protocol.explain.wording import Sentence
from fencing.protocol.gate import Reading
from fencing.queries.grade_pages import COLUMNS, AttemptPage, Cell, LaneLine, Money

MOST_ROWS: Final = 200
LANE_HEIGHT: Final = 40
SCORE_DIGITS: Final = 3
STATES: Final = ("accepted", "conflicting", "in work", "missing", "superseded", "stale")
"""What a cell may be, as the legend lists it."""
UNITS: Final = (("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0))
ENOUGH: Final = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLane:
    """A lane, ready for a row."""

    line: LaneLine
    reading: Reading
    mark: Mark
    why: str
    zombie: str
    attempts: int
    inputs: int
    mean: str
    interval: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """A cell of the grid: its state, what it says in words, and where its fragment is shown."""

    state: str
    text: str
    told: str
    url: str
    is_published: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """One epoch of the grid."""

    epoch: int
    word: str
    squares: tuple[Square, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The cells of one attempt: rows are epochs, newest first, columns are seqs from `first` to `last`."""

    seqs: tuple[int, ...]
    rows: tuple[GridRow, ...]
    windows: tuple[tuple[str, str, bool], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMoney:
    """A line of spend."""

    epoch: int | None
    kind: str
    calls: str
    tokens_in: str
    tokens_out: str
    cost: str


def shown_lane(line: LaneLine) -> ShownLane:
    """Prepare a lane for a row."""
    reading = line.facts.reading()
    return ShownLane(
        line=line,
        reading=reading,
        mark=mark_of("gate", reading.gate.value),
        why=" ".join(reason.detail for reason in reading.reasons),
        zombie=costs_of(line.zombie),
        attempts=line.facts.lane.published + line.facts.lane.incomplete,
        inputs=line.facts.lane.rejects + line.facts.lane.accepted,
        mean=_figure(reading.figures["mean"]),
        interval=" to ".join(map(_figure, reading.figures["interval"] or ())),
    )


def lane_sentence(line: LaneLine) -> Sentence:
    """Say what the gate of a lane says."""
    return explain_gate(line.facts.reading())


def asked_of(thresholds: LaneThresholds) -> dict[str, str]:
    """What a form on a lane shows of what is asked, for a conflict to lay beside what is new (A5)."""
    asked = {name.replace("_", " "): str(value) for name, value in thresholds.thresholds.items()}
    by = thresholds.person.get_username() if thresholds.person else "its publisher"
    return {"version": str(thresholds.version), **asked, "asked by": by, "why": thresholds.reason or "no reason"}


def list_sentence(lanes: Sequence[ShownLane]) -> tuple[str, str]:
    """Say in one line how the newest lanes stand, and its hue."""
    halted = [each for each in lanes if each.reading.gate.value == "halt"]
    if not lanes:
        return "No lane was made yet. A publisher's key makes one (POST /lanes).", ""
    if halted:
        names = ", ".join(each.line.lane.name for each in halted[:3])
        more = f" and {len(halted) - 3} more" if len(halted) > 3 else ""  # noqa: PLR2004 - three names are enough
        return f"Halted: {names}{more}. Nothing of a halted gate should be deployed.", "refused"
    waits = sum(each.reading.gate.value == "wait" for each in lanes)
    return (f"{waits} of {len(lanes)} gates wait.", "waiting") if waits else ("Every gate passes.", "good")


def costs_of(money: Sequence[Money]) -> str:
    """Write what was spent: by currency, and how many calls had no price."""
    told = [f"{_amount(each.cost)} {each.currency}" for each in money if each.cost is not None]
    unpriced = sum(each.unpriced for each in money)
    tokens = sum(each.tokens_in + each.tokens_out for each in money if each.cost is None)
    if unpriced:
        told.append(f"{grouped(tokens)} tokens without a price")
    return " + ".join(told)


def money_of(money: Sequence[Money]) -> list[ShownMoney]:
    """Prepare lines of spend."""
    return [
        ShownMoney(
            epoch=each.epoch,
            kind=each.kind,
            calls=grouped(each.calls),
            tokens_in=grouped(each.tokens_in),
            tokens_out=grouped(each.tokens_out),
            cost="no price" if each.cost is None else f"{_amount(each.cost)} {each.currency}",
        )
        for each in money
    ]


def attempt_sentence(page: AttemptPage) -> Sentence:
    """Say where an attempt is."""
    return explain_attempt(
        epoch=page.attempt.epoch,
        expected=page.attempt.expected,
        missing=page.missing,
        grade=None if page.grade is None else (page.grade.published_at, page.grade.mean),
        dropped=page.dropped,
        now=page.now,
    )


def grid_of(page: AttemptPage) -> Grid:
    """Lay out the cells, and the ways to the other columns."""
    attempt = page.attempt
    seqs = tuple(range(page.first, min(page.first + COLUMNS, attempt.expected)))
    rows = []
    for epoch in page.epochs:
        is_published = page.grade is not None and page.grade.epoch == epoch.number
        word = "published" if is_published else "open" if epoch.number == attempt.epoch else "closed"
        squares = tuple(_square(page, page.cells[epoch.number, seq], is_published=is_published) for seq in seqs)
        rows.append(GridRow(epoch=epoch.number, word=word, squares=squares))
    return Grid(seqs=seqs, rows=tuple(rows), windows=tuple(_windows(page)))


def _square(page: AttemptPage, cell: Cell, *, is_published: bool) -> Square:
    state = state_of(page, cell)
    told = f"epoch {cell.epoch}, seq {cell.seq}: {state}"
    if cell.fragment is not None and cell.score is not None:
        told += f", score {cell.score:.6g}"
    if cell.conflicts:
        told += f", {cell.conflicts} more with another body"
    if cell.stale:
        told += f", {cell.stale} came too late"
    if cell.leases > 1:
        told += f", handed out {cell.leases} times"
    text = "" if cell.score is None else f"{cell.score:.{SCORE_DIGITS}g}"
    url = reverse("dashboard:fragment", args=[page.attempt.name, cell.epoch, cell.seq])
    return Square(state=state.replace(" ", "-"), text=text, told=told, url=url, is_published=is_published)


def state_of(page: AttemptPage, cell: Cell) -> str:
    """Name what a cell is; the first that holds."""
    is_open = cell.epoch == page.attempt.epoch
    if cell.fragment is not None:
        return "superseded" if not is_open else "conflicting" if cell.conflicts else "accepted"
    if cell.stale:
        return "stale"
    return "in work" if is_open and cell.is_out else "missing"


def _windows(page: AttemptPage) -> Iterator[tuple[str, str, bool]]:
    expected = page.attempt.expected
    if expected <= COLUMNS:
        return
    url = reverse("dashboard:attempt", args=[page.attempt.name])
    starts = sorted({0, page.first - COLUMNS, page.first, page.first + COLUMNS, (expected - 1) // COLUMNS * COLUMNS})
    for start in starts:
        if 0 <= start < expected:
            label = f"{start} to {min(start + COLUMNS, expected) - 1}"
            yield label, f"{url}?first={start}", start == page.first


def figure_of(page: AttemptPage) -> Figure:
    """Draw when fragments came, epoch by epoch, with the restarts and the publication. The table has each of them."""
    found = sorted(_happenings(page))
    start = found[0][0] if found else page.now
    end_s = max((found[-1][0] - start).total_seconds(), 0.001) if found else 1.0
    unit, size = next(((name, size) for name, size in UNITS if end_s < size * ENOUGH), UNITS[-1])
    lanes = [f"epoch {each.number}" for each in reversed(page.epochs)]
    traces: list[Spec] = []
    for kind, symbol, ink in (
        ("fragment", "circle", "good"),
        ("superseded", "circle-open", "neutral"),
        ("stale", "x", "refused"),
        ("restart", "line-ns-open", "waiting"),
        ("published", "star", "good"),
    ):
        dots = [each for each in found if each[2] == kind]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": kind,
                "x": [round((at - start).total_seconds() / size, 6) for at, *_ in dots],
                "y": [f"epoch {epoch}" for _, epoch, *_ in dots],
                "hovertext": [text for *_, text in dots],
                "hovertemplate": "%{hovertext}<extra></extra>",
                "cliponaxis": False,
                "marker": {
                    "size": 16 if kind == "restart" else 9,
                    "symbol": symbol,
                    "color": f"var(--{ink}-fill)",
                    "line": {"width": 2, "color": f"var(--{ink}-fill)"},
                },
            }
        )
    base = base_layout()
    layout: Spec = {
        "height": max(HEIGHT, LANE_HEIGHT * len(lanes) + 96),
        "xaxis": {**base["xaxis"], "title": {"text": f"{unit} after it was made", "font": {"size": 11}}},
        "yaxis": {**base["yaxis"], "type": "category", "categoryorder": "array", "categoryarray": lanes},
    }
    rows = [
        (_exact(at), seconds((at - start).total_seconds()), f"epoch {epoch}", text)
        for at, epoch, _, text in found[-MOST_ROWS:]
    ]
    columns = ("when", "after it was made", "where", "what")
    note = f"The newest {MOST_ROWS} stand in the table." if len(found) > MOST_ROWS else ""
    spec: Spec = {"data": [each for each in traces if each["x"]], "layout": layout}
    return figure("attempt-in-time", "The attempt in time", spec, columns=columns, rows=rows, note=note)


def _happenings(page: AttemptPage) -> Iterator[tuple[datetime, int, str, str]]:
    for each in page.epochs:
        text = "made" if each.number == 1 else f"restart into epoch {each.number}, {each.dropped} fragments dropped"
        yield each.opened_at, each.number, "restart", text
    shown = {each.number for each in page.epochs}
    for at, epoch, seq in page.dots:
        if epoch in shown:
            kind = "fragment" if epoch == page.attempt.epoch else "superseded"
            yield at, epoch, kind, f"fragment {seq}" if kind == "fragment" else f"fragment {seq}, dropped by a restart"
    for row in page.side_log:
        if row.kind == "fragment" and row.epoch in shown:
            yield row.recorded_at, row.epoch, "stale", f"seq {row.seq} refused: {row.reason.replace('_', ' ')}"
    if page.grade is not None:
        yield page.grade.published_at, page.grade.epoch, "published", "published"


def _exact(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _amount(cost: Decimal | None) -> str:
    """Write money: whole cents where there are some, else as many digits as say something."""
    if cost is None:
        return "0"
    return f"{cost:,.2f}" if cost >= Decimal("0.1") or cost == 0 else f"{cost:.6f}".rstrip("0").rstrip(".") or "0"
