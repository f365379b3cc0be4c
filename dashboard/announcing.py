"""What stands at the top of every page: what is frozen, and for those on call, which path is silent."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.urls import reverse
from django.utils import timezone

from dashboard.access import Group, groups_of
from dashboard.presenters.freezes import sentence_of
from dashboard.presenters.outages import silence_sentence
from fencing.protocol.explain.wording import Sentence
from fencing.queries.freezes import live_freezes
from fencing.queries.silence import silent_paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """One line at the top of a page."""

    id: str
    kind: str
    sentence: Sentence
    url: str
    verb: str


def banners_for(person: AbstractBaseUser | AnonymousUser, path: str = "") -> list[Banner]:
    """Give what a person has to know wherever they are: two queries at most, over what hardly ever has a row.

    `path` is where they are: no line leads to the page that it stands on. Who is not on call reads of a silent path on
    the overview alone.
    """
    groups = groups_of(person)
    if not groups:
        return []
    now = timezone.now()
    found = [
        Banner(
            id=f"freeze-{freeze.id}",
            kind="frozen",
            sentence=sentence_of(freeze, now),
            url=reverse("dashboard:freeze", args=[freeze.id]),
            verb="Look at it",
        )
        for freeze in live_freezes()
    ]
    if Group.ONCALL in groups or path == reverse("dashboard:overview"):
        found += [
            Banner(
                id=f"silent-{silence.path}",
                kind="silent",
                sentence=silence_sentence(silence, now),
                url=reverse("dashboard:outage", args=[silence.path]),
                verb="See the steps",
            )
            for silence in silent_paths()
        ]
    return [banner for banner in found if banner.url != path]
