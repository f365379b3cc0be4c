"""The groups of people as rows: made with the schema, so that an administrator finds them."""

from django.contrib.auth.models import Group as GroupRow

from dashboard.access import Group


def make_groups(*, using: str = "default", **_: object) -> None:
    """Create the groups that are missing. A receiver of `post_migrate`; safe to repeat."""
    for group in Group:
        GroupRow.objects.using(using).get_or_create(name=group.value)
