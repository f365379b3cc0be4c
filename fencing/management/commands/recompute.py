"""`manage.py recompute`: prove that stored states equal those recomputed from the facts."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.services.recompute import Fault, Tallied, find_faults

MAX_SHOWN = 50


class Command(BaseCommand):
    """Reads everything in one snapshot, changes nothing. Exit status 1 when a stored state contradicts the facts."""

    help = "Prove that the stored states of runs, steps, intents and grants equal those recomputed from the facts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--sample", type=int, metavar="N", help="look at N runs that are drawn by chance alone")
        parser.add_argument("--quiet", action="store_true", help="print faults and the last line alone")

    def handle(self, *_args: Any, **options: Any) -> None:
        tallied, faults = Tallied(), list[Fault]()
        shows = not options["quiet"] and sys.stderr.isatty()

        def progress(so_far: Tallied) -> None:
            if shows:
                self.stderr.write(f"\r{so_far.steps} steps, {so_far.intents} intents", ending="")

        for fault in find_faults(tallied, progress, sample=options["sample"]):
            faults.append(fault)
            if len(faults) <= MAX_SHOWN:
                self.stdout.write(f"{fault.kind} {fault.subject}: {fault.says}")
        of = f"{tallied.runs} runs, {tallied.steps} steps, {tallied.intents} intents, {tallied.grants} grants"
        if faults:
            raise CommandError(f"{len(faults)} stored states contradict the facts, of {of}")
        self.stdout.write(f"stored states equal recomputed ones: {of}")
