"""Moments as pages write them: UTC on the server; the browser adds the viewer's zone and how long ago."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment: for machines, to the microsecond, and short for people."""

    iso: str
    exact: str
    short: str


def moment(at: datetime | str | None, now: datetime | None = None) -> Moment | None:
    """Prepare a moment, from a value or as answers carry it (RFC 3339). The date is left out on the day of `now`.

    Raises:
        ValueError: the text is no time, or the value has no zone.
    """
    if at is None:
        return None
    value = datetime.fromisoformat(at) if isinstance(at, str) else at
    if value.tzinfo is None:
        raise ValueError("a moment needs a zone")
    utc = value.astimezone(UTC)
    is_today = now is not None and now.astimezone(UTC).date() == utc.date()
    return Moment(
        iso=utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        exact=utc.strftime("%Y-%m-%d %H:%M:%S.%f UTC"),
        short=utc.strftime("%H:%M:%S UTC" if is_today else "%Y-%m-%d %H:%M:%S UTC"),
    )
