"""`manage.py person`: make people and help them in again from the machine itself; the audit says so."""

from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fencing.protocol.errors import Refusal
from fencing.protocol.groups import Group
from fencing.queries.people import list_people, read_person
from fencing.services import people
from fencing.services.credentials import COMMAND_LINE
from fencing.services.people import ChangeGroups, Done, MakePerson

GROUPS: Final = [group.value for group in Group]
# Where the pages take a link of this kind.
LINK: Final = "{base}/set-password/{name}/{token}"
ACTS: Final = {
    "deactivate": (people.deactivate, "shut somebody out: sessions and personal keys end", "deactivated"),
    "activate": (people.activate, "let somebody in again", "activated"),
    "reset-second-factor": (
        people.reset_second_factor,
        "remove every second factor of somebody who lost theirs",
        "the second factors are removed",
    ),
    "sign-out": (people.end_sessions, "end every session of somebody", "signed out"),
    "unlock": (people.unlock, "forget the wrong guesses at somebody's password", "unlocked"),
}


class Command(BaseCommand):
    """Make people, put them into groups, and help them in again."""

    help = "Make people, put them into groups, and help them in again. What it does is audited as `command line`."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        acts.add_parser("list", help="show everybody, with their groups")
        made = acts.add_parser("make", help="make a person; prints a link that sets their password")
        made.add_argument("--group", action="append", choices=GROUPS, default=[], dest="groups", help="may be repeated")
        grouped = acts.add_parser("groups", help="put somebody into exactly these groups")
        grouped.add_argument(
            "--group", action="append", choices=GROUPS, default=[], dest="groups", help="may be repeated"
        )
        linked = acts.add_parser("link", help="take somebody's password away; prints a link that sets another")
        reasoned = [grouped, linked, *(acts.add_parser(name, help=text) for name, (_, text, _) in ACTS.items())]
        for one in (made, *reasoned):
            one.add_argument("name", help="the name of the person")
        for one in (made, linked):
            one.add_argument(
                "--base-url",
                default="http://localhost:8000",
                help="where people reach the pages (default: %(default)s)",
            )
        for one in reasoned:
            one.add_argument("--reason", default="", help="why; it stands in the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        act = options["act"]
        if act == "list":
            self._list()
        elif act == "make":
            wanted = MakePerson(name=options["name"], groups=_groups(options))
            self._link(people.make_person(wanted, COMMAND_LINE), options["base_url"])
        elif act == "link":
            self._link(people.reset_password(options["name"], options["reason"], COMMAND_LINE), options["base_url"])
        elif act == "groups":
            self._change_groups(options)
        else:
            do, _, said = ACTS[act]
            done = _good(do(options["name"], options["reason"], COMMAND_LINE))
            self.stdout.write(f"{done.name}: {said}")

    def _list(self) -> None:
        for line in list_people():
            factors = f"; {', '.join(line.second_factors)}" if line.second_factors else ""
            self.stdout.write(f"{line.name}: {line.state}; {', '.join(line.groups) or 'no group'}{factors}")

    def _change_groups(self, options: dict[str, Any]) -> None:
        page = read_person(options["name"])
        if page is None:
            raise CommandError(f"there is no person named {options['name']}")
        wanted = ChangeGroups(
            name=page.line.name, groups=_groups(options), seen=frozenset(page.line.groups), reason=options["reason"]
        )
        done = _good(people.change_groups(wanted, COMMAND_LINE))
        self.stdout.write(f"{done.name}: {', '.join(sorted(wanted.groups)) or 'no group'}")

    def _link(self, done: Done | Refusal, base: str) -> None:
        made = _good(done)
        self.stdout.write(f"{made.name} sets a password here, once, within a day:")
        self.stdout.write(LINK.format(base=base.rstrip("/"), name=made.name, token=made.token))


def _groups(options: dict[str, Any]) -> frozenset[Group]:
    return frozenset(Group(name) for name in options["groups"])


def _good(done: Done | Refusal) -> Done:
    if isinstance(done, Refusal):
        raise CommandError(done.detail)
    return done
