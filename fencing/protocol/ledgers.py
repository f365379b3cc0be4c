"""Observed effects: what a tool's own ledger says, matched with what was delivered (L8).

A ledger row with a key of ours belongs to the intent or the compensation of that key, and to nothing else; one without
a key to the oldest delivery of that very payload that has no ledger row yet. What belongs to nothing happened without
authority: a landed escape. A second row of one key happened twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Match(StrEnum):
    """What a ledger row was found to be."""

    INTENT = "intent"
    COMPENSATION = "compensation"
    ESCAPE = "escape"
    DOUBLED = "doubled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One row of a tool's ledger: which tool, its payload digest and our idempotency key, as far as it tells them."""

    tool: str
    digest: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a delivery was for: an intent or a compensation, by id.

    `may_be_out` tells whether any delivery of it is in flight, unknown or succeeded; `has_effect` whether a ledger row
    belongs to it already.
    """

    tool: str
    digest: str
    delivery: str
    intent: str | None = None
    compensation: str | None = None
    may_be_out: bool = True
    has_effect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """What a ledger row is, and whose. `contradicts`: it happened, and what is on record says that it did not."""

    match: Match
    wanted: Wanted | None = None
    contradicts: bool = False


def match(seen: Seen, *, of_key: Wanted | None, of_payload: Sequence[Wanted]) -> Matched:
    """Say what a ledger row is (L8).

    `of_key` is what our idempotency key names, None where we never gave it. `of_payload` are the deliveries of that
    payload, oldest first. A key proves nothing for another tool or another payload: what left under it was not what was
    committed (I2), and is an escape.
    """
    if seen.key is not None:
        if of_key is None or of_key.tool != seen.tool or seen.digest not in (None, of_key.digest):
            return Matched(match=Match.ESCAPE)
        if of_key.has_effect:
            return Matched(match=Match.DOUBLED, wanted=of_key)
        return _belongs(of_key)
    for wanted in of_payload:
        if wanted.tool == seen.tool and wanted.digest == seen.digest and wanted.may_be_out and not wanted.has_effect:
            return _belongs(wanted)
    return Matched(match=Match.ESCAPE)


def _belongs(wanted: Wanted) -> Matched:
    kind = Match.INTENT if wanted.compensation is None else Match.COMPENSATION
    return Matched(match=kind, wanted=wanted, contradicts=not wanted.may_be_out)
