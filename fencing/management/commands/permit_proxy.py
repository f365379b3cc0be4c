"""`manage.py permit_proxy`: refuses model calls whose permit is stale, before they cost anything."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.client.marker import Scorer
from fencing.client.permit_proxy import make_proxy
from fencing.management import remote


class Command(BaseCommand):
    """Stand before a model's server, and let through what carries a permit of an open epoch."""

    help = (
        "Pass calls on to a model's server, but for those whose permit (header Fence-Permit) is missing, not genuine or"
        f" of a closed epoch: they are refused with 403. Any key but a path's will do. {remote.HOW}"
    )
    requires_system_checks = []  # nothing of this machine is used

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--endpoint", required=True, metavar="URL", help="the model's server, without /v1/…")
        remote.add_address(parser)
        parser.add_argument("--host", default="127.0.0.1", help="where it listens (default 127.0.0.1)")
        parser.add_argument("--port", type=int, default=8790, help="its port (default 8790; 0 takes a free one)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until Ctrl-C."""
        remote.be_quiet()
        place = (options["host"], options["port"])
        with Scorer(remote.address_of(options), remote.key_of()) as fence:
            try:
                server = make_proxy(place, fence=fence, endpoint=options["endpoint"])
            except OSError as fault:
                raise CommandError(f"cannot listen at {place[0]}:{place[1]}: {fault.strerror}") from fault
            with server:
                self.stdout.write(f"ready at http://{server.server_address[0]!s}:{server.server_address[1]}")
                self.stdout.flush()
                server.serve_forever()
