"""`manage.py lift`: lift a freeze that somebody else set, by a personal key (L10)."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from fencing.management import personal
from fencing.protocol.callers import Role
from fencing.protocol.freezes import scope_in_words
from fencing.services import freezes
from fencing.services.requests import DecideGrant


class Command(BaseCommand):
    """Lift a freeze in the name of the person whose key this is."""

    help = f"Lift a freeze that somebody else set. {personal.HOW}"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("freeze", help="its id, as `freeze` printed it")
        parser.add_argument("--reason", required=True)
        personal.add_answer_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        caller = personal.whoever(Role.ONCALL)
        asked = personal.request(DecideGrant, {"reason": options["reason"]}, caller)
        body = personal.taken(freezes.lift_freeze(options["freeze"], asked, caller))
        scope = scope_in_words(body["scope"]["tool"], body["scope"]["run"])
        personal.told(body, f"{body['id']}: {scope} is no longer frozen", self.stdout, as_json=options["json"])
