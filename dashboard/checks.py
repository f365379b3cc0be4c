"""What has to hold before pages can be served: their scripts and styles can be found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.checks import CheckMessage, Error

# One of each source: ours, a package's app, a package's data.
NEEDED: Final = (
    "css/tokens.css",
    "js/live.js",
    "django_htmx/htmx-2.min.js",
    "plotly/plotly.min.js",
    "mfa/js/webauthn.js",
)


def check_static_files(**_: object) -> list[CheckMessage]:
    """Tell which files are missing where they would be read from."""
    return [
        Error(
            f"the static file {name} cannot be found",
            hint="Run `manage.py collectstatic`, with the same FENCE_DATA as the web processes.",
            id="dashboard.E001",
        )
        for name in _missing()
    ]


def _missing() -> Iterator[str]:
    for name in NEEDED:
        try:
            # With a manifest an unknown name raises; without one it is the finders that know.
            staticfiles_storage.url(name)
            is_there = hasattr(staticfiles_storage, "manifest_name") or bool(finders.find(name))
        except ValueError:
            is_there = False
        if not is_there:
            yield name
