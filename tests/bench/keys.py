"""Run in the environment of a system's owner: registers the tools of the bench, and prints a set of keys as JSON.

Planners stand in groups of their own, so that each reads its own decisions alone out of the feed.
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

import django

django.setup()

from fencing.management.commands.load_tools import load  # noqa: E402 (needs the settings)
from fencing.protocol.callers import Role  # noqa: E402
from fencing.protocol.errors import Refusal  # noqa: E402
from fencing.services.credentials import COMMAND_LINE, IssueKey, issue  # noqa: E402

# Far above what is measured: the limit of a key is another matter.
RATE_PER_S = 1_000_000


def main(planners: int) -> None:
    """Issue the keys."""
    load(Path(__file__).parent / "tools.json")
    mark = secrets.token_hex(3)
    made = {
        "planners": [_key(Role.PLANNER, f"bench-planner-{mark}-{number}") for number in range(planners)],
        "replica": _key(Role.PATH, f"bench-replica-{mark}", path="replica"),
        "production": _key(Role.PATH, f"bench-production-{mark}", path="production"),
        "gateway": _key(Role.GATEWAY, f"bench-gateway-{mark}"),
        "auditor": _key(Role.AUDITOR, f"bench-auditor-{mark}"),
    }
    sys.stdout.write(json.dumps(made))


def _key(role: Role, name: str, path: str | None = None) -> str:
    issued = issue(IssueKey(role=role, name=name, path=path, rate_per_s=RATE_PER_S), COMMAND_LINE)
    if isinstance(issued, Refusal):
        raise SystemExit(issued.detail)
    return issued.key


if __name__ == "__main__":
    main(int(sys.argv[1]))
