"""Entries of seals are stored as they are: they are hashes, and trying to compress them is in vain."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("fencing", "0019_doubted_undoings"),
    ]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE fencing_seal ALTER COLUMN entries SET STORAGE EXTERNAL",
            "ALTER TABLE fencing_seal ALTER COLUMN entries SET STORAGE EXTENDED",
        ),
    ]
