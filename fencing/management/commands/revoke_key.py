"""`manage.py revoke_key`: end a key."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.protocol.errors import Refusal
from fencing.protocol.objects import rfc3339
from fencing.services.credentials import COMMAND_LINE, revoke


class Command(BaseCommand):
    """End a key by its name."""

    help = "End a key, from the next request on. Its name and what it did stay on record; repeating it changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name under which the key was issued")

    def handle(self, *args: Any, **options: Any) -> None:
        revoked = revoke(options["name"], COMMAND_LINE)
        if isinstance(revoked, Refusal):
            raise CommandError(revoked.detail)
        self.stdout.write(f"{revoked.name} is revoked since {rfc3339(revoked.revoked_at)}")
