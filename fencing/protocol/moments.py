"""Moments as people and programs write them, in UTC from here on.

Others write a moment with an offset that Python reads and PostgreSQL does not (beyond sixteen hours), or so near the
end of the calendar that it has no place in UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime


def read_moment(text: str) -> datetime | None:
    """Read a moment in ISO form; one without a zone is in UTC. None where it is none."""
    try:
        return in_utc(datetime.fromisoformat(text))
    except ValueError:
        return None


def in_utc(at: datetime) -> datetime:
    """The same moment in UTC. ValueError where the calendar has no such moment there."""
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError as fault:
        raise ValueError("This moment lies outside the calendar.") from fault
