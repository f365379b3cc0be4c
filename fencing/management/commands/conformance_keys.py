"""`manage.py conformance_keys`: people and keys for the conformance cases, new ones each time."""

import json
import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from fencing.environment import Mode
from fencing.management.commands.load_tools import load, told
from fencing.protocol.callers import Role
from fencing.protocol.errors import Refusal
from fencing.services.credentials import COMMAND_LINE, IssueKey, issue

PEOPLE = {"oncall": Role.ONCALL, "oncall2": Role.ONCALL, "reviewer": Role.REVIEWER, "reviewer2": Role.REVIEWER}
GROUPS = {Role.ONCALL: "on-call", Role.REVIEWER: "reviewer"}
MACHINES = {
    "planner": Role.PLANNER,
    "planner2": Role.PLANNER,
    "replica": Role.PATH,
    "production": Role.PATH,
    "gateway": Role.GATEWAY,
    "gateway2": Role.GATEWAY,
    "scorer": Role.SCORER,
    "publisher": Role.PUBLISHER,
    "gate": Role.GATE,
    "auditor": Role.AUDITOR,
}


class Command(BaseCommand):
    """Make four new people and all fourteen keys, and write the keys to a file."""

    help = (
        "Make four new people, so that no old debt blocks them, and the fourteen keys that the conformance cases use "
        "(planner and planner2 in one group), and write them to FILE, readable by its owner alone. "
        "Refused in production mode."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="where the keys are written, as one JSON object")
        parser.add_argument(
            "--tools", metavar="FILE", type=Path, help="also register the tools of this file, as load_tools does"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.FENCE_MODE is Mode.PRODUCTION:
            raise CommandError(
                "conformance_keys makes people without a second factor; in production mode it is refused"
            )
        if options["tools"]:
            for line in told(load(options["tools"])):
                self.stdout.write(line)
        with transaction.atomic():
            keys = make_keys(secrets.token_hex(4))
        write_private(options["file"], json.dumps(keys, indent=1) + "\n")
        self.stdout.write(f"{len(keys)} keys of {len(PEOPLE)} new people are in {options['file']}")


def make_keys(mark: str) -> dict[str, str]:
    """Make people and keys whose names end in `mark`."""
    requests = {
        name: IssueKey(
            role=role,
            name=f"{name}-{mark}",
            path=name if role is Role.PATH else None,
            group=f"planners-{mark}" if role is Role.PLANNER else None,
        )
        for name, role in MACHINES.items()
    }
    for name, role in PEOPLE.items():
        person = get_user_model().objects.create_user(username=f"{name}-{mark}")
        person.groups.add(Group.objects.get_or_create(name=GROUPS[role])[0])
        requests[name] = IssueKey(role=role, name=f"{name}-{mark}", user=person.get_username())
    return {name: _issued(request) for name, request in requests.items()}


def write_private(file: Path, text: str) -> None:
    """Write a file that nobody but its owner can read, also if it was there with other rights."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as out:
            os.fchmod(descriptor, 0o600)
            out.write(text)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}") from error


def _issued(request: IssueKey) -> str:
    issued = issue(request, COMMAND_LINE)
    if isinstance(issued, Refusal):
        raise CommandError(issued.detail)
    return issued.key
