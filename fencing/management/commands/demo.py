"""`manage.py demo`: play the demo against a running system, with keys that end with it."""

from __future__ import annotations

import json
import logging
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

import fencing.demo
from fencing.client import Refused, Unreachable
from fencing.demo import DemoKeys, NotAsItMustBe, play
from fencing.environment import Mode
from fencing.machine.folder import DataFolder
from fencing.management import demo_push
from fencing.management.commands.load_tools import load
from fencing.management.demo_lanes import Graders, NotAsExpected, make_lanes
from fencing.models import Run
from fencing.models.registry import current_registry, registry_at
from fencing.protocol.callers import Caller, Role
from fencing.protocol.errors import Refusal
from fencing.protocol.tools import ToolDefinition, read_tool
from fencing.services import credentials
from fencing.services.credentials import IssueKey

TOOLS = Path(fencing.demo.__file__).parent / "tools.json"
CALLER = Caller(credential_id=None, name="demo", role=Role.SYSTEM)
# Far beyond the play: a key that a killed demo leaves behind ends by itself.
KEYS_LIVE_S = 900


class Command(BaseCommand):
    """Play the demo: thirteen scenes on invoice nine, by four processes over HTTP."""

    help = "Play a planner, a replica, a production path and a gateway on invoice nine, and check what happens."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--base-url", help="address of the running system (default: that of `up` on this data folder)"
        )
        parser.add_argument("--if-empty", action="store_true", help="do nothing where any run exists already")

    def handle(self, *args: Any, **options: Any) -> None:
        """Register the demo's tools, issue its keys, play, and revoke them."""
        if settings.FENCE_MODE is Mode.PRODUCTION:
            raise CommandError("the demo makes runs, keys and a person of its own: not in production mode")
        if options["if_empty"] and Run.objects.exists():
            return
        run = DataFolder(path=Path(settings.FENCE_DATA)).read_run()
        base_url = options["base_url"] or run.get("address")
        if not base_url:
            raise CommandError("no `up` runs on this data folder; start one, or name a system with --base-url")
        _register_tools()
        # `up` ends it so; the keys and the actors end with it.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        # Its line for each request would stand between ours.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        hosts = (
            str(run.get("tool_hosts", "")).split(",") if base_url == run.get("address") else settings.FENCE_TOOL_HOSTS
        )
        self._play(base_url, may_call_here=demo_push.HOST in hosts)

    def _play(self, base_url: str, *, may_call_here: bool) -> None:
        with _keys() as keys:
            try:
                play(base_url, keys, self.stdout)
                self._fail(base_url, keys, may_call_here=may_call_here)
            except NotAsItMustBe as fault:
                raise CommandError(f"the demo saw what must not be, {len(fault.faults)} times; see above") from fault
            except Unreachable as away:
                raise CommandError(f"nobody answers at {base_url}: {away}") from away
            except Refused as refused:
                raise CommandError(f"{base_url} is no system on this database: {refused}") from refused
        self._grade(base_url)

    def _fail(self, base_url: str, keys: DemoKeys, *, may_call_here: bool) -> None:
        """Let a push tool fail in each way, where the workers may call this machine."""
        if not may_call_here:
            self.stdout.write(f"demo: no push tool: FENCE_TOOL_HOSTS of that system does not name {demo_push.HOST}")
            return
        try:
            for line in demo_push.fail(base_url, keys):
                self.stdout.write(line)
                self.stdout.flush()
        except demo_push.NotAsExpected as fault:
            raise CommandError(f"the push tool of the demo: {fault}") from fault

    def _grade(self, base_url: str) -> None:
        """Make three lanes of grades: published, incomplete and halted."""
        name = f"demo-{secrets.token_hex(3)}"
        roles = (Role.PUBLISHER, Role.SCORER, Role.GATE)
        asked = [IssueKey(role=role, name=f"{name}-{role}", expires_in_s=KEYS_LIVE_S) for role in roles]
        try:
            publisher, scorer, gate = (_caller(request) for request in asked)
            for line in make_lanes(name, Graders(publisher=publisher, scorer=scorer, gate=gate)):
                self.stdout.write(line)
            self.stdout.write(f"demo: three lanes of grades stand at {base_url}/lanes")
        except NotAsExpected as fault:
            raise CommandError(f"the lanes of the demo: {fault}") from fault
        finally:
            for request in asked:
                credentials.revoke(request.name, CALLER)


def _register_tools() -> None:
    """Register what the play needs. A tool of that name that somebody made otherwise is theirs, and stays."""
    known = registry_at(current_registry())
    for value in json.loads(TOOLS.read_text(encoding="utf-8")):
        definition = read_tool(value, plain_http_hosts=settings.FENCE_TOOL_HOSTS)
        if isinstance(definition, ToolDefinition) and known.get(definition.tool, definition) != definition:
            raise CommandError(
                f"the tool {definition.tool} is registered with another definition; the demo leaves it alone"
            )
    load(TOOLS)


@contextmanager
def _keys() -> Iterator[DemoKeys]:
    """Issue a key for each role, and revoke them all in the end. The person on call is new, and owes no old review."""
    name = f"demo-{secrets.token_hex(3)}"
    person = get_user_model().objects.create_user(f"{name}-oncall")
    asked = {
        "planner": IssueKey(role=Role.PLANNER, name=f"{name}-planner", expires_in_s=KEYS_LIVE_S),
        "replica": IssueKey(role=Role.PATH, name=f"{name}-replica", path="replica", expires_in_s=KEYS_LIVE_S),
        "production": IssueKey(role=Role.PATH, name=f"{name}-production", path="production", expires_in_s=KEYS_LIVE_S),
        "gateway": IssueKey(
            role=Role.GATEWAY, name=f"{name}-gateway", tools=("refund", "create_ticket"), expires_in_s=KEYS_LIVE_S
        ),
        "oncall": IssueKey(
            role=Role.ONCALL, name=f"{name}-oncall", user=person.get_username(), expires_in_s=KEYS_LIVE_S
        ),
        "auditor": IssueKey(role=Role.AUDITOR, name=f"{name}-auditor", expires_in_s=KEYS_LIVE_S),
    }
    try:
        yield DemoKeys(**{role: _issued(request) for role, request in asked.items()})
    finally:
        for request in asked.values():
            credentials.revoke(request.name, CALLER)


def _caller(request: IssueKey) -> Caller:
    """Issue a key, and speak as its owner."""
    caller = credentials.authenticate(f"Bearer {_issued(request)}")
    if isinstance(caller, Refusal):
        raise CommandError(f"no caller for {request.name}: {caller.detail}")
    return caller


def _issued(request: IssueKey) -> str:
    issued = credentials.issue(request, CALLER)
    if isinstance(issued, Refusal):
        raise CommandError(f"no key for {request.name}: {issued.detail}")
    return issued.key
