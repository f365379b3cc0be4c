"""`manage.py up`: the whole system on one machine."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from fencing.machine import up
from fencing.machine.folder import DataFolder


class Command(BaseCommand):
    """Known to Django for `help` and `call_command`; `manage.py up` itself starts without Django, and so faster."""

    help = "Run everything on this machine: PostgreSQL, Valkey, migrations, web, workers. Ctrl-C stops it."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        up.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        folder = DataFolder(path=Path(options["data"] or settings.FENCE_DATA).absolute())
        up.run(folder, host=options["host"], port=options["port"], is_demo=not options["no_demo"])
