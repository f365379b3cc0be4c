"""N1: which names there are."""

import pytest

from fencing.protocol.identifiers import is_identifier


@pytest.mark.parametrize("name", ["a", "Z9", "0", "run.1_2:3@host-4", "x" * 200, "stripe.refunds.create"])
def test_a_name_of_letters_digits_and_a_few_marks_is_an_identifier(name: str) -> None:
    assert is_identifier(name)


@pytest.mark.parametrize(
    "name",
    ["", "x" * 201, "-a", ".a", "_a", ":a", "@a", "b c", "a\n", "a/b", "é", "a\x00", "٣", "a+", None, 5, ["a"], True],
)
def test_anything_else_is_none(name: object) -> None:
    assert not is_identifier(name)
