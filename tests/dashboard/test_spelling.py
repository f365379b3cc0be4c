"""Text from outside shows what it hides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.presenters.spelling import Piece, hints_of, pieces_of, quotation, spelt


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("in\u202evoice", "in[U+202E]voice"),
        ("a\u200bb\ufeffc", "a[U+200B]b[U+FEFF]c"),
        ("a\u00a0b\u3000c", "a[U+00A0]b[U+3000]c"),
        ("a\x00b\x1b[31m", "a[U+0000]b[U+001B][31m"),
        ("blank\u3164\u2800\u115f", "blank[U+3164][U+2800][U+115F]"),
        ("tag\U000e0041", "tag[U+E0041]"),
        ("heart\ufe0f", "heart[U+FE0F]"),
        ("half\ud800", "half[U+D800]"),
        ("line\u2028end", "line[U+2028]end"),
    ],
)
def test_a_hidden_character_is_spelt(text: str, shown: str) -> None:
    assert spelt(text) == shown


@pytest.mark.parametrize("text", ["plain", "two\nlines\tand a tab", "größer als 5 €", "請求書", "한국어", "e\u0301te"])
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert spelt(text) == text


def test_a_spelt_character_carries_its_name() -> None:
    (piece,) = (piece for piece in pieces_of("x\u202ey") if piece.is_spelt)
    assert (piece.text, piece.name) == ("U+202E", "right-to-left override")


def test_a_tower_of_marks_is_taken_down_after_the_third() -> None:
    assert spelt("Z" + "\u0301" * 5) == "Z" + "\u0301" * 3 + "[U+0301]" * 2


def original(piece: Piece) -> str:
    """Give the text that a piece stands for."""
    return chr(int("0x" + piece.text.removeprefix("U+"), 0)) if piece.is_spelt else piece.text


@given(st.text(alphabet=st.characters()))
def test_nothing_is_lost_and_nothing_invisible_is_left(text: str) -> None:
    pieces = pieces_of(text)
    assert "".join(original(piece) for piece in pieces) == text
    assert not any("\u202a" <= one <= "\u202e" for p in pieces for one in p.text)


def test_a_long_text_is_cut_at_a_word_and_nothing_of_it_is_lost() -> None:
    told = quotation("word " * 400, limit=600)
    assert told.head[-1].text.endswith("word ")
    assert sum(len(piece.text) for piece in (*told.head, *told.rest)) == told.length == 2000


def test_a_long_text_without_blanks_is_cut_all_the_same() -> None:
    assert len(quotation("x" * 5000, limit=600).head[0].text) == 600


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("see https://p\u0430ypal.example/a", ["xn--pypal-4ve.example", "mixes Latin and Cyrillic letters"]),
        ("see xn--pypal-4ve.example", ["reads p\u0430ypal.example"]),
        ("call \u0391dmin now", ["mixes Greek and Latin letters"]),
    ],
)
def test_what_looks_like_something_else_is_told(text: str, words: list[str]) -> None:
    told = " | ".join(hints_of(text))
    assert all(word in told for word in words)


@pytest.mark.parametrize(
    "text", ["plain example.com", "東京タワーへ", "größe", "Привет мир", "xn--", "12 µs, 3ª", "a.b.c 1.2.3"]
)
def test_what_is_honest_is_not_suspected(text: str) -> None:
    assert hints_of(text) == []


def test_hints_are_few_however_much_deceives() -> None:
    assert len(hints_of("p\u0430y " + " ".join(f"p\u0430y{'x' * n}" for n in range(50)))) == 4
