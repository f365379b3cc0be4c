"""N3: the quick encoder writes what the standard library's writes, byte for byte, and hands over where it would not."""

import json
import uuid
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.api.rendering import json_bytes
from fencing.models.jsonb import jsonb_text
from fencing.protocol.fence import Phase
from fencing.protocol.objects import rfc3339

texts = st.text(st.characters(), max_size=6) | st.sampled_from([":1e5,", "[1e5]", "sha256:1e5", "\ud800", "\u2028\x7f"])
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
names = texts | st.integers(0, 9)


def nested(leaves: st.SearchStrategy[Any], names: st.SearchStrategy[Any] = names) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
    )


plain = nested(st.none() | st.booleans() | numbers | texts)
moments = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))]))
ours = nested(
    st.none() | numbers | texts | moments | st.uuids() | st.sampled_from(list(Phase)) | st.frozensets(texts, max_size=3)
    | st.dictionaries(texts, numbers, max_size=2).map(MappingProxyType)
)  # fmt: skip


def as_before(value: object) -> bytes:
    """Write with the standard library alone."""

    def written(inner: object) -> object:
        match inner:
            case datetime():
                return rfc3339(inner)
            case uuid.UUID():
                return str(inner)
            case MappingProxyType():
                return dict(inner)
            case frozenset():
                return sorted(inner)
        raise TypeError

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=written).encode("utf-8", "replace")


@given(plain | ours)
def test_both_encoders_write_the_same_bytes(value: Any) -> None:
    assert json_bytes(value) == as_before(value)


@pytest.mark.parametrize(
    "value", [1e16, -1e-7, 5e-324, 2**53, 2**64, -(2**70), -0.0, "\ud800", {7: 1e22}, {"a": [1e300]}]
)
def test_what_the_two_spell_otherwise_is_spelt_as_it_was(value: Any) -> None:
    assert json_bytes(value) == as_before(value)


@pytest.mark.parametrize("value", [object(), b"bytes", {"a": {1j}}])
def test_what_has_no_form_in_json_is_an_error(value: Any) -> None:
    with pytest.raises(TypeError):
        json_bytes(value)


@given(nested(st.none() | st.booleans() | numbers | texts, texts))
def test_a_parameter_says_the_same_in_either_spelling(value: Any) -> None:
    assert json.loads(jsonb_text(value)) == value


def test_a_parameter_holds_no_moment() -> None:
    with pytest.raises(TypeError):
        jsonb_text([datetime.now(UTC)])


@given(
    st.datetimes(datetime(1900, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - Hypothesis adds the zone
    st.sampled_from([" ", "T"]),
    st.sampled_from(["+00", "+00:00", "+02", "-05:30"]),
)
def test_a_moment_that_is_text_already_is_told_as_the_same_moment(at: datetime, mark: str, zone: str) -> None:
    # PostgreSQL leaves out what ends the fraction with zeros.
    fraction = f".{at.microsecond:06}".rstrip("0.")
    text = f"{at:%Y-%m-%d}{mark}{at:%H:%M:%S}{fraction}{zone}"
    assert rfc3339(text) == rfc3339(datetime.fromisoformat(text))
