"""`manage.py forget`: remove prose out of cold storage, for good."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.models import Run
from fencing.models.facts import read_clock
from fencing.protocol.grants import check_readable
from fencing.services.credentials import COMMAND_LINE
from fencing.services.forgetting import Wanted, forget

AGE: Final = re.compile(r"([1-9][0-9]{0,5})(d|h|m)", re.ASCII)
UNITS: Final = {"d": "days", "h": "hours", "m": "minutes"}


class Command(BaseCommand):
    """Deletes texts (contexts, rationales, bodies that were refused), and nothing that was decided or hashed."""

    help = (
        "Forget cold prose for good: the contexts and rationales of a run, and what of its input was refused, or "
        "everything older than an age. Digests, votes, decisions and seals still verify. The act stands in the audit."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--run", help="of this run")
        parser.add_argument("--older-than", metavar="AGE", help="said before so long: 90d, 12h, 30m")
        parser.add_argument("--reason", required=True, help="why; it stands in the audit")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *args: Any, **options: Any) -> None:
        run, age = options["run"], _age(options["older_than"])
        if run is None and age is None:
            raise CommandError("say what: --run RUN, --older-than AGE, or both")
        if (refusal := check_readable(options["reason"])) is not None:
            raise CommandError(refusal.detail)
        if run is not None and not Run.objects.filter(name=run).exists():
            raise CommandError(f"there is no run {run}")
        what = " ".join(
            part for part in (run and f"of run {run}", age and f"older than {options['older_than']}") if part
        )
        if not options["yes"] and input(f"Forget the prose {what}, for good? Type yes: ").strip() != "yes":
            raise CommandError("nothing was done")
        before = None if age is None else read_clock() - age
        done = forget(Wanted(run=run, before=before, reason=options["reason"]), COMMAND_LINE)
        kept = f"; {done.kept} stay, since they were said again later" if done.kept else ""
        already = f"; {done.already} were gone already" if done.already else ""
        self.stdout.write(f"forgotten: {done.forgotten} texts {what}{already}{kept}")


def _age(text: str | None) -> timedelta | None:
    if text is None:
        return None
    found = AGE.fullmatch(text)
    if found is None:
        raise CommandError(f"{text!r} is no age: write 90d, 12h or 30m")
    return timedelta(**{UNITS[found[2]]: int(found[1])})
