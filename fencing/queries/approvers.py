"""Who could approve what a policy asks to be approved: a warning while it is made, before anybody waits for nobody."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import Count

from fencing.protocol.groups import Group
from fencing.protocol.tools import ToolDefinition


def warnings_of(definition: ToolDefinition) -> list[str]:
    """Say for which approvals of a tool too few active people are in the group that gives them.

    A grant that asks two people needs its issuer and another one on call (G6). Compensations are approved by reviewers,
    each of them another person (P3).
    """
    people = dict(
        User.objects.filter(is_active=True, groups__name__in=[Group.ONCALL.value, Group.REVIEWER.value])
        .values_list("groups__name")
        .annotate(count=Count("pk", distinct=True))
    )
    found = []
    wanted = definition.policy.grant_approvals
    oncall = people.get(Group.ONCALL.value, 0)
    if wanted > 1 and oncall < wanted:
        found.append(
            f"Its grants ask for {wanted} people, and {_active(oncall)} on call: nobody could approve one. It would be"
            " over after 15 minutes, and administrators are told."
        )
    wanted = definition.policy.compensation_approvals
    reviewers = people.get(Group.REVIEWER.value, 0)
    if reviewers < wanted:
        needed = "one reviewer" if wanted == 1 else f"{wanted} reviewers"
        found.append(f"Its compensations ask for {needed}, and {_active(reviewers)} one: nobody could undo an effect.")
    return found


def _active(count: int) -> str:
    return (
        "no active person is" if not count else "one active person is" if count == 1 else f"{count} active people are"
    )
