"""A step's events on one line of time, as a figure with its table: what came, when, and the gap between the votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dashboard.presenters.figures import HEIGHT, Figure, Spec, base_layout, figure
from dashboard.presenters.marks import Hue, Mark, Shape, mark_of
from dashboard.presenters.moments import moment
from dashboard.presenters.numbers import seconds
from fencing.queries.trace import Trace

MAX_GRANTS: Final = 5
MAX_VOTES: Final = 40
LANE_HEIGHT: Final = 40
LONGEST_LABEL: Final = 22
TEXT_TURNS_AT: Final = 0.6
MAX_WORDS: Final = 3
WORD_WIDTH: Final = 0.12  # of the axis: about what a word takes
# What comes so much later than the decision stands at the right edge, so that it does not squash the rest.
FAR: Final = 2.5
UNITS: Final = (("ms", 0.001), ("s", 1.0), ("min", 60.0), ("h", 3600.0))
ENOUGH: Final = 180  # of a unit, before the next one reads better
_SYMBOLS: Final = {
    Shape.DOTTED: "circle-open-dot", Shape.HOLLOW: "circle-open", Shape.HALF: "circle-open-dot",
    Shape.RING: "circle-open-dot", Shape.FILLED: "circle", Shape.BARRED: "x-thin-open", Shape.CROSSED: "x",
    Shape.SQUARE: "square-open", Shape.TRIANGLE: "triangle-up",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that happened to a step, on the lane of whom it concerns. All words are ours or identifiers."""

    at: datetime
    lane: str
    mark: Mark
    text: str
    is_vote: bool = False


STEP: Final = "step"
GRANTS: Final = "grants"
GATEWAY: Final = "gateway"


def happenings(trace: Trace) -> list[Happening]:
    """Give everything that happened to a step, in order."""
    found = [*_of_step(trace), *_of_votes(trace), *_of_grants(trace), *_of_effect(trace)]
    return sorted(found, key=lambda each: each.at)


def figure_of(trace: Trace) -> Figure:
    """Draw them. The table beneath has each with its exact time and how long after the proposal it came."""
    found = happenings(trace)
    start = next((each.at for each in found if each.lane == STEP), found[0].at if found else trace.now)
    rows = [
        (_exact(each.at), seconds((each.at - start).total_seconds()), each.lane, each.text) for each in found
    ]  # fmt: skip
    scale = _Scale.of(found, start, _decided(trace) or max((each.at for each in found), default=start))
    spec: Spec = {"data": _traces(found, scale), "layout": _layout(found, scale, trace.step.rules().required_paths)}
    columns = ("when", "after the proposal", "who", "what")
    return figure("votes-in-time", "Votes in time", spec, columns=columns, rows=rows, note=_note(found, scale))


def _note(found: Sequence[Happening], scale: _Scale) -> str:
    edges = [symbol for each in found if (symbol := scale.edge(each.at))]
    return "" if not edges else "A triangle at an edge is what came long before or after: the table has its time."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """The axis: seconds, minutes or hours after the proposal, up to a little behind the decision."""

    start: datetime
    end_s: float
    unit: str
    unit_s: float

    @classmethod
    def of(cls, found: Sequence[Happening], start: datetime, decided_at: datetime) -> _Scale:
        core = max((decided_at - start).total_seconds(), 0.001)
        near = [after for each in found if (after := (each.at - start).total_seconds()) <= core * FAR]
        end_s = max([core, *near])
        unit, unit_s = next((each for each in UNITS if end_s < each[1] * ENOUGH), UNITS[-1])
        return cls(start=start, end_s=end_s, unit=unit, unit_s=unit_s)

    def edge(self, at: datetime) -> str:
        """Name the marker of what lies outside; empty for what has its true place."""
        after = (at - self.start).total_seconds()
        return "triangle-right" if after > self.end_s else "triangle-left" if after < 0 else ""

    def x(self, at: datetime) -> float:
        after = (at - self.start).total_seconds()
        return round(max(-0.06 * self.end_s, min(after, self.end_s * 1.06)) / self.unit_s, 6)

    @property
    def reach(self) -> float:
        """How long the drawn axis is."""
        return self.range[1] - self.range[0]

    @property
    def range(self) -> list[float]:
        return [round(-0.09 * self.end_s / self.unit_s, 6), round(1.1 * self.end_s / self.unit_s, 6)]

    def is_right(self, at: datetime) -> bool:
        return (at - self.start).total_seconds() > self.end_s * TEXT_TURNS_AT


