"""The real database without a transaction around a test, the whole system, and a story to play in either."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings
from pytest_django.plugin import DjangoDbBlocker

from tests.actors import player_for
from tests.cases.acting import Tool
from tests.fencing.beside import empty_database
from tests.live import LiveSystem
from tests.playing import Player
from tests.pushing import LOCAL, Serving, definition, let_go, serving
from tests.stories import Story, register


@pytest.fixture
def db(servers: None, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The test database as everybody sees it: what is committed is removed afterwards."""
    with django_db_blocker.unblock():
        yield
        empty_database()


@pytest.fixture
def story(db: None, valkey: str) -> Story:
    """A run in epoch 7, with its actors."""
    return Story.begin()


@pytest.fixture
def server(db: None, settings: Settings) -> Iterator[Serving]:
    """A push tool on this machine, which the operator allows."""
    settings.FENCE_TOOL_HOSTS = LOCAL
    with serving() as made:
        made.tool.retry_after = "0"
        yield made
    let_go()


@pytest.fixture
def push_story(server: Serving, valkey: str) -> Story:
    """A run in epoch 7 with `pay`, which honours its key, and `note`, which does not."""
    story = Story.begin()
    register([definition(server), definition(server, "note")])
    return story


@pytest.fixture
def tool() -> Tool:
    """The tool at the end of the line."""
    return Tool()


@pytest.fixture
def player(live_system: LiveSystem) -> Player:
    """Everybody's keys for a real `up`."""
    return player_for(live_system)
