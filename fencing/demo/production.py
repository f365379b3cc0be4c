"""The production path's process: it holds what it has a doubt about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencing.demo.actor import Verbs, serve
from fencing.demo.paths import cast_path


def decide(context: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refund what was asked for, unless the invoice looks odd."""
    if context.get("looks_odd"):
        return {"tool": "hold_for_review", "args": {"invoice": context["invoice"]}}
    return {"tool": "refund", "args": {"invoice": context["invoice"], "cents": context["asked_cents"]}}


def cast(base_url: str, key: str) -> Verbs:
    """The production path's verbs."""
    return cast_path(base_url, key, decide, model="careful-rule-1")


if __name__ == "__main__":
    serve(cast)
