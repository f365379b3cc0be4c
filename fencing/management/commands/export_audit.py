"""`manage.py export_audit`: the whole sealed audit as a zip that is verified offline, with nothing but Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.queries.exporting_audit import export_audit
from fencing.services.signing import pack_key


class Command(BaseCommand):
    """Reads seal after seal, in constant memory, and changes nothing."""

    help = (
        "Write every sealed row of the audit, its seals and the public keys into a zip with a checker of one Python "
        "file. Who has it verifies it without this system: unpack it into an empty folder, python3 check.py."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("out", type=Path, metavar="FILE", help="where to write it")
        parser.add_argument("--from-seal", type=int, default=1, metavar="N", help="begin with this seal (default: 1)")

    def handle(self, *args: Any, **options: Any) -> None:
        out: Path = options["out"]
        shows = sys.stderr.isatty()

        def progress(rows: int) -> None:
            if shows:
                self.stderr.write(f"\r{rows} rows", ending="")

        try:
            with out.open("xb") as file:
                rows, seals = export_audit(file, options["from_seal"], pack_key(), progress)
        except FileExistsError as fault:
            raise CommandError(f"{out} is there already") from fault
        except OSError as fault:
            raise CommandError(f"{out} cannot be written: {fault.strerror}") from fault
        self.stdout.write(f"{out}: {rows} rows in {seals} seals; check it with: python3 check.py, in an empty folder")
