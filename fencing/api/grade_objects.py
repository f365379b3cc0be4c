"""The objects of lanes, attempts and grades, for the document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencing.api.schemas import ANYTHING, MOMENT, NUMBER, TEXT, TRUTH, Schema, array, maybe, ref, shape

FLOAT: Final[Schema] = {"type": "number"}

GRADE_OBJECTS: Final[Mapping[str, Schema]] = {
    "lane": shape(
        {
            "lane": TEXT,
            "state": {"enum": ["running", "halted"]},
            "halted": maybe(shape({"reason": TEXT, "at": MOMENT})),
            "thresholds": {"type": "object"},
            "thresholds_version": NUMBER,
            "published": NUMBER,
            "mixed": NUMBER,
            "duplicate": TRUTH,
        },
        optional=("duplicate",),
    ),
    "grade": shape({"attempt": TEXT, "epoch": NUMBER, "mean": maybe(FLOAT), "digest": TEXT, "published_at": MOMENT}),
    "attempt": shape(
        {
            "attempt": TEXT,
            "lane": TEXT,
            "expected": NUMBER,
            "epoch": NUMBER,
            "state": {"enum": ["open", "published"]},
            "received": NUMBER,
            "missing": array(NUMBER),
            "superseded": array(shape({"epoch": NUMBER, "seq": NUMBER})),
            "rejects": NUMBER,
            "require_permits": TRUTH,
            "regrade_of": maybe(TEXT),
            "grade": maybe(ref("grade")),
            "duplicate": TRUTH,
        },
        optional=("duplicate",),
    ),
    "restart": shape(
        {"attempt": TEXT, "epoch": NUMBER, "dropped": NUMBER, "current_epoch": NUMBER, "duplicate": TRUTH},
        optional=("current_epoch", "duplicate"),
    ),
    "leased_fragments": shape(
        {
            "items": array(
                shape({"attempt": TEXT, "epoch": NUMBER, "seq": NUMBER, "input": ANYTHING, "lease_until": MOMENT})
            )
        }
    ),
    "permit": shape({"permit": TEXT, "duplicate": TRUTH}, optional=("duplicate",)),
    "spend": shape({"spend": {"enum": ["live", "wasted", "zombie"]}, "duplicate": TRUTH}, optional=("duplicate",)),
    "fragment_result": shape(
        {"result": {"enum": ["accept", "duplicate"]}, "conflict": TRUTH, "duplicate": TRUTH},
        optional=("conflict", "duplicate"),
    ),
    "publication": shape(
        {
            "result": {"enum": ["publish", "incomplete", "halt"]},
            "grade": ref("grade"),
            "missing": array(NUMBER),
            "expected": NUMBER,
            "reason": TEXT,
            "duplicate": TRUTH,
        },
        optional=("grade", "missing", "expected", "reason", "duplicate"),
    ),
    "gate": shape(
        {
            "lane": TEXT,
            "gate": {"enum": ["pass", "halt", "wait"]},
            "reasons": array(shape({"code": TEXT, "detail": TEXT})),
            "figures": shape(
                {
                    "published": NUMBER,
                    "incomplete": NUMBER,
                    "mixed": NUMBER,
                    "rejects": NUMBER,
                    "accepted": NUMBER,
                    "reject_ratio": maybe(FLOAT),
                    "unacknowledged": NUMBER,
                    "scored": NUMBER,
                    "mean": maybe(FLOAT),
                    "interval": maybe(array(FLOAT)),
                }
            ),
            "snapshot": TEXT,
            "thresholds_version": NUMBER,
        }
    ),
}
