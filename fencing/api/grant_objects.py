"""The objects about who may act alone and what is stopped: freezes, the trail of a grant, authority at a moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencing.api.schemas import MOMENT, NUMBER, TEXT, TRUTH, Schema, array, maybe, ref, shape

PLACE: Final = shape({"run": TEXT, "step": TEXT, "epoch": NUMBER})
FROZEN_SCOPE: Final = shape({"tool": maybe(TEXT), "run": maybe(TEXT)})
REACHED: Final = shape({"run": TEXT, "step": TEXT, "epoch": NUMBER, "intent": maybe(TEXT)}, optional=("run",))
# What a freeze reached may be an undoing, which belongs to no one step, and to no run where it undoes an escape.
REACHED_UNDOING: Final = shape(
    {
        "run": maybe(TEXT),
        "step": maybe(TEXT),
        "epoch": maybe(NUMBER),
        "intent": maybe(TEXT),
        "compensation": TEXT,
    }
)
FROZEN: Final = array({"anyOf": [ref("reached_step"), ref("reached_undoing")]})
GRANT_OBJECTS: Final[Mapping[str, Schema]] = {
    "reached_step": REACHED,
    "reached_undoing": REACHED_UNDOING,
    "freeze": shape(
        {
            "id": TEXT,
            "scope": FROZEN_SCOPE,
            "reason": TEXT,
            "by": TEXT,
            "at": MOMENT,
            "stopped": FROZEN,
            "already_out": FROZEN,
            "more": shape({"stopped": NUMBER, "already_out": NUMBER}),
            "voided": array(TEXT),
            "lifted": maybe(shape({"by": TEXT, "at": MOMENT, "reason": TEXT})),
            "duplicate": TRUTH,
        },
        optional=("duplicate",),
    ),
    "trail": shape({"grant": ref("grant"), "items": array(ref("trail_entry")), "is_cut": TRUTH}),
    "trail_entry": shape(
        {
            "at": MOMENT,
            "what": {
                "enum": [
                    *("asked", "approved", "live", "used", "refused_use", "refused_act", "refused_call", "late_vote"),
                    *("expired", "revoked", "voided", "reviewed"),
                ]
            },
            "by": TEXT,
            "role": TEXT,
            "source": TEXT,
            "reason": TEXT,
            "step": maybe(PLACE),
            "effect": maybe(
                shape(
                    {
                        **dict.fromkeys(("intent", "state", "tool", "payload_digest"), TEXT),
                        "revoked": maybe(TEXT),
                        "committed_at": MOMENT,
                        "left_at": maybe(MOMENT),
                        "settled_at": maybe(MOMENT),
                    }
                )
            ),
            "stopped": array(PLACE),
            "already_out": array(PLACE),
        }
    ),
    "authority": shape(
        {
            "at": MOMENT,
            "grants": array(
                shape(
                    {
                        **dict.fromkeys(("who", "may", "grant", "run", "state", "issuer"), TEXT),
                        "until": maybe(MOMENT),
                        **dict.fromkeys(("epoch", "uses", "max_uses"), NUMBER),
                        **dict.fromkeys(("step", "tool", "digest"), maybe(TEXT)),
                        "approved_by": array(TEXT),
                    }
                )
            ),
            "freezes": array(
                shape({"freeze": TEXT, "scope": FROZEN_SCOPE, "by": TEXT, "since": MOMENT, "reason": TEXT})
            ),
            "keys": array(
                shape(
                    {
                        **dict.fromkeys(("who", "role", "may", "group"), TEXT),
                        **dict.fromkeys(("path", "person"), maybe(TEXT)),
                        **dict.fromkeys(("tools", "lanes"), maybe(array(TEXT))),
                        "since": MOMENT,
                        "until": maybe(MOMENT),
                    }
                )
            ),
            "people": array(shape({"who": TEXT, "roles": array(TEXT), "may": array(TEXT), "until": maybe(MOMENT)})),
            "is_cut": TRUTH,
        }
    ),
}
