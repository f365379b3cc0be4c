"""Ugly data for the gallery: what pages have to survive, as values. Nothing here is read from the database."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from django import forms

from dashboard.presenters.acts import Act, Change
from dashboard.presenters.figures import Figure, Series, Words, bars, figure, lines
from dashboard.presenters.lists import Filter, FilterBar, Pager, choices
from dashboard.presenters.marks import KINDS, Hue, Mark, mark_of
from dashboard.presenters.timelines import Event, Timeline, timeline

LONG_NAME: Final = "run-" + "a-very-long-identifier." * 8 + "0123456789ab"
SCRIPT: Final = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
TURNED: Final = "please pay in\u202evoice 9\u202c to acc\u200bount 42"
LOOKALIKE: Final = "see https://p\u0430ypal.example/login or https://xn--pypal-4ve.example"
TOWER: Final = "Z" + "\u0301" * 12 + "algo\u00a0and\u3164blanks"
PROSE: Final = "The customer wrote three times, and each time about another invoice. " * 40


def digest(text: str) -> str:
    """Give a digest of a text in the protocol's form."""
    return "sha256:" + sha256(text.encode()).hexdigest()


def same_start(text: str) -> str:
    """Give a digest that shares its first twelve digits with `digest(text)` and differs behind them."""
    return digest(text)[:19] + sha256(b"behind" + text.encode()).hexdigest()[12:]


def digests() -> list[tuple[str, str | None]]:
    """Give digests with labels: two that are equal, one that differs behind the twelfth digit, a wrong one, none."""
    return [("payload", digest("a")), ("fence", digest("a")), ("", same_start("a")), ("", "sha1:no"), ("", None)]


def texts() -> list[tuple[str, str]]:
    """Give texts from outside with whose words they are."""
    named = [("the production model", TURNED), ("rationale", PROSE)]
    return [*named, ("", SCRIPT), ("", LOOKALIKE), ("", TOWER), ("", "")]


def states() -> list[tuple[str, list[str]]]:
    """Give every kind of object with each of its states."""
    return [(kind, list(known)) for kind, known in KINDS.items()]


def action() -> dict[str, Any]:
    """Give an action that nobody would like to read."""
    return {
        "tool": "refund",
        "args": {
            "invoice": 9, "cents": 9_007_199_254_740_991, "rate": 0.1, "note": TURNED, "script": SCRIPT,
            "nothing": None, "sure": True, "empty": {}, "none": [], "prose": PROSE, LONG_NAME: LONG_NAME,
            "lines": [{"sku": f"A-{number}", "n": number, "tags": ["x", "y"]} for number in range(60)],
            "deep": deep(20),
        },
    }  # fmt: skip


def deep(levels: int) -> Any:
    """Give an object inside an object, so many times."""
    return {"in": deep(levels - 1)} if levels else "the bottom"


def events(now: datetime) -> Timeline:
    """Give a step's history, from milliseconds to hours."""
    start = now - timedelta(hours=7)
    told = [
        (0.0, mark_of("step", "proposed"), "proposed", ""),
        (0.4, mark_of("vote", "voted"), "replica voted", ""),
        (2.2, mark_of("vote", "differs"), "production voted for another action", SCRIPT),
        (2.204, mark_of("step", "rejected"), "rejected for divergence", ""),
        (61, mark_of("vote", "late"), "replica voted late", TURNED),
        (21_000, Mark(word="replayed", hue=Hue.NEUTRAL, shape=mark_of("vote", "late").shape), "into epoch 8", ""),
    ]
    return timeline(
        [Event(at=start + timedelta(seconds=s), mark=m, text=t, quoted=q) for s, m, t, q in told], now=now
    )  # fmt: skip


