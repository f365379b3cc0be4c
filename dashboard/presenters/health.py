"""The health of the parts, in words: what runs, how far behind it is, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dashboard.presenters.marks import Mark, mark_of
from dashboard.presenters.numbers import grouped, plural, seconds
from fencing.protocol.groups import Group
from fencing.queries.health import DatabaseState
from fencing.queries.sealing import SealingState
from fencing.services.beats import Beat

STALE_S: Final = 10.0
SEAL_LAG_S: Final = 60.0
OLD_TRANSACTION_S: Final = 300.0
LATE_S: Final = 10.0
DEEP: Final = 100
MEGABYTE: Final = 1_000_000
NEARLY_FULL: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part: how it is, and what it says of itself."""

    name: str
    mark: Mark
    says: str
    is_well: bool
    at: datetime | None = None


def part(name: str, says: str, state: str = "well", at: datetime | None = None) -> Part:
    """Make a part in one of the states `well`, `slow`, `away`."""
    return Part(name=name, mark=mark_of("part", state), says=says, is_well=state == "well", at=at)


def database(state: DatabaseState | None, why: str) -> list[Part]:
    """Prepare the database."""
    if state is None:
        return [part("PostgreSQL", why, "away")]
    used = f"{state.connections} of {state.most_connections} connections"
    is_full = state.connections > NEARLY_FULL * state.most_connections
    is_held = state.oldest_s > OLD_TRANSACTION_S
    held = f"oldest open transaction {seconds(state.oldest_s)}"
    return [
        part(f"PostgreSQL {state.version}", why or f"{grouped(state.size // MEGABYTE)} MB", "away" if why else "well"),
        part("connections", used, "slow" if is_full else "well"),
        part("transactions", held, "slow" if is_held else "well"),
        part(
            "work list",
            f"the oldest step that is due has waited {seconds(state.late_s)}" if state.late_s else "no step is due",
            "slow" if state.late_s > LATE_S else "well",
        ),
    ]


def valkey(why: str, facts: Mapping[str, Any]) -> list[Part]:
    """Prepare Valkey."""
    if why:
        return [part("Valkey", why, "away")]
    used = (
        f"{facts.get('used_memory_human', 'unknown')} used, {plural(int(facts.get('connected_clients', 0)), 'client')}"
    )
    return [part(f"Valkey {facts.get('valkey_version') or facts.get('redis_version', '')}".strip(), used)]


def queues(depths: Mapping[str, int] | None, served: Iterable[str]) -> list[Part]:
    """Prepare the queues: how many wake-ups wait in each, and whether a worker takes them."""
    if depths is None:
        return [part("queues", "Valkey is away: none can be seen.", "away")]
    known = set(served)
    made = []
    for name, depth in depths.items():
        says = plural(depth, "wake-up waits", "wake-ups wait")
        if name not in known:
            made.append(part(name, f"{says}; no worker serves it", "away" if depth else "slow"))
        else:
            made.append(part(name, says, "slow" if depth > DEEP else "well"))
    return made


def beats(found: Sequence[Beat] | None, now: datetime) -> list[Part]:
    """Prepare tickers and sweeps: when each last ran."""
    if found is None:
        return [part("tickers", "Valkey is away: they run, and cannot be seen.", "away")]
    made = []
    for beat in found:
        ago = (now - beat.at).total_seconds()
        says = f"took {seconds(beat.took_ms / 1000)}"
        if beat.error:
            made.append(part(beat.name, f"failed with {beat.error}", "away", beat.at))
        elif ago > STALE_S:
            # A process that was stopped leaves its beat for a while; one that hangs looks the same.
            made.append(part(beat.name, f"has not run for {seconds(ago)}", "slow", beat.at))
        else:
            made.append(part(beat.name, says, "well", beat.at))
    return made or [part("tickers", "No ticker has run within the hour.", "away")]


def sealing(state: SealingState) -> list[Part]:
    """Prepare the sealing of the audit."""
    rows = plural(state.unsealed, "row") if not state.is_capped else f"more than {grouped(state.unsealed)} rows"
    if not state.unsealed:
        return [part("sealing", "every row of the audit has its seal")]
    lag = f"{rows} without a seal, the oldest for {seconds(state.lag_s)}"
    return [part("sealing", lag, "slow" if state.lag_s > SEAL_LAG_S else "well")]


def notifying(waiting: tuple[int, int], unreachable: Sequence[Group]) -> list[Part]:
    """Prepare what is to be told: what waits, and whom nobody could reach."""
    count, failed = waiting
    again = f"; {failed} of them failed before" if failed else ""
    told = part("messages", f"{plural(count, 'message waits', 'messages wait')}{again}", "slow" if failed else "well")
    if not unreachable:
        return [told, part("who can be reached", "somebody of each group is told outside these pages")]
    named = ", ".join(group.value for group in unreachable)
    return [told, part("who can be reached", f"nobody of these is told outside these pages: {named}", "slow")]


def sentence_of(parts: Iterable[Part]) -> tuple[str, str]:
    """Say in one sentence how everything is; with its hue."""
    wrong = [each for each in parts if not each.is_well]
    if not wrong:
        return "Everything runs, and nothing is behind.", ""
    worst = "refused" if any(each.mark.word == "away" for each in wrong) else "waiting"
    return f"Look at: {', '.join(dict.fromkeys(each.name for each in wrong))}.", worst
