"""The embedded servers as the rest of the system meets them."""

from collections.abc import Callable

import psycopg
import pytest
import redis
from django.db import connection


@pytest.mark.django_db
def test_the_database_is_a_real_postgresql_owned_by_the_owner_role() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user, current_setting('server_version_num')::int, current_setting('TimeZone')")
        user, version, zone = cursor.fetchone()
    assert (user, zone) == ("fence_owner", "UTC")
    assert version >= 140000


@pytest.mark.parametrize("role", ["fence_app", "fence_fencer"])
def test_neither_web_nor_workers_may_change_the_schema(
    role: str, connect_as: Callable[[str], psycopg.Connection]
) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect_as(role).execute("CREATE TABLE mine (id int)")


def test_valkey_answers_on_a_private_socket(valkey: str) -> None:
    with redis.Redis.from_url(valkey) as client:
        assert client.ping()
        assert client.config_get("port") == {"port": "0"}
