"""The core of sealing: bytes that say one row alone, trees that prove each entry, signatures over everything (U2)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from fencing.protocol import seal
from fencing.protocol.audit_faults import Kind, fault_of_rows
from fencing.protocol.tokens import SigningKey, public_jwk

TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
ROWS = st.lists(TEXTS, min_size=3, max_size=3)
CONTENTS = st.lists(st.binary(min_size=2, max_size=2), min_size=1, max_size=20, unique=True)


def blob_of(contents: list[bytes]) -> bytes:
    return b"".join(
        (number * 3).to_bytes(8, "big") + hashlib.sha256(content).digest() for number, content in enumerate(contents, 1)
    )


def made(**values: Any) -> seal.Seal:
    members = {"number": 2, "previous": seal.GENESIS, "after": 4, "last": 9, "count": 3, "root": seal.GENESIS}
    return seal.Seal(**{**members, "at": "2026-11-30T02:14:07.000001Z", "kid": "k1", **values})


@given(ROWS, ROWS)
def test_two_rows_have_the_same_bytes_only_if_they_are_the_same(one: list[str | None], other: list[str | None]) -> None:
    assert (seal.row_bytes(one) == seal.row_bytes(other)) is (one == other)


@given(CONTENTS)
def test_the_proof_of_each_entry_leads_to_the_root(contents: list[bytes]) -> None:
    blob = blob_of(contents)
    for index in range(len(contents)):
        entry = blob[index * 40 : index * 40 + 40]
        assert seal.climb(entry, seal.path_of(blob, index)) == seal.root_of(blob)


@given(CONTENTS, st.integers(0, 10**6), st.integers(0, 7))
def test_no_other_entry_has_the_proof_of_one(contents: list[bytes], place: int, bit: int) -> None:
    blob = bytearray(blob_of(contents))
    index = place % len(contents)
    path, root = seal.path_of(bytes(blob), index), seal.root_of(bytes(blob))
    blob[index * 40 + place % 40] ^= 1 << bit
    assert seal.climb(bytes(blob[index * 40 : index * 40 + 40]), path) != root
    assert seal.root_of(bytes(blob)) != root


@given(CONTENTS)
def test_a_node_is_never_taken_for_an_entry(contents: list[bytes]) -> None:
    blob = blob_of(contents)
    assert seal.root_of(blob) != seal.digest_text(hashlib.sha256(blob).digest())


@pytest.mark.parametrize("name", seal.BODY)
def test_a_signature_covers_every_member_of_a_seal(name: str) -> None:
    key = SigningKey(kid="k1", private=Ed25519PrivateKey.generate())
    other = SigningKey(kid="k2", private=key.private)
    keys = {each.kid: public_jwk(each) for each in (key, other)}
    signed = replace(made(), signature=seal.sign(made(), key))
    assert seal.is_signed(signed, keys)
    value = getattr(signed, name)
    changed: Any = value + 1 if isinstance(value, int) else "k2" if name == "kid" else value[:-2] + "9Z"
    assert not seal.is_signed(replace(signed, **{name: changed}), keys)
    assert replace(signed, **{name: changed}).hash != signed.hash


@pytest.mark.parametrize("signature", ["", "AAAA", "no base64!", "ü", "A" * 86])
def test_what_is_no_signature_is_none(signature: str) -> None:
    key = SigningKey(kid="k1", private=Ed25519PrivateKey.generate())
    assert not seal.is_signed(made(signature=signature), {"k1": public_jwk(key)})
    assert not seal.is_signed(made(signature=signature), {})


def test_a_seal_survives_its_export() -> None:
    assert seal.seal_of(made(signature="s").as_json()) == made(signature="s")
    for broken in ({}, {"number": "x"}, {**made().as_json(), "last": None}):
        with pytest.raises(ValueError, match=r".+"):
            seal.seal_of(broken)


@given(st.datetimes(timezones=st.just(UTC)))
def test_moments_keep_their_microseconds(at: datetime) -> None:
    text = seal.since_2000(seal.moment_text(at))
    assert int.from_bytes(bytes.fromhex(text), "big", signed=True) == (at - seal.EPOCH) // seal.MICROSECOND


@given(CONTENTS, st.data())
def test_whatever_is_done_to_the_rows_of_a_seal_the_first_one_is_named(
    contents: list[bytes], data: st.DataObject
) -> None:
    blob = blob_of(contents)
    rows = dict(seal.entries_in(blob))
    sealed = made(after=0, last=3 * len(contents), count=len(contents), root=seal.root_of(blob))
    kinds = [Kind.EDITED, Kind.DELETED, Kind.INSERTED, *([Kind.REORDERED] if len(contents) > 1 else [])]
    kind = data.draw(st.sampled_from(kinds))
    row = data.draw(st.sampled_from(sorted(rows)))
    changed, first = dict(rows), row
    if kind is Kind.EDITED:
        changed[row] = hashlib.sha256(b"something else").digest()
    elif kind is Kind.DELETED:
        del changed[row]
    elif kind is Kind.INSERTED:
        changed[row - 1] = hashlib.sha256(b"new").digest()
        first = row - 1
    else:
        other = data.draw(st.sampled_from([each for each in sorted(rows) if each != row]))
        changed[row], changed[other] = rows[other], rows[row]
        first = min(row, other)
    found = b"".join(number.to_bytes(8, "big") + changed[number] for number in sorted(changed))
    fault = fault_of_rows(sealed, blob, found, is_end=False)
    assert fault is not None
    assert (fault.kind, fault.row) == (kind, first)
