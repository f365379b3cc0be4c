"""A database that was filled with a little of everything, shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth import get_user_model
from pytest_django.plugin import DjangoDbBlocker

from fencing.filling.filling import Filled, Wanted, fill
from fencing.filling.troupe import PEOPLE
from fencing.services.signing import ensure_keys
from tests.fencing.beside import empty_database


@pytest.fixture(scope="package")
def filled(servers: None, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Filled]:
    """What was filled in. Rows are really committed, and removed at the end."""
    with django_db_blocker.unblock():
        ensure_keys()
        yield fill(Wanted(steps=200, lengths=(2,)), lambda _told: None)
        empty_database()
        get_user_model().objects.filter(username__in=PEOPLE).delete()


@pytest.fixture
def db(filled: Filled) -> None:
    """What pytest-django looks for in a test's fixtures, to know that it needs the test database."""
