"""Words from outside are cut and spelt, actions told in short, times and durations as a person needs them."""

import unicodedata
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fencing.protocol.explain.wording import clock, described, duration, listed, spelt, times, until
from fencing.protocol.simulate import stage
from tests.protocol.values import NOW, later

# ---- words from outside ----


NASTY = [
    "\u202egnp.exe",
    "a\u200bb",
    "line\nbreak",
    "nul\x00",
    "e" + "\u0301" * 9,
    "x" * 5000,
    "</script>",
    "\ud800",
    "\u3164",
]


@pytest.mark.parametrize("text", NASTY)
def test_what_is_hidden_is_spelt_and_what_is_long_is_cut(text: str) -> None:
    shown = spelt(text)
    assert len(shown) < 200
    assert all(unicodedata.category(each)[0] != "C" for each in shown)
    assert "\u202e" not in shown


@pytest.mark.parametrize("text", NASTY)
def test_an_action_is_told_safely_whatever_its_members_are(text: str) -> None:
    action = {"tool": "refund", "args": {"invoice": text, text: [text] * 3, "more": {"x": text}, "n": 1, "m": None}}
    parts = described(action, stage.tools)
    shown = "".join(part.text for part in parts)
    assert len(shown) < 600
    assert all(unicodedata.category(each)[0] != "C" for each in shown)


def test_an_action_is_told_by_its_tool_what_it_touches_and_a_few_arguments() -> None:
    def say(args: dict[str, Any]) -> str:
        return "".join(part.text for part in described({"tool": "refund", "args": args}, stage.tools))

    assert say({}) == "refund"
    assert say({"invoice": 9}) == "refund on invoice 9"
    assert say({"invoice": {"a": 1}, "b": [1, 2]}) == "refund on invoice of 1 members (b of 2 members)"
    assert say({"a": 1, "b": "x", "c": None, "d": True, "e": 2}) == "refund (a 1, b x, c null and 2 more)"


def test_prose_stands_in_its_own_frame_and_not_in_the_sentence() -> None:
    told_of = "".join(
        part.text for part in described({"tool": "send_mail", "args": {"to": "ann", "body": "…"}}, stage.tools)
    )
    assert told_of == "send_mail (to ann)"


def test_sensitive_members_are_masked() -> None:
    secret = replace(stage.TOOLS["refund"], sensitive=("/invoice", "/card/number"), digest="other")
    args = {"invoice": 9, "card": {"number": "4111"}, "cents": 1}
    told_of = "".join(part.text for part in described({"tool": "refund", "args": args}, lambda _: secret))
    assert told_of == "refund on invoice ••• (card •••, cents 1)"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0 s"),
        (1.84, "1.8 s"),
        (9.96, "10 s"),
        (79, "79 s"),
        (120, "2 min"),
        (492, "8 min 12 s"),
        (3600, "1 h"),
        (11_040, "3 h 4 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_are_as_exact_as_a_person_needs(seconds: float, words: str) -> None:
    assert duration(timedelta(seconds=seconds)) == words


def test_moments_and_lists_in_words() -> None:
    assert clock(later(86_400), NOW) == "2026-01-02 02:14:00 UTC"
    assert until(later(-1), NOW) == "02:13:59 UTC"
    assert (listed([]), listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])) == (
        "",
        "a",
        "a and b",
        "a, b and c",
    )
    assert [times(number) for number in (1, 2, 3)] == ["once", "twice", "3 times"]
