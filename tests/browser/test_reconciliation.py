"""Reconciliation in a real browser: totals by tool, an uploaded ledger that shows an escape, how far a reading is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from fencing.gateway import ledger_reading
from fencing.gateway.ledger_intake import keep, upload
from fencing.gateway.ledger_reading import match_some
from tests.browser.watching import check_axe, check_fits, shoot
from tests.stories import OTHER_REFUND, REFUND, Story

Open = Callable[..., Page]


@pytest.fixture(autouse=True)
def in_a_folder(settings: Settings, tmp_path: Path) -> None:
    settings.FENCE_DATA = tmp_path


def test_a_reviewer_finds_an_escape_in_an_uploaded_ledger(sign_in: Open, tmp_path: Path) -> None:
    story = Story.begin()
    keys = []
    for number in range(3):
        admitted = story.admit(story.agree(f"s{number}", occurrence=number))
        assert story.report(admitted, "succeeded")["state"] == "succeeded"
        keys.append(admitted["idempotency_key"])
    page = sign_in("lena", "/reconciliation")
    expect(page.get_by_text("is not known yet")).to_be_visible()
    shoot(page, "reconciliation-empty")
    check_axe(page)
    check_fits(page)
    rows: list[dict[str, Any]] = [
        {"external_id": "re_1", "idempotency_key": keys[0]},
        {"external_id": "re_2", "idempotency_key": keys[1]},
        {"external_id": "re_3", "idempotency_key": keys[1]},
        {"external_id": "re_4", "action": OTHER_REFUND},
    ]
    file = tmp_path / "bank statement of november.ndjson"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    form = page.get_by_role("region", name="Upload")
    form.get_by_label("Tool").select_option("refund")
    form.get_by_label("File").set_input_files(file)
    form.get_by_label("Complete from (UTC)").fill("2026-01-01 00:00")
    form.get_by_label("Complete until (UTC)").fill("2099-01-01 00:00")
    form.get_by_role("button", name="Match this file with what left").click()
    expect(page.get_by_text("Being matched: 0 rows so far, 0 % of the file.")).to_be_visible()
    while match_some():
        pass
    # The page finds by itself that it is done.
    expect(page.get_by_text("2 of 4 rows show effects that should not be there")).to_be_visible()
    shoot(page, "ledger")
    check_axe(page)
    check_fits(page)
    page.goto("/reconciliation")
    expect(page.get_by_text("1 happened without authority and 1 happened twice and 1 succeeded")).to_be_visible()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="refund", exact=True))
    cells = ["3", "2 / 4", "▲ 1 / 4", "1 / 3", "0 / 2"]
    for cell in cells:
        expect(row.get_by_role("cell", name=cell, exact=True).first).to_be_visible()
    shoot(page, "reconciliation")
    check_axe(page)
    check_fits(page)


def test_how_far_a_long_ledger_is_moves_on_the_page(sign_in: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story.begin()
    monkeypatch.setattr(ledger_reading, "BATCH", 25)
    text = "".join(json.dumps({"external_id": f"x-{n}", "action": REFUND}) + "\n" for n in range(100))
    told = upload("refund", "bank.ndjson", keep([text.encode()]), None, story.reviewer)
    page = sign_in("lena", f"/reconciliation/{told.body['id']}")  # type: ignore[union-attr]
    bar = page.get_by_role("progressbar")
    expect(bar).to_have_attribute("value", "0")
    assert match_some(0.0)
    expect(bar).to_have_attribute("value", "25")
    shoot(page, "ledger-in-work")
    check_axe(page)
    check_fits(page)
    while match_some():
        pass
    expect(bar).to_have_count(0)
    expect(page.get_by_text("100 of 100 rows show effects that should not be there")).to_be_visible()
