"""`manage.py evidence`: write the evidence pack of one thing into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.management import personal
from fencing.protocol.callers import Role
from fencing.protocol.errors import Refusal
from fencing.queries.evidence import kinds, make_pack
from fencing.services.revealing import reveal
from fencing.services.signing import pack_key


class Command(BaseCommand):
    """Writes a zip that anybody checks with bare Python (`python3 check.py`)."""

    help = f"Write an evidence pack: everything about one thing, with its seals and a checker. {personal.HOW}"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", help=f"one of {', '.join(kinds())}")
        parser.add_argument("id", help="its name; of a step: RUN/STEP/EPOCH")
        parser.add_argument("--out", type=Path, metavar="FILE", help="where to write it (default: here, named by it)")
        parser.add_argument("--reveal", metavar="REASON", help="with sensitive members, for a reviewer; audited")

    def handle(self, *args: Any, **options: Any) -> None:
        kind, name, reason = options["kind"], options["id"], options["reveal"]
        if kind not in kinds():
            raise CommandError(f"there is no evidence of a {kind}; there is of a {', a '.join(kinds())}")
        if reason is None:
            personal.whoever(Role.ONCALL, Role.REVIEWER)
        else:
            refusal = reveal(kind, name, reason, personal.whoever(Role.REVIEWER), as_evidence=True)
            if isinstance(refusal, Refusal):
                raise CommandError(f"{refusal.code}: {refusal.detail}")
        pack = make_pack(kind, name, reveals=reason is not None, key=pack_key())
        if pack is None:
            raise CommandError(f"not_found: there is no {kind} {name}")
        out: Path = options["out"] or Path(pack.name)
        try:
            out.write_bytes(pack.data)
        except OSError as fault:
            raise CommandError(f"{out} cannot be written: {fault.strerror}") from fault
        self.stdout.write(f"{out}: {pack.rows} rows of the audit; check it with: python3 check.py, in an empty folder")
