"""Makes people with a place each where they are told, in the system whose command line runs it."""

from __future__ import annotations

import json
import uuid

from django.contrib.auth.models import User

from fencing.protocol.callers import Caller, Role
from fencing.protocol.groups import Group
from fencing.services.credentials import COMMAND_LINE
from fencing.services.people import Done, MakePerson, make_person
from fencing.services.targets import AddTarget, add_target


def make(given: str) -> None:
    """Read `{name: [group, address]}`, and make each of them."""
    for name, (group, address) in json.loads(given).items():
        made = make_person(MakePerson(name=name, groups=frozenset({Group(group)})), COMMAND_LINE)
        assert isinstance(made, Done), made
        user = User.objects.get(username=name)
        person = Caller(credential_id=None, name=name, role=Role.PERSON, person_id=user.pk, person=name)
        added = add_target(AddTarget(name="hook", address=address), person)
        assert isinstance(added, uuid.UUID), added
