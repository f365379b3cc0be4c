"""The sentence that opens every object, cut where the eye should stop first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """The verdict, and what explains it."""

    head: str
    rest: str


def sentence(text: str) -> Sentence:
    """Cut a sentence of the core after its verdict (`Rejected for divergence: …`), else after its first full stop."""
    plain = text.replace("**", "")
    for end in (": ", ". "):
        head, found, rest = plain.partition(end)
        if found:
            return Sentence(head=head + end.strip(), rest=rest.strip())
    return Sentence(head=plain.strip(), rest="")
