"""Running counts of what only grows: exact at every moment, and as cheap with ten million steps as with ten.

Whole tables are never counted to answer somebody. Triggers write a row of `Change` beside whatever moves a count, in
the same transaction and without waiting for anybody. A worker adds them up into `Total` and removes them, in one
statement each time (`fence_sum_changes`). Whoever reads takes both in one statement, and so every change exactly once:
what commits late is added up late, and a transaction that is held open holds nothing back (design 10).
Both are derived. `plain_counts` counts the facts; `manage.py recompute` compares.

| name | counts | by hour of |
| --- | --- | --- |
| `step:<phase>` | steps that are decided: committed, rejected, exempt | the decision |
| `intent:<state>:<tool>` | intents that succeeded or failed | |
| `commit`, `commit:grant`, `commit:both` | commits, those under a grant, those to which agreement was added (F7) | |
| `commit:divergent`, `commit:correlated` | what was found when a commit was added up (I1, F10) | |
| `delivery`, `delivery:repeated` | deliveries, and those that are not the first try | |
| `effect:<match>:<tool>` | rows of tools' ledgers, by what they were found to be (L8) | |
| `side_log:<kind>:<reason>` | rows of the side log | the row |
| `acknowledged` | rows of it that a person acknowledged | |
| `grade` | grades that were published | |
| `grade:<flaw>` | published grades that were found mixed, incomplete or changed | |
| `fragment:superseded` | fragments that restarts dropped | |
| `spend:zombie` | reports of zombie spend | |
"""

from __future__ import annotations

from typing import Final

import pgtrigger
from django.db import models

from fencing.models import triggers

# The name of a tool is part of some.
NAME_LENGTH: Final = 240
DECIDED: Final = "('committed', 'rejected', 'exempt')"
SETTLED: Final = "('succeeded', 'failed')"
# The hour of a total that holds all hours.
ALWAYS: Final = "timestamptz 'epoch'"


def hour_of(moment: str) -> str:
    """Write the hour of a moment as SQL, in UTC whatever the session's zone."""
    return f"to_timestamp(floor(extract(epoch FROM {moment}) / 3600) * 3600)"


def moved(name: str, hour: str, by: str) -> str:
    """Write down that a count moved."""
    return f"INSERT INTO public.fencing_change (name, hour, by) VALUES ({name}, {hour}, {by});"  # noqa: S608 - our own


def counted_rows(name: str, select: str) -> triggers.Counting:
    """Count what a statement inserts, at its end. `select` gives (name, hour, by, commit) from `fresh`."""
    return triggers.Counting(
        name=name,
        operation=pgtrigger.Insert,
        level=pgtrigger.Statement,
        referencing=pgtrigger.Referencing(new="fresh"),  # type: ignore[no-untyped-call]
        func=f"INSERT INTO public.fencing_change (name, hour, by, commit) {select};",
    )


def counted_states(name: str, columns: tuple[str, ...], among: str, old: str, new: str) -> list[triggers.Counting]:
    """Count rows while they are in one of the states `among`, by the first of `columns`.

    `old` and `new` write the change of a row that leaves and of one that enters. They run only where one of the columns
    moved: most updates of these tables are about something else, and pay nothing.
    """
    state = columns[0]
    has_moved = " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in columns)
    return [
        triggers.Counting(
            name=f"{name}_move",
            operation=triggers.update_of(*columns),
            condition=pgtrigger.Condition(
                f"((OLD.{state} IN {among} OR NEW.{state} IN {among}) AND ({has_moved}))",
            ),
            func=f"IF OLD.{state} IN {among} THEN {old} END IF; IF NEW.{state} IN {among} THEN {new} END IF;",
        ),
        triggers.Counting(
            name=f"{name}_begin",
            operation=pgtrigger.Insert,
            condition=pgtrigger.Condition(f"NEW.{state} IN {among}"),
            func=new,
        ),
    ]


STEPS: Final = counted_states(
    "steps_counted",
    ("phase", "decided_at"),
    DECIDED,
    moved("'step:' || OLD.phase", hour_of("OLD.decided_at"), "-1"),
    moved("'step:' || NEW.phase", hour_of("NEW.decided_at"), "1"),
)
INTENTS: Final = counted_states(
    "intents_counted",
    ("state",),
    SETTLED,
    moved("'intent:' || OLD.state || ':' || coalesce(OLD.tool, '')", "NULL", "-1"),
    moved("'intent:' || NEW.state || ':' || coalesce(NEW.tool, '')", "NULL", "1"),
)
COMMITS: Final = counted_rows("commits_counted", "SELECT 'commit', NULL, 1, id FROM fresh")
AUTHORITIES: Final = triggers.Counting(
    name="commits_counted_both",
    operation=triggers.update_of("authority"),
    condition=pgtrigger.Condition("OLD.authority IS DISTINCT FROM NEW.authority AND NEW.authority = 'both'"),
    func="INSERT INTO public.fencing_change (name, hour, by, commit) VALUES ('commit:both', NULL, 1, NEW.id);",
)
DELIVERIES: Final = counted_rows(
    "deliveries_counted",
    "SELECT CASE WHEN number = 1 THEN 'delivery' ELSE 'delivery:repeated' END, NULL, count(*), NULL"
    " FROM fresh GROUP BY 1",
)
SIDE_LOG: Final = counted_rows(
    "side_log_counted",
    f"SELECT 'side_log:' || kind || ':' || reason, {hour_of('recorded_at')}, count(*), NULL"  # noqa: S608
    " FROM fresh GROUP BY 1, 2",
)
EFFECTS: Final = counted_rows(
    "effects_counted", "SELECT 'effect:' || match || ':' || tool, NULL, count(*), NULL FROM fresh GROUP BY 1"
)
ACKNOWLEDGED: Final = counted_rows(
    "acknowledged_counted", "SELECT 'acknowledged', NULL, count(*), NULL FROM fresh HAVING count(*) > 0"
)
GRADES: Final = counted_rows("grades_counted", "SELECT 'grade', NULL, count(*), NULL FROM fresh HAVING count(*) > 0")
FINDINGS: Final = counted_rows(
    "findings_counted",
    "SELECT 'grade:' || flaw, NULL, count(*), NULL FROM fresh WHERE grade_id IS NOT NULL GROUP BY 1",
)
SUPERSEDED: Final = counted_rows(
    "superseded_counted",
    "SELECT 'fragment:superseded', NULL, sum(dropped), NULL FROM fresh HAVING sum(dropped) > 0",
)
SPEND: Final = counted_rows(
    "spend_counted", "SELECT 'spend:zombie', NULL, count(*), NULL FROM fresh WHERE is_zombie HAVING count(*) > 0"
)


class Change(models.Model):
    """By how much a count moved, and not yet added up. `commit` names one that is to be judged on the way."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=NAME_LENGTH)
    hour = models.DateTimeField(null=True)
    by = models.BigIntegerField()
    commit = models.UUIDField(null=True)


class Total(models.Model):
    """A count: of one hour, or of all time where `hour` is the beginning of 1970."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=NAME_LENGTH)
    hour = models.DateTimeField()
    count = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "hour"], name="total_once")]
