"""Cold storage: prose and refused bodies, compressed, named by their content, behind Django's storage API (C7).

Nothing waits for it and nothing is decided by it: what cannot be put away gives no reference, what is lost gives None,
and either way the log tells.
"""

from __future__ import annotations

import hashlib
import zlib
from functools import cache
from typing import Final

import structlog
from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, InvalidStorageError, Storage, storages

MAX_INFLATED: Final = 64 * 1024 * 1024

log = structlog.get_logger(__name__)


def put(data: bytes) -> str | None:
    """Put `data` away and return its reference, or None where the storage fails. The same content has one reference."""
    name = _name_of(hashlib.sha256(data).hexdigest())
    try:
        store = _store()
        # Two writers of the same content race for nothing: whoever is second finds the name taken.
        if not store.exists(name):
            kept = store.save(name, ContentFile(zlib.compress(data, 6)))
            if kept != name:
                store.delete(kept)
    except (OSError, SuspiciousOperation, InvalidStorageError) as error:
        log.warning("cold_put_failed", error=type(error).__name__, length=len(data))
        return None
    return name


def get(ref: str | None) -> bytes | None:
    """Bring back what a reference names; None for no reference, and where it is lost or no longer what it was."""
    if not ref:
        return None
    try:
        with _store().open(ref) as file:
            inflate = zlib.decompressobj()
            data = inflate.decompress(file.read(), MAX_INFLATED)
    except (OSError, zlib.error, SuspiciousOperation, InvalidStorageError) as error:
        log.warning("cold_get_failed", error=type(error).__name__, ref=ref)
        return None
    if _name_of(hashlib.sha256(data).hexdigest()) != ref:
        log.warning("cold_content_changed", ref=ref)
        return None
    return data


def delete(ref: str) -> bool:
    """Remove what a reference names, for good; False where the storage fails. What is not there is as good as gone."""
    try:
        _store().delete(ref)
    except (OSError, SuspiciousOperation, InvalidStorageError) as error:
        log.warning("cold_delete_failed", error=type(error).__name__, ref=ref)
        return False
    return True


def _name_of(digest: str) -> str:
    # Two levels of folders keep each of them small.
    return f"{digest[:2]}/{digest[2:4]}/{digest}.z"


@cache
def _store() -> Storage:
    """The operator's storage named `cold`, else a folder that nobody else can read."""
    if "cold" in settings.STORAGES:
        return storages["cold"]
    folder = settings.FENCE_DATA / "cold"
    return FileSystemStorage(location=folder, file_permissions_mode=0o600, directory_permissions_mode=0o700)
