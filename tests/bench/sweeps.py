"""Run in the environment of a system: times what its ticker does each second, and prints the times as JSON."""

from __future__ import annotations

import json
import sys
import time

import django

django.setup()

from fencing import jobs  # noqa: E402 (needs the settings)


def main(times: int) -> None:
    """Tick so many times; the first ones, which open the connection, do not count."""
    took = []
    for number in range(times + 3):
        began = time.perf_counter()
        jobs.tick()
        if number > 2:
            took.append(time.perf_counter() - began)
    sys.stdout.write(json.dumps(took) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
