"""The last fault of the database that calls ran into (H4), for those who ask whether this process is ready."""

from __future__ import annotations

import time
from typing import Final

REMEMBERED_S: Final = 10.0


class Recent:
    """The last fault that calls ran into, for `/readyz`: a full disk shows itself to nobody who only reads."""

    def __init__(self) -> None:
        self._why: str | None = None
        self._at = 0.0

    def note(self, why: str) -> None:
        """Remember a fault."""
        self._why, self._at = why, time.monotonic()

    def why(self) -> str | None:
        """The fault, while it is fresh."""
        return self._why if time.monotonic() - self._at < REMEMBERED_S else None


RECENT: Final = Recent()
