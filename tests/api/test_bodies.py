"""Refused bodies: each item alone, each with its row in the side log, none of them lost (C3, H3, I5, N7, S1)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from django.core.files.storage import FileSystemStorage

from fencing.api import bodies
from fencing.models import SideLogRow, Step, cold
from fencing.services.side_log import RefusedBody
from tests.api.conftest import REFUND, Api
from tests.factories import fresh


@pytest.fixture(autouse=True)
def cold_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cold storage of this test alone, in a real folder."""
    monkeypatch.setattr(cold, "_store", lambda: FileSystemStorage(location=tmp_path / "cold"))
    return tmp_path / "cold"


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 400, "bad_json"),
        (b'{"run": ', 400, "bad_json"),
        (b"\xff", 400, "bad_json"),
        (b"[]", 422, "invalid_value"),
        (b'{"run": "a", "run": "b"}', 422, "duplicate_name"),
        (b'{"run": "a", "epoch": NaN}', 422, "not_finite"),
        (b'{"run": "a", "epoch": 9007199254740993}', 422, "unsafe_number"),
        (b'{"run": "\\ud800"}', 422, "bad_unicode"),
        (b'{"run": "a", "labels": ' + b"[" * 80 + b"]" * 80 + b"}", 422, "too_deep"),
        (b'{"run": 5}', 422, "invalid_value"),
        (b'{"run": "a b"}', 422, "invalid_identifier"),
        (b'{"run": "a", "x": 1}', 422, "unknown_member"),
        (b'{"items": []}', 422, "invalid_value"),
        (b'{"items": {}}', 422, "invalid_value"),
        (b'{"items": [], "run": "a"}', 422, "unknown_member"),
    ],
)
def test_a_broken_body_is_refused_by_its_code_and_stands_in_the_side_log(
    api: Api, raw: bytes, status: int, code: str
) -> None:
    answer = api.post("planner", "/runs", raw=raw)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer["Content-Type"] == "application/problem+json"
    row = SideLogRow.objects.get()
    assert (row.kind, row.reason) == ("request", code)
    if raw:
        assert (row.body_sha256, row.body_length) == (hashlib.sha256(raw).hexdigest(), len(raw))
        assert cold.get(row.body_ref) == raw
    else:
        assert row.body_sha256 is None


@pytest.mark.parametrize("written", ["7", "7.0", "7e0", "70e-1"])
def test_an_integer_may_be_written_with_a_point(api: Api, written: str) -> None:
    name = fresh("run")
    answer = api.post("planner", "/runs", raw=f'{{"run": "{name}", "epoch": {written}}}'.encode())
    assert (answer.status_code, answer.json()["epoch"]) == (201, 7)


def test_the_subject_of_a_refused_body_is_what_of_it_can_be_read(api: Api) -> None:
    vote = {"run": "run-88", "step": "pay invoice", "epoch": 7, "digest": 5, "seq": "x"}
    assert api.post("replica", "/votes", vote).status_code == 422
    row = SideLogRow.objects.get()
    assert (row.run, row.step, row.epoch, row.seq, row.path) == ("run-88", "pay invoice", 7, None, "replica")


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (
            b'{"run": "run-88", "step": "pay", "epoch": 7, "action": {"tool": "a", "args": {"b": 1, "b": 2}}}',
            "duplicate_name",
        ),
        (b'{"run": "run-88", "step": "pay", "epoch": 7, "action": {"tool": "a", "args": {"b": NaN}}}', "not_finite"),
        (
            b'{"run": "run-88", "step": "pay", "epoch": 7, "action": {"tool": "a", "args": {"b": "\\ud800"}}}',
            "bad_unicode",
        ),
        (b'{"run": "run-88", "step": "pay", "epoch": 7, "digest": "x", "digest": "y"}', "duplicate_name"),
    ],
)
def test_a_body_with_a_fault_inside_is_still_known_by_whom_it_was_about(api: Api, raw: bytes, code: str) -> None:
    assert api.post("replica", "/votes", raw=raw).json()["code"] == code
    row = SideLogRow.objects.get()
    assert (row.reason, row.run, row.step, row.epoch) == (code, "run-88", "pay", 7)


def test_a_name_that_stands_twice_or_is_the_fault_itself_names_nothing(api: Api) -> None:
    raw = b'{"items": [{"run": "a", "run": "b", "step": "pay"}, {"run": "run-88", "epoch": 9007199254740993}]}'
    answer = api.post("replica", "/votes", raw=raw)
    assert [each["code"] for each in answer.json()["results"]] == ["duplicate_name", "unsafe_number"]
    rows = SideLogRow.objects.order_by("reason").values_list("run", "step", "epoch")
    assert list(rows) == [(None, "pay", None), ("run-88", None, None)]


@pytest.mark.parametrize("run", ["x" * 10_000, "a\u0000b", "\ud800", 5, None, "", ["a"]])
def test_a_subject_that_the_side_log_cannot_hold_is_left_out_of_it(api: Api, run: object) -> None:
    assert api.post("planner", "/runs", {"run": run, "labels": 5}).status_code == 422
    assert SideLogRow.objects.get().run is None


