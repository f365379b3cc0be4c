"""What "the same content" means (N2): the digest of a request as it was accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from fencing.protocol.canonical import canonical_bytes, digest_of


def content_digest(request: Any, **instead: object) -> str:
    """Digest the members of a request that are there. `instead` replaces members (an action by its payload digest)."""
    members = {name: getattr(request, name) for name in _names(request.__class__)} | instead
    return digest_of(canonical_bytes({name: _plain(value) for name, value in members.items() if value is not None}))


@lru_cache(maxsize=64)
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _plain(value: object) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
