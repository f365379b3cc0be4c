"""Effects and rows of ledgers are counted for each tool."""

from __future__ import annotations

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

import fencing.models.triggers

# While nobody writes: the triggers of both tables are changed in the same transaction.
COUNT_ANEW = """
LOCK TABLE fencing_intent, fencing_observedeffect, fencing_change, fencing_total IN SHARE ROW EXCLUSIVE MODE;
DELETE FROM fencing_change WHERE name LIKE 'intent:%' OR name LIKE 'effect:%';
DELETE FROM fencing_total WHERE name LIKE 'intent:%' OR name LIKE 'effect:%';
INSERT INTO fencing_total (name, hour, count)
SELECT 'intent:' || state || ':' || coalesce(tool, ''), timestamptz 'epoch', count(*)
  FROM fencing_intent WHERE state IN ('succeeded', 'failed') GROUP BY 1
UNION ALL SELECT 'effect:' || match || ':' || tool, timestamptz 'epoch', count(*)
  FROM fencing_observedeffect GROUP BY 1;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0015_compensating"),
    ]

    operations = [
        pgtrigger.migrations.RemoveTrigger(
            model_name="intent",
            name="intents_counted_move",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="intent",
            name="intents_counted_begin",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="observedeffect",
            name="effects_counted",
        ),
        migrations.AlterField(
            model_name="change",
            name="name",
            field=models.CharField(max_length=240),
        ),
        migrations.AlterField(
            model_name="total",
            name="name",
            field=models.CharField(max_length=240),
        ),
        migrations.RunSQL(COUNT_ANEW, migrations.RunSQL.noop),
        pgtrigger.migrations.AddTrigger(
            model_name="intent",
            trigger=pgtrigger.compiler.Trigger(
                name="intents_counted_move",
                sql=fencing.models.triggers.CountingSql(
                    condition="WHEN ((OLD.state IN ('succeeded', 'failed') OR NEW.state IN ('succeeded', 'failed')) AND (OLD.state IS DISTINCT FROM NEW.state))",
                    func="IF OLD.state IN ('succeeded', 'failed') THEN INSERT INTO public.fencing_change (name, hour, by) VALUES ('intent:' || OLD.state || ':' || coalesce(OLD.tool, ''), NULL, -1); END IF; IF NEW.state IN ('succeeded', 'failed') THEN INSERT INTO public.fencing_change (name, hour, by) VALUES ('intent:' || NEW.state || ':' || coalesce(NEW.tool, ''), NULL, 1); END IF;",
                    hash="9d8b080a15e5062910867ea972d85c874a5dd4e4",
                    operation='UPDATE OF "state"',
                    pgid="pgtrigger_intents_counted_move_e252c",
                    table="fencing_intent",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="intent",
            trigger=pgtrigger.compiler.Trigger(
                name="intents_counted_begin",
                sql=fencing.models.triggers.CountingSql(
                    condition="WHEN (NEW.state IN ('succeeded', 'failed'))",
                    func="INSERT INTO public.fencing_change (name, hour, by) VALUES ('intent:' || NEW.state || ':' || coalesce(NEW.tool, ''), NULL, 1);",
                    hash="f09dce2b9571b680a9e6542d990c6e44c1f49028",
                    operation="INSERT",
                    pgid="pgtrigger_intents_counted_begin_9cbe6",
                    table="fencing_intent",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="observedeffect",
            trigger=pgtrigger.compiler.Trigger(
                name="effects_counted",
                sql=fencing.models.triggers.CountingSql(
                    func="INSERT INTO public.fencing_change (name, hour, by, commit) SELECT 'effect:' || match || ':' || tool, NULL, count(*), NULL FROM fresh GROUP BY 1;",
                    hash="ed7539efcb6e04b43dfeb71a92517edf3d230224",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_effects_counted_13851",
                    referencing="REFERENCING NEW TABLE AS fresh ",
                    table="fencing_observedeffect",
                    when="AFTER",
                ),
            ),
        ),
    ]
