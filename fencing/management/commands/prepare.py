"""`manage.py prepare`: what has to be there before web and workers start. `up` runs it; so does a deployment."""

import secrets
from typing import Any

import psycopg
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from fencing.models.deployment import record_mode
from fencing.models.guards import missing_guards
from fencing.models.privileges import grant_to_roles
from fencing.models.sql import install_functions
from fencing.services.signing import ensure_keys

ADMINISTRATOR = "admin"


class Command(BaseCommand):
    """Bring the schema up to date, make signing keys and the first administrator; safe to repeat."""

    requires_system_checks = []  # they load every page and route; `check` is for that
    help = "Migrate, make the signing keys, and create the first administrator (its password is printed once)."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._migrate()
            ensure_keys()
            self._ensure_administrator()
        except OperationalError as error:
            if isinstance(error.__cause__, psycopg.errors.DiskFull):
                raise CommandError("the disk of the database is full; free some space and start again") from error
            raise

    def _migrate(self) -> None:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if plan:
            self.stdout.write(f"applying {len(plan)} migrations")
            call_command("migrate", verbosity=0, interactive=False)
        else:
            # These follow the code and the settings, not the migrations, and a role may have come since.
            install_functions()
            record_mode()
            grant_to_roles()
        missing = missing_guards(connection)
        if missing:
            raise CommandError("the database lacks guards that keep the invariants: " + "; ".join(missing))

    def _ensure_administrator(self) -> None:
        users = get_user_model()
        with transaction.atomic():
            # Two starts at once must not both find no administrator.
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtext('fence first administrator'))")
            if users.objects.filter(is_superuser=True).exists():
                return
            password = secrets.token_urlsafe(18)
            users.objects.create_superuser(ADMINISTRATOR, "", password)
        self.stdout.write(f"created the first administrator: {ADMINISTRATOR}, password {password}")
        self.stdout.write("note it now: it is shown this once and stored nowhere")