def plots(now: datetime) -> list[Figure]:
    """Give one figure of each kind, and an empty one."""
    hours = [(now - timedelta(hours=23 - hour)).strftime("%Y-%m-%d %H:00") for hour in range(24)]
    phases = (("committed", Hue.GOOD, 40), ("rejected", Hue.REFUSED, 7), ("still proposed", Hue.WAITING, 3))
    decided = [Series(name=n, hue=h, values=[(index * 7 + k) % (k + 5) for index in range(24)]) for n, h, k in phases]
    gap = [None if index in (5, 6) else 0.4 + (index * 37 % 11) / 4 for index in range(24)]
    reasons = ["divergence", "timeout", "a-reason-of-forty-characters-and-some-more", "late_divergence"]
    two_gaps = Words(first="hour (UTC)", unit="s", note="Two hours had no votes: a gap in the line, not a zero.")
    refusals = [Series(name="refusals", hue=Hue.REFUSED, values=[14, 9, 2, 1])]
    return [
        bars("plot-phases", "Decisions by phase", hours, decided, Words(first="hour (UTC)")),
        lines("plot-gap", "First vote to second vote", hours, [Series(name="median", values=gap)], two_gaps),
        bars("plot-reasons", "Refusals by reason", reasons, refusals, Words(first="reason", is_lying=True)),
        figure("plot-none", "Decision latency", {"data": []}, columns=("hour",), rows=()),
    ]


class ReasonForm(forms.Form):
    """A form with one of each field."""

    reason = forms.CharField(
        label="Reason",
        widget=forms.Textarea(attrs={"rows": 3}),
        min_length=10,
        help_text="In your own words; it is kept.",
    )
    verdict = forms.ChoiceField(
        label="Who was right?", choices=[("production", "production right"), ("both", "both wrong")]
    )
    sure = forms.BooleanField(label="I read both actions", required=False)


def acts(url: str) -> list[Act]:
    """Give an act in each of its states."""
    wrong = ReasonForm({"wrong-reason": "short", "wrong-verdict": "both"}, prefix="wrong")
    changed = (Change(what="phase", seen="rejected", now="committed"), Change(what="note", seen=SCRIPT, now=TURNED))
    return [
        Act(id="act-plain", opens="Replay…", says="Replay pay-invoice into epoch 8", url=url, seen={"from_epoch": "7"},
            form=ReasonForm(prefix="plain"), explains="Both paths are asked anew. Nothing is carried over."),
        Act(id="act-wrong", opens="Give a verdict…", says="Store the verdict: both wrong", url=url, form=wrong),
        Act(id="act-changed", opens="Approve…", says="Approve: send close_ticket for T-1", url=url,
            form=ReasonForm(prefix="changed"), changes=changed),
        Act(id="act-refused", opens="Waive…", says="", url=url,
            why_not="You issued the grant that let this effect through."),
    ]  # fmt: skip


def filter_bar(url: str) -> FilterBar:
    """Give a bar with a choice, a text, and one that is active."""
    reasons = choices([("divergence", "divergence"), ("timeout", "timeout")], chosen="timeout")
    return FilterBar(
        filters=(
            Filter(name="reason", label="Reason", value="timeout", choices=reasons),
            Filter(name="tool", label="Tool", hint="refund"),
            Filter(name="run", label="Run", value=LONG_NAME),
        ),
        clear_url=url,
    )


def pagers(url: str) -> list[Pager]:
    """Give the foot of a first, a middle and a last page."""
    return [
        Pager(shown=50, what="steps", first_url="", next_url=f"{url}?cursor=x"),
        Pager(shown=50, what="runs", first_url=url, next_url=f"{url}?cursor=y"),
        Pager(shown=3, what="votes", first_url=url, next_url=""),
    ]


def ticking_rows(now: datetime, every_s: int = 5, kept: int = 5) -> list[dict[str, Any]]:
    """Give rows of which one more is there every few seconds: a list that lives without a database."""
    last = int(now.timestamp()) // every_s
    zero = now - timedelta(seconds=now.timestamp())
    return [
        {"key": str(last - back), "at": zero + timedelta(seconds=(last - back) * every_s), "state": "committed"}
        for back in range(kept)
    ]