def _traces(found: Sequence[Happening], scale: _Scale) -> list[Spec]:
    inks = [f"var(--{_ink(each.mark.hue)})" for each in found]
    return [
        {
            "type": "scatter",
            "mode": "markers+text",
            "x": [scale.x(each.at) for each in found],
            "y": [_label(each.lane) for each in found],
            "text": _words(found, scale),
            "textposition": ["middle left" if scale.is_right(each.at) else "middle right" for each in found],
            "textfont": {"size": 12, "color": inks},
            "hovertext": [
                f"{seconds((each.at - scale.start).total_seconds())} after the proposal: {each.text}" for each in found
            ],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "cliponaxis": False,
            "marker": {
                "size": 11,
                "symbol": [
                    scale.edge(each.at) or _SYMBOLS[each.mark.shape] for each in found
                ],
                "color": inks,
                "line": {"width": 2, "color": inks},
            },
        }
    ]  # fmt: skip


def _words(found: Sequence[Happening], scale: _Scale) -> list[str]:
    """Write each word beside its marker; those of one lane that would lie on each other stand together at one end."""
    words = [""] * len(found)
    for lane in dict.fromkeys(each.lane for each in found):
        clusters: list[list[int]] = []
        for place in (place for place, each in enumerate(found) if each.lane == lane):
            if clusters and scale.x(found[place].at) - scale.x(found[clusters[-1][-1]].at) < scale.reach * WORD_WIDTH:
                clusters[-1].append(place)
            else:
                clusters.append([place])
        for cluster in clusters:
            told = ", ".join(found[place].mark.word for place in cluster[-MAX_WORDS:])
            words[cluster[0] if scale.is_right(found[cluster[0]].at) else cluster[-1]] = told
    return words


def _layout(found: Sequence[Happening], scale: _Scale, paths: Sequence[str]) -> Spec:
    """Lay out a lane for each who did something, and for each required path: silence is seen too."""
    lanes = list(dict.fromkeys(_label(lane) for lane in (*(each.lane for each in found), *paths)))
    ordered = sorted(lanes, key=lambda lane: (lane == GATEWAY, lane == GRANTS, lane != STEP))
    base = base_layout()
    layout: Spec = {
        "height": max(HEIGHT, LANE_HEIGHT * len(ordered) + 64),
        "showlegend": False,
        "xaxis": {
            **base["xaxis"], "range": scale.range, "zeroline": False,
            "title": {"text": f"{scale.unit} after the proposal", "font": {"size": 11, "color": "var(--ink-3)"}},
        },
        "yaxis": {
            **base["yaxis"], "type": "category", "categoryorder": "array", "categoryarray": ordered[::-1],
            "range": [-0.6, len(ordered) - 0.4], "showgrid": True,
        },
    }  # fmt: skip
    return layout | _gap(found, scale)


def _gap(found: Sequence[Happening], scale: _Scale) -> Spec:
    """Draw the time between the first path's vote and the second's."""
    votes = [each for each in found if each.is_vote]
    second = next((vote for vote in votes if vote.lane != votes[0].lane), None)
    if second is None:
        return {}
    first = votes[0]
    x, y = scale.x(first.at), _label(first.lane)
    to_x, to_y = scale.x(second.at), _label(second.lane)
    line = {"color": "var(--ink-3)", "width": 1, "dash": "dot"}
    text = seconds((second.at - first.at).total_seconds())
    return {
        "shapes": [
            {"type": "line", "layer": "above", "x0": x, "x1": x, "y0": y, "y1": to_y, "line": line},
            {"type": "line", "layer": "above", "x0": x, "x1": to_x, "y0": to_y, "y1": to_y, "line": line},
        ],
        "annotations": [
            {
                "x": x, "y": to_y, "text": text, "showarrow": False, "xanchor": "left", "xshift": 4, "yshift": 14,
                "font": {"size": 11, "color": "var(--ink-2)"},
            }
        ],
    }  # fmt: skip


