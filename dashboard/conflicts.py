"""What changed while somebody looked: the facts that a form showed travel with it and are laid beside the new.

An object whose form still stands shows them there, above a button that names the fresh version. Where nothing is left
to decide (somebody else did it, or it ended), they have a page of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from django.core import signing
from django.http import HttpRequest, HttpResponse

from dashboard.pages import Page, answer
from dashboard.presenters.acts import Act, Change

FIELD: Final = "facts"
SALT: Final = "fence.facts"
CONFLICT: Final = 409
ABSENT: Final = "not there"


def sealed_facts(facts: Mapping[str, str]) -> str:
    """Write facts (word to value) into a hidden field of a form, so that a conflict can show what the person saw."""
    return signing.dumps(dict(facts), salt=SALT, compress=True)


def facts_seen(request: HttpRequest) -> dict[str, str]:
    """Read the facts that a posted form had shown; none where they are missing or were not written here."""
    try:
        told = signing.loads(request.POST.get(FIELD, ""), salt=SALT)
    except signing.BadSignature:
        return {}
    return {str(word): str(value) for word, value in told.items()} if isinstance(told, dict) else {}


def changes_between(seen: Mapping[str, str], now: Mapping[str, str]) -> tuple[Change, ...]:
    """Tell which facts differ, in the order in which they stand now; what is gone comes last."""
    words = [*now, *(word for word in seen if word not in now)]
    return tuple(
        Change(what=word, seen=seen.get(word, ABSENT), now=now.get(word, ABSENT))
        for word in words
        if seen.get(word) != now.get(word)
    )


def has_room(acts: Iterable[Act], act: str) -> bool:
    """Tell whether an object still has the form of an act, in which what changed can stand above the fresh button."""
    return any(each.id == act and not each.why_not for each in acts)


def conflict_page(
    request: HttpRequest, page: Page, *, told: str, changes: tuple[Change, ...], url: str, typed: str = ""
) -> HttpResponse:
    """Answer 409 with a page of its own, where the act that was sent is none that can be done any more.

    `told` is the refusal's sentence, `url` the object, `typed` the reason that was given: it is not lost.
    """
    context = {"told": told, "changes": changes, "url": url, "typed": typed}
    return answer(request, "dashboard/conflict.html", page, context, status=CONFLICT)
