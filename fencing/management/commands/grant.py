"""`manage.py grant`: issue, approve, review, revoke and list break-glass grants, by a personal key."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.management import personal
from fencing.models.facts import read_clock
from fencing.protocol.callers import Caller, Role
from fencing.protocol.explain import explain_grant, explain_wanted
from fencing.protocol.objects import Object
from fencing.queries.grants import list_grants, read_grant
from fencing.queries.pages import Page
from fencing.queries.preview import Preview, Wanted, read_preview
from fencing.services import grants
from fencing.services.requests import DecideGrant, IssueGrant

ANY: Final = (Role.ONCALL, Role.REVIEWER)
STATES: Final = ("pending", "live", "used_up", "expired", "revoked", "void")
MOST: Final = 500


class Command(BaseCommand):
    """Act on grants in the name of the person whose key this is."""

    help = f"Issue, approve, review, revoke and list break-glass grants. {personal.HOW}"

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True, metavar="issue|approve|review|revoke|list")
        issue = acts.add_parser("issue", help="let one path act alone, named, expiring, for one epoch")
        issue.add_argument("--run", required=True)
        issue.add_argument("--epoch", type=int, help="default: the one that is open for the scope")
        issue.add_argument("--step", help="the one step that it is for; or name a tool, or both")
        issue.add_argument("--tool", help="the one tool that it is for")
        issue.add_argument("--path", help="the path that may act alone (default: production)")
        issue.add_argument("--digest", help="the one fence digest that it may commit")
        issue.add_argument("--uses", type=int, default=1, dest="max_uses", help="default: %(default)s")
        issue.add_argument("--ttl", type=int, required=True, dest="ttl_s", metavar="S", help="seconds that it lives")
        issue.add_argument("--reason", required=True, help="why, in your own words, 10 visible characters or more")
        issue.add_argument("--name", help="a fresh name, by which a repetition is known (default: one is made)")
        issue.add_argument("--preview", action="store_true", help="only tell what it would let through")
        personal.add_answer_options(issue)
        for act, says in (
            ("approve", "approve a pending grant of somebody else"),
            ("review", "review what somebody else's grant let through"),
            ("revoke", "end a grant at once; told is what that stopped and what is out already"),
        ):
            decide = acts.add_parser(act, help=says)
            decide.add_argument("name")
            decide.add_argument("--reason", required=True)
            personal.add_answer_options(decide)
        lists = acts.add_parser("list", help="list grants, newest first")
        lists.add_argument("--state", choices=STATES)
        lists.add_argument("--run")
        lists.add_argument("--limit", type=int, default=50, help="default: %(default)s")
        personal.add_answer_options(lists)

    def handle(self, *args: Any, **options: Any) -> None:
        act: str = options["act"]
        if act == "list":
            self._list(personal.whoever(*ANY), options)
        elif act == "issue":
            self._issue(personal.whoever(Role.ONCALL), options)
        else:
            self._decide(act, options)

    def _issue(self, caller: Caller, options: dict[str, Any]) -> None:
        scope = {name: options[name] for name in ("run", "step", "tool", "path", "digest", "max_uses", "ttl_s")}
        preview = read_preview(Wanted(epoch=options["epoch"], reason=options["reason"], **scope), caller)
        if options["preview"]:
            self._preview(preview, options["run"])
            return
        epoch = options["epoch"] or (1 if preview.wanted is None else preview.wanted.epoch)
        name = options["name"] or _fresh_name(caller, preview.now)
        members = {**scope, "epoch": epoch, "name": name, "reason": options["reason"]}
        asked = personal.request(IssueGrant, members, caller)
        body = personal.taken(grants.issue_grant(asked, caller))
        self._told(body, options)

    def _preview(self, preview: Preview, run: str) -> None:
        if preview.wanted is not None:
            self.stdout.write(explain_wanted(preview.wanted, run=run, now=preview.now).text)
        if preview.refusal is not None:
            raise CommandError(f"it would be refused: {preview.refusal.code}: {preview.refusal.detail}")
        self.stdout.write(preview.why_second or "It would be live at once.")
        for title, found in (("now", preview.passes), ("once its path votes", preview.waits)):
            self.stdout.write(f"It would let through {title}: {len(found)}")
            self.stdout.writelines(f"  {each.step.step} of epoch {each.step.epoch}: {each.tool}\n" for each in found)
        self.stdout.write(f"It would have let through in the last six hours: {len(preview.past)}")
        self.stdout.write(f"It cannot let through: {len(preview.cannot)}")
        self.stdout.writelines(
            f"  {each.step.step} of epoch {each.step.epoch}: {each.why}\n" for each in preview.cannot
        )

    def _decide(self, act: str, options: dict[str, Any]) -> None:
        caller = personal.whoever(*(ANY if act == "review" else (Role.ONCALL,)))
        asked = personal.request(DecideGrant, {"reason": options["reason"]}, caller)
        decide = {"approve": grants.approve_grant, "review": grants.review_grant, "revoke": grants.revoke_grant}[act]
        body = personal.taken(decide(options["name"], asked, caller))
        self._told(body, options)
        if act == "revoke" and not options["json"]:
            for line in personal.lines("stopped", body["stopped"]) + personal.lines("already out", body["already_out"]):
                self.stdout.write(line)

    def _told(self, body: Object, options: dict[str, Any]) -> None:
        """Tell a grant as it stands in the database, read back after the act."""
        line = read_grant(body["name"])
        sentence = "" if line is None else explain_grant(line.facts, now=read_clock()).text
        personal.told(body, f"{body['name']} in {body['run']}. {sentence}", self.stdout, as_json=options["json"])

    def _list(self, caller: Caller, options: dict[str, Any]) -> None:
        filters = {name: options[name] for name in ("state", "run") if options[name] is not None}
        found = list_grants(filters, Page(limit=min(max(options["limit"], 1), MOST)), caller)
        items = found[0] if isinstance(found, tuple) else []
        for body in items:
            scope = " and ".join(f"{what} {body[what]}" for what in ("step", "tool") if body[what] is not None)
            owes = ", review owed" if body["review_due_at"] and not body["review"] else ""
            until = f", until {body['expires_at']}" if body["state"] == "live" else ""
            sentence = (
                f"{body['name']}: {body['state']}, {body['path']} alone for {scope} in {body['run']} epoch"
                f" {body['epoch']}, used {body['uses']} of {body['max_uses']}{until}, by {body['issuer']}{owes}"
            )
            personal.told(body, sentence, self.stdout, as_json=options["json"])


def _fresh_name(caller: Caller, now: datetime) -> str:
    return f"{caller.name[:120]}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
