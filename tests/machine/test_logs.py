"""What reaches a log, and what never does."""

import json
import logging
from typing import Any

import pytest
from django.db import IntegrityError, connection

from fencing import logs


def rendered(*, as_json: bool, record: logging.LogRecord) -> str:
    """Return the line that a handler of ours writes for `record`."""
    settings: dict[str, Any] = logs.logging_settings(as_json=as_json)["formatters"]["structlog"]
    options = {name: value for name, value in settings.items() if name != "()"}
    line: str = settings["()"](**options).format(record)
    return line


def a_record(message: str, error: BaseException | None = None) -> logging.LogRecord:
    exc_info = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord("fencing.some", logging.WARNING, __file__, 1, message, (), exc_info)


@pytest.mark.parametrize("name", ["token", "fence_token", "password", "Authorization", "payload", "key", "action"])
def test_fields_that_hold_a_secret_or_what_a_caller_sent_are_left_out(name: str) -> None:
    event = logs.leave_out_secrets(None, "info", {"event": "step_committed", name: "s3cr3t", "step": "s-1"})
    assert event == {"event": "step_committed", name: logs.LEFT_OUT, "step": "s-1"}


def test_a_log_for_machines_is_one_json_object_a_line() -> None:
    line = json.loads(rendered(as_json=True, record=a_record("disk nearly full")))
    assert line["event"] == "disk nearly full"
    assert line["level"] == "warning"
    assert line["logger"] == "fencing.some"
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize("as_json", [True, False])
def test_a_traceback_shows_no_local_variable(as_json: bool) -> None:
    def fails(handed_over: str) -> None:
        raise ValueError(len(handed_over))

    with pytest.raises(ValueError, match="18") as caught:
        fails("s3cr3t" * 3)
    line = rendered(as_json=as_json, record=a_record("failed", caught.value))
    assert "ValueError: 18" in line
    assert "s3cr3t" not in line.replace('fails("s3cr3t" * 3)', "").replace('fails(\\"s3cr3t\\" * 3)', "")


@pytest.mark.django_db
@pytest.mark.parametrize("as_json", [True, False])
def test_a_database_error_is_logged_without_the_row_that_it_quotes(as_json: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE held (token text UNIQUE) ON COMMIT DROP")
        # PostgreSQL quotes the row; otherwise there would be nothing to test.
        with pytest.raises(IntegrityError, match="s3cr3t") as caught:
            cursor.execute("INSERT INTO held VALUES (%s), (%s)", ["s3cr3t", "s3cr3t"])
    line = rendered(as_json=as_json, record=a_record("failed", caught.value))
    assert "duplicate key value" in line
    assert "s3cr3t)" not in line
