"""How the system logs: structlog, one event a line, for people or as JSON, and never a secret.

Log names and ids, not contents: `log.info("step_committed", step=step_id)`. The filter below is the net under that
rule, not a licence to log what a caller sent.
"""

import logging.config
import traceback
from collections.abc import MutableMapping
from typing import Any

import structlog

LEFT_OUT = "(left out)"
# Parts of field names whose values never reach a log, whoever logs them.
SECRET_PARTS = ("password", "secret", "token", "authorization", "cookie", "credential", "payload", "private")
SECRET_NAMES = ("action", "body", "canonical", "data", "key", "params")


def leave_out_secrets(_logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace the values of fields that hold, by their name, a secret or what a caller sent."""
    for name in event:
        lowered = name.lower()
        if lowered in SECRET_NAMES or any(part in lowered for part in SECRET_PARTS):
            event[name] = LEFT_OUT
    return event


def traceback_without_rows(exc_info: structlog.typing.ExcInfo) -> str:
    """Return a traceback with no local variables, and without the rows that PostgreSQL quotes in an error's detail."""
    lines = "".join(traceback.format_exception(*exc_info)).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("DETAIL:", "CONTEXT:", "LINE ")))


EXCEPTIONS = structlog.processors.ExceptionRenderer(traceback_without_rows)
_SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    leave_out_secrets,
]


def logging_settings(*, as_json: bool) -> dict[str, Any]:
    """Return Django's `LOGGING`: everything to standard error, through structlog's renderer."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=False,
            # The default prints local variables where it can: what a caller sent, and keys.
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structlog": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _SHARED,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, EXCEPTIONS, renderer],
            },
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structlog"}},
        "root": {"handlers": ["stderr"], "level": "INFO"},
        "loggers": {
            "django": {"handlers": [], "level": "INFO", "propagate": True},
            # Django warns of every 4xx here; the access log and the counters have them already.
            "django.request": {"handlers": [], "level": "ERROR", "propagate": True},
            # One line a job at INFO would drown what matters.
            "rq": {"handlers": [], "level": "WARNING", "propagate": True},
            # A line with the address of each call of a tool; what became of it stands in the database.
            "httpx": {"handlers": [], "level": "WARNING", "propagate": True},
            # Three lines a sign-in; the audit tells it in one.
            "axes": {"handlers": [], "level": "WARNING", "propagate": True},
        },
    }


def configure(settings: dict[str, Any]) -> None:
    """Apply `settings` to the standard library's logging and tie structlog to it (`LOGGING_CONFIG`)."""
    logging.config.dictConfig(settings)
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
