"""`manage.py freeze`: stop a tool, a run, or everything at once, by a personal key (L10)."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.management import personal
from fencing.protocol.callers import Role
from fencing.protocol.freezes import scope_in_words
from fencing.services import freezes
from fencing.services.requests import SetFreeze


class Command(BaseCommand):
    """Freeze a scope in the name of the person whose key this is."""

    help = (
        "Freeze a tool, a run, that tool in that run, or everything: nothing of it is admitted and its grants are "
        f"void, until another person lifts it. {personal.HOW}"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tool")
        parser.add_argument("--run")
        parser.add_argument("--everything", action="store_true", help="stop every tool in every run")
        parser.add_argument("--reason", required=True)
        personal.add_answer_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        named = {name: options[name] for name in ("tool", "run") if options[name] is not None}
        if bool(named) == options["everything"]:
            raise CommandError("name a tool or a run or both, or say --everything: one of them, and not both")
        caller = personal.whoever(Role.ONCALL)
        asked = personal.request(SetFreeze, {"scope": named, "reason": options["reason"]}, caller)
        body = personal.taken(freezes.freeze(asked, caller))
        scope = scope_in_words(body["scope"]["tool"], body["scope"]["run"])
        personal.told(body, f"{body['id']}: {scope} is frozen", self.stdout, as_json=options["json"])
        if not options["json"]:
            for name, title in (("stopped", "stopped"), ("already_out", "already out")):
                for line in personal.lines(title, body[name], body["more"][name]):
                    self.stdout.write(line)
            self.stdout.write(f"grants that ended: {', '.join(body['voided']) or 'none'}")
