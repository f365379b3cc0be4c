"""`manage.py fill`: fill a database with millions of realistic steps, for measuring and for looking at pages."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.environment import Mode
from fencing.filling.filling import Wanted, fill
from fencing.filling.loading import GuardsMissing
from fencing.filling.troupe import CannotPlay
from fencing.models import Run


class Command(BaseCommand):
    """Plays a few dozen runs through the services, casts them over and over, and loads them by COPY."""

    help = (
        "Fill a database with realistic steps: runs, votes, commits, effects, refusals, grants and audit over some "
        "weeks. Refused in production mode, and where there are runs already unless --add is given."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--steps", type=int, required=True, metavar="N", help="about so many steps")
        parser.add_argument("--days", type=float, default=30.0, help="over so many days until now (default: 30)")
        parser.add_argument(
            "--audit-days",
            type=float,
            default=36_500.0,
            metavar="D",
            help="audit of the last D days alone, as where older months were exported and detached (default: all)",
        )
        parser.add_argument("--seed", type=int, default=1, help="another number gives another history")
        parser.add_argument("--quiet", action="store_true", help="do not tell how far it is")
        parser.add_argument("--add", action="store_true", help="also where there are runs already")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.FENCE_MODE is Mode.PRODUCTION:
            raise CommandError("fill makes up history and people: not in production mode")
        if not options["add"] and Run.objects.exists():
            raise CommandError("there are runs in this database already; with --add the made-up ones stand among them")
        wanted = Wanted(
            steps=options["steps"], days=options["days"], audit_days=options["audit_days"], seed=options["seed"]
        )
        try:
            filled = fill(wanted, (lambda _told: None) if options["quiet"] else self.stderr.write)
        except (CannotPlay, GuardsMissing) as fault:
            raise CommandError(str(fault)) from fault
        self.stdout.write(
            f"{filled.steps:,} steps in {filled.runs:,} runs, in {filled.seconds:.0f} s "
            f"({filled.steps / filled.seconds:,.0f} a second in all)"
        )
