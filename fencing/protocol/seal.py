"""Sealing the audit (protocol, section 14): what of a row is hashed, how rows hang in a seal, how seals hang together.

A seal covers every audit row above the last row of the seal before it, up to a last one of its own. It holds the root
of a Merkle tree over those rows and the hash of the seal before it, and is signed. What a row's number and content are
is kept beside it (40 bytes a row), so that a fault is found at its row.

```
content  = SHA-256 of the columns of a row but its number: how many bytes each has, with commas between and a
           semicolon at the end (nothing for null), then the bytes of all of them, UTF-8
entry    = the number (8 bytes, the highest first) and the content
leaf     = SHA-256 of 0x00 and the entry
node     = SHA-256 of 0x01, the left and the right one; an odd one at the end of a level goes up as it is
hash     = SHA-256 of the seal's body as canonical JSON, behind a line that says what it is
```

The bytes are those that the database stores: the moment in whole microseconds since 2000, JSON as PostgreSQL writes it.
The checker of an evidence pack (`fencing/evidence/check.py`) says the same once more, with nothing but Python.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fencing.protocol.objects import rfc3339
from fencing.protocol.tokens import SigningKey

# In the order in which they are hashed. The row's number comes before them, in the entry.
COLUMNS: Final = (
    "at",
    "actor",
    "role",
    "verb",
    "kind",
    "subject",
    "run",
    "before",
    "after",
    "reason",
    "source",
    "request",
)
ENTRY: Final = 40
NUMBER: Final = 8
GENESIS: Final = "sha256:" + "0" * 64
EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
DOMAIN: Final = b"commit fence audit seal 1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """One link of the chain: rows `after` < number <= `last`, `count` of them. `at` is RFC 3339."""

    number: int
    previous: str
    after: int
    last: int
    count: int
    root: str
    at: str
    kid: str
    signature: str = ""

    @property
    def body(self) -> bytes:
        """The bytes that are hashed and signed: everything but the signature."""
        members = {name: getattr(self, name) for name in BODY}
        # Names are ASCII and numbers are integers: sorted and without spaces this is RFC 8785.
        return DOMAIN + json.dumps(members, sort_keys=True, separators=(",", ":")).encode()

    @property
    def hash(self) -> str:
        """What the next seal names as its previous one."""
        return digest_text(hashlib.sha256(self.body).digest())

    def as_json(self) -> dict[str, Any]:
        """The seal as it stands in exports, in the file of heads, and in what a witness gets."""
        return {**{name: getattr(self, name) for name in BODY}, "signature": self.signature, "hash": self.hash}


BODY: Final = ("number", "previous", "after", "last", "count", "root", "at", "kid")


def seal_of(members: Mapping[str, Any]) -> Seal:
    """Read a seal that `as_json` wrote.

    Raises:
        ValueError: it is none.
    """
    try:
        return Seal(
            number=int(members["number"]),
            previous=str(members["previous"]),
            after=int(members["after"]),
            last=int(members["last"]),
            count=int(members["count"]),
            root=str(members["root"]),
            at=str(members["at"]),
            kid=str(members["kid"]),
            signature=str(members["signature"]),
        )
    except (KeyError, TypeError) as fault:
        raise ValueError(f"no seal: {fault}") from fault


def sign(seal: Seal, key: SigningKey) -> str:
    """Sign a seal's body; Ed25519, base64url without padding."""
    return base64.urlsafe_b64encode(key.private.sign(seal.body)).decode().rstrip("=")


def is_signed(seal: Seal, keys: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether the seal carries a good signature of one of these public keys (JWKs by `kid`)."""
    jwk = keys.get(seal.kid)
    try:
        public = Ed25519PublicKey.from_public_bytes(_unpadded(str((jwk or {})["x"])))
        public.verify(_unpadded(seal.signature), seal.body)
    except (InvalidSignature, ValueError, KeyError):
        return False
    return True


def row_bytes(columns: Iterable[str | None]) -> bytes:
    """Write the columns of a row, in the order of `COLUMNS`, as the bytes that are hashed."""
    texts = [None if text is None else text.encode() for text in columns]
    lengths = ",".join("" if text is None else str(len(text)) for text in texts)
    return lengths.encode() + b";" + b"".join(text for text in texts if text is not None)


def moment_text(at: datetime) -> str:
    """Write a moment as rows of an export carry it."""
    return str(rfc3339(at))


def since_2000(text: str) -> str:
    """Write a moment (RFC 3339, UTC, microseconds) as the text that is hashed: sixteen digits, as PostgreSQL sends it.

    Raises:
        ValueError: it is no such moment.
    """
    at = datetime.fromisoformat(text)
    return ((at - EPOCH) // MICROSECOND).to_bytes(NUMBER, "big", signed=True).hex()


def entry_of(number: int, columns: Iterable[str | None]) -> bytes:
    """Make the entry of a row: its number and what it says."""
    return number.to_bytes(NUMBER, "big", signed=True) + hashlib.sha256(row_bytes(columns)).digest()


def entries_in(blob: bytes) -> Iterator[tuple[int, bytes]]:
    """Read the entries of a seal: number and content of each row."""
    for start in range(0, len(blob) - ENTRY + 1, ENTRY):
        yield int.from_bytes(blob[start : start + NUMBER], "big", signed=True), blob[start + NUMBER : start + ENTRY]


def root_of(blob: bytes) -> str:
    """The Merkle root over the entries of a seal; there has to be one."""
    level = _leaves(blob)
    while len(level) > 1:
        level = _above(level)
    return digest_text(level[0])


def path_of(blob: bytes, index: int) -> list[str]:
    """The proof that the entry at `index` hangs in the root: at each level the neighbour's side and hash."""
    level, path = _leaves(blob), []
    while len(level) > 1:
        neighbour = index ^ 1
        if neighbour < len(level):
            path.append(("left:" if neighbour < index else "right:") + level[neighbour].hex())
        level, index = _above(level), index // 2
    return path


def climb(entry: bytes, path: Sequence[str]) -> str:
    """Follow a proof from an entry up to the root that it leads to."""
    found = _sha(b"\x00" + entry)
    for step in path:
        side, _, text = step.partition(":")
        other = bytes.fromhex(text)
        found = _sha(b"\x01" + (other + found if side == "left" else found + other))
    return digest_text(found)


def digest_text(digest: bytes) -> str:
    """Write a digest in the form of C2."""
    return "sha256:" + digest.hex()


def _leaves(blob: bytes) -> list[bytes]:
    sha = hashlib.sha256
    return [sha(b"\x00" + blob[start : start + ENTRY]).digest() for start in range(0, len(blob), ENTRY)]


def _above(level: list[bytes]) -> list[bytes]:
    sha = hashlib.sha256
    pairs = [sha(b"\x01" + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=False)]
    return [*pairs, level[-1]] if len(level) % 2 else pairs


def _sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
