"""What is wrong with a body, told by its code and its place (C2, C3, C4, N1, N8)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencing.api.forms import Form
from fencing.api.params import SideLogQuery, StepQuery
from fencing.protocol.errors import Code, Refusal
from fencing.services import requests
from fencing.services.requests import AcknowledgeRows, CastVote, IssueGrant, OpenRun, ProposeStep, ResolveIntent

RUN = Form(OpenRun)
STEP = Form(ProposeStep)
PROPOSAL = {"run": "run-88", "step": "pay", "epoch": 7}


def refused(form: Form[Any], body: object) -> tuple[Code, str | None]:
    refusal = form.read(body)
    assert isinstance(refusal, Refusal), refusal
    return refusal.code, refusal.pointer


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", ".a", "é", "a" * 201, "a\n", "a/b", "a\0"])
def test_a_name_that_is_no_identifier_has_its_own_code(name: str) -> None:
    assert refused(RUN, {"run": name}) == (Code.INVALID_IDENTIFIER, "/run")


@pytest.mark.parametrize("name", ["a", "9", "A.b_c:d@e-f", "a" * 200])
def test_an_identifier_is_taken(name: str) -> None:
    assert RUN.read({"run": name}) == OpenRun(run=name)


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "sha256:" + "A" * 64, "sha256:" + "a" * 63, "a" * 64, "sha256:" + "a" * 64 + "\n"]
)
def test_a_digest_of_another_form_has_its_own_code(digest: str) -> None:
    assert refused(STEP, {**PROPOSAL, "digest": digest}) == (Code.INVALID_DIGEST, "/digest")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/run"),
        ({"run": 5}, "/run"),
        ({"run": None}, "/run"),
        ({"run": ["a"]}, "/run"),
        ({"run": "a", "epoch": "7"}, "/epoch"),
        ({"run": "a", "epoch": True}, "/epoch"),
        ({"run": "a", "epoch": 7.5}, "/epoch"),
        ({"run": "a", "epoch": 0}, "/epoch"),
        ({"run": "a", "epoch": 2**53}, "/epoch"),
        ({"run": "a", "labels": []}, "/labels"),
        ({"run": "a", "labels": {"x": 1}}, "/labels/x"),
        ({"run": "a", "labels": {"a/b~c": 1}}, "/labels/a~1b~0c"),
        ([], ""),
        ("run", ""),
        (None, ""),
    ],
)
def test_a_wrong_type_or_range_is_an_invalid_value_with_its_place(body: object, pointer: str) -> None:
    assert refused(RUN, body) == (Code.INVALID_VALUE, pointer)


def test_a_member_that_nobody_knows_is_refused_by_name() -> None:
    assert refused(RUN, {"run": "a", "owner": "me"}) == (Code.UNKNOWN_MEMBER, "/owner")


def test_null_is_the_same_as_absent_for_what_may_be_left_out() -> None:
    assert RUN.read({"run": "a", "epoch": None, "labels": None}) == OpenRun(run="a")


def test_a_boolean_is_no_number_and_a_number_no_boolean() -> None:
    assert refused(Form(ResolveIntent), {"happened": 1, "evidence": "seen"}) == (Code.INVALID_VALUE, "/happened")
    assert refused(STEP, {**PROPOSAL, "deadline_s": True}) == (Code.INVALID_VALUE, "/deadline_s")


def test_an_array_becomes_the_tuple_that_the_service_takes() -> None:
    form = Form(AcknowledgeRows)
    assert form.read({"ids": ["a", "b"], "reason": "seen"}) == AcknowledgeRows(ids=("a", "b"), reason="seen")
    assert refused(form, {"ids": ["a", 1], "reason": "seen"}) == (Code.INVALID_VALUE, "/ids/1")
    assert refused(form, {"ids": [], "reason": "seen"}) == (Code.INVALID_VALUE, "/ids")
    assert refused(form, {"ids": "a", "reason": "seen"}) == (Code.INVALID_VALUE, "/ids")


@pytest.mark.parametrize(
    ("form", "body", "pointer"),
    [
        (RUN, {"run": "a", "labels": {"x": "\0"}}, "/labels/x"),
        (RUN, {"run": "a", "labels": {"\0": "x"}}, "/labels/\0"),
        (Form(CastVote), {**PROPOSAL, "abstain": "a\0b"}, "/abstain"),
        (Form(IssueGrant), {"name": "g", "run": "a", "epoch": 1, "ttl_s": 1, "reason": "\0"}, "/reason"),
    ],
)
def test_a_character_that_the_database_cannot_hold_is_refused_at_the_door(
    form: Form[Any], body: object, pointer: str
) -> None:
    assert refused(form, body) == (Code.INVALID_VALUE, pointer)


def test_an_action_may_hold_every_character_for_it_is_stored_as_bytes() -> None:
    action = {"tool": "mail", "args": {"text": "\0"}}
    assert STEP.read({**PROPOSAL, "action": action}) == ProposeStep(run="run-88", step="pay", epoch=7, action=action)


def test_parameters_are_text_that_is_read_as_what_it_means() -> None:
    step = Form(StepQuery, is_query=True)
    assert step.read({"epoch": "7", "wait": "2.5"}) == StepQuery(epoch=7, wait=2.5)
    log = Form(SideLogQuery, is_query=True)
    assert log.read({"acknowledged": "false", "limit": "500"}) == SideLogQuery(acknowledged=False, limit=500)


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"wait": "31"}, "wait"),
        ({"wait": "-1"}, "wait"),
        ({"wait": "nan"}, "wait"),
        ({"wait": "inf"}, "wait"),
        ({"epoch": "x"}, "epoch"),
        ({"phase": "gone"}, "phase"),
        ({"epoc": "7"}, "epoc"),
    ],
)
def test_a_parameter_that_is_wrong_or_unknown_is_named(given: dict[str, str], parameter: str) -> None:
    refusal = Form(StepQuery, is_query=True).read(given)
    assert isinstance(refusal, Refusal)
    assert refusal.extras["parameter"] == parameter


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
NAMES = ("run", "step", "epoch", "action", "digest", "labels", "reason", "ids", "outcome", "ttl_s")
OWN = [each for each in vars(requests).values() if isinstance(each, type) and each.__module__ == requests.__name__]
TARGETS = [each for each in OWN if dataclasses.is_dataclass(each)]  # a scope inside one is no form of its own


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_every_form_answers_whatever_is_sent(target: type[Any]) -> None:
    form = Form(target)

    @given(JSON | st.dictionaries(st.sampled_from(NAMES), JSON))
    def check(body: object) -> None:
        assert isinstance(form.read(body), target | Refusal)

    check()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_every_form_tells_its_schema_in_the_dialect_of_json_schema(target: type[Any]) -> None:
    schema = Form(target).schema()
    assert schema["additionalProperties"] is False
    assert r"\Z" not in str(schema)
