"""What reading costs: lists, counters and metrics over HTTP, each asked a few times."""

from __future__ import annotations

import http.client
import statistics
import time
from typing import Final
from urllib.parse import urlsplit

ASKED: Final = (
    "/api/v1/counters",
    "/metrics",
    "/api/v1/runs?limit=50",
    "/api/v1/intents?limit=50",
    "/api/v1/side-log?limit=50",
    "/api/v1/audit?limit=50",
    "/api/v1/incidents?limit=50",
)
TIMES: Final = 7


def read_times(base_url: str, key: str) -> dict[str, float]:
    """The median time of each read, in milliseconds."""
    place = urlsplit(base_url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=300)
    try:
        return {path: statistics.median(_asked(connection, path, key) for _ in range(TIMES)) for path in ASKED}
    finally:
        connection.close()


def _asked(connection: http.client.HTTPConnection, path: str, key: str) -> float:
    began = time.perf_counter()
    connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
    response = connection.getresponse()
    response.read()
    if response.status != http.client.OK:
        raise RuntimeError(f"{path}: {response.status}")
    return 1000 * (time.perf_counter() - began)
