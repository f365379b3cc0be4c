"""`manage.py vote`: a path whose decisions a model makes, and that can be thrown away."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.client import NotAllowed, Path, Receipt, Refused
from fencing.client.objects import Wanted
from fencing.client.voting import ModelVote
from fencing.management import remote


class Command(BaseCommand):
    """Take wanted votes, ask a model, vote what it calls."""

    help = (
        "Take the votes that a path's key is asked for, call an OpenAI-compatible chat endpoint with the step's context"
        " and the tools' schemas, and vote the tool call that comes back. Whatever is no single tool call is an"
        " abstention with its reason. Run one for each path: two with one key and a model that wavers would"
        f" contradict each other. {remote.HOW} {remote.MODEL_HOW}"
    )
    requires_system_checks = []  # nothing of this machine is used

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--path", required=True, help="the path whose key this is, for the lines that are printed")
        remote.add_address(parser)
        remote.add_model(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Vote until Ctrl-C."""
        stop = remote.until_told()

        def heard(wanted: Wanted, answer: Receipt | Refused) -> None:
            end = answer.code if isinstance(answer, Refused) else answer.vote
            self.stdout.write(f"{options['path']} {wanted.run} {wanted.step} epoch {wanted.epoch}: {end}")
            self.stdout.flush()

        with Path(remote.address_of(options), remote.key_of()) as path, remote.model_of(options) as model:
            try:
                path.serve(ModelVote(model), stop=stop, heard=heard, wait_s=10)
            except NotAllowed as refused:
                raise CommandError(str(refused)) from refused
