"""The environment as a value: what it means, and what production refuses."""

import pytest

from fencing.environment import Mode, Role, database, read_environment

PRODUCTION = {
    "FENCE_MODE": "production",
    "FENCE_ROLE": "app",
    "FENCE_SECRET_KEY": "k" * 50,
    "FENCE_DATABASE_URL_APP": "postgresql://app:p%40ss@db.example:6432/fence?sslmode=verify-full",
    "REDIS_URL": "rediss://cache.example/0",
    "FENCE_DATA": "data",
    "FENCE_HOSTS": "fence.example, other.example",
}


def test_production_with_everything_given_starts() -> None:
    environment = read_environment(PRODUCTION)
    assert environment.faults == ()
    assert environment.mode is Mode.PRODUCTION
    assert environment.hosts == ("fence.example", "other.example")
    assert environment.json_logs


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"FENCE_DEBUG": "1"}, "FENCE_DEBUG=1 is not allowed"),
        ({"FENCE_SECRET_KEY": ""}, "FENCE_SECRET_KEY needs 40 characters"),
        ({"FENCE_SECRET_KEY": "short"}, "FENCE_SECRET_KEY needs 40 characters"),
        ({"FENCE_DATABASE_URL_APP": ""}, "FENCE_DATABASE_URL_APP is missing"),
        ({"REDIS_URL": ""}, "REDIS_URL is missing"),
        ({"FENCE_HOSTS": ""}, "FENCE_HOSTS is missing"),
        ({"FENCE_DATA": ""}, "FENCE_DATA is missing"),
        ({"FENCE_ROLE": "root"}, "FENCE_ROLE is 'root'; it can be owner, app, fencer"),
    ],
)
def test_production_refuses_what_is_missing_or_weak(change: dict[str, str], fault: str) -> None:
    assert any(fault in each for each in read_environment(PRODUCTION | change).faults)


def test_a_mode_that_does_not_exist_is_a_fault_and_not_the_lenient_mode() -> None:
    assert read_environment({"FENCE_MODE": "prodution"}).faults


def test_an_address_becomes_the_settings_of_one_role() -> None:
    settings = database(read_environment(PRODUCTION))
    assert (settings["HOST"], settings["PORT"], settings["NAME"]) == ("db.example", "6432", "fence")
    assert (settings["USER"], settings["PASSWORD"]) == ("app", "p@ss")
    assert settings["OPTIONS"]["sslmode"] == "verify-full"


def test_a_socket_folder_in_the_address_is_the_host() -> None:
    url = "postgresql://fence_app:secret@/fence?host=%2Fsome%2Ffolder"
    settings = database(read_environment({"FENCE_DATABASE_URL_APP": url, "FENCE_ROLE": "app"}))
    assert settings["HOST"] == "/some/folder"
    assert "host" not in settings["OPTIONS"]


@pytest.mark.parametrize("role", list(Role))
def test_each_role_falls_back_to_the_one_address_that_is_given(role: Role) -> None:
    environment = read_environment({"DATABASE_URL": "postgresql://u:p@h/d", "FENCE_ROLE": role})
    assert environment.database_url == "postgresql://u:p@h/d"


def test_a_pool_is_asked_for_by_a_number() -> None:
    pooled = database(read_environment({"FENCE_DATABASE_POOL": "7"}))
    assert pooled["OPTIONS"]["pool"]["max_size"] == 7
    assert pooled["CONN_MAX_AGE"] == 0
    assert read_environment({"FENCE_DATABASE_POOL": "many"}).faults