def test_of_a_long_refused_body_only_the_head_is_kept(api: Api) -> None:
    raw = b'{"run": "' + b"x" * 10_000 + b'"}'
    api.post("planner", "/runs", raw=raw)
    row = SideLogRow.objects.get()
    assert row.body_length == len(raw)
    assert cold.get(row.body_ref) == raw[:4096]


def test_a_refusal_is_told_even_where_cold_storage_fails(api: Api, cold_folder: Path) -> None:
    cold_folder.write_text("a file where the folder should be")
    assert api.post("planner", "/runs", {"run": "a b"}).status_code == 422
    row = SideLogRow.objects.get()
    assert (row.reason, row.body_ref) == ("invalid_identifier", None)
    assert row.body_sha256 is not None


def test_a_body_beyond_the_limit_is_refused_with_its_hash_and_length(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_BULK", 2000)
    raw = json.dumps({"run": "a", "labels": {"x": "y" * 5000}}).encode()
    answer = api.post("planner", "/runs", raw=raw)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    row = SideLogRow.objects.get()
    assert (row.body_sha256, row.body_length) == (hashlib.sha256(raw).hexdigest(), len(raw))


def test_a_single_object_may_be_less_long_than_a_bulk(api: Api) -> None:
    padding = b" " * bodies.MAX_SINGLE
    assert api.post("planner", "/runs", raw=b'{"run": "a"}' + padding).json()["code"] == "too_large"
    name = fresh("run")
    answer = api.post("planner", "/runs", raw=f'{{"items": [{{"run": "{name}"}}]}}'.encode() + padding)
    assert answer.json()["results"][0]["status"] == 201


def test_one_bad_item_does_not_hurt_the_others(api: Api, run: str) -> None:
    raw = (
        f'{{"items": [{{"run": "{run}", "step": "a", "epoch": 7}}, {{"run": "{run}", "step": "b c", "epoch": 7}},'
        f' {{"run": "{run}", "step": "d", "step": "e", "epoch": 7}}, 5, {{"run": "{run}", "step": "f", "epoch": 1}},'
        f' {{"run": "{run}", "step": "g", "epoch": 7}}]}}'
    )
    answer = api.post("planner", "/steps", raw=raw.encode())
    assert answer.status_code == 200
    results = answer.json()["results"]
    codes = [None, "invalid_identifier", "duplicate_name", "invalid_value", "stale_epoch", None]
    assert [each["status"] for each in results] == [201, 422, 422, 422, 409, 201]
    assert [each.get("code") for each in results] == codes
    assert [each.get("pointer") for each in results[1:3]] == ["/step", "/step"]
    assert set(Step.objects.values_list("name", flat=True)) == {"s1", "a", "g"}
    assert sorted(SideLogRow.objects.values_list("reason", flat=True)) == sorted(code for code in codes if code)


def test_the_row_of_a_bulk_item_holds_that_item(api: Api, run: str) -> None:
    items = [{"run": run, "step": "a b", "epoch": 7}, {"run": run, "step": "a", "epoch": 7}]
    api.post("planner", "/steps", {"items": items})
    row = SideLogRow.objects.get()
    assert (row.run, row.step, row.epoch) == (run, "a b", 7)
    kept = cold.get(row.body_ref)
    assert kept is not None
    assert json.loads(kept) == items[0]


@pytest.mark.parametrize("item", [{"run": "a b"}, {"run": "a", "labels": {"x": float("nan")}}], ids=["form", "value"])
def test_what_is_kept_of_a_refused_bulk_costs_about_its_own_length(
    api: Api, item: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[int] = []
    of = RefusedBody.of

    def counted(raw: bytes) -> RefusedBody:
        hashed.append(len(raw))
        return of(raw)

    monkeypatch.setattr(RefusedBody, "of", counted)
    raw = json.dumps({"items": [item] * 100}).encode()
    assert api.post("planner", "/runs", raw=raw).status_code == 200
    assert SideLogRow.objects.count() == 100
    assert sum(hashed) <= 2 * len(raw)


def test_a_thousand_items_are_taken_and_one_more_is_not(api: Api, run: str) -> None:
    items = [{"run": run, "step": f"s-{number}", "epoch": 7} for number in range(1001)]
    refused = api.post("planner", "/steps", {"items": items})
    assert (refused.status_code, refused.json()["code"]) == (413, "too_many_items")
    taken = api.post("planner", "/steps", {"items": items[:1000]})
    assert [each["status"] for each in taken.json()["results"]] == [201] * 1000


def test_calls_without_a_bulk_form_know_no_items(api: Api) -> None:
    answer = api.post("oncall", "/grants", {"items": []})
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_member")


def test_a_single_call_has_the_status_of_its_result(api: Api, run: str) -> None:
    step = {"run": run, "step": "s2", "epoch": 7, "action": REFUND}
    first, again = api.post("planner", "/steps", step), api.post("planner", "/steps", step)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["duplicate"] is True


def test_at_the_gateway_an_unknown_tool_is_forbidden_and_in_a_proposal_it_is_wrong(api: Api, run: str) -> None:
    action = {"tool": "no_such_tool", "args": {}}
    proposed = api.post("planner", "/steps", {"run": run, "step": "s2", "epoch": 7, "action": action})
    admitted = api.post("gateway", "/gateway/admissions", {"action": action})
    assert (proposed.status_code, admitted.status_code) == (422, 403)
    assert proposed.json()["code"] == admitted.json()["code"] == "unknown_tool"
