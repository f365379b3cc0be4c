"""The counters: what each invariant is measured by, and the eight numbers that are never folded into each other.

A ratio is `{n, of}`; with nothing measured `of` is 0, and whoever shows it says "no data". Work that is not finished
is no part of a denominator, and a number of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from django.db import connection

from fencing.protocol.counting import ADMISSION, CountedAs, counted_as

_TALLY: Final = "SELECT coalesce(sum(count), 0)::bigint FROM fencing_tally WHERE name = "
# What stays small however long the history is: what is under way, and what a person had to do with.
_LIVE: Final = {
    "wrong": "SELECT count(*) FROM fencing_incident WHERE kind IN ('landed_escape', 'doubled', 'missing')",
    "unsettled": "SELECT count(*) FROM fencing_intent WHERE state IN ('held', 'ready', 'in_flight', 'in_doubt')",
    "undecided": "SELECT count(*) FROM fencing_step WHERE phase IN ('proposed', 'agreed', 'fenced')",
    "duplicates": _TALLY + "'duplicates'",
    "repeated_admissions": _TALLY + "'admissions_repeated'",
    "exempt_admissions": _TALLY + "'admissions_exempt'",
    "unauthenticated": _TALLY + "'unauthenticated'",
}
_COUNTED: Final = "SELECT coalesce(jsonb_object_agg(name, count), '{}') FROM fence_counts(NULL)"
_EFFECTS: Final = ("effect:intent", "effect:compensation", "effect:escape", "effect:doubled")
_RUNNING: Final = (
    "commit",
    "commit:grant",
    "commit:both",
    "commit:divergent",
    "commit:correlated",
    "grade",
    "grade:mixed",
    "fragment:superseded",
    "spend:zombie",
)
_SIDE_LOG: Final = "side_log"


def read_counters() -> dict[str, Any]:
    """All counters, of one moment, and as cheap after years as on the first day (`fencing/models/counts.py`)."""
    count = _read()
    attempts = sum(
        count[name] for name in ("deliveries", "repeated_admissions", "exempt_admissions", "escapes", "held_back")
    )
    return {
        "i1_divergent_commits": _ratio(count["commit:divergent"], count["commit"]),
        "i2_landed_escapes": _ratio(count["effect:escape"], sum(count[name] for name in _EFFECTS)),
        "i2_attempted_escapes": _ratio(count["escapes"], attempts),
        "i3_wrong_effects": _ratio(count["wrong"], count["intent:settled"]),
        "i4_mixed_grades": _ratio(count["grade:mixed"], count["grade"]),
        "i5_untraced_inputs": _ratio(0, 0),
        "i6_undetected_edits": _ratio(0, 0),
        "correlated_agreements": _ratio(
            count["commit:correlated"], count["commit"] - count["commit:grant"] + count["commit:both"]
        ),
        "retries": count["repeated_deliveries"],
        "duplicates": count["duplicates"],
        "refusals": count["refused"],
        "stale_rejects": count["stale"],
        "superseded_fragments": count["fragment:superseded"],
        "attempted_escapes": count["escapes"],
        "landed_escapes": count["effect:escape"],
        "zombie_spend": count["spend:zombie"],
        "repeated_admissions": count["repeated_admissions"],
        "exempt_admissions": count["exempt_admissions"],
        "unauthenticated": count["unauthenticated"],
        "unacknowledged": count["unacknowledged"],
        "undecided_steps": count["undecided"],
        "unsettled_intents": count["unsettled"],
    }


def phases() -> dict[str, int]:
    """How many steps are in each phase."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT substr(name, 6), count FROM fence_counts(NULL) WHERE name LIKE 'step:%'"
            " UNION ALL"
            " SELECT phase, count(*) FROM fencing_step WHERE phase IN ('proposed', 'agreed', 'fenced') GROUP BY 1"
            " UNION ALL SELECT 'idle', count(*) FROM fencing_step WHERE phase = 'idle'"
        )
        return {phase: count for phase, count in cursor.fetchall() if count}


def _read() -> dict[str, int]:
    """Every count, from one statement, so that all are of one moment."""
    fields = ", ".join(f"({query}) AS {name}" for name, query in _LIVE.items())
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT ({_COUNTED})::text, {fields}")
        ((counted, *live),) = cursor.fetchall()
    count: dict[str, int] = dict(zip(_LIVE, live, strict=True))
    running: dict[str, int] = json.loads(counted)
    count |= {name: running.get(name, 0) for name in _RUNNING}
    # Of these there is a count for each tool.
    count |= {name: _over_tools(running, name) for name in ("intent:succeeded", "intent:failed", *_EFFECTS)}
    count["intent:settled"] = count["intent:succeeded"] + count["intent:failed"]
    count["deliveries"] = running.get("delivery", 0) + running.get("delivery:repeated", 0)
    count["repeated_deliveries"] = running.get("delivery:repeated", 0)
    logged = {tuple(name.split(":")[1:]): by for name, by in running.items() if name.startswith(f"{_SIDE_LOG}:")}
    return count | _side_log(logged) | {"unacknowledged": sum(logged.values()) - running.get("acknowledged", 0)}


def _over_tools(running: Mapping[str, int], name: str) -> int:
    return sum(by for each, by in running.items() if each.startswith(f"{name}:"))


def _side_log(logged: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    """Sort the rows of the side log, by (kind, reason), into the counters that they belong to."""
    found = dict.fromkeys(("escapes", "held_back", "stale", "refused"), 0)
    for (kind, reason), count in logged.items():
        counter = counted_as(kind, reason)
        if kind == ADMISSION:
            found["escapes" if counter is CountedAs.ATTEMPTED_ESCAPE else "held_back"] += count
        if counter is CountedAs.STALE_REJECT:
            found["stale"] += count
        elif counter is CountedAs.REFUSAL:
            found["refused"] += count
    return found


def _ratio(n: int, of: int) -> dict[str, int]:
    return {"n": n, "of": of}
