"""The replica's process: a witness that pays what the customer asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencing.demo.actor import Verbs, serve
from fencing.demo.paths import cast_path


def decide(context: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refund what was asked for."""
    return {"tool": "refund", "args": {"invoice": context["invoice"], "cents": context["asked_cents"]}}


def cast(base_url: str, key: str) -> Verbs:
    """The replica's verbs."""
    return cast_path(base_url, key, decide, model="generous-rule-1")


if __name__ == "__main__":
    serve(cast)