def _of_step(trace: Trace) -> Iterator[Happening]:
    row = trace.step.row
    for column, state, text in (
        ("proposed_at", "proposed", "proposed"),
        ("fenced_at", "fenced", "fenced: one path alone, under a grant"),
    ):
        if row[column] is not None:
            yield Happening(at=_at(row[column]), lane=STEP, mark=mark_of("step", state), text=text)
    decided_at = _decided(trace)
    if decided_at is not None:
        reason = (row["reason"] or "").replace("_", " ")
        text = f"{row['phase']}: {reason}" if reason else str(row["phase"])
        yield Happening(at=decided_at, lane=STEP, mark=mark_of("step", row["phase"]), text=text)
    for opening in trace.openings:
        if opening.from_epoch == trace.step.epoch:
            mark = Mark(word="replayed", hue=Hue.NEUTRAL, shape=Shape.RING)
            yield Happening(at=opening.opened_at, lane=STEP, mark=mark, text=f"replayed into epoch {opening.number}")


def _of_votes(trace: Trace) -> Iterator[Happening]:
    first = next((vote.digest for vote in trace.votes if vote.digest is not None), None)
    for vote in trace.votes[:MAX_VOTES]:
        tool = vote.action["tool"] if vote.action is not None else "a digest"
        state = "late" if vote.is_late else "voted" if vote.digest == first else "differs"
        state = "abstained" if vote.digest is None else state
        words = {
            "late": f"voted late for {tool}",
            "voted": f"voted for {tool}",
            "differs": f"voted for {tool}: another digest",
            "abstained": "abstained",
        }
        yield Happening(
            at=vote.received_at, lane=vote.path, mark=mark_of("vote", state), text=words[state],
            is_vote=vote.digest is not None,
        )  # fmt: skip


def _of_grants(trace: Trace) -> Iterator[Happening]:
    for tried in trace.grants[:MAX_GRANTS]:
        name = tried.body["name"]
        if tried.live_at is not None:
            yield Happening(at=tried.live_at, lane=GRANTS, mark=mark_of("grant", "live"), text=f"{name} is live")
        ends: tuple[tuple[Any, str], ...] = ((tried.then.revoked_at, "revoked"), (tried.then.voided_at, "void"))
        for at, state in ends:
            if at is not None:
                yield Happening(at=at, lane=GRANTS, mark=mark_of("grant", state), text=f"{name}: {state}")


def _of_effect(trace: Trace) -> Iterator[Happening]:
    for delivery in trace.deliveries:
        mark = Mark(word="admitted", hue=Hue.WAITING, shape=Shape.HALF)
        yield Happening(at=delivery.admitted_at, lane=GATEWAY, mark=mark, text=f"delivery {delivery.number} admitted")
    for outcome in trace.outcomes:
        mark = mark_of("outcome", outcome.outcome)
        yield Happening(at=outcome.recorded_at, lane=GATEWAY, mark=mark, text=f"outcome: {mark.word}")
    for incident in trace.incidents:
        mark = mark_of("incident", incident.kind)
        yield Happening(at=incident.opened_at, lane=GATEWAY, mark=mark, text=f"incident: {mark.word}")


def _decided(trace: Trace) -> datetime | None:
    return None if trace.step.row["decided_at"] is None else _at(trace.step.row["decided_at"])


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _exact(at: datetime) -> str:
    written = moment(at)
    return written.exact if written else ""


def _label(lane: str) -> str:
    return lane if len(lane) <= LONGEST_LABEL else f"{lane[: LONGEST_LABEL - 8]}…{lane[-7:]}"


def _ink(hue: Hue) -> str:
    return "ink-2" if hue is Hue.NEUTRAL else hue
