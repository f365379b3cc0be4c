"""The canonical form of JSON values (RFC 8785) and the digests made over it (C2, C4).

Two ways lead to the same bytes. Plain values, which are nearly all, go through the C encoder of the standard library;
whatever is unusual (names outside ASCII, numbers whose Python text differs from ECMAScript's) goes through the
`rfc8785` library, which is four times slower. A property test holds the two together.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final, TypeGuard

import rfc8785

MAX_CANONICAL: Final = 256 * 1024
"""Bytes that the canonical form of an action may have (C3, `too_large`)."""

MAX_DEPTH: Final = 64
"""How many objects and arrays may stand inside each other, the action itself counted as the first (C3, `too_deep`)."""

MAX_SAFE: Final = 2**53 - 1
"""The greatest integer that every reader of JSON keeps apart from its neighbours (C3, `unsafe_number`)."""

# From here up to MAX_SAFE Python and ECMAScript both write a fraction as its shortest decimal, without an exponent.
_PLAIN_FROM: Final = 1e-4

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

# `sort_keys` orders by code point and RFC 8785 by UTF-16 unit; for ASCII names, the only ones sent here, they agree.
_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


class NoCanonicalForm(ValueError):
    """The value is not JSON, or holds a number, text or depth for which there is no canonical form."""


def canonical_bytes(value: object) -> bytes:
    """Return the RFC 8785 form of a JSON value, in UTF-8.

    Stricter than the RFC in one point (C3): an integer beyond ±(2^53-1) is refused as a float too.
    Raises `NoCanonicalForm`; a value that `strict_json` has read, and of which nothing was changed, never does.
    """
    try:
        if _is_plain(value):
            return _encode(value).encode()
        _check_floats(value)
        return rfc8785.dumps(value)  # type: ignore[arg-type]  # it checks the types itself
    except NoCanonicalForm:
        raise
    except (ValueError, RecursionError) as error:
        # ValueError: the library's own error, and the encoding of a lone surrogate in a name.
        raise NoCanonicalForm(type(error).__name__) from error


def digest_of(raw: bytes) -> str:
    """Return the digest of canonical bytes: `sha256:` and 64 lowercase hex digits (C2)."""
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def is_digest(text: object) -> TypeGuard[str]:
    """Whether `text` is a digest in the only form that decides anything: whole and lowercase (C2)."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def _is_plain(value: Any) -> bool:
    """Whether the C encoder writes this value exactly as RFC 8785 asks; never true for a doubtful one."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-MAX_SAFE <= value <= MAX_SAFE)
    if kind is dict:
        for name, inner in value.items():
            if type(name) is not str or not name.isascii() or not _is_plain(inner):
                return False
        return True
    if kind is list:
        return all(map(_is_plain, value))
    if kind is float:
        return bool(_PLAIN_FROM <= abs(value) <= MAX_SAFE and not value.is_integer())
    return False


def _check_floats(value: object) -> None:
    if isinstance(value, dict):
        for inner in value.values():
            _check_floats(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_floats(inner)
    elif isinstance(value, float) and abs(value) > MAX_SAFE:
        message = "a number beyond 2^53-1"
        raise NoCanonicalForm(message)
