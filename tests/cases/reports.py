"""The reports of faults in public that these tests play: which ids there are, and who plays them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

from tests.live import TOP

REPORTS: Final[Path] = TOP.parent / "shared" / "public-reports.jsonl"


def reported(kind: str, among: Iterable[str]) -> set[str]:
    """The ids of a kind, from the file where it lies beside this checkout, else as they were when this was written."""
    if not REPORTS.exists():
        return set(among)
    lines = REPORTS.read_text(encoding="utf-8").splitlines()
    return {line["id"] for line in map(json.loads, filter(None, lines)) if line["kind"] == kind}


def played(module: ModuleType) -> set[str]:
    """The ids that a module's tests carry in their names: `test_a01_…` plays A01."""
    names = (re.match(r"test_([a-z]\d\d)_", name) for name in vars(module))
    return {name[1].upper() for name in names if name}


def check_coverage(module: ModuleType, kind: str, ids: Iterable[str], elsewhere: Mapping[str, str]) -> None:
    """Fail where a report is neither played nor told to be played elsewhere, or both."""
    assert played(module) | set(elsewhere) == reported(kind, ids)
    assert not played(module) & set(elsewhere)
