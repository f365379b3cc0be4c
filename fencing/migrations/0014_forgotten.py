"""Texts that were forgotten on purpose."""

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

import fencing.models.fields
import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0013_ledgers"),
    ]

    operations = [
        migrations.CreateModel(
            name="Forgotten",
            fields=[
                ("ref", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("forgotten_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="forgotten",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="f0281c573dc57e0ac95b7f657faad65ddb41730c",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_32733",
                    table="fencing_forgotten",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="forgotten",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="2c6216de01f8b7b41ce07d5b117b2b384ad58f84",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_85ff7",
                    table="fencing_forgotten",
                    when="BEFORE",
                ),
            ),
        ),
    ]
