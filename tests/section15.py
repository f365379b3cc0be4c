"""Who may make which call: section 15 of the protocol, written down here and not read from the code.

A call that is not in the table fails `tests/api/test_every_call.py`: nobody adds one without saying who may make it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencing.protocol.callers import KEY_ROLES, Role

ANY: Final = frozenset(KEY_ROLES)
ANY_BUT_PATH: Final = ANY - {Role.PATH}
WATCHERS: Final = frozenset({Role.AUDITOR, Role.ONCALL, Role.REVIEWER})
ONCALL, REVIEWER = frozenset({Role.ONCALL}), frozenset({Role.REVIEWER})
PEOPLE: Final = ONCALL | REVIEWER
PLANNER, GATEWAY, PATH = frozenset({Role.PLANNER}), frozenset({Role.GATEWAY}), frozenset({Role.PATH})
PUBLISHER, SCORER, GATE = frozenset({Role.PUBLISHER}), frozenset({Role.SCORER}), frozenset({Role.GATE})

# Paths are spelt as in the document. An auditor may make every GET besides (H1).
MAY: Final[Mapping[str, frozenset[Role]]] = {
    "POST /runs": PLANNER,
    "POST /epochs": PLANNER,
    "POST /steps": PLANNER,
    "POST /steps/replay": PLANNER | REVIEWER,
    "POST /votes": PATH,
    "GET /votes/wanted": PATH,
    "GET /runs": ANY_BUT_PATH,
    "GET /runs/{run}": ANY_BUT_PATH,
    "GET /runs/{run}/steps/{step}": ANY,
    "GET /events": PLANNER,
    "POST /forks": PLANNER,
    "POST /forks/reconcile": PLANNER,
    "POST /grants": ONCALL,
    "POST /grants/{name}/approve": ONCALL,
    "POST /grants/{name}/revoke": ONCALL,
    "POST /grants/{name}/review": PEOPLE,
    "GET /grants": ANY_BUT_PATH,
    "GET /grants/{name}": ANY_BUT_PATH,
    "GET /grants/{name}/trail": WATCHERS,  # G8: by whom and from where, as the audit shows it
    "GET /authority": WATCHERS,
    "GET /freezes": ANY_BUT_PATH,
    "GET /freezes/{freeze}": ANY_BUT_PATH,
    "POST /freezes": ONCALL,
    "POST /freezes/{freeze}/lift": ONCALL,
    "POST /gateway/admissions": GATEWAY,
    "GET /gateway/wanted": GATEWAY,
    "POST /gateway/outcomes": GATEWAY,
    "POST /gateway/effects": GATEWAY,
    "GET /intents": ANY_BUT_PATH,
    "GET /intents/{intent}": ANY_BUT_PATH,
    "POST /intents/{intent}/resolve": REVIEWER,
    "POST /intents/{intent}/adopt": REVIEWER,
    "GET /incidents": ANY_BUT_PATH,
    "GET /incidents/{incident}": ANY_BUT_PATH,
    "POST /incidents/{incident}/resolve": REVIEWER,
    "GET /compensations": ANY_BUT_PATH,
    "GET /compensations/{compensation}": ANY_BUT_PATH,
    "POST /compensations": REVIEWER,
    "POST /compensations/{compensation}/approve": REVIEWER,
    "POST /compensations/{compensation}/waive": REVIEWER,
    "POST /compensations/{compensation}/record": REVIEWER,
    "POST /compensations/{compensation}/resolve": REVIEWER,
    "POST /lanes": PUBLISHER,
    "GET /lanes": ANY_BUT_PATH,
    "POST /lanes/{lane}/resume": REVIEWER,
    "POST /lanes/{lane}/thresholds": REVIEWER,
    "POST /attempts": PUBLISHER,
    "GET /attempts/{attempt}": ANY_BUT_PATH,
    "POST /attempts/restart": PUBLISHER,
    "POST /fragments/lease": SCORER,
    "POST /permits": SCORER,
    "POST /permits/spend": SCORER,
    "POST /fragments": SCORER,
    "POST /publish": PUBLISHER,
    "GET /lanes/{lane}/gate": GATE | PUBLISHER | REVIEWER,
    "GET /side-log": WATCHERS,
    "GET /side-log/export": WATCHERS,
    "POST /side-log/acknowledge": PEOPLE,
    "GET /audit": WATCHERS,
    "GET /evidence/{kind}/{id}": WATCHERS,
    "GET /counters": ANY,
    "GET /tools": ANY,
}


def may(call: str, role: Role) -> bool:
    """Whether the protocol lets a role make a call (`GET /runs/{run}`)."""
    return role in MAY.get(call, frozenset()) or (role is Role.AUDITOR and call.startswith("GET "))
