"""`manage.py bench`: measure this system on this machine, each figure beside a raw one of the same run.

Everything runs against an `up` of its own in a throw-away folder, with fsync and synchronous_commit on. Rates move with
whatever else the machine does; ratios and processor seconds for each step hardly do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.bench import machine
from tests.bench.figures import bulk, history, latency, one_by_one, pushing, resident, waiting
from tests.bench.jobs import LoadFailed
from tests.bench.report import Figure, Found, as_json, number, table
from tests.bench.scale import SCALES, Scale
from tests.bench.system import Measured, NotDurable

MEASUREMENTS: Final[Mapping[str, Callable[[Measured, Scale], Found]]] = {
    "one_by_one": one_by_one.measure,
    "bulk_100": bulk.hundred,
    "bulk_1000": bulk.thousand,
    "latency": latency.measure,
    "pushing": pushing.measure,
    "waiting": waiting.measure,
    "history": history.measure,
    "memory": resident.measure,
}


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked for, print it, and return the exit code."""
    options = parser().parse_args(arguments)
    scale = SCALES[options.scale]
    wanted = options.only or [name for name in MEASUREMENTS if name not in scale.left_out]
    try:
        with measured_system(options.on) as measured:
            where = machine.describe(measured.settings())
            say("\n".join(f"{name}: {text}" for name, text in where.items()))
            found = {name: measure(name, measured, scale) for name in wanted}
    except (LoadFailed, LookupError, NotDurable) as fault:
        say(f"error: {fault}")
        return 1
    figures = [figure for each in found.values() for figure in each.figures]
    say("\n" + table(ratios_first(figures)))
    if options.json:
        more = {name: dict(each.more) for name, each in found.items()}
        whole = {"scale": options.scale, "machine": where, "figures": as_json(figures), "more": more}
        options.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="manage.py bench", description=__doc__.partition("\n")[0])
    how_long = made.add_mutually_exclusive_group()
    scales = {
        "quick": "two minutes, without the figures of a long history",
        "full": "hours: ten million steps, fifteen minutes of memory",
    }
    for name, words in scales.items():
        how_long.add_argument(f"--{name}", dest="scale", action="store_const", const=name, help=words)
    how_long.add_argument("--tiny", dest="scale", action="store_const", const="tiny", help=argparse.SUPPRESS)
    made.add_argument(
        "--only", action="append", choices=list(MEASUREMENTS), metavar="NAME", help=f"one of: {', '.join(MEASUREMENTS)}"
    )
    made.add_argument(
        "--on", metavar="DIR", type=Path, help="measure the `up` that runs with this data folder, and leave it running"
    )
    made.add_argument("--json", metavar="FILE", type=Path, help="write everything that was found to a file, too")
    made.set_defaults(scale="normal")
    return made


def measured_system(data: Path | None) -> contextlib.AbstractContextManager[Measured]:
    """The system that runs with `data`, else one of its own."""
    return Measured.start() if data is None else contextlib.nullcontext(Measured.running(data))


def measure(name: str, measured: Measured, scale: Scale) -> Found:
    """Make one measurement, and tell at once what it found."""
    began, before = time.monotonic(), machine.pace()
    found = MEASUREMENTS[name](measured, scale)
    took, pace = time.monotonic() - began, {"before": before, "after": machine.pace()}
    found = Found(figures=found.figures, more={**found.more, "ns for a turn of an empty loop": pace})
    say(f"\n{name} ({took:.0f} s)")
    say(table(found.figures))
    for title, words in told(found.more):
        say(f"  {title}: {words}")
    return found


def told(more: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What lies behind the figures, a line each."""
    lines = []
    for title, value in more.items():
        if not isinstance(value, Mapping):
            lines.append((title, str(value)))
        elif all(isinstance(each, Mapping) for each in value.values()):
            lines += [(f"{title} {name}", _numbers(each)) for name, each in value.items()]
        else:
            lines.append((title, _numbers(value)))
    return lines


def ratios_first(figures: Sequence[Figure]) -> list[Figure]:
    """Put what does not move with the machine's mood before what does."""
    return sorted(figures, key=lambda figure: figure.unit != "%")


def say(text: str) -> None:
    """Tell whoever waits."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _numbers(values: Mapping[str, Any]) -> str:
    return "  ".join(f"{name} {number(value)}" for name, value in values.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
