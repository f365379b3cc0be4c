"""`manage.py work QUEUE…`: a worker for background jobs, in this process."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.jobs.worker import run_worker


class Command(BaseCommand):
    """Take jobs of the given queues until a signal to stop; the job at hand ends first."""

    requires_system_checks = []  # they load every page and route; `check` is for that
    help = "Take background jobs of the given queues until a signal to stop. One queue a process is fastest."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queues", nargs="*", default=["default"], help=f"of {', '.join(settings.RQ_QUEUES)}")

    def handle(self, *args: Any, **options: Any) -> None:
        unknown = sorted(set(options["queues"]) - set(settings.RQ_QUEUES))
        if unknown:
            raise CommandError(f"there is no queue {', '.join(unknown)}; there are {', '.join(settings.RQ_QUEUES)}")
        run_worker(options["queues"])
