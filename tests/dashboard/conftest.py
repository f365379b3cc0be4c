"""People of each group, and a client for each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from dashboard.access import Group as GroupName

SignedIn = Callable[..., Client]


@pytest.fixture
def person(db: None) -> Callable[..., User]:
    """Make a person who is in the named groups."""

    def make(*groups: GroupName, name: str = "lena") -> User:
        user = User.objects.create_user(name, password="correct horse battery")
        user.groups.set(Group.objects.filter(name__in=groups))
        return user

    return make


@pytest.fixture
def signed_in(person: Callable[..., User]) -> SignedIn:
    """Give a client of a person who is in the named groups; a viewer where none is named."""

    def client_of(*groups: GroupName) -> Client:
        client = Client()
        client.force_login(person(*(groups or (GroupName.VIEWER,))))
        return client

    return client_of
