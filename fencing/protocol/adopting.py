"""Adopting, as a rule: when an escape may be taken for the very effect that an intent wants (L8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fencing.protocol import compensations, intents
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.intents import Intent

BEGUN = frozenset(
    {
        compensations.State.IN_FLIGHT,
        compensations.State.IN_DOUBT,
        compensations.State.DONE,
        compensations.State.WAIVED,
    }
)


def check_undecided(*, is_open: bool, undoing: Iterable[compensations.State]) -> Refusal | None:
    """Refuse what a person decided otherwise, or whose undoing is under way or done. `undoing` are its acts' states."""
    begun = next((state for state in undoing if state in BEGUN), None)
    if begun is None and is_open:
        return None
    how = "decided" if begun is None else f"{begun.value}: what undoes the effect"
    return Refusal(code=Code.ALREADY_DECIDED, detail=f"It is {how}.", extras={"decided_at": None})


def check_fit(intent: Intent, *, digest: str | None, wanted: Collection[str]) -> Refusal | None:
    """Refuse an escape that is not what the intent wants now. `wanted` are the payloads that its commits bind."""
    if intent.state in intents.SETTLED:
        return Refusal(code=Code.ALREADY_DECIDED, detail=f"The intent has {intent.state.value} already.")
    if intents.is_admitted(intent):
        detail = "A delivery of the intent may be out: first the fact, then the adopting."
        return Refusal(code=Code.OUTCOME_UNKNOWN, detail=detail)
    if intent.state is not intents.State.READY:
        detail = f"The intent is {intent.state.value}: no commit that may act wants it now."
        return Refusal(code=Code.NOT_READY, detail=detail)
    if digest not in wanted:
        detail = "The escape is another action than the one that was committed, to the byte."
        return Refusal(code=Code.PAYLOAD_MISMATCH, detail=detail, pointer="/incident")
    return None
