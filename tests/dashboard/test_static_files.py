"""The files that pages need are found before a person misses them."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.test import override_settings

from dashboard.checks import NEEDED, check_static_files

PRODUCTION = {"staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"}}


def test_everything_that_pages_need_is_found() -> None:
    assert check_static_files() == []


def test_a_deployment_without_collected_files_is_told(tmp_path: Path) -> None:
    with override_settings(STORAGES={**settings.STORAGES, **PRODUCTION}, STATIC_ROOT=tmp_path, DEBUG=False):
        told = check_static_files()
    assert [message.id for message in told] == ["dashboard.E001"] * len(NEEDED)
    assert "collectstatic" in str(told[0].hint)


@pytest.mark.parametrize("name", ["plotly/widgetbundle.js", "plotly/../__init__.py", "plotly/datasets/iris.csv.gz"])
def test_nothing_else_of_a_package_is_served(name: str) -> None:
    assert finders.find(name) is None
