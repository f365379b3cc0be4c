"""The fencer's signing keys: private halves in files that only it reads, public halves in the database (K2)."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from django.conf import settings
from django.db import transaction

from fencing.models import SigningKey
from fencing.models.fields import uuid7
from fencing.protocol import tokens

COMMIT = "commit"
PERMIT = "permit"
SEAL = "seal"
USES = (COMMIT, PERMIT, SEAL)


def ensure_keys() -> list[str]:
    """Make a key for each use that has none, and register public halves that the database does not know.

    Gives the `kid` of every key in the folder. Safe to call at every start.
    """
    for use in USES:
        if not _files(use):
            _write_key(use)
    kids = []
    for use in USES:
        for path in _files(use):
            key = _read(path)
            public = tokens.public_jwk(key)
            SigningKey.objects.get_or_create(kid=key.kid, defaults={"use": use, "public": public})
            kids.append(key.kid)
    return kids


def rotate_key(use: str = COMMIT) -> str:
    """Make a new key that signs from now on; the old one stays public, so that its tokens can still be checked."""
    with transaction.atomic():
        kid = _write_key(use)
        SigningKey.objects.create(kid=kid, use=use, public=tokens.public_jwk(_read(_files(use)[-1])))
    _current.cache_clear()
    return kid


def signing_key(use: str = COMMIT) -> tokens.SigningKey:
    """The key that signs now: the newest of its use. Raises `FileNotFoundError` where there is none."""
    files = _files(use)
    if not files:
        raise FileNotFoundError(
            f"no {use} signing key in {_folder()}: start with `manage.py up`, or call ensure_keys()"
        )
    return _current(files[-1])


def pack_key() -> tokens.SigningKey | None:
    """The key that signs evidence packs, of the web processes; None where this machine holds none."""
    try:
        return signing_key(PERMIT)
    except OSError:
        return None


def public_keys(use: str | None = None) -> dict[str, dict[str, str]]:
    """Public JWKs by `kid`, old ones included."""
    found = SigningKey.objects.order_by("created_at")
    return {key.kid: key.public for key in (found if use is None else found.filter(use=use))}


def _folder() -> Path:
    return Path(settings.FENCE_DATA) / "keys"


def _files(use: str) -> list[Path]:
    # A kid is a UUID of version 7: the order of names is the order of making.
    return sorted(_folder().glob(f"{use}-*.pem"))


def _write_key(use: str) -> str:
    kid = uuid7().hex
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    partial = folder / f".{use}-{kid}.partial"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(folder / f"{use}-{kid}.pem")
    return kid


@cache
def _current(path: Path) -> tokens.SigningKey:
    return _read(path)


def _read(path: Path) -> tokens.SigningKey:
    private = load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(private, Ed25519PrivateKey):
        raise TypeError(f"{path.name} holds no Ed25519 key")
    return tokens.SigningKey(kid=path.stem.partition("-")[2], private=private)
