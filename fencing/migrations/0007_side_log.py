"""The side log: who a row is of where no key was used, what was still being written, and the lists by key and tool."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import fencing.models.audit


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0006_effects"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="sidelogrow",
            name="person",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="sidelogrow",
            name="transaction",
            field=models.BigIntegerField(db_default=fencing.models.audit.TransactionId()),
        ),
        migrations.AddIndex(
            model_name="sidelogrow",
            index=models.Index(
                models.F("tool"),
                models.OrderBy(models.F("recorded_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                condition=models.Q(("tool__isnull", False)),
                name="side_log_of_tool",
            ),
        ),
        migrations.AddIndex(
            model_name="sidelogrow",
            index=models.Index(
                models.F("by"),
                models.OrderBy(models.F("recorded_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                condition=models.Q(("by__isnull", False)),
                name="side_log_of_key",
            ),
        ),
        migrations.AddIndex(
            model_name="sidelogrow",
            index=models.Index(
                models.F("person"),
                models.OrderBy(models.F("recorded_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                condition=models.Q(("person__isnull", False)),
                name="side_log_of_person",
            ),
        ),
        migrations.AddIndex(
            model_name="sidelogrow",
            index=models.Index(
                models.F("attempt"),
                models.OrderBy(models.F("recorded_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                condition=models.Q(("attempt__isnull", False)),
                name="side_log_of_attempt",
            ),
        ),
        migrations.AddIndex(
            model_name="sidelogrow",
            index=models.Index(fields=["transaction"], name="side_log_by_transaction"),
        ),
    ]
