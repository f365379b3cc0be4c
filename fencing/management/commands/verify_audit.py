"""`manage.py verify_audit`: prove that the audit is what was sealed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.models import AuditEvent
from fencing.protocol.audit_faults import Fault
from fencing.services import verifying
from fencing.services.heads import heads_file
from fencing.services.verifying import Checked, Keys

MOST_UNSEALED = 1_000_000


class Command(BaseCommand):
    """Reads everything, changes nothing. Exit status 1 with the first bad row and the kind of fault."""

    help = (
        "Prove that every row of the audit is what it was when it was sealed, that no seal is missing, changed or made "
        "anew, and that the heads outside the database tell the same. Fails where there is nothing to verify."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--expect-none", action="store_true", help="succeed on an audit without a single row")
        parser.add_argument("--quiet", action="store_true", help="print a fault or the last line alone")
        parser.add_argument(
            "--heads",
            action="append",
            type=Path,
            metavar="FILE",
            help="heads that somebody else kept, a witness say; may be given often (default: this machine's own file)",
        )
        parser.add_argument(
            "--keys",
            type=Path,
            metavar="FILE",
            help="public keys as /.well-known/jwks.json gives them, kept elsewhere (default: those of the database)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        keys = _keys(options["keys"])
        newest = verifying.last_seal()
        up_to = 0 if newest is None else newest.number
        checked = Checked()
        for checked in verifying.check_seals(Checked(), up_to, keys):
            self._progress(checked, up_to, is_quiet=options["quiet"])
        fault = checked.fault
        if fault is None:
            fault = verifying.check_heads(options["heads"] or [heads_file()], keys) or verifying.check_end()
        unsealed = verifying.count_unsealed(MOST_UNSEALED)
        if fault is None and not checked.rows and not options["expect_none"]:
            fault = verifying.nothing(unsealed=unsealed)
        if fault is not None:
            raise CommandError(_told(fault, checked))
        if options["expect_none"] and AuditEvent.objects.exists():
            raise CommandError("the audit was expected to be empty, and is not")
        self.stdout.write(
            f"the audit is as it was sealed: {checked.rows} rows in {up_to} seals, the last of them row {checked.last};"
            f" {unsealed} rows wait for their seal"
        )

    def _progress(self, checked: Checked, up_to: int, *, is_quiet: bool) -> None:
        if is_quiet or not sys.stderr.isatty() or checked.seal is None:
            return
        self.stderr.write(f"\r{checked.rows} rows, seal {checked.seal.number} of {up_to}", ending="")


def _keys(path: Path | None) -> Keys:
    if path is None:
        return verifying.trusted_keys()
    try:
        return {str(key["kid"]): key for key in json.loads(path.read_text(encoding="utf-8"))["keys"]}
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise CommandError(f"{path} holds no public keys: {fault}") from fault


def _told(fault: Fault, checked: Checked) -> str:
    where = "" if fault.row is None else f" at row {fault.row}"
    seal = "" if fault.seal is None else f" (seal {fault.seal})"
    return f"{fault.kind}{where}{seal}: {fault.says} {checked.rows} rows before it are as they were sealed."
