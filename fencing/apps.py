"""The Django app of the engine."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class FencingConfig(AppConfig):
    """Tables, services and commands of the fence."""

    name = "fencing"
    verbose_name = "Fence"

    def ready(self) -> None:
        """Have every migrate replace the functions, record the mode, and give the roles their privileges anew."""
        from fencing.models.deployment import record_mode  # noqa: PLC0415 - models are ready only now
        from fencing.models.privileges import grant_to_roles  # noqa: PLC0415 - models are ready only now
        from fencing.models.sql import begin_counts, install_functions  # noqa: PLC0415 - models are ready only now

        post_migrate.connect(install_functions, sender=self, dispatch_uid="fencing.functions")
        post_migrate.connect(begin_counts, sender=self, dispatch_uid="fencing.counts")
        post_migrate.connect(record_mode, sender=self, dispatch_uid="fencing.mode")
        post_migrate.connect(grant_to_roles, sender=self, dispatch_uid="fencing.privileges")
