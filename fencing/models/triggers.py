"""The kind of trigger that holds an invariant in the database, and those that many tables share.

A guard's function computes `wrong`: null, or what is wrong as `name: rule, sentence`. The template raises it as a
violation of the constraint `name` (SQLSTATE 23000, Django's `IntegrityError`), so that it reads like any other
constraint. The functions that belong to one table stand beside its model.

What a row alone can tell is a guard of the row. What has to be looked up elsewhere is a guard of the statement
(`StatementGuard`): bulk calls write a thousand rows at once. Keep conditions short: PostgreSQL reads the condition of
each trigger that may fire anew for each statement, and a long one costs more than to call the function.

Why not django-pgtrigger's own template: any role switches its triggers off with `SET pgtrigger.ignore`, and its
functions resolve table names by the caller's search path, where a temporary table shadows a real one. A guard asks for
no permission to guard, and reads `public` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pgtrigger
from django.db import models
from pgtrigger import compiler


class GuardSql(compiler.UpsertTriggerSql):
    """The SQL that installs one guard. Migrations refer to this class: a changed template is a new class."""

    def get_template(self) -> str:
        """Return the statement, with the names that `UpsertTriggerSql` fills in."""
        return """
            CREATE OR REPLACE FUNCTION {pgid}() RETURNS TRIGGER
            LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
                {declare}
                BEGIN
                    {func}
                    IF wrong IS NOT NULL THEN
                        RAISE EXCEPTION USING
                            ERRCODE = 'integrity_constraint_violation',
                            CONSTRAINT = split_part(wrong, ':', 1),
                            SCHEMA = TG_TABLE_SCHEMA,
                            TABLE = TG_TABLE_NAME,
                            MESSAGE = wrong;
                    END IF;
                    RETURN NEW;
                END;
            $$;

            DROP TRIGGER IF EXISTS {pgid} ON {table};
            CREATE {constraint} TRIGGER {pgid}
                {when} {operation} ON {table}
                {timing}
                {referencing}
                FOR EACH {level} {condition}
                EXECUTE PROCEDURE {execute};

            COMMENT ON TRIGGER {pgid} ON {table} IS '{hash}';
        """


class LookupGuardSql(GuardSql):
    """The same for a guard that reads tables: by their indexes alone.

    A session keeps the plan of its first call. Made while a table was small, it would read the whole of it once it is
    large; so no plan that reads a table as a whole may come up, whatever the statistics said on that day.
    """

    def get_template(self) -> str:
        """Return the statement, with the planner's other ways closed."""
        path = "SET search_path = pg_catalog, public, pg_temp"
        closed = " ".join(f"SET {way} = off" for way in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin"))
        return super().get_template().replace(path, f"{path} {closed}")


class Guard(pgtrigger.Trigger):
    """A trigger that refuses what would break an invariant. `func` sets `wrong`; `declare` need not name it."""

    when = pgtrigger.Before
    sql: type[GuardSql] = GuardSql

    def get_declare(self, model: models.Model) -> list[tuple[str, str]]:
        """Return the variables of the function: its own, and `wrong`."""
        return [("wrong", "text"), *super().get_declare(model)]

    def compile(self, model: models.Model) -> compiler.Trigger:
        """Return the trigger as migrations keep it, made from this module's template."""
        compiled = super().compile(model)
        given = {name: value for name, value in compiled.sql.kwargs.items() if name != "ignore_func_name"}
        return compiler.Trigger(name=self.name, sql=self.sql(**given))


class LookupGuard(Guard):
    """A guard of single rows that looks something up in other tables."""

    sql = LookupGuardSql


class StatementGuard(LookupGuard):
    """A guard that judges all rows of a statement at once, after they were written: `new_rows`, and before, `old_rows`.

    What it refuses is undone with its statement, and nobody else saw it. Write each look-up of another table as a
    LATERAL subquery with a LIMIT or an aggregate, from `new_rows` outwards: nothing else is sure to use the index.
    Take locks in ascending order of ids (`OFFSET 0` keeps the order), in a statement before the one that reads what
    others may have written under them (design 10).
    """

    level = pgtrigger.Statement
    when = pgtrigger.After

    def __init__(self, *, name: str, operation: pgtrigger.Operation, func: str, **options: Any) -> None:
        old = "old_rows" if operation is pgtrigger.Update else None
        rows = pgtrigger.Referencing(new="new_rows", old=old)  # type: ignore[no-untyped-call]
        super().__init__(name=name, operation=operation, func=func, referencing=rows, **options)


class CountingSql(compiler.UpsertTriggerSql):
    """The SQL that installs one counting trigger. Migrations refer to this class, too."""

    def get_template(self) -> str:
        """Return the statement. It writes as the owner: no role of web or workers may write counts by itself."""
        return """
            CREATE OR REPLACE FUNCTION {pgid}() RETURNS TRIGGER
            LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
                BEGIN
                    {func}
                    RETURN NULL;
                END;
            $$;

            DROP TRIGGER IF EXISTS {pgid} ON {table};
            CREATE TRIGGER {pgid}
                {when} {operation} ON {table}
                {referencing}
                FOR EACH {level} {condition}
                EXECUTE PROCEDURE {execute};

            COMMENT ON TRIGGER {pgid} ON {table} IS '{hash}';
        """


class Counting(pgtrigger.Trigger):
    """A trigger that notes by how much a count moved (`counts.py`). It refuses nothing."""

    when = pgtrigger.After

    def compile(self, model: models.Model) -> compiler.Trigger:
        """Return the trigger as migrations keep it, made from this module's template."""
        compiled = super().compile(model)
        given = {name: value for name, value in compiled.sql.kwargs.items() if name != "ignore_func_name"}
        return compiler.Trigger(name=self.name, sql=CountingSql(**given))


class Unchanged(Guard):
    """Keeps some fields of a row as they are, in the rows that `where` (over OLD and NEW) picks.

    It fires only where a statement names one of their columns, so that updates of other columns pay nothing.
    """

    def __init__(self, *, name: str, fields: Iterable[str], sentence: str, where: str = "true") -> None:
        self.fields = tuple(fields)
        self.sentence = sentence
        self.where = where
        super().__init__(name=name, operation=pgtrigger.Update)

    def compile(self, model: models.Model) -> compiler.Trigger:
        """Return the trigger over the columns of `model`."""
        columns = [str(each.column) for each in model._meta.concrete_fields if each.name in self.fields]
        changed = " OR ".join(self.change(f'OLD."{column}"', f'NEW."{column}"') for column in columns)
        guard = Guard(
            name=self.name,
            operation=update_of(*columns),
            condition=pgtrigger.Condition(f"(({self.where}) AND ({changed}))"),
            func=refused(str(self.name), self.sentence),
        )
        return guard.compile(model)

    def change(self, old: str, new: str) -> str:
        """Write the condition under which one column changed in a way that is refused."""
        return f"{old} IS DISTINCT FROM {new}"


class Fixed(Unchanged):
    """Lets only the `mutable` fields of a row change. What the database roles may update follows from it, too."""

    def __init__(self, *, mutable: Iterable[str]) -> None:
        self.mutable = frozenset(mutable)
        sentence = f"I6, only these may change: {', '.join(sorted(self.mutable))}"
        super().__init__(name="fixed", fields=(), sentence=sentence)

    def compile(self, model: models.Model) -> compiler.Trigger:
        """Return the trigger over every column of `model` that is not named, new ones included."""
        self.fields = tuple(field.name for field in model._meta.concrete_fields if field.name not in self.mutable)
        return super().compile(model)


class WrittenOnce(Unchanged):
    """Lets each of some fields be written where it is null, and never again."""

    def __init__(self, *fields: str) -> None:
        super().__init__(name="written_once", fields=fields, sentence=f"I6, written once: {', '.join(fields)}")

    def change(self, old: str, new: str) -> str:
        """Write the condition under which a value that was there is replaced."""
        return f"({old} IS NOT NULL AND {old} IS DISTINCT FROM {new})"


def update_of(*columns: str) -> pgtrigger.Operation:
    """Make the event of an update that names one of `columns`, whether or not it changes it."""
    return pgtrigger.UpdateOf(*columns)  # type: ignore[no-untyped-call]


def moves(transitions: Mapping[Any, Iterable[Any]], column: str) -> str:
    """Write a table of transitions as SQL: whether `column` may go from its old value to its new one."""
    branches = (
        f"WHEN '{old.value}' THEN NEW.{column} IN ({', '.join(repr(str(new.value)) for new in after)})"
        for old, after in transitions.items()
        if after
    )
    return f"(CASE OLD.{column} {' '.join(branches)} ELSE false END)"


def refused(name: str, sentence: str) -> str:
    """Write the body of a guard that refuses whenever its condition lets it run."""
    return f"wrong := '{name}: {sentence}';"


def append_only() -> list[Guard]:
    """Make the guards of a table of facts: rows are added, and that is all (I6)."""
    name = "append_only"
    return [
        Guard(
            name=name,
            operation=pgtrigger.Update | pgtrigger.Delete,
            func=refused(name, "I6, rows of this table never change and never go"),
        ),
        _never_truncated(),
    ]


def kept(*mutable: str) -> list[Guard]:
    """Make the guards of a table whose rows stay for ever, and change in the `mutable` fields alone (I6)."""
    name = "kept"
    return [
        Guard(name=name, operation=pgtrigger.Delete, func=refused(name, "I6, rows of this table never go")),
        _never_truncated(),
        Fixed(mutable=mutable),
    ]


def mutable_fields(model: type[models.Model]) -> frozenset[str]:
    """Name the fields of `model` that an update may change: none of an append-only table, all of an unguarded one."""
    guards: list[Any] = list(getattr(model._meta, "triggers", []))
    fixed = next((guard for guard in guards if isinstance(guard, Fixed)), None)
    if fixed is not None:
        return fixed.mutable
    return frozenset() if guards else frozenset(field.name for field in model._meta.concrete_fields)


def _never_truncated() -> Guard:
    name = "never_truncated"
    return Guard(
        name=name,
        level=pgtrigger.Statement,
        operation=pgtrigger.Truncate,
        func=refused(name, "I6, this table is never emptied"),
    )
