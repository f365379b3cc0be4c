"""The audit in a real browser: verify it, find who did what, take evidence and check it with bare Python."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from django.db import connection
from playwright.sync_api import Page, expect
from pytest_django import Settings

from fencing.jobs import verify
from fencing.models import AuditEvent
from fencing.services.sealing import seal_audit
from tests.audit.conftest import change
from tests.audit.test_evidence import run_checker
from tests.browser.test_step import diverged, ugly
from tests.browser.watching import check_axe, check_fits, shoot
from tests.stories import EPOCH, REFUND, Story
from tests.throwaway import throw_away

Open = Callable[..., Page]


@pytest.fixture(autouse=True)
def heads(tmp_path: Path, settings: Settings, valkey: str) -> None:
    """Keep the heads of this test apart."""
    settings.FENCE_HEADS = tmp_path / "heads"


def edit(row: int) -> None:
    """Change a row behind the system's back."""
    options = {"host": connection.settings_dict["HOST"], "dbname": connection.settings_dict["NAME"], "user": "postgres"}
    with psycopg.connect(**options, password=throw_away().folder.secret("postgres")) as superuser:
        superuser.execute("SET session_replication_role = replica")
        change(superuser, row, "actor", "mallory")


def test_an_auditor_verifies_the_audit_and_is_shown_the_row_that_was_edited(sign_in: Open) -> None:
    page = sign_in("arne", "/audit")
    expect(page.get_by_text("Not verified yet")).to_be_visible()
    story = Story.begin()
    ugly(story)
    for number in range(6):
        diverged(story, f"pay-{number}")
    seal_audit()
    page.reload()
    page.get_by_text("Verify now…").click()
    page.get_by_role("button", name="Verify every row now").click()
    expect(page.get_by_text("Verifying now")).to_be_visible()
    assert verify.work() is False  # what the worker does when it is woken
    expect(page.get_by_text("The audit is what was sealed")).to_be_visible()
    shoot(page, "audit")
    check_axe(page)
    check_fits(page)

    row = AuditEvent.objects.filter(verb="vote").order_by("pk").values_list("pk", flat=True)[2]
    edit(row)
    page.get_by_text("Verify now…").click()
    page.get_by_role("button", name="Verify every row now").click()
    verify.work()
    expect(page.get_by_text("a row was edited, at row")).to_be_visible()
    shoot(page, "audit-failed")
    page.get_by_role("link", name=f"Row {row}").click()
    expect(page.get_by_text("mallory")).to_be_visible()
    check_axe(page)


def test_who_did_what_is_found_by_its_run_and_by_its_actor(sign_in: Open) -> None:
    story, other = Story.begin(), Story.begin()
    story.agree()
    other.agree()
    seal_audit()
    page = sign_in("omar", "/audit")
    page.get_by_label("Run").fill(story.run)
    page.get_by_role("button", name="Filter").click()
    table = page.get_by_role("region", name="Rows of the audit")
    expect(table.get_by_role("link", name="commit step")).to_have_count(1)
    expect(table).not_to_contain_text(other.run)
    page.get_by_label("Who").fill(story.replica.name)
    page.get_by_role("button", name="Filter").click()
    expect(table.get_by_role("row")).to_have_count(2)
    page.get_by_label("What was done").fill("no_such_act")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No row like that")).to_be_visible()


def test_evidence_of_a_step_checks_in_an_empty_folder_with_bare_python(sign_in: Open, tmp_path: Path) -> None:
    story = Story.begin()
    story.agree(action=REFUND, context={"ticket": 4711})
    seal_audit()
    page = sign_in("arne", f"/runs/{story.run}/steps/s1?epoch={EPOCH}")
    page.get_by_role("link", name="Evidence…").click()
    shoot(page, "evidence")
    check_axe(page)
    check_fits(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Take the pack (zip)").click()
    kept = tmp_path / "pack.zip"
    download.value.save_as(kept)
    empty = tmp_path / "empty"
    with zipfile.ZipFile(kept) as archive:
        archive.extractall(empty)
    ended = run_checker(empty)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"Evidence of the step {story.run}/s1/{EPOCH}" in ended.stdout
    rows = (empty / "audit.ndjson").read_bytes()
    (empty / "audit.ndjson").write_bytes(rows.replace(b'"vote"', b'"note"', 1))
    ended = run_checker(empty)
    assert ended.returncode == 1
    assert "audit.ndjson, line " in ended.stdout
