"""A late success puts an undoing that is not settled in doubt again."""

from __future__ import annotations

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations

import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0018_reports_while_held"),
    ]

    operations = [
        pgtrigger.migrations.RemoveTrigger(
            model_name="compensation",
            name="compensation_moves",
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensation",
            trigger=pgtrigger.compiler.Trigger(
                name="compensation_moves",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="\nIF NEW.state <> OLD.state AND NOT (CASE OLD.state WHEN 'proposed' THEN NEW.state IN ('held', 'approved', 'done', 'waived', 'withdrawn', 'in_doubt') WHEN 'held' THEN NEW.state IN ('proposed', 'waived', 'withdrawn', 'in_doubt') WHEN 'approved' THEN NEW.state IN ('in_flight', 'proposed', 'held', 'withdrawn', 'in_doubt') WHEN 'in_flight' THEN NEW.state IN ('done', 'approved', 'proposed', 'held', 'withdrawn', 'in_doubt') WHEN 'in_doubt' THEN NEW.state IN ('done', 'proposed', 'held', 'withdrawn') ELSE false END) THEN\n    wrong := 'compensation_moves: P5, a compensation that is ' || OLD.state || ' does not become ' || NEW.state;\nEND IF;\n",
                    hash="002f68c16a003a62b75985ffe3f8f756225f701f",
                    operation='UPDATE OF "state"',
                    pgid="pgtrigger_compensation_moves_f7232",
                    table="fencing_compensation",
                    when="BEFORE",
                ),
            ),
        ),
    ]
