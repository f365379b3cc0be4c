"""`manage.py gate`: the gate of a lane as an exit status, for deployment pipelines (A7)."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandParser

from fencing.client import BadAnswer, Refused, Unreachable
from fencing.client.marker import GateReader
from fencing.client.objects import GateSaid
from fencing.management import remote
from fencing.protocol.gate import Gate

STATUS: Final = {Gate.PASS: 0, Gate.HALT: 1, Gate.WAIT: 2}
# What is no answer of the gate is no pass either, and no other word of it.
NO_ANSWER: Final = 3
LONGEST_S: Final = 30.0


class Command(BaseCommand):
    """Ask the gate of a lane, and leave with 0 for pass, 1 for halt, 2 for wait."""

    help = (
        "Ask the gate of a lane: exit status 0 is pass, 1 halt, 2 wait; 3 means that there was no answer,"
        f" which is never a pass. With --wait it is asked until it says something else than wait. {remote.HOW}"
    )
    requires_system_checks = []  # nothing of this machine is used

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("lane")
        remote.add_address(parser)
        parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="wait for a pass or a halt")
        parser.add_argument("--json", action="store_true", help="print the answer as the API gives it")

    def handle(self, *args: Any, **options: Any) -> None:
        """Ask, print, leave."""
        remote.be_quiet()
        with GateReader(remote.address_of(options), remote.key_of()) as reader:
            try:
                said = _asked(reader, options["lane"], options["wait"])
            except (Refused, Unreachable, BadAnswer) as trouble:
                self.stderr.write(f"no answer from the gate of {options['lane']}: {trouble}")
                sys.exit(NO_ANSWER)
        self.stdout.write(json.dumps(asdict(said), indent=2) if options["json"] else told(options["lane"], said))
        try:
            sys.exit(STATUS[Gate(said.gate)])
        except ValueError:
            sys.exit(NO_ANSWER)


def _asked(reader: GateReader, lane: str, patience_s: float) -> GateSaid:
    until = time.monotonic() + patience_s
    while True:
        left = max(0.0, until - time.monotonic())
        said = reader.read_gate(lane, wait_s=min(LONGEST_S, left))
        if said.gate != Gate.WAIT or time.monotonic() >= until:
            return said
        time.sleep(min(1.0, left))


def told(lane: str, said: GateSaid) -> str:
    """Write what the gate says, as a person reads it."""
    figures = said.figures
    mean = figures.get("mean")
    score = "no data" if mean is None else format(mean, ".6g")
    counts = ", ".join(f"{name} {figures[name]}" for name in ("published", "incomplete", "mixed", "rejects"))
    score = "no data" if mean is None else format(mean, ".6g")
    counts = ", ".join(f"{name} {figures[name]}" for name in ("published", "incomplete", "mixed", "rejects"))
    lines = [
        f"{lane}: {said.gate}",
        *(f"  {reason.detail}" for reason in said.reasons),
        f"  {counts}, mean {score}",
        f"  read {said.snapshot}, thresholds version {said.thresholds_version}",
    ]
    return "\n".join(lines)
