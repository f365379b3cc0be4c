"""`manage.py issue_key`: make a bearer key and print it, this once."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.environment import Mode
from fencing.protocol.callers import KEY_ROLES, Role
from fencing.protocol.errors import Refusal
from fencing.services.credentials import COMMAND_LINE, DEFAULT_RATE_PER_S, PERSONAL_LIFE_S, IssueKey, issue

ROLES = [str(role) for role in Role if role in KEY_ROLES]


class Command(BaseCommand):
    """Make a key of one role, with what binds it."""

    help = (
        "Make a bearer key of one role and print it. It is shown this once: only its hash is kept. "
        "A key can do what its role can, within its bindings, until it expires or `revoke_key` ends it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--role", required=True, choices=ROLES, help="what the key may do")
        parser.add_argument(
            "--name", required=True, help="under which name logs, audit and answers show it; never used again"
        )
        parser.add_argument(
            "--path", metavar="P", help="role path: the one path it votes for, e.g. production or replica"
        )
        parser.add_argument(
            "--user",
            metavar="U",
            help="roles oncall and reviewer: the existing person it belongs to; not in production mode",
        )
        parser.add_argument(
            "--group", metavar="G", help="role planner: planner keys of one group share their runs (default: its name)"
        )
        parser.add_argument(
            "--tool",
            metavar="T",
            action="append",
            dest="tools",
            help="role gateway: a tool it may deliver; may be repeated (default: all)",
        )
        parser.add_argument(
            "--lane",
            metavar="L",
            action="append",
            dest="lanes",
            help="role scorer: a lane it may work in; may be repeated (default: all)",
        )
        parser.add_argument(
            "--expires-in",
            metavar="S",
            type=int,
            help=f"seconds that it lives (default: no end; a person's key {PERSONAL_LIFE_S} at most)",
        )
        parser.add_argument(
            "--rate",
            metavar="N",
            type=int,
            default=DEFAULT_RATE_PER_S,
            help="calls a second, for each web process (default: %(default)s)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["user"] and settings.FENCE_MODE is Mode.PRODUCTION:
            raise CommandError(
                "in production a person's key is made in the browser, after a second factor; --user is refused"
            )
        request = IssueKey(
            role=Role(options["role"]),
            name=options["name"],
            path=options["path"],
            user=options["user"],
            group=options["group"],
            tools=_tuple(options["tools"]),
            lanes=_tuple(options["lanes"]),
            expires_in_s=options["expires_in"],
            rate_per_s=options["rate"],
        )
        issued = issue(request, COMMAND_LINE)
        if isinstance(issued, Refusal):
            raise CommandError(issued.detail)
        self.stdout.write(issued.key)


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
