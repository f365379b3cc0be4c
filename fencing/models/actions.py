"""Actions: the canonical bytes of every tool call that anybody named, stored once by payload digest (C7)."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Func, Q, TextField, Value
from django.db.models.functions import Concat

from fencing.models import fields, triggers


class Action(models.Model):
    """A tool call as data.

    `canonical` holds the very bytes that were hashed and that a tool receives, never `jsonb`.
    """

    payload_digest = fields.digest(primary_key=True)
    tool = fields.identifier()
    canonical = models.BinaryField()
    stored_at = fields.recorded_at()

    class Meta:
        constraints = [
            # What a commit binds and a delivery sends is named by digest alone, so the name has to be true (C2).
            models.CheckConstraint(
                condition=Q(
                    payload_digest=Concat(
                        Value("sha256:"),
                        Func(
                            Func(F("canonical"), function="sha256"),
                            Value("hex"),
                            function="encode",
                            output_field=TextField(),
                        ),
                    )
                ),
                name="action_digest_is_its_own",
            ),
        ]
        triggers = triggers.append_only()
