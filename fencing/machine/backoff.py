"""How long to wait before a process that died is started again: a pure decision, so that a test can try it."""

from dataclasses import dataclass, replace
from typing import Self

FIRST_S = 0.25
LONGEST_S = 30.0
# A process that lived this long was well; its next death is a first one.
HEALTHY_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class BackOff:
    """How often a process died in a row."""

    deaths: int = 0

    def after_death(self, lived_s: float) -> Self:
        """Return the state after one more death of a process that lived `lived_s` seconds."""
        return replace(self, deaths=1 if lived_s >= HEALTHY_S else self.deaths + 1)

    @property
    def delay_s(self) -> float:
        """Seconds to wait before the next start: doubles with each death, up to `LONGEST_S`."""
        return min(FIRST_S * 2 ** max(0, self.deaths - 1), LONGEST_S) if self.deaths else 0.0
