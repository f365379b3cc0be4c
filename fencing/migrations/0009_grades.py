"""Grades: lanes, attempts, fragments, permits and what was published, with the guards of I4."""

import django.contrib.postgres.fields
import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import fencing.models.fields
import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0008_seals"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", fencing.models.fields.ExactCharField(max_length=200, unique=True)),
                ("expected", models.IntegerField()),
                ("require_permits", models.BooleanField(default=False)),
                ("has_inputs", models.BooleanField(default=False)),
                ("content_digest", fencing.models.fields.ExactCharField(max_length=71)),
                ("epoch", models.BigIntegerField(default=1)),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "open"), ("published", "published")], default="open", max_length=9
                    ),
                ),
                ("work_at", models.DateTimeField(null=True)),
                ("made_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="AttemptEpoch",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.BigIntegerField()),
                ("reason", models.TextField(default="")),
                ("dropped", models.IntegerField(default=0)),
                ("content_digest", fencing.models.fields.ExactCharField(max_length=71, null=True)),
                ("opened_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="AttemptInput",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("seq", models.IntegerField()),
                ("value", models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name="Fragment",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("epoch", models.BigIntegerField()),
                ("seq", models.IntegerField()),
                ("body", models.BinaryField()),
                ("digest", fencing.models.fields.ExactCharField(max_length=71)),
                ("score", models.FloatField(null=True)),
                ("received_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="FragmentLease",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("epoch", models.BigIntegerField()),
                ("seq", models.IntegerField()),
                ("leased_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                ("lease_until", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="GateReading",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "gate",
                    models.CharField(choices=[("pass", "pass"), ("halt", "halt"), ("wait", "wait")], max_length=5),
                ),
                ("reasons", models.JSONField()),
                ("figures", models.JSONField()),
                ("snapshot", fencing.models.fields.ExactCharField(max_length=71)),
                ("thresholds_version", models.IntegerField()),
                ("upto", models.BigIntegerField()),
                (
                    "excluded",
                    django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None),
                ),
                ("read_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="Grade",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("place", models.BigIntegerField()),
                ("epoch", models.BigIntegerField()),
                ("fragments", django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=None)),
                ("mean", models.FloatField(null=True)),
                ("scored", models.IntegerField()),
                ("digest", fencing.models.fields.ExactCharField(max_length=71)),
                ("published_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="GradeFinding",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "flaw",
                    models.CharField(
                        choices=[("mixed", "mixed"), ("incomplete", "incomplete"), ("changed", "changed")],
                        max_length=10,
                    ),
                ),
                ("detail", models.TextField()),
                ("found_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="Lane",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", fencing.models.fields.ExactCharField(max_length=200, unique=True)),
                ("owner_group", fencing.models.fields.ExactCharField(max_length=200)),
                ("content_digest", fencing.models.fields.ExactCharField(max_length=71)),
                (
                    "state",
                    models.CharField(
                        choices=[("running", "running"), ("halted", "halted")], default="running", max_length=7
                    ),
                ),
                ("halt_reason", models.TextField(null=True)),
                ("halted_at", models.DateTimeField(null=True)),
                ("thresholds_version", models.IntegerField(default=1)),
                ("published", models.BigIntegerField(default=0)),
                ("audited", models.BigIntegerField(default=0)),
                ("audited_at", models.DateTimeField(null=True)),
                ("made_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="LaneEvent",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.IntegerField()),
                ("what", models.CharField(choices=[("halted", "Halted"), ("resumed", "Resumed")], max_length=7)),
                ("reason", models.TextField()),
                ("attempt", fencing.models.fields.ExactCharField(max_length=200, null=True)),
                ("at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="LaneThresholds",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("version", models.IntegerField()),
                ("thresholds", models.JSONField()),
                ("reason", models.TextField(default="")),
                ("set_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="Permit",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("epoch", models.BigIntegerField()),
                ("seq", models.IntegerField()),
                ("number", models.IntegerField()),
                ("token", models.TextField()),
                ("kid", models.CharField(max_length=64)),
                ("issued_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="Spend",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("epoch", models.BigIntegerField()),
                ("seq", models.IntegerField()),
                ("model", models.CharField(max_length=200, null=True)),
                ("tokens_in", models.BigIntegerField()),
                ("tokens_out", models.BigIntegerField()),
                ("cost", models.DecimalField(decimal_places=9, max_digits=24, null=True)),
                ("currency", models.CharField(max_length=10, null=True)),
                ("is_zombie", models.BooleanField()),
                ("answered", models.CharField(max_length=6)),
                ("reported_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.AddIndex(
            model_name="sidelogrow",
            index=models.Index(
                models.F("lane"),
                models.OrderBy(models.F("recorded_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                condition=models.Q(("lane__isnull", False)),
                name="side_log_of_lane",
            ),
        ),
        migrations.AddField(
            model_name="attempt",
            name="by",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.credential"
            ),
        ),
        migrations.AddField(
            model_name="attempt",
            name="regrade_of",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="regrades", to="fencing.attempt"
            ),
        ),
        migrations.AddField(
            model_name="attemptepoch",
            name="attempt",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="epochs", to="fencing.attempt"
            ),
        ),
        migrations.AddField(
            model_name="attemptepoch",
            name="by",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.credential"
            ),
        ),
        migrations.AddField(
            model_name="attemptinput",
            name="attempt",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="inputs", to="fencing.attempt"
            ),
        ),
        migrations.AddField(
            model_name="fragment",
            name="attempt",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="fragments",
                to="fencing.attempt",
            ),
        ),
        migrations.AddField(
            model_name="fragment",
            name="by",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.credential"
            ),
        ),
        migrations.AddField(
            model_name="fragmentlease",
            name="attempt",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="leases", to="fencing.attempt"
            ),
        ),
        migrations.AddField(
            model_name="fragmentlease",
            name="by",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.credential"
            ),
        ),
        migrations.AddField(
            model_name="gatereading",
            name="by",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.credential"
            ),
        ),
        migrations.AddField(
            model_name="grade",
            name="attempt",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT, related_name="grade", to="fencing.attempt"
            ),
        ),
        migrations.AddField(
            model_name="grade",
            name="by",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.credential"
            ),
        ),
        migrations.AddField(
            model_name="gradefinding",
            name="attempt",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="findings",
                to="fencing.attempt",
            ),
        ),
        migrations.AddField(
            model_name="gradefinding",
            name="grade",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="findings",
                to="fencing.grade",
            ),
        ),
        migrations.AddField(
            model_name="lane",
            name="owner",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.credential"
            ),
        ),
        migrations.AddField(
            model_name="gradefinding",
            name="lane",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="findings", to="fencing.lane"
            ),
        ),
        migrations.AddField(
            model_name="grade",
            name="lane",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="grades", to="fencing.lane"
            ),
        ),
        migrations.AddField(
            model_name="gatereading",
            name="lane",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="readings", to="fencing.lane"
            ),
        ),
        migrations.AddField(
            model_name="attempt",
            name="lane",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="attempts", to="fencing.lane"
            ),
        ),
        migrations.AddField(
            model_name="laneevent",
            name="by",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.credential",
            ),
        ),
        migrations.AddField(
            model_name="laneevent",
            name="lane",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="events", to="fencing.lane"
            ),
        ),
        migrations.AddField(
            model_name="laneevent",
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
            model_name="lanethresholds",
            name="by",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.credential",
            ),
        ),
        migrations.AddField(
            model_name="lanethresholds",
            name="lane",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="versions", to="fencing.lane"
            ),
        ),
        migrations.AddField(
            model_name="lanethresholds",
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
            model_name="permit",
            name="attempt",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.attempt"
            ),
        ),
        migrations.AddField(
            model_name="permit",
            name="by",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.credential"
            ),
        ),
        migrations.AddField(
            model_name="fragment",
            name="permit",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fencing.permit",
            ),
        ),
        migrations.AddField(
            model_name="spend",
            name="attempt",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.attempt"
            ),
        ),
        migrations.AddField(
            model_name="spend",
            name="by",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fencing.credential"
            ),
        ),
        migrations.AddField(
            model_name="spend",
            name="permit",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT, related_name="spend", to="fencing.permit"
            ),
        ),
        migrations.AddConstraint(
            model_name="attemptepoch",
            constraint=models.UniqueConstraint(fields=("attempt", "number"), name="attempt_epoch_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attemptepoch",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="36145333364831f61617fcb7a35a0617a9bfdedf",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_3f3bf",
                    table="fencing_attemptepoch",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attemptepoch",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="951d40b59f6ac1a9355ccac8621fab2dacdb8dfb",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_c78b0",
                    table="fencing_attemptepoch",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attemptepoch",
            trigger=pgtrigger.compiler.Trigger(
                name="superseded_counted",
                sql=fencing.models.triggers.CountingSql(
                    func="INSERT INTO public.fencing_change (name, hour, by, commit) SELECT 'fragment:superseded', NULL, sum(dropped), NULL FROM fresh HAVING sum(dropped) > 0;",
                    hash="6ebe4e00e7b79b77cf297112a8493a220f2a51d8",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_superseded_counted_c7363",
                    referencing="REFERENCING NEW TABLE AS fresh ",
                    table="fencing_attemptepoch",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attemptepoch",
            trigger=pgtrigger.compiler.Trigger(
                name="attempt_epoch_opened",
                sql=fencing.models.triggers.GuardSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE wrong text;",
                    func="\n                SELECT 'attempt_epoch_opened: A3, a restart on record opens its epoch' INTO wrong\n                FROM fencing_attempt WHERE id = NEW.attempt_id AND epoch < NEW.number;\n                ",
                    hash="51712e5924765278b9e11ae7a7b06664e47bc9d2",
                    operation="INSERT",
                    pgid="pgtrigger_attempt_epoch_opened_81738",
                    table="fencing_attemptepoch",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="attemptinput",
            constraint=models.UniqueConstraint(fields=("attempt", "seq"), name="attempt_input_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attemptinput",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="73a1bc765a1a60bd9f72640ab2bc5e2d9d7c9c27",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_9ad7a",
                    table="fencing_attemptinput",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attemptinput",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="819995e950e37d9ff0bcf825e1d272854885e02c",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_81131",
                    table="fencing_attemptinput",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="fragmentlease",
            index=models.Index(
                models.F("attempt"),
                models.F("epoch"),
                models.F("seq"),
                models.OrderBy(models.F("lease_until"), descending=True),
                name="lease_of_fragment",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fragmentlease",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="c0a4967aa3ccd458d71f6ea8cc374ca1737f690c",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_26529",
                    table="fencing_fragmentlease",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fragmentlease",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="aeb3d02b437f93adc77e8683d6eb7813e5d23442",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_e6d90",
                    table="fencing_fragmentlease",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fragmentlease",
            trigger=pgtrigger.compiler.Trigger(
                name="lease_of_open_epoch",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nPERFORM 1 FROM fencing_attempt WHERE id IN (SELECT attempt_id FROM new_rows) ORDER BY id FOR KEY SHARE;\nSELECT min(CASE\n    WHEN attempt.id IS NULL THEN 'lease_of_open_epoch: A2, there is no such attempt'\n    WHEN attempt.epoch <> fresh.epoch THEN 'lease_of_open_epoch: A2, its epoch is not the open one'\n    WHEN attempt.state <> 'open' THEN 'lease_of_open_epoch: A2, the attempt is published'\n    WHEN fresh.seq < 0 OR fresh.seq >= attempt.expected THEN 'lease_of_open_epoch: A2, the attempt has no such fragment'\n    \nEND) INTO wrong\nFROM new_rows AS fresh\nLEFT JOIN LATERAL (SELECT * FROM fencing_attempt WHERE id = fresh.attempt_id LIMIT 1) AS attempt ON true;\n",
                    hash="caf95702b0e9187b25dd522dd6a6d0f0a7ecbba3",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_lease_of_open_epoch_91463",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_fragmentlease",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="lane",
            index=models.Index(
                models.OrderBy(models.F("made_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                name="lane_newest",
            ),
        ),
        migrations.AddIndex(
            model_name="lane",
            index=models.Index(
                models.OrderBy(models.F("audited_at"), nulls_first=True), models.F("id"), name="lane_to_audit"
            ),
        ),
        migrations.AddConstraint(
            model_name="lane",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("halt_reason__isnull", False), ("halted_at__isnull", False), ("state", "halted")),
                    models.Q(("halt_reason__isnull", True), ("halted_at__isnull", True), ("state", "running")),
                    _connector="OR",
                ),
                name="lane_halted_with_a_reason",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="lane",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="d8e6cded1cdc1e2a69273bbff8199398e59963f7",
                    operation="DELETE",
                    pgid="pgtrigger_kept_0a282",
                    table="fencing_lane",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="lane",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="348ef18cafa3a5b41951e18cbc78d2529022a504",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_fb939",
                    table="fencing_lane",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="lane",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."name" IS DISTINCT FROM NEW."name" OR OLD."owner_id" IS DISTINCT FROM NEW."owner_id" OR OLD."owner_group" IS DISTINCT FROM NEW."owner_group" OR OLD."content_digest" IS DISTINCT FROM NEW."content_digest" OR OLD."made_at" IS DISTINCT FROM NEW."made_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: audited, audited_at, halt_reason, halted_at, published, state, thresholds_version';",
                    hash="426f781eb7e12b508ba266215de3fb1d93b1b17f",
                    operation='UPDATE OF "id", "name", "owner_id", "owner_group", "content_digest", "made_at"',
                    pgid="pgtrigger_fixed_46d0b",
                    table="fencing_lane",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="lane",
            trigger=pgtrigger.compiler.Trigger(
                name="lane_begins_running",
                sql=fencing.models.triggers.GuardSql(
                    condition="WHEN (NEW.state <> 'running' OR NEW.published <> 0)",
                    declare="DECLARE wrong text;",
                    func="wrong := 'lane_begins_running: A4, a new lane runs and has published nothing';",
                    hash="8c9faf6deda5c2fe05f5d40fa55a38e29eb6ff2b",
                    operation="INSERT",
                    pgid="pgtrigger_lane_begins_running_1ff2f",
                    table="fencing_lane",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="lane",
            trigger=pgtrigger.compiler.Trigger(
                name="lane_moves",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nwrong := CASE\n    WHEN OLD.state <> NEW.state AND NOT (CASE OLD.state WHEN 'running' THEN NEW.state IN ('halted') WHEN 'halted' THEN NEW.state IN ('running') ELSE false END)\n        THEN 'lane_moves: A4, a lane is halted or resumed'\n    WHEN OLD.state <> NEW.state AND (\n        SELECT CASE what WHEN 'halted' THEN 'halted' ELSE 'running' END FROM fencing_laneevent\n        WHERE lane_id = NEW.id ORDER BY number DESC LIMIT 1) IS DISTINCT FROM NEW.state\n        THEN 'lane_moves: A4, a lane halts and is resumed by an act on record'\n    WHEN OLD.thresholds_version <> NEW.thresholds_version AND (NEW.thresholds_version <> OLD.thresholds_version + 1\n        OR NOT EXISTS (SELECT FROM fencing_lanethresholds\n            WHERE lane_id = NEW.id AND version = NEW.thresholds_version))\n        THEN 'lane_thresholds: A5, thresholds change by a next version on record'\n    WHEN OLD.published <> NEW.published AND (NEW.published <> OLD.published + 1\n        OR NOT EXISTS (SELECT FROM fencing_grade WHERE lane_id = NEW.id AND place = NEW.published))\n        THEN 'lane_published: I4, what a lane counts as published are its grades'\nEND;\n",
                    hash="5bc5d422ebddebb4d2641f5bc23dbf3b46390e56",
                    operation='UPDATE OF "state", "thresholds_version", "published"',
                    pgid="pgtrigger_lane_moves_e4ef4",
                    table="fencing_lane",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="gradefinding",
            index=models.Index(
                models.F("lane"),
                models.OrderBy(models.F("found_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                name="grade_finding_of_lane",
            ),
        ),
        migrations.AddConstraint(
            model_name="gradefinding",
            constraint=models.UniqueConstraint(fields=("attempt", "flaw"), name="grade_finding_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gradefinding",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="7898ee0773e9a1f58fd199c2ae873915b7c424cc",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_b0972",
                    table="fencing_gradefinding",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gradefinding",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="5e263f15947e9125ef959fba06af9dcb7b49f8e7",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_5d871",
                    table="fencing_gradefinding",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gradefinding",
            trigger=pgtrigger.compiler.Trigger(
                name="findings_counted",
                sql=fencing.models.triggers.CountingSql(
                    func="INSERT INTO public.fencing_change (name, hour, by, commit) SELECT 'grade:' || flaw, NULL, count(*), NULL FROM fresh WHERE grade_id IS NOT NULL GROUP BY 1;",
                    hash="7e9b5797984d5510ba463dcd7665e9d29024a936",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_findings_counted_0d17f",
                    referencing="REFERENCING NEW TABLE AS fresh ",
                    table="fencing_gradefinding",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="grade",
            constraint=models.UniqueConstraint(fields=("lane", "place"), name="grade_place_once"),
        ),
        migrations.AddConstraint(
            model_name="grade",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("mean__isnull", True),
                    models.Q(("mean__gte", -1.7976931348623157e308), ("mean__lte", 1.7976931348623157e308)),
                    _connector="OR",
                ),
                name="grade_mean_finite",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grade",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="06c601fbd75ec8d5afe497f85ac1340286ae1137",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_f4f5b",
                    table="fencing_grade",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grade",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="5226b94f9051510b12200a042b9dad7dabc3bac5",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_f587e",
                    table="fencing_grade",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grade",
            trigger=pgtrigger.compiler.Trigger(
                name="grades_counted",
                sql=fencing.models.triggers.CountingSql(
                    func="INSERT INTO public.fencing_change (name, hour, by, commit) SELECT 'grade', NULL, count(*), NULL FROM fresh HAVING count(*) > 0;",
                    hash="2552985edd0c08f0f69a998a6faa24d50a747b68",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_grades_counted_41d67",
                    referencing="REFERENCING NEW TABLE AS fresh ",
                    table="fencing_grade",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grade",
            trigger=pgtrigger.compiler.Trigger(
                name="grade_whole",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nPERFORM 1 FROM fencing_attempt WHERE id = NEW.attempt_id FOR UPDATE;\nPERFORM 1 FROM fencing_lane WHERE id = NEW.lane_id FOR NO KEY UPDATE;\nSELECT CASE\n    WHEN attempt.lane_id <> NEW.lane_id THEN 'grade_whole: A5, the attempt is of another lane'\n    WHEN attempt.state <> 'open' THEN 'grade_whole: A4, the attempt is published'\n    WHEN attempt.epoch <> NEW.epoch THEN 'grade_whole: I4, the grade is not of the open epoch'\n    WHEN lane.state <> 'running' THEN 'grade_whole: A4, the lane is halted'\n    WHEN lane.published + 1 <> NEW.place THEN 'grade_whole: I4, grades have their places one after the other'\n    WHEN cardinality(NEW.fragments) <> attempt.expected OR held.count <> attempt.expected\n        THEN 'grade_whole: I4, a grade holds every fragment of its epoch, and no other'\n    WHEN held.scored <> NEW.scored OR (held.mean IS NULL) <> (NEW.mean IS NULL)\n        OR abs(held.mean - NEW.mean::numeric) > 1e-9 * greatest(abs(held.mean), held.largest)\n        THEN 'grade_whole: I4, a grade says the mean of its fragments'\nEND INTO wrong\nFROM fencing_attempt AS attempt, fencing_lane AS lane, LATERAL (\n    SELECT count(*), count(fragment.score) AS scored, max(abs(fragment.score))::numeric AS largest,\n        avg(fragment.score::numeric) AS mean\n    FROM unnest(NEW.fragments) WITH ORDINALITY AS named(id, place)\n    CROSS JOIN LATERAL (SELECT * FROM fencing_fragment WHERE id = named.id LIMIT 1) AS fragment\n    WHERE fragment.attempt_id = NEW.attempt_id AND fragment.epoch = NEW.epoch AND fragment.seq = named.place - 1\n) AS held\nWHERE attempt.id = NEW.attempt_id AND lane.id = NEW.lane_id;\n",
                    hash="2f97569ad8702dd4ef0659839135df15cb5dd762",
                    operation="INSERT",
                    pgid="pgtrigger_grade_whole_a48b4",
                    table="fencing_grade",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="grade",
            trigger=pgtrigger.compiler.Trigger(
                name="grade_published",
                sql=fencing.models.triggers.GuardSql(
                    constraint="CONSTRAINT",
                    declare="DECLARE wrong text;",
                    func="\nSELECT 'grade_published: A4, an attempt with a grade is published' INTO wrong\nFROM fencing_attempt AS attempt, fencing_lane AS lane\nWHERE attempt.id = NEW.attempt_id AND lane.id = NEW.lane_id\n    AND (attempt.state <> 'published' OR lane.published < NEW.place);\n",
                    hash="d3e00fbcc9eeb6f12a1cbfb0b9d4c423d368baf9",
                    operation="INSERT",
                    pgid="pgtrigger_grade_published_69f11",
                    table="fencing_grade",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="gatereading",
            index=models.Index(
                models.F("lane"),
                models.OrderBy(models.F("read_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                name="gate_reading_newest",
            ),
        ),
        migrations.AddIndex(
            model_name="gatereading",
            index=models.Index(
                models.F("lane"),
                models.F("by"),
                models.OrderBy(models.F("read_at"), descending=True),
                name="gate_reading_of_key",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gatereading",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="521363f002c6569158d9d4ad1de18383e1ddad1f",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_d4f7a",
                    table="fencing_gatereading",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="gatereading",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="cedf617bab6ae896620fa0dd2e8005e3ad6cae0a",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_575c7",
                    table="fencing_gatereading",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                models.F("lane"),
                models.OrderBy(models.F("made_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                name="attempt_of_lane",
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                models.F("lane"), models.F("id"), condition=models.Q(("state", "open")), name="attempt_open"
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                models.F("lane"),
                models.F("work_at"),
                models.F("id"),
                condition=models.Q(("work_at__isnull", False)),
                name="attempt_with_work",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(("epoch__gte", 1), ("expected__gte", 1)), name="attempt_expects"
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attempt",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="c7f95e0e83349351fd97a6215b4a5a10448678be",
                    operation="DELETE",
                    pgid="pgtrigger_kept_4bab4",
                    table="fencing_attempt",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attempt",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="64f8f4642b180bb267fec40b361f7ec20bc233fa",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_2acbd",
                    table="fencing_attempt",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attempt",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."name" IS DISTINCT FROM NEW."name" OR OLD."lane_id" IS DISTINCT FROM NEW."lane_id" OR OLD."expected" IS DISTINCT FROM NEW."expected" OR OLD."require_permits" IS DISTINCT FROM NEW."require_permits" OR OLD."has_inputs" IS DISTINCT FROM NEW."has_inputs" OR OLD."regrade_of_id" IS DISTINCT FROM NEW."regrade_of_id" OR OLD."content_digest" IS DISTINCT FROM NEW."content_digest" OR OLD."by_id" IS DISTINCT FROM NEW."by_id" OR OLD."made_at" IS DISTINCT FROM NEW."made_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: epoch, state, work_at';",
                    hash="145ef0a1e8d4e8240b03d335a9ea44be19154662",
                    operation='UPDATE OF "id", "name", "lane_id", "expected", "require_permits", "has_inputs", "regrade_of_id", "content_digest", "by_id", "made_at"',
                    pgid="pgtrigger_fixed_fa2e6",
                    table="fencing_attempt",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attempt",
            trigger=pgtrigger.compiler.Trigger(
                name="attempt_begins_open",
                sql=fencing.models.triggers.GuardSql(
                    condition="WHEN (NEW.state <> 'open' OR NEW.epoch <> 1)",
                    declare="DECLARE wrong text;",
                    func="wrong := 'attempt_begins_open: A1, an attempt begins open, in epoch 1';",
                    hash="d8fa2792495ebe42bea00bc4aa66347fc829e3fe",
                    operation="INSERT",
                    pgid="pgtrigger_attempt_begins_open_739d3",
                    table="fencing_attempt",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="attempt",
            trigger=pgtrigger.compiler.Trigger(
                name="attempt_moves",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nPERFORM 1 FROM fencing_attempt WHERE id = NEW.id FOR UPDATE;\nwrong := CASE\n    WHEN OLD.state = 'published' AND (NEW.state <> OLD.state OR NEW.epoch <> OLD.epoch)\n        THEN 'attempt_moves: A4, a published attempt is never opened or restarted'\n    WHEN NEW.epoch <> OLD.epoch AND (NEW.epoch <> OLD.epoch + 1 OR NOT EXISTS (\n        SELECT FROM fencing_attemptepoch WHERE attempt_id = NEW.id AND number = NEW.epoch))\n        THEN 'attempt_moves: A3, a restart opens the next epoch, and is on record'\n    WHEN NEW.state = 'published' AND NOT EXISTS (\n        SELECT FROM fencing_grade WHERE attempt_id = NEW.id AND epoch = NEW.epoch)\n        THEN 'attempt_moves: A4, an attempt is published by its grade'\nEND;\n",
                    hash="bf6481a2cd8468de355815abb435b52b2eef65d7",
                    operation='UPDATE OF "epoch", "state"',
                    pgid="pgtrigger_attempt_moves_67188",
                    table="fencing_attempt",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="laneevent",
            constraint=models.UniqueConstraint(fields=("lane", "number"), name="lane_event_once"),
        ),
        migrations.AddConstraint(
            model_name="laneevent",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("what", "halted"), models.Q(("person__isnull", False), ("what", "resumed")), _connector="OR"
                ),
                name="lane_resumed_by_a_person",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="laneevent",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="c518467dff2954f49bd56b7e86e99a29473c2c20",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_c9c65",
                    table="fencing_laneevent",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="laneevent",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="a46e22c7fedacf6186477b6b2f8e2bcc90d78cc9",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_a69fe",
                    table="fencing_laneevent",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="lanethresholds",
            constraint=models.UniqueConstraint(fields=("lane", "version"), name="lane_thresholds_version_once"),
        ),
        migrations.AddConstraint(
            model_name="lanethresholds",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("version", 1), models.Q(("person__isnull", False), ("version__gt", 1)), _connector="OR"
                ),
                name="lane_thresholds_by_a_person",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="lanethresholds",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="3b0f8adc7e81ebe3b13243bc688eedeaa44ba011",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_2a201",
                    table="fencing_lanethresholds",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="lanethresholds",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="ad068376d89e16af40faf05d3aa0dc3b54c468ef",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_5e922",
                    table="fencing_lanethresholds",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="permit",
            constraint=models.UniqueConstraint(fields=("attempt", "epoch", "seq", "by", "number"), name="permit_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="permit",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="07a143cf95e9bede57cd7e8de2ee1e4647d78791",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_1b84f",
                    table="fencing_permit",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="permit",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="71ae8f084c9c90148f272205e9281bd9fa6228c3",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_5ba3d",
                    table="fencing_permit",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="permit",
            trigger=pgtrigger.compiler.Trigger(
                name="permit_of_open_epoch",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nPERFORM 1 FROM fencing_attempt WHERE id IN (SELECT attempt_id FROM new_rows) ORDER BY id FOR KEY SHARE;\nSELECT min(CASE\n    WHEN attempt.id IS NULL THEN 'permit_of_open_epoch: A2, there is no such attempt'\n    WHEN attempt.epoch <> fresh.epoch THEN 'permit_of_open_epoch: A2, its epoch is not the open one'\n    WHEN attempt.state <> 'open' THEN 'permit_of_open_epoch: A2, the attempt is published'\n    WHEN fresh.seq < 0 OR fresh.seq >= attempt.expected THEN 'permit_of_open_epoch: A2, the attempt has no such fragment'\n    \nEND) INTO wrong\nFROM new_rows AS fresh\nLEFT JOIN LATERAL (SELECT * FROM fencing_attempt WHERE id = fresh.attempt_id LIMIT 1) AS attempt ON true;\n",
                    hash="cab9353a205c6d5b713db2c92b07f56f1575cce0",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_permit_of_open_epoch_adca8",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_permit",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="fragment",
            constraint=models.UniqueConstraint(fields=("attempt", "epoch", "seq"), name="fragment_once"),
        ),
        migrations.AddConstraint(
            model_name="fragment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("score__isnull", True),
                    models.Q(("score__gte", -1.7976931348623157e308), ("score__lte", 1.7976931348623157e308)),
                    _connector="OR",
                ),
                name="fragment_score_finite",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fragment",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="04ff34aa9625b23d11ff5092cb89b9c954c600ce",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_daf9f",
                    table="fencing_fragment",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fragment",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="b3b65731c92e0ac2918d11655c5f683c25eb6890",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_8132c",
                    table="fencing_fragment",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="fragment",
            trigger=pgtrigger.compiler.Trigger(
                name="fragment_of_open_epoch",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nPERFORM 1 FROM fencing_attempt WHERE id IN (SELECT attempt_id FROM new_rows) ORDER BY id FOR KEY SHARE;\nSELECT min(CASE\n    WHEN attempt.id IS NULL THEN 'fragment_of_open_epoch: A2, there is no such attempt'\n    WHEN attempt.epoch <> fresh.epoch THEN 'fragment_of_open_epoch: A2, its epoch is not the open one'\n    WHEN attempt.state <> 'open' THEN 'fragment_of_open_epoch: A2, the attempt is published'\n    WHEN fresh.seq < 0 OR fresh.seq >= attempt.expected THEN 'fragment_of_open_epoch: A2, the attempt has no such fragment'\n    \n    WHEN attempt.require_permits AND fresh.permit_id IS NULL THEN 'fragment_of_open_epoch: A6, the fragment has no permit'\n    WHEN fresh.permit_id IS NOT NULL AND NOT EXISTS (\n        SELECT FROM fencing_permit WHERE id = fresh.permit_id AND attempt_id = fresh.attempt_id AND epoch = fresh.epoch\n            AND seq = fresh.seq) THEN 'fragment_of_open_epoch: A6, the permit is for another fragment'\n\nEND) INTO wrong\nFROM new_rows AS fresh\nLEFT JOIN LATERAL (SELECT * FROM fencing_attempt WHERE id = fresh.attempt_id LIMIT 1) AS attempt ON true;\n",
                    hash="3b1afd340382de42293c3b087805a4493ec79087",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_fragment_of_open_epoch_dc2a0",
                    referencing="REFERENCING NEW TABLE AS new_rows ",
                    table="fencing_fragment",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="spend",
            index=models.Index(fields=["attempt", "epoch", "seq"], name="spend_of_attempt"),
        ),
        migrations.AddConstraint(
            model_name="spend",
            constraint=models.CheckConstraint(
                condition=models.Q(("tokens_in__gte", 0), ("tokens_out__gte", 0)), name="spend_of_tokens"
            ),
        ),
        migrations.AddConstraint(
            model_name="spend",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("cost__isnull", True), ("currency__isnull", True)),
                    models.Q(("cost__gte", 0), ("currency__isnull", False)),
                    _connector="OR",
                ),
                name="spend_in_a_currency",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="spend",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="9f365a99a8ecdc824b471870ef4d83cd6915842f",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_2cf11",
                    table="fencing_spend",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="spend",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="2c9b38364c5755b663ab3c198a923973cd1cb905",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_19a0b",
                    table="fencing_spend",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="spend",
            trigger=pgtrigger.compiler.Trigger(
                name="spend_counted",
                sql=fencing.models.triggers.CountingSql(
                    func="INSERT INTO public.fencing_change (name, hour, by, commit) SELECT 'spend:zombie', NULL, count(*), NULL FROM fresh WHERE is_zombie HAVING count(*) > 0;",
                    hash="e33f7e738d1df43fbb8e0281ca65624e0d15c1d3",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_spend_counted_251ef",
                    referencing="REFERENCING NEW TABLE AS fresh ",
                    table="fencing_spend",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="spend",
            trigger=pgtrigger.compiler.Trigger(
                name="spend_of_its_epoch",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nPERFORM 1 FROM fencing_attempt WHERE id = NEW.attempt_id FOR KEY SHARE;\nSELECT CASE\n    WHEN permit.attempt_id <> NEW.attempt_id OR permit.epoch <> NEW.epoch OR permit.seq <> NEW.seq\n        THEN 'spend_of_its_epoch: A6, spend is of what its permit was for'\n    WHEN NEW.is_zombie <> (attempt.epoch <> NEW.epoch)\n        THEN 'spend_of_its_epoch: A6, spend is zombie spend when its epoch is closed'\nEND INTO wrong\nFROM fencing_permit AS permit, fencing_attempt AS attempt\nWHERE permit.id = NEW.permit_id AND attempt.id = NEW.attempt_id;\n",
                    hash="e62c705c413097c5584447d16c02974185b6506d",
                    operation="INSERT",
                    pgid="pgtrigger_spend_of_its_epoch_51371",
                    table="fencing_spend",
                    when="BEFORE",
                ),
            ),
        ),
    ]
