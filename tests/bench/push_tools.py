"""Run in the environment of a system's owner: registers the push tools of the bench at an address of this machine."""

from __future__ import annotations

import sys

import django

django.setup()

from fencing.protocol.errors import Refusal  # noqa: E402 (needs the settings)
from fencing.services.credentials import COMMAND_LINE  # noqa: E402
from fencing.services.tools import load_definitions  # noqa: E402

# Room for all calls of the bench at once, and time for those that take long.
POLICY = {"deadline_s": 600, "grace_s": 0, "timeout_s": 120, "max_in_flight": 500}


def main(address: str) -> None:
    """Register `bench_pay` and `bench_slow`, both idempotent."""
    tools = [
        {"tool": tool, "mode": "push", "idempotent": True, "endpoint": f"{address}/pay", "policy": POLICY}
        for tool in ("bench_pay", "bench_slow")
    ]
    report = load_definitions(tools, COMMAND_LINE)
    if isinstance(report, Refusal):
        raise SystemExit(f"{report.pointer or ''}: {report.detail}")


if __name__ == "__main__":
    main(sys.argv[1])
