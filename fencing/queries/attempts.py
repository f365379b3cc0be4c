"""Attempts, as the API and the pages show them."""

from __future__ import annotations

from fencing.models import Attempt
from fencing.models.grade_facts import attempt_body
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.errors import Code, Refusal


def get_attempt(name: str) -> Result:
    """One attempt."""
    row = Attempt.objects.select_related("lane", "regrade_of").filter(name=name).first()
    if row is None:
        return Refusal(code=Code.NOT_FOUND, detail=f"There is no attempt {name}.")
    return Answer(status=OK, body=attempt_body(row))
