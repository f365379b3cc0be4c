"""T1: a version that weakens the fence becomes current with the word of a second administrator, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from psycopg import sql

from fencing.models import ToolChange, ToolVersion
from fencing.protocol.canonical import canonical_bytes, digest_of
from fencing.protocol.tools import ToolDefinition, stored_tool
from fencing.protocol.weakening import weakenings
from tests import factories as make
from tests.factories import soon
from tests.fencing.breaking import allowed, forbidden, refused
from tests.fencing.conftest import Connect, Connection
from tests.protocol.tool_values import changed, tools
from tests.stores import SqlStore


@pytest.fixture
def production(owner: Connection) -> None:
    """A database that was prepared for production, as this transaction of the owner sees it."""
    owner.execute("UPDATE fencing_deployment SET mode = 'production'")


@pytest.fixture
def change(production: None, as_owner: SqlStore) -> ToolChange:
    """A tool of production that is to become read-only."""
    return make.make_tool_change(store=as_owner)


def becoming(wanted: ToolChange, store: SqlStore, **values: Any) -> ToolVersion:
    """Make what a change asks for the current version."""
    defaults: dict[str, Any] = {"definition": stored_tool(bytes(wanted.definition)), "version": 2, "change": wanted}
    return make.make_version(store=store, **defaults | values)


def approved(change: ToolChange, store: SqlStore) -> ToolChange:
    make.make_tool_change_approval(change=change, store=store)
    return change


# -- what becomes current ----------------------------------------------------------------------------------------------


def test_nothing_weaker_becomes_current_by_itself(change: ToolChange, owner: Connection, as_owner: SqlStore) -> None:
    for values in ({"change": None}, {"change": None, "weakens": ["It becomes read-only."]}):
        with refused(owner, by="tool_change_approved"):
            becoming(change, as_owner, **values)


def test_a_change_that_nobody_approved_does_not_become_current(
    change: ToolChange, owner: Connection, as_owner: SqlStore
) -> None:
    with refused(owner, by="tool_change_approved"):
        becoming(change, as_owner)
    approved(change, as_owner)
    with allowed(owner):
        becoming(change, as_owner)


def test_what_nobody_named_proposed_takes_two(production: None, owner: Connection, as_owner: SqlStore) -> None:
    change = make.make_tool_change(store=as_owner, proposer=None, approvals_needed=2)
    approved(change, as_owner)
    with refused(owner, by="tool_change_approved"):
        becoming(change, as_owner)
    approved(change, as_owner)
    with allowed(owner):
        becoming(change, as_owner)


def test_a_change_always_needs_another_person_than_its_own(owner: Connection, as_owner: SqlStore) -> None:
    for values in ({"approvals_needed": 0}, {"proposer": None, "approvals_needed": 1}):
        with refused(owner, by="tool_change_needs_a_second"):
            make.make_tool_change(store=as_owner, **values)
    with refused(owner, by="tool_change_weakens"):
        make.make_tool_change(store=as_owner, weakens=[])


def test_another_definition_than_the_approved_one_does_not_become_current(
    change: ToolChange, owner: Connection, as_owner: SqlStore
) -> None:
    approved(change, as_owner)
    definition = stored_tool(canonical_bytes({**json.loads(bytes(change.definition)), "advisory": ["/cents"]}))
    with refused(owner, by="tool_change_as_approved"):
        becoming(change, as_owner, definition=definition)
    with refused(owner, by="tool_change_as_approved"):
        make.make_version(
            definition=stored_tool(bytes(change.definition)), version=2, change=other(as_owner), store=as_owner
        )


def other(store: SqlStore) -> ToolChange:
    return approved(make.make_tool_change(store=store), store)


def test_a_change_of_a_version_that_is_history_does_not_become_current(
    change: ToolChange, owner: Connection, as_owner: SqlStore
) -> None:
    approved(change, as_owner)
    stricter = json.loads(bytes(change.base.definition))
    stricter["policy"] |= {"grant_approvals": 2}
    make.make_version(definition=stored_tool(canonical_bytes(stricter)), version=2, store=as_owner)
    with refused(owner, by="tool_change_as_approved"):
        becoming(change, as_owner, version=3)


@pytest.mark.parametrize("ending", ["refused", "withdrawn", "expired"])
def test_what_no_longer_waits_does_not_become_current(
    ending: str, change: ToolChange, owner: Connection, as_owner: SqlStore
) -> None:
    approved(change, as_owner)
    as_owner.update(change, closed_at=soon(0), closed_as=ending, closed_by=change.proposer)
    with refused(owner, by="tool_change_open"):
        becoming(change, as_owner)
    with refused(owner, by="tool_change_open"):
        approved(change, as_owner)


def test_what_expired_a_moment_ago_does_not_become_current(
    production: None, owner: Connection, as_owner: SqlStore
) -> None:
    change = make.make_tool_change(store=as_owner, expires_at=soon(-1))
    with refused(owner, by="tool_change_open"):
        approved(change, as_owner)
    with refused(owner, by="tool_change_open"):
        becoming(change, as_owner)


def test_one_change_becomes_current_once(change: ToolChange, owner: Connection, as_owner: SqlStore) -> None:
    becoming(approved(change, as_owner), as_owner)
    for version in (2, 3):
        with refused(owner, by="tool_change_as_approved"):
            becoming(change, as_owner, version=version)


# -- who approves ------------------------------------------------------------------------------------------------------


def test_who_proposed_a_change_does_not_approve_it(change: ToolChange, owner: Connection, as_owner: SqlStore) -> None:
    with refused(owner, by="tool_change_approved_by_another"):
        make.make_tool_change_approval(change=change, person=change.proposer, store=as_owner)


def test_one_person_is_one_approval(change: ToolChange, owner: Connection, as_owner: SqlStore) -> None:
    person = make.make_user(store=as_owner)
    make.make_tool_change_approval(change=change, person=person, store=as_owner)
    with refused(owner, by="tool_change_approved_once_each"):
        make.make_tool_change_approval(change=change, person=person, store=as_owner)


def test_an_approval_names_what_was_shown(change: ToolChange, owner: Connection, as_owner: SqlStore) -> None:
    with refused(owner, by="tool_change_as_shown"):
        make.make_tool_change_approval(change=change, digest=make.NO_DIGEST, store=as_owner)


def test_a_change_is_called_approved_where_it_became_a_version_and_only_there(
    change: ToolChange, owner: Connection, as_owner: SqlStore
) -> None:
    approved(change, as_owner)
    with refused(owner, by="tool_change_closes_as_it_went"):
        as_owner.update(change, closed_at=soon(0), closed_as="approved")
    becoming(change, as_owner)
    for ending in ("refused", "expired"):
        with refused(owner, by="tool_change_closes_as_it_went"):
            as_owner.update(change, closed_at=soon(0), closed_as=ending)
    with allowed(owner):
        as_owner.update(change, closed_at=soon(0), closed_as="approved")
    with refused(owner, by="written_once"):
        as_owner.update(change, closed_at=soon(5))


def test_only_who_proposed_a_change_withdraws_it(change: ToolChange, owner: Connection, as_owner: SqlStore) -> None:
    with refused(owner, by="tool_change_withdrawn_by_its_own"):
        as_owner.update(change, closed_at=soon(0), closed_as="withdrawn", closed_by=make.make_user(store=as_owner))


def test_a_change_begins_open_and_has_an_ending_where_it_has_an_end(
    change: ToolChange, owner: Connection, as_owner: SqlStore
) -> None:
    with refused(owner, by="tool_change_begins_open"):
        make.make_tool_change(store=as_owner, closed_at=soon(0), closed_as="refused")
    with refused(owner, by="tool_change_closed_as_something"):
        as_owner.update(change, closed_at=soon(0))


# -- what a version says -----------------------------------------------------------------------------------------------


def test_a_digest_that_is_not_the_definitions_is_refused(owner: Connection, as_owner: SqlStore) -> None:
    definition = stored_tool(bytes(make.make_tool(store=as_owner).definition))
    with refused(owner, by="tool_digest_is_its_own"):
        make.make_version(definition=definition, version=2, digest=make.NO_DIGEST, store=as_owner)
    with refused(owner, by="tool_change_digest_is_its_own"):
        make.make_tool_change(store=as_owner, digest=make.NO_DIGEST)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("tool", "another"),
        ("is_read_only", True),
        ("is_idempotent", True),
        ("is_optimistic", True),
        ("mode", "push"),
        ("required_paths", ["production"]),
        ("trusted_path", "replica"),
        ("grant_approvals", 0),
        ("max_grant_ttl_s", 86_400),
    ],
)
def test_a_column_that_says_something_else_than_the_definition_is_refused(
    column: str, value: object, owner: Connection, as_owner: SqlStore
) -> None:
    """The other guards read the columns: a policy that only they have would fence nothing."""
    tool = make.make_tool(store=as_owner)
    definition = stored_tool(bytes(tool.definition))
    with refused(owner, by="tool_columns_say_the_definition"):
        make.make_version(
            definition=definition, version=1 if column == "tool" else 2, store=as_owner, **{column: value}
        )


def test_versions_have_their_numbers_in_order(owner: Connection, as_owner: SqlStore) -> None:
    tool = make.make_tool(store=as_owner)
    definition = stored_tool(bytes(tool.definition))
    with refused(owner, by="tool_versions_in_order"):
        make.make_version(definition=definition, version=3, store=as_owner)
    with refused(owner, by="tool_version_once"):
        make.make_version(definition=definition, version=1, store=as_owner)


# -- where it is production --------------------------------------------------------------------------------------------


def test_outside_production_a_weaker_version_becomes_current_at_once(owner: Connection, as_owner: SqlStore) -> None:
    change = make.make_tool_change(store=as_owner)
    with allowed(owner):
        becoming(change, as_owner, change=None)


def test_outside_production_too_a_change_becomes_current_with_its_approvals(
    owner: Connection, as_owner: SqlStore
) -> None:
    change = make.make_tool_change(store=as_owner)
    with refused(owner, by="tool_change_approved"):
        becoming(change, as_owner)


def test_where_nobody_recorded_the_mode_it_is_production(owner: Connection, as_owner: SqlStore) -> None:
    owner.execute("ALTER TABLE fencing_deployment DISABLE TRIGGER USER")
    owner.execute("DELETE FROM fencing_deployment")
    change = make.make_tool_change(store=as_owner)
    with refused(owner, by="tool_change_approved"):
        becoming(change, as_owner, change=None)


def test_a_database_of_production_stays_one(production: None, owner: Connection) -> None:
    with refused(owner, by="deployment_stays_production"):
        owner.execute("UPDATE fencing_deployment SET mode = 'local'")
    with refused(owner, by="deployment_is_one"):
        owner.execute("INSERT INTO fencing_deployment (id, mode) VALUES (2, 'local')")


@pytest.mark.parametrize("role", ["fence_app", "fence_fencer"])
def test_web_and_workers_do_not_say_what_is_production(role: str, connect_as: Connect) -> None:
    connection = connect_as(role)
    for statement in (
        "UPDATE fencing_deployment SET mode = 'local'",
        "INSERT INTO fencing_deployment (id, mode) VALUES (3, 'local')",
    ):
        with forbidden(connection):
            connection.execute(sql.SQL(statement))


# -- the two readers of the rule ---------------------------------------------------------------------------------------


@hypothesis(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(tools(), tools())
def test_the_database_judges_a_change_as_the_core_does(
    production: None, owner: Connection, as_owner: SqlStore, older: ToolDefinition, newer: ToolDefinition
) -> None:
    judge(owner, as_owner, older, newer)


def test_the_database_judges_each_changed_member_as_the_core_does(
    production: None, owner: Connection, as_owner: SqlStore
) -> None:
    for older, newer in changed():
        judge(owner, as_owner, older, newer)


def judge(owner: Connection, store: SqlStore, older: ToolDefinition, newer: ToolDefinition) -> None:
    """Make one the version after the other, unless the core says that this waits; and undo it."""
    owner.execute("SAVEPOINT before")
    make.make_version(definition=older, store=store)
    if weakenings(older, newer):
        with refused(owner, by="tool_change_approved"):
            make.make_version(definition=newer, version=2, store=store)
    else:
        with allowed(owner):
            make.make_version(definition=newer, version=2, store=store)
    owner.execute("ROLLBACK TO SAVEPOINT before")


def test_a_member_that_the_database_does_not_know_weakens(
    production: None, owner: Connection, as_owner: SqlStore
) -> None:
    tool = make.make_tool(store=as_owner)
    for path in (("retries",), ("policy", "retries")):
        written = json.loads(bytes(tool.definition))
        place = written if len(path) == 1 else written[path[0]]
        place[path[-1]] = 5
        raw = canonical_bytes(written)
        with refused(owner, by="tool_change_approved"):
            store_raw(as_owner, stored_tool(bytes(tool.definition)), raw)


def store_raw(store: SqlStore, definition: ToolDefinition, raw: bytes) -> None:
    """Store bytes that no reader would let through, under the columns of a definition."""
    row = ToolVersion(
        tool=definition.tool, version=2, definition=raw, digest=digest_of(raw), is_read_only=definition.is_read_only,
        is_idempotent=definition.idempotent, is_optimistic=definition.optimistic, mode=definition.mode.value,
        required_paths=list(definition.policy.required_paths), trusted_path=definition.policy.trusted_path,
        grant_approvals=definition.policy.grant_approvals, max_grant_ttl_s=definition.policy.max_grant_ttl_s,
    )  # fmt: skip
    store.insert(row)
