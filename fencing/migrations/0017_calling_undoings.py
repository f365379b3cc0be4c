"""Calls of undoings by this system: only a push tool is called without a gateway's key; what is under way is found fast."""

import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import fencing.models.triggers


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0016_counts_of_tools"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        pgtrigger.migrations.RemoveTrigger(
            model_name="compensationdelivery",
            name="undoing_of_an_approval",
        ),
        migrations.AddIndex(
            model_name="compensation",
            index=models.Index(
                condition=models.Q(("state__in", ["approved", "in_doubt", "in_flight"])),
                fields=["run", "effect_at"],
                name="compensation_under_way",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="compensationdelivery",
            trigger=pgtrigger.compiler.Trigger(
                name="undoing_of_an_approval",
                sql=fencing.models.triggers.LookupGuardSql(
                    declare="DECLARE wrong text;",
                    func="\nPERFORM FROM fencing_compensation WHERE id = NEW.compensation_id FOR NO KEY UPDATE;\nSELECT CASE\n    WHEN act.state IS DISTINCT FROM 'approved'\n        THEN 'undoing_of_an_approval: I2, the compensation is not approved'\n    WHEN (release.compensation_id, release.round, release.payload_id)\n        IS DISTINCT FROM (NEW.compensation_id, act.round, NEW.payload_id) OR act.payload_id <> NEW.payload_id\n        THEN 'undoing_of_an_approval: I2, this is not what was approved'\n    WHEN NEW.number <> coalesce(others.last_number, 0) + 1 THEN 'undoing_in_order: P5, the next try has the next number'\n    WHEN others.may_be_out THEN 'undoing_once: P5, an earlier try may have done it'\n    WHEN EXISTS (SELECT FROM fencing_claim WHERE intent_id = act.intent_id AND act.effect_id IS NULL AND state = 'open')\n        THEN 'undoing_of_what_nobody_wants: P4, a claim is open'\n    -- T5: this system calls push tools by itself, and no other.\n    WHEN NEW.by_id IS NULL AND pushed.mode IS DISTINCT FROM 'push'\n        THEN 'undoing_by_a_key: N8, a pull tool is called with a gateway''s key'\nEND INTO wrong\nFROM (SELECT 1) AS nothing\nLEFT JOIN LATERAL (SELECT * FROM fencing_compensation WHERE id = NEW.compensation_id LIMIT 1) AS act ON true\nLEFT JOIN LATERAL (SELECT * FROM fencing_compensationrelease WHERE id = NEW.release_id LIMIT 1) AS release ON true\nLEFT JOIN LATERAL (\n    SELECT max(number) AS last_number, bool_or(coalesce((\n        SELECT bool_or(outcome IN ('failed', 'busy', 'not_sent', 'not_happened')) FROM fencing_compensationoutcome\n        WHERE delivery_id = earlier.id AND is_effective), false) IS FALSE) AS may_be_out\n    FROM fencing_compensationdelivery AS earlier WHERE release_id = NEW.release_id\n) AS others ON true\nLEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = NEW.payload_id LIMIT 1) AS called ON true\nLEFT JOIN LATERAL (\n    SELECT mode FROM fencing_toolversion\n    WHERE NEW.by_id IS NULL AND tool = called.tool AND id <= act.registry ORDER BY id DESC LIMIT 1\n) AS pushed ON true;\n",
                    hash="776f5df0db8005a069e8feff50139e8a950dddd3",
                    operation="INSERT",
                    pgid="pgtrigger_undoing_of_an_approval_3d720",
                    table="fencing_compensationdelivery",
                    when="BEFORE",
                ),
            ),
        ),
    ]
