"""Emptying the tables after a test that committed: the one place that switches the guards off (design 10)."""

from __future__ import annotations

from functools import cache
from typing import Any

import psycopg
from django.apps import apps
from psycopg import sql

from fencing.models import Deployment
from fencing.services.heads import heads_file

# What the door keeps of people who stay over a test: factors, sessions, guesses, linked accounts.
OF_PEOPLE = (
    "mfa_authenticator",
    "usersessions_usersession",
    "socialaccount_socialaccount",
    "axes_accessattempt",
    "django_session",
    "django_cache",
)


def empty_tables(owner: psycopg.Connection[Any]) -> None:
    """Remove every row of this app and every person, on a connection of the owner with nothing open beside it."""
    owner.rollback()
    with owner.transaction():
        # Who still holds a row of a test fails it here instead of hanging the run.
        owner.execute("SET LOCAL lock_timeout = '5s'")
        full = [sql.Identifier(name) for (name,) in owner.execute(_which_are_full()).fetchall()]
        for table in full:
            owner.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(table))
            owner.execute(sql.SQL("DELETE FROM {}").format(table))
        for name in OF_PEOPLE:
            owner.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
        owner.execute(
            "DELETE FROM auth_user_groups WHERE user_id IN (SELECT id FROM auth_user WHERE username LIKE 'person-%')"
        )
        owner.execute("DELETE FROM auth_user WHERE username LIKE 'person-%'")
        owner.execute("SET CONSTRAINTS ALL IMMEDIATE")
        # Those alone: each switch makes every connection plan its statements anew.
        for table in full:
            owner.execute(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(table))
    # They tell of seals that are no more.
    heads_file().unlink(missing_ok=True)


@cache
def _which_are_full() -> sql.Composed:
    """The question which tables of this app hold rows, in one statement."""
    # What the migrations recorded of the database is no row of a test.
    names = [model._meta.db_table for model in apps.get_app_config("fencing").get_models() if model is not Deployment]
    each = sql.SQL("SELECT {} WHERE EXISTS (SELECT FROM {})")
    return sql.SQL(" UNION ALL ").join(each.format(sql.Literal(name), sql.Identifier(name)) for name in names)
