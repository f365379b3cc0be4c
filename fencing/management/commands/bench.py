"""`manage.py bench`: how fast the system is on this machine, each figure beside a raw one of the same run."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.machine import benching


class Command(BaseCommand):
    """Known to Django for `help` and `call_command`; `manage.py bench` itself starts without Django."""

    help = (
        "Measure the system against servers of its own that are thrown away: `manage.py bench --quick` ends in two "
        "minutes, `manage.py bench --help` names every figure and option."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("words", nargs="*", help="options of the bench, behind --")

    def handle(self, *args: Any, **options: Any) -> None:
        code = benching.main(options["words"])
        if code:
            raise CommandError("the bench could not be run to its end", returncode=code)
