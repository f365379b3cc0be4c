"""A report is heard while only branches that may not act yet want the effect (L2, B3)."""

from __future__ import annotations

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations

import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0017_calling_undoings"),
    ]

    operations = [
        pgtrigger.migrations.RemoveTrigger(
            model_name="intent",
            name="intent_moves",
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="intent",
            trigger=pgtrigger.compiler.Trigger(
                name="intent_moves",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="\nIF NEW.state <> OLD.state AND NOT (CASE OLD.state WHEN 'held' THEN NEW.state IN ('ready', 'cancelled', 'in_doubt', 'succeeded', 'failed') WHEN 'ready' THEN NEW.state IN ('in_flight', 'held', 'cancelled', 'in_doubt', 'succeeded', 'failed') WHEN 'in_flight' THEN NEW.state IN ('succeeded', 'failed', 'ready', 'in_doubt', 'cancelled', 'held') WHEN 'in_doubt' THEN NEW.state IN ('succeeded', 'ready', 'held', 'cancelled', 'failed') WHEN 'cancelled' THEN NEW.state IN ('ready', 'held', 'in_doubt') ELSE false END) THEN\n    wrong := 'intent_moves: L2, an intent that is ' || OLD.state || ' does not become ' || NEW.state;\nEND IF;\n",
                    hash="437ed6440d0a573c497587f7dc57a60c576d77a8",
                    operation='UPDATE OF "state"',
                    pgid="pgtrigger_intent_moves_30639",
                    table="fencing_intent",
                    when="BEFORE",
                ),
            ),
        ),
    ]
