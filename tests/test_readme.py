"""The README tells the truth about the places and commands that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

TOP = Path(__file__).resolve().parent.parent
README = (TOP / "README.md").read_text(encoding="utf-8")


def test_the_line_of_the_one_function_that_refuses_is_where_it_says() -> None:
    named = re.search(r"\[`(\w+)`\]\(([\w/.]+)#L(\d+)\) in `([\w/.]+)`, line (\d+)", README)
    assert named is not None
    function, path, anchor, said, line = named.groups()
    assert (path, anchor) == (said, line)
    assert (TOP / path).read_text(encoding="utf-8").splitlines()[int(line) - 1].startswith(f"def {function}(")


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([\w./-]+)(?:#\w+)?\)", README))))
def test_every_linked_file_is_there(link: str) -> None:
    assert (TOP / link).exists()


def test_every_command_in_the_table_exists() -> None:
    named = re.findall(r"^\| `(\w+)", README, flags=re.MULTILINE)
    assert named
    assert set(named) <= set(get_commands())
