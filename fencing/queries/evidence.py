"""Evidence packs (U4): a zip with everything about one thing, the audit's rows with their proofs, and a checker.

Nothing in it opens anything: no token, no key. What a tool calls sensitive is masked unless somebody may reveal it;
what is masked, forgotten or lost is named in the list of files.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import time
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from django.db import connection, models

import fencing.evidence
from fencing.models import Action, AuditEvent, Credential, Seal, SigningKey, cold
from fencing.models.facts import read_clock
from fencing.models.forgetting import forgotten_refs
from fencing.models.seals import texts_of_rows
from fencing.protocol import seal as protocol
from fencing.protocol.masking import mask
from fencing.protocol.objects import rfc3339
from fencing.protocol.tokens import SigningKey as PrivateKey
from fencing.queries.dossiers import KINDS, MAX_ROWS, Dossier
from fencing.queries.sensitive import definitions_of, sensitive_members

FORMAT: Final = "commit fence evidence 1"
DOMAIN: Final = b"commit fence evidence pack 1\n"
CHECKER: Final = Path(fencing.evidence.__file__).with_name("check.py")
# A row that was written a moment ago has its seal in a second.
PATIENCE_S: Final = 2.5
POLL_S: Final = 0.25
MAX_AUDIT: Final = 5000
# Columns that open something, or lead to where they are.
WITHHELD: Final = frozenset({"token", "key_hash"})
README: Final = """\
Evidence of the {kind} {id}

{sentence}

Check it, with nothing but Python:

    python3 check.py

facts/      what the database holds about it, table by table
actions/    the very bytes that were hashed and voted; each file is named by its SHA-256
prose/      what was said beside it, named by its SHA-256
tools/      every version of the definitions of its tools
audit.ndjson    what was done, by whom, when, from where; each row with the proof that leads to its seal
seals.ndjson    those seals, signed
keys.json       the public keys
manifest.json   the list of these files with their SHA-256, and what was withheld
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A pack, ready to be sent. `digest` is that of its list of files, `rows` how many of the audit it holds."""

    name: str
    data: bytes
    digest: str
    rows: int
    is_revealed: bool


def kinds() -> list[str]:
    """Of what evidence can be taken."""
    return sorted(KINDS)


def make_pack(kind: str, name: str, *, reveals: bool = False, key: PrivateKey | None = None) -> Pack | None:
    """Make the evidence pack of one thing; None where there is no such kind or thing.

    `reveals`: sensitive members stand in it as they are; whether somebody may ask for that is for the caller to say.
    `key` signs the list of files.
    """
    dossier = KINDS[kind](name) if kind in KINDS else None
    if dossier is None:
        return None
    rows = _audit_of(dossier)
    sealed = _proven(rows)
    files: dict[str, bytes] = {"check.py": CHECKER.read_bytes()}
    withheld: dict[str, str] = {}
    files["README.txt"] = README.format(kind=kind, id=name, sentence=dossier.sentence).encode()
    tools = definitions_of(dossier.tools)
    files |= {f"facts/{table}.json": _json(_plain(value)) for table, value in dossier.facts.items()}
    files["facts/who.json"] = _json(_who(dossier.facts))
    files |= {f"tools/{tool.tool}.{tool.version}.json": bytes(tool.definition) for tool in tools}
    files |= _actions(dossier, withheld, reveals=reveals)
    files |= _prose(dossier, withheld)
    files["audit.ndjson"] = _lines(row for row, _ in sealed)
    seals = {seal.number: seal.as_json() for _, seal in sealed if seal is not None}
    files["seals.ndjson"] = _lines(seals[number] for number in sorted(seals))
    files["keys.json"] = _json({"keys": public_keys()})
    is_cut = len(rows) >= MAX_AUDIT or any(
        isinstance(value, list) and len(value) >= MAX_ROWS for value in dossier.facts.values()
    )
    now = read_clock()
    manifest = {
        "format": FORMAT,
        "kind": kind,
        "id": name,
        "made_at": rfc3339(now),
        "rows": len(rows),
        "is_cut": is_cut,
        "withheld": withheld,
        "files": {each: hashlib.sha256(data).hexdigest() for each, data in files.items()},
    }
    signed, digest = signed_manifest(manifest, key)
    files["manifest.json"] = _json(signed)
    safe = name.replace("/", "_").replace(":", "_")
    return Pack(
        name=f"evidence-{kind}-{safe}-{now:%Y%m%dT%H%M%SZ}"[:180] + ".zip",
        data=_zipped(files, now),
        digest=digest,
        rows=len(rows),
        is_revealed=reveals,
    )


def signed_manifest(manifest: Mapping[str, Any], key: PrivateKey | None) -> tuple[dict[str, Any], str]:
    """Sign a list of files, where there is a key; give it with its signature, and the digest of what was signed."""
    body = DOMAIN + json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    signature = None if key is None else base64.urlsafe_b64encode(key.private.sign(body)).decode().rstrip("=")
    signed = {**manifest, "signature": signature, "kid": None if key is None else key.kid}
    return signed, "sha256:" + hashlib.sha256(body).hexdigest()


def _audit_of(dossier: Dossier) -> list[int]:
    """The numbers of the rows about it, in their order."""
    found: set[int] = set()
    for kind, subject in dossier.subjects:
        rows = AuditEvent.objects.filter(kind=kind, subject=subject).order_by("pk")
        found |= set(rows.values_list("pk", flat=True)[:MAX_ROWS])
    return sorted(found)[:MAX_AUDIT]


def _proven(rows: list[int]) -> list[tuple[dict[str, Any], protocol.Seal | None]]:
    """Each row as it was hashed, with its seal and the proof that leads there; rows without a seal yet have none."""
    seals = _seals_of(rows)
    texts = texts_of_rows(rows)
    found: list[tuple[dict[str, Any], protocol.Seal | None]] = []
    for seal in [*seals, None]:
        inside = [row for row in rows if (seal is not None and seal.after < row <= seal.last)]
        if seal is None:
            inside = [row for row in rows if row > (seals[-1].last if seals else 0)]
        entries = b"" if seal is None else bytes(seal.entries)
        places = {number: place for place, (number, _) in enumerate(protocol.entries_in(entries))}
        for row in inside:
            path = protocol.path_of(entries, places[row]) if row in places else []
            proof = {"seal": None if seal is None else seal.number, "path": path}
            if row in texts:
                found.append(({"id": row, **texts[row], **proof}, None if seal is None else seal.pure))
    return found


def _seals_of(rows: list[int]) -> list[Seal]:
    """The seals of these rows. What was written a moment ago is waited for."""
    until = time.monotonic() + PATIENCE_S
    while rows and time.monotonic() < until and not Seal.objects.filter(last__gte=rows[-1]).exists():
        if connection.in_atomic_block:
            break
        time.sleep(POLL_S)
    found: dict[int, Seal] = {}
    place = 0
    while place < len(rows):
        seal = Seal.objects.filter(last__gte=rows[place]).order_by("last").first()
        if seal is None:
            break
        found[seal.number] = seal
        while place < len(rows) and rows[place] <= seal.last:
            place += 1
    return list(found.values())


def _actions(dossier: Dossier, withheld: dict[str, str], *, reveals: bool) -> dict[str, bytes]:
    """The actions' canonical bytes; masked where any version of the tool calls a member sensitive."""
    sensitive = sensitive_members(dossier.tools)
    files = {}
    for row in Action.objects.filter(payload_digest__in=dossier.actions):
        name = f"actions/{row.payload_digest.removeprefix('sha256:')}"
        canonical = bytes(row.canonical)
        pointers = sorted(sensitive.get(row.tool, ()))
        action = json.loads(canonical)
        masked = mask(action, pointers) if pointers and not reveals else action
        if masked == action:
            files[f"{name}.json"] = canonical
        else:
            files[f"{name}.masked.json"] = _json(masked)
            withheld[f"{name}.json"] = "sensitive members are masked, so its bytes are not those of its digest"
    return files


