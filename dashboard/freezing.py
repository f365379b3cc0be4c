"""The freeze in two taps: the same act on the overview, a step, a run and a tool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.urls import reverse

from dashboard.access import why_not
from dashboard.grant_forms import FreezeForm
from dashboard.presenters.acts import Act
from fencing.protocol.callers import Role
from fencing.services.requests import FreezeScope

EVERYTHING: Final = "everything"
TOOL: Final = "tool:"
RUN: Final = "run:"
SHORT: Final = 40


def scopes(*, tool: str = "", run: str = "", others: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Give what can be frozen from a place, the narrowest first: it is the one that is chosen already."""
    here = [(f"{TOOL}{tool}", f"the tool {tool}, in every run")] if tool else []
    here += [(f"{RUN}{run}", f"the run {run}, every tool")] if run else []
    rest = [(f"{TOOL}{each}", f"the tool {each}, in every run") for each in others if each != tool]
    return [*here, (EVERYTHING, "everything: every tool, every run"), *rest]


def scope_of(choice: str) -> FreezeScope | None:
    """Read a choice as the scope that the service takes; None where it is none of ours."""
    if choice.startswith(TOOL) and len(choice) > len(TOOL):
        return {"tool": choice.removeprefix(TOOL)}
    if choice.startswith(RUN) and len(choice) > len(RUN):
        return {"run": choice.removeprefix(RUN)}
    return {} if choice == EVERYTHING else None


def freeze_act(
    person: AbstractBaseUser | AnonymousUser, choices: list[tuple[str, str]], form: FreezeForm | None = None
) -> Act:
    """Make the act: one tap opens it, one does it; between them stands the reason."""
    what = choices[0][1] if len(choices) == 1 else "it"
    return Act(
        id="freeze",
        opens="Freeze…",
        says=f"Freeze {what if len(what) <= SHORT else 'it'} now",
        url=reverse("dashboard:set_freeze"),
        form=form or FreezeForm(choices),
        explains=(
            "From this moment nothing of it is admitted, and its grants are void. What is out already is listed. "
            "Another person lifts it."
        ),
        why_not=why_not(person, Role.ONCALL),
        is_open=form is not None,
        must_confirm=True,
    )
