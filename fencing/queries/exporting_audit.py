"""The whole sealed audit as a file (U3): seal after seal, in constant memory, for verification without this system."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from fencing.models import Seal
from fencing.models.facts import read_clock
from fencing.models.seals import texts_between
from fencing.protocol.objects import rfc3339
from fencing.protocol.tokens import SigningKey
from fencing.queries.evidence import CHECKER, FORMAT, public_keys, signed_manifest

README = """\
The audit from seal {first} on, as of {at}

Check it, with nothing but Python:

    python3 check.py

audit.ndjson    every row that those seals cover
seals.ndjson    the seals, signed, each with the hash of the one before it
keys.json       the public keys
manifest.json   the list of these files with their SHA-256
"""


def export_audit(
    file: IO[bytes], first: int, key: SigningKey | None, tell: Callable[[int], None] = lambda _rows: None
) -> tuple[int, int]:
    """Write the export into an open file; give how many rows and seals stand in it."""
    newest = Seal.objects.order_by("-number").values_list("number", flat=True).first() or 0
    at, hashes, counts = rfc3339(read_clock()), dict[str, str](), [0, 0]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, parts: Iterator[bytes]) -> None:
            digest = hashlib.sha256()
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                for part in parts:
                    digest.update(part)
                    member.write(part)
            hashes[name] = digest.hexdigest()

        def rows() -> Iterator[bytes]:
            for seal in _seals(first, newest):
                lines = []
                for number, texts in texts_between(seal.after, seal.last):
                    lines.append(_line({"id": number, **texts, "seal": seal.number, "path": None}))
                counts[0] += len(lines)
                tell(counts[0])
                yield b"".join(lines)

        def seals() -> Iterator[bytes]:
            for seal in _seals(first, newest):
                counts[1] += 1
                yield _line(seal.pure.as_json())

        add("audit.ndjson", rows())
        add("seals.ndjson", seals())
        add("keys.json", iter([_json({"keys": public_keys()})]))
        add("check.py", iter([CHECKER.read_bytes()]))
        add("README.txt", iter([README.format(first=first, at=at).encode()]))
        manifest = {
            "format": FORMAT,
            "kind": "audit",
            "id": f"seals {first} to {newest}",
            "made_at": at,
            "rows": counts[0],
            "is_cut": False,
            "withheld": {},
            "files": hashes,
        }
        archive.writestr("manifest.json", _json(signed_manifest(manifest, key)[0]))
    return counts[0], counts[1]


def _seals(first: int, last: int) -> Iterator[Seal]:
    rows = Seal.objects.filter(number__gte=first, number__lte=last).order_by("number")
    yield from rows.defer("entries", "facets", "moments").iterator(500)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, indent=1).encode() + b"\n"
