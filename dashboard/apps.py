"""The Django app of the pages."""

from django.apps import AppConfig, apps
from django.core.checks import Tags, register
from django.db.models.signals import post_migrate


class DashboardConfig(AppConfig):
    """Pages over the engine: views and presenters, no models."""

    name = "dashboard"
    verbose_name = "Dashboard"

    def ready(self) -> None:
        """Have every migrate make sure that the groups of people are there, and a deployment that its files are."""
        from dashboard.checks import check_static_files  # noqa: PLC0415 - settings are read only now
        from dashboard.door import arrivals  # noqa: PLC0415 - models are ready only now
        from dashboard.people import make_groups  # noqa: PLC0415 - the same

        arrivals.connect()
        register(check_static_files, Tags.staticfiles, deploy=True)
        # Django tells nobody that an app without models was migrated, so the one that owns the table it is.
        post_migrate.connect(make_groups, sender=apps.get_app_config("auth"), dispatch_uid="dashboard.groups")
