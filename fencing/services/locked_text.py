"""Secrets of second factors and of targets, locked before they are stored: whoever reads the database has none.

The key comes from the secret key of the installation; the ones before it still open what they locked.
"""

from __future__ import annotations

import base64
from functools import cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


class Unreadable(Exception):
    """A stored secret was locked by a secret key that is not known any more."""


def lock(text: str) -> str:
    """Lock a text."""
    return _keys(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS).encrypt(text.encode()).decode()


def unlock(locked: str) -> str:
    """Read a locked text.

    Raises:
        Unreadable: no known key opens it.
    """
    try:
        return _keys(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS).decrypt(locked.encode()).decode()
    except InvalidToken as error:
        raise Unreadable("FENCE_SECRET_KEY changed and FENCE_OLD_SECRET_KEYS does not hold the old one") from error


@cache
def _keys(*secrets: str) -> MultiFernet:
    return MultiFernet([Fernet(_key(secret)) for secret in secrets])


def _key(secret: str) -> bytes:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"fence second factors").derive(secret.encode())
    return base64.urlsafe_b64encode(derived)