def _prose(dossier: Dossier, withheld: dict[str, str]) -> dict[str, bytes]:
    files = {}
    for ref, what in dossier.prose.items():
        digest = ref.rpartition("/")[2].partition(".")[0]
        data = cold.get(ref)
        if data is None:
            forgotten = forgotten_refs([ref])
            when = f"forgotten {rfc3339(forgotten[ref])}" if ref in forgotten else "lost"
            withheld[f"prose/{digest}.txt"] = f"{what}: {when}"
        else:
            files[f"prose/{digest}.txt"] = data
    return files


def public_keys() -> list[Mapping[str, Any]]:
    """Public keys of seals, of commits, and of the web processes, which sign packs."""
    return [{**key.public, "use": key.use} for key in SigningKey.objects.order_by("created_at")]


def _plain(value: Any) -> Any:
    """Write rows column by column, and anything else as JSON has it."""
    if isinstance(value, models.Model):
        columns = (field for field in value._meta.concrete_fields if field.name not in WITHHELD)
        return {str(field.column): _plain(getattr(value, field.attname)) for field in columns}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode(errors="replace")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _who(facts: Mapping[str, Any]) -> dict[str, str]:
    """The names of the keys that the facts name by their ids."""
    ids = {
        value
        for rows in facts.values()
        if isinstance(rows, list)
        for row in rows
        if isinstance(row, models.Model)
        for field in row._meta.concrete_fields
        if field.related_model is Credential and isinstance(value := getattr(row, field.attname), uuid.UUID)
    }
    return {str(key.id): f"{key.name} ({key.role})" for key in Credential.objects.filter(id__in=ids)}


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, indent=1).encode() + b"\n"


def _lines(values: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(value, sort_keys=True).encode() + b"\n" for value in values)


def _zipped(files: Mapping[str, bytes], now: datetime) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, now.astimezone(UTC).timetuple()[:6])
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, files[name])
    return buffer.getvalue()
