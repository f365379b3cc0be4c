"""Notices: what people are told of, where, and how far that came."""

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
        ("fencing", "0011_forks"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="NoticeItem",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("kind", models.CharField(max_length=20)),
                ("subject", models.CharField(max_length=450)),
                ("page", models.CharField(default="", max_length=1000)),
                ("facts", models.JSONField(default=dict)),
                ("added_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="QuietHours",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("zone", models.CharField(default="UTC", max_length=60)),
                ("begin", models.TimeField(null=True)),
                ("end", models.TimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Sighting",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("seen_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
            ],
        ),
        migrations.CreateModel(
            name="Target",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=60)),
                ("service", models.CharField(max_length=60)),
                ("locked", models.TextField()),
                ("is_reference", models.BooleanField(default=False)),
                (
                    "kinds",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=20), default=list, size=None
                    ),
                ),
                ("made_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                ("ended_at", models.DateTimeField(null=True)),
                ("failures", models.IntegerField(default=0)),
                ("paused_until", models.DateTimeField(null=True)),
                ("sent_at", models.DateTimeField(null=True)),
                ("failed_at", models.DateTimeField(null=True)),
                ("error", models.CharField(default="", max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name="Telling",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("level", models.SmallIntegerField()),
                ("made_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("shown", "Shown"),
                            ("waiting", "Waiting"),
                            ("sent", "Sent"),
                            ("failed", "Failed"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        max_length=9,
                    ),
                ),
                ("due_at", models.DateTimeField(null=True)),
                ("tries", models.IntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("error", models.CharField(default="", max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name="TellingTry",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.IntegerField()),
                ("tried_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                ("is_sent", models.BooleanField()),
                ("error", models.CharField(default="", max_length=200)),
                ("took_ms", models.IntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=fencing.models.fields.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("kind", models.CharField(max_length=20)),
                ("subject", models.CharField(max_length=450)),
                ("page", models.CharField(default="", max_length=1000)),
                ("facts", models.JSONField(default=dict)),
                ("asked_by", models.CharField(default="system", max_length=250)),
                ("is_watched", models.BooleanField(default=False)),
                ("raised_at", models.DateTimeField(db_default=fencing.models.fields.ClockTimestamp())),
                ("count", models.IntegerField(default=1)),
                ("told_level", models.SmallIntegerField(default=0)),
                ("told_at", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField(null=True)),
                ("seen_at", models.DateTimeField(null=True)),
                ("over_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="notice_due"),
                    models.Index(
                        models.OrderBy(models.F("raised_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        name="notice_newest",
                    ),
                    models.Index(fields=["kind", "told_at"], name="notice_told"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("over_at__isnull", True)),
                        fields=("kind", "subject"),
                        name="notice_open_once",
                    )
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="notice",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="917c8c1fa271ddc7702d96fcc23bed83e89b28ef",
                    operation="DELETE",
                    pgid="pgtrigger_kept_ce07d",
                    table="fencing_notice",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="notice",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="c3be4addd9fc2a5847f76587cd613e66d94d3266",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_52f09",
                    table="fencing_notice",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="notice",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."kind" IS DISTINCT FROM NEW."kind" OR OLD."subject" IS DISTINCT FROM NEW."subject" OR OLD."asked_by" IS DISTINCT FROM NEW."asked_by" OR OLD."is_watched" IS DISTINCT FROM NEW."is_watched" OR OLD."raised_at" IS DISTINCT FROM NEW."raised_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: count, due_at, facts, over_at, page, seen_at, told_at, told_level';",
                    hash="73f33d61b1b29a76f020206b5d861e9bc8e6c961",
                    operation='UPDATE OF "id", "kind", "subject", "asked_by", "is_watched", "raised_at"',
                    pgid="pgtrigger_fixed_5bc83",
                    table="fencing_notice",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="notice",
            trigger=pgtrigger.compiler.Trigger(
                name="written_once",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND ((OLD."seen_at" IS NOT NULL AND OLD."seen_at" IS DISTINCT FROM NEW."seen_at") OR (OLD."over_at" IS NOT NULL AND OLD."over_at" IS DISTINCT FROM NEW."over_at")))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'written_once: I6, written once: seen_at, over_at';",
                    hash="32bd167a1e721425748c15d8bf28d0639373fc4b",
                    operation='UPDATE OF "seen_at", "over_at"',
                    pgid="pgtrigger_written_once_6a4e4",
                    table="fencing_notice",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddField(
            model_name="noticeitem",
            name="notice",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="items", to="fencing.notice"
            ),
        ),
        migrations.AddField(
            model_name="quiethours",
            name="person",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT, related_name="quiet_hours", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="sighting",
            name="notice",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="sightings", to="fencing.notice"
            ),
        ),
        migrations.AddField(
            model_name="sighting",
            name="person",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="target",
            name="person",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="telling",
            name="notice",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="tellings", to="fencing.notice"
            ),
        ),
        migrations.AddField(
            model_name="telling",
            name="person",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="telling",
            name="target",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="tellings", to="fencing.target"
            ),
        ),
        migrations.AddField(
            model_name="tellingtry",
            name="telling",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="tried", to="fencing.telling"
            ),
        ),
        migrations.AddConstraint(
            model_name="noticeitem",
            constraint=models.UniqueConstraint(fields=("kind", "subject"), name="notice_item_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="noticeitem",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="b2809adbbe49d7a6e6c770acc31b78d5fabf2a0f",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_08231",
                    table="fencing_noticeitem",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="noticeitem",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="9bd0dfff74ab85caa31be0e4b960aaf255349c35",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_a6fcf",
                    table="fencing_noticeitem",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="quiethours",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="7f431d00673b4e6dd583c93c95a9df9f013b5cdc",
                    operation="DELETE",
                    pgid="pgtrigger_kept_61950",
                    table="fencing_quiethours",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="quiethours",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="1f4fca8e8a7fb078b22577ec8bf5054a44ddb0d1",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_9bef7",
                    table="fencing_quiethours",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="quiethours",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."person_id" IS DISTINCT FROM NEW."person_id"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: begin, end, zone';",
                    hash="c984bbc1a5e3b9792dccdf6b0ab702fd76a86e2c",
                    operation='UPDATE OF "id", "person_id"',
                    pgid="pgtrigger_fixed_3756e",
                    table="fencing_quiethours",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="sighting",
            constraint=models.UniqueConstraint(fields=("notice", "person"), name="sighting_once"),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="sighting",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="c7bb624a0513f0ab410ff97666c01b5495613f97",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_317de",
                    table="fencing_sighting",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="sighting",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="220ffa9bbc0f30141807c5cd5251ed4d132d5176",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_14b25",
                    table="fencing_sighting",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="target",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at__isnull", True)), fields=("person", "name"), name="target_named_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="target",
            constraint=models.CheckConstraint(
                condition=models.Q(("ended_at__isnull", True), ("locked", ""), _connector="OR"),
                name="target_ended_is_empty",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="target",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="96bf23ed1ab020e2b3c706995b10aa2a185724b2",
                    operation="DELETE",
                    pgid="pgtrigger_kept_09f5f",
                    table="fencing_target",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="target",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="8ad6a4521ad678b1dfe438057c40b142f0cf923c",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_7bb66",
                    table="fencing_target",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="target",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."person_id" IS DISTINCT FROM NEW."person_id" OR OLD."name" IS DISTINCT FROM NEW."name" OR OLD."service" IS DISTINCT FROM NEW."service" OR OLD."is_reference" IS DISTINCT FROM NEW."is_reference" OR OLD."made_at" IS DISTINCT FROM NEW."made_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: ended_at, error, failed_at, failures, kinds, locked, paused_until, sent_at';",
                    hash="240b9da804d799267b76a13745ad4b5f5b16afd3",
                    operation='UPDATE OF "id", "person_id", "name", "service", "is_reference", "made_at"',
                    pgid="pgtrigger_fixed_f744f",
                    table="fencing_target",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="target",
            trigger=pgtrigger.compiler.Trigger(
                name="written_once",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND ((OLD."ended_at" IS NOT NULL AND OLD."ended_at" IS DISTINCT FROM NEW."ended_at")))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'written_once: I6, written once: ended_at';",
                    hash="d6c569e0b0802c958d799790e0c4db21863f5e0b",
                    operation='UPDATE OF "ended_at"',
                    pgid="pgtrigger_written_once_6d9ed",
                    table="fencing_target",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="telling",
            index=models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="telling_due"),
        ),
        migrations.AddIndex(
            model_name="telling",
            index=models.Index(
                condition=models.Q(("target__isnull", True)), fields=["person", "id"], name="telling_of_person"
            ),
        ),
        migrations.AddConstraint(
            model_name="telling",
            constraint=models.UniqueConstraint(
                condition=models.Q(("target__isnull", False)), fields=("notice", "target"), name="telling_once_a_target"
            ),
        ),
        migrations.AddConstraint(
            model_name="telling",
            constraint=models.UniqueConstraint(
                condition=models.Q(("target__isnull", True)), fields=("notice", "person"), name="telling_once_a_person"
            ),
        ),
        migrations.AddConstraint(
            model_name="telling",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("due_at__isnull", False), ("state", "waiting")),
                    models.Q(models.Q(("state", "waiting"), _negated=True), ("due_at__isnull", True)),
                    _connector="OR",
                ),
                name="telling_due_while_it_waits",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="telling",
            trigger=pgtrigger.compiler.Trigger(
                name="kept",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'kept: I6, rows of this table never go';",
                    hash="60f27758d8879e603ad6a75254adf173f559b908",
                    operation="DELETE",
                    pgid="pgtrigger_kept_1c8fd",
                    table="fencing_telling",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="telling",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="a00b5ff8b11f7c79934a5ca833608c094c3b03fe",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_a76f9",
                    table="fencing_telling",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="telling",
            trigger=pgtrigger.compiler.Trigger(
                name="fixed",
                sql=fencing.models.triggers.GuardSql(
                    condition='WHEN ((true) AND (OLD."id" IS DISTINCT FROM NEW."id" OR OLD."notice_id" IS DISTINCT FROM NEW."notice_id" OR OLD."person_id" IS DISTINCT FROM NEW."person_id" OR OLD."target_id" IS DISTINCT FROM NEW."target_id" OR OLD."level" IS DISTINCT FROM NEW."level" OR OLD."made_at" IS DISTINCT FROM NEW."made_at"))',
                    declare="DECLARE wrong text;",
                    func="wrong := 'fixed: I6, only these may change: due_at, error, sent_at, state, tries';",
                    hash="92d520e49e0a7e3ca556a16b3f57ccfdda018fa4",
                    operation='UPDATE OF "id", "notice_id", "person_id", "target_id", "level", "made_at"',
                    pgid="pgtrigger_fixed_84cbf",
                    table="fencing_telling",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="tellingtry",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'append_only: I6, rows of this table never change and never go';",
                    hash="74df4968c344fb55f807cccf510e97197928b1c5",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_cb12b",
                    table="fencing_tellingtry",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="tellingtry",
            trigger=pgtrigger.compiler.Trigger(
                name="never_truncated",
                sql=fencing.models.triggers.GuardSql(
                    declare="DECLARE wrong text;",
                    func="wrong := 'never_truncated: I6, this table is never emptied';",
                    hash="51e7cedc449ad74a7e2b2583a84d6572cbb2c615",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_never_truncated_c85ea",
                    table="fencing_tellingtry",
                    when="BEFORE",
                ),
            ),
        ),
    ]
