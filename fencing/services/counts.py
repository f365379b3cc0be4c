"""Adding up what the triggers counted (`fencing/models/counts.py`), a batch at a time."""

from __future__ import annotations

from typing import Final

from django.db import connection

BATCH: Final = 10_000
# Of one tick: what is left waits for the next one, and readers add it up by themselves until then.
MOST: Final = 20 * BATCH


def sum_changes(limit: int = BATCH) -> int:
    """Add up what has changed; give how much it was. Several workers at once are harmless: one does it."""
    done = 0
    while done < MOST:
        with connection.cursor() as cursor:
            cursor.execute("SELECT fence_sum_changes(%s)", [limit])
            ((summed,),) = cursor.fetchall()
        done += summed
        if summed < limit:
            break
    return done
