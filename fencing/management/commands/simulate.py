"""`manage.py simulate`: the pure core under every order of events, beside a common implementation. Needs no server."""

import json
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.protocol.canonical import digest_of
from fencing.protocol.simulate.forms import event_text
from fencing.protocol.simulate.parts import PARTS, Part
from fencing.protocol.simulate.strings import Failure, Progress, Tally, try_all, try_random

PROGRESS_EVERY_S = 2.0


class Command(BaseCommand):
    """Play the traces of the protocol's section 16, and on request random and all short strings of events."""

    requires_system_checks = []  # they load every page; here is nothing but the pure core
    help = (
        "Play 32 traces through a leaky and the enforcing gateway and print the figures; with --random and "
        "--exhaustive, try strings of events and check the invariants after each event. Exit status 1 if a property "
        "fails; the shortest trace that shows it is written as JSON, which the simulator page opens."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--random", type=_count, metavar="N", default=0, help="try N random strings of events")
        parser.add_argument("--seed", type=int, metavar="S", default=1, help="of --random (default 1)")
        parser.add_argument(
            "--exhaustive", type=_count, metavar="K", default=0, help="try every string of up to K events (5: 30 s)"
        )
        parser.add_argument("--trace", type=Path, metavar="FILE", help="where a failing trace goes")

    def handle(self, *args: Any, **options: Any) -> None:
        faults = tuple(fault for part in PARTS for fault in self._shown(part()))
        failure = None
        if options["random"]:
            failure = self._random(options["random"], options["seed"])
        if options["exhaustive"] and failure is None:
            failure = self._exhaustive(options["exhaustive"])
        if failure is not None:
            faults = (*faults, self._told(failure, options["trace"]))
        if faults:
            raise CommandError("; ".join(faults))

    def _shown(self, part: Part) -> tuple[str, ...]:
        for line in part.lines:
            self.stdout.write(line)
        return part.faults

    def _random(self, count: int, seed: int) -> Failure | None:
        # Not for secrets: the seed is printed so that the same strings can be had again.
        rng = Random(seed)  # noqa: S311
        return self._strings(
            f"random     seed={seed}",
            lambda tally, tell: try_random(count, rng, tally=tally, seed=seed, progress=tell),
        )

    def _exhaustive(self, length: int) -> Failure | None:
        return self._strings(
            f"exhaustive length={length}", lambda tally, tell: try_all(length, tally=tally, progress=tell)
        )

    def _strings(self, title: str, attempt: Callable[[Tally, Progress], Failure | None]) -> Failure | None:
        tally = Tally()
        failure = attempt(tally, self._progress())
        self.stdout.write(f"{title} strings={tally.strings} events={tally.events}")
        for figure in tally.figures:
            self.stdout.write(f"           {figure}")
        return failure

    def _progress(self) -> Progress:
        """Tell on the error stream, now and then, so that the figures can go into a file."""
        last = time.monotonic()

        def tell(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > PROGRESS_EVERY_S:
                last = time.monotonic()
                self.stderr.write(f"{done} of {total} …")

        return tell

    def _told(self, failure: Failure, chosen: Path | None) -> str:
        """Print the failing trace, write it down, and say where it is."""
        first = failure.violations[0]
        for number, (at, event) in enumerate(failure.happenings, start=1):
            self.stdout.write(f"  {number:>3}. {at:%H:%M:%S.%f} {event_text(event)}")
        text = json.dumps(failure.as_json(), indent=2)
        name = f"{first.property}-{digest_of(text.encode())[7:19]}.json"
        file = chosen or Path(settings.FENCE_DATA) / "traces" / name
        said = f"{first.property} fails: {first.sentence}"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            self.stdout.write(text)
            return f"{said} (the trace above cannot be written to {file}: {error.strerror})"
        return f"{said}; the trace is in {file}"


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > sys.maxsize:
        raise ArgumentTypeError(f"{text} is no number of strings or events")
    return int(text)
