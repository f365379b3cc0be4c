"""Scripts of installed packages as static files: Plotly's, out of the package that draws the figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import plotly  # type: ignore[import-untyped]
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

PREFIX: Final = "plotly"
# The package also carries data sets, templates and a notebook's widget: nobody asks for them here.
SERVED: Final = ("plotly.min.js",)


class PlotlyFinder(BaseFinder):
    """Finds `plotly/plotly.min.js`."""

    def __init__(self, *_: object, **__: object) -> None:
        self._storage = FileSystemStorage(location=Path(plotly.__file__).parent / "package_data")
        self._storage.prefix = PREFIX  # type: ignore[attr-defined]  # how finders name the folder that they put a storage under

    def find(self, path: str, find_all: bool = False, **_: Any) -> Any:  # noqa: FBT001, FBT002 - Django's own form
        """Give the place of a file on the disk; an empty list where it is none of ours."""
        names = [name for name in SERVED if path == f"{PREFIX}/{name}"]
        found = [self._storage.path(name) for name in names]
        return found if find_all or not found else found[0]

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        """Give every file with its storage."""
        del ignore_patterns
        for name in SERVED:
            yield name, self._storage
