"""`manage.py load_tools`: register tools from a file."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.protocol import strict_json
from fencing.protocol.errors import Refusal
from fencing.services.credentials import COMMAND_LINE
from fencing.services.tools import LoadReport, load_definitions


class Command(BaseCommand):
    """Register the tools of a file; what is there already is no new version."""

    help = (
        "Register the tools of FILE, a JSON list of definitions: all of them or none. Each changed definition becomes "
        "a new version; tools that FILE does not name stay as they are. "
        "In production a change that weakens the fence waits until two administrators approve it on the page Tools."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="a JSON list of tool definitions")

    def handle(self, *args: Any, **options: Any) -> None:
        for line in told(load(options["file"])):
            self.stdout.write(line)


def load(file: Path) -> LoadReport:
    """Read and register; `conformance_keys` does the same. Raises CommandError with what is wrong and where."""
    try:
        definitions = strict_json.parse(file.read_bytes())
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from error
    if isinstance(definitions, Refusal):
        raise CommandError(f"{file}{definitions.pointer or ''}: {definitions.detail}")
    if not isinstance(definitions, list):
        raise CommandError(f"{file} must hold a JSON list of definitions")
    report = load_definitions(definitions, COMMAND_LINE)
    if isinstance(report, Refusal):
        raise CommandError(f"{file}{report.pointer or ''}: {report.detail} Nothing was loaded.")
    return report


def told(report: LoadReport) -> list[str]:
    """What loading changed, as lines."""
    lines = [f"{change.tool}: version {change.version} ({change.digest[:19]}…)" for change in report.changes]
    lines += [f"  weaker: {sentence}" for change in report.changes for sentence in change.weakens]
    for waiting in report.waiting:
        since = "" if waiting.is_new else " already"
        who = f"{waiting.approvals_needed} administrators"
        lines.append(f"{waiting.tool}: waits{since} for {who} (change {waiting.id})")
        lines += [f"  weaker: {sentence}" for sentence in waiting.weakens]
    wait = f", {len(report.waiting)} waiting" if report.waiting else ""
    return [*lines, f"registry {report.registry}: {len(report.changes)} changed{wait}"]
