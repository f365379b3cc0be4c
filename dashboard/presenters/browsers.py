"""What a browser says of itself, in three words: enough to know one's own sessions."""

from __future__ import annotations

from typing import Final

# The first that is in the text: others name themselves after these.
BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
SYSTEMS: Final = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS", "Mac"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
LONGEST: Final = 60


def in_words(agent: str) -> str:
    """Write `Firefox on Windows`; the text itself where it is none of the usual ones."""
    browser = next((name for mark, name in BROWSERS if mark in agent), "")
    system = next((name for mark, name in SYSTEMS if mark in agent), "")
    if not browser or not system:
        return agent[:LONGEST] or "something without a name"
    return f"{browser} on {system}"
