"""`manage.py test`: everything that has to hold, checked."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.machine import testing
from fencing.machine.folder import DataFolder


class Command(BaseCommand):
    """Known to Django for `help` and `call_command`; `manage.py test` itself starts without Django."""

    help = (
        "Run static checks and every test against throw-away servers. Arguments go to pytest, and then it alone runs."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-static", action="store_true", help="leave the static checks out")
        parser.add_argument("pytest", nargs="*", help="arguments for pytest: paths, -k …")

    def handle(self, *args: Any, **options: Any) -> None:
        words = ["--no-static"] if options["no_static"] else []
        code = testing.main([*words, *options["pytest"]], DataFolder(path=settings.FENCE_DATA))
        if code:
            raise CommandError("some checks or tests failed", returncode=code)
