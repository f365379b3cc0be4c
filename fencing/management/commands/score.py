"""`manage.py score`: a scoring worker that can be thrown away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.client import NotAllowed
from fencing.client.marker import Scorer
from fencing.client.scoring import INSTRUCTION, ScoringWorker
from fencing.management import remote


class Command(BaseCommand):
    """Take work of a lane, ask a model, send fragments."""

    help = (
        "Take work of a lane, ask for a permit, call an OpenAI-compatible chat endpoint with it, report the spend and"
        " send the fragment. It keeps nothing: start any number, kill them as you like."
        f" {remote.HOW} {remote.MODEL_HOW}"
    )
    requires_system_checks = []  # nothing of this machine is used

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--lane", required=True)
        remote.add_address(parser)
        remote.add_model(parser)
        parser.add_argument("--instruction", type=Path, metavar="FILE", help="what the model is told to do")
        parser.add_argument("--free-text", action="store_true", help="send what the model says, without a score")
        parser.add_argument("--most", type=int, metavar="N", help="end after N fragments")

    def handle(self, *args: Any, **options: Any) -> None:
        """Work until Ctrl-C."""
        stop = remote.until_told()
        most = options["most"]
        file = options["instruction"]
        try:
            instruction = INSTRUCTION if file is None else file.read_text(encoding="utf-8")
        except OSError as fault:
            raise CommandError(f"{file} cannot be read: {fault.strerror}") from fault
        with Scorer(remote.address_of(options), remote.key_of()) as scorer, remote.model_of(options) as model:
            worker = ScoringWorker(
                scorer=scorer,
                model=model,
                lane=options["lane"],
                instruction=instruction,
                needs_score=not options["free_text"],
            )
            try:
                worker.serve(
                    stop=lambda: stop() or (most is not None and sum(worker.counts.values()) >= most), wait_s=10
                )
            except NotAllowed as refused:
                raise CommandError(str(refused)) from refused
            finally:
                told = ", ".join(f"{end} {count}" for end, count in sorted(worker.counts.items())) or "nothing"
                self.stdout.write(f"{options['lane']}: {told}")
