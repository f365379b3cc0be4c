"""Writing a definition: filled in, looked at with what it would change, and only then made current or proposed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from django.conf import settings
from django.contrib import messages
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import Group, caller_of, confirmed_recently, open_to
from dashboard.pages import Page, answer
from dashboard.presenters import tools as presenter
from dashboard.presenters.acts import Act, Change
from dashboard.tool_forms import DecideForm, ListingForm, ToolForm, initial_of, names_of, pretty
from fencing.api.problems import status_of
from fencing.protocol import strict_json
from fencing.protocol.callers import Role
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.explain.tools import explain_review
from fencing.protocol.mcp import Listed, claims_of, read_listing
from fencing.protocol.tools import ToolDefinition, read_tool
from fencing.protocol.weakening import changes
from fencing.queries import tools as query
from fencing.queries.approvers import warnings_of
from fencing.queries.lookback import Lookback, read_lookback
from fencing.services.tool_changes import ChangeTool
from fencing.services.tool_changes import change_tool as change

SALT: Final = "fence.lookback"
# What the proposer saw may be a little old; older figures are read again.
LOOKBACK_S: Final = 3600
UNPROCESSABLE: Final = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The version that is edited: its number (0 for a tool that is new) and its definition."""

    version: int = 0
    definition: ToolDefinition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """A definition that was looked at: what was typed as the reason, what changed meanwhile, what was told."""

    definition: ToolDefinition
    reason: DecideForm | None = None
    changed: tuple[Change, ...] = field(default=())
    is_open: bool = True


NEW: Final = Base()


@open_to(Group.ADMINISTRATOR)
@require_safe
def new_tool(request: HttpRequest) -> HttpResponse:
    """Show the empty form, and where to paste a listing."""
    return _form_page(request, NEW, ToolForm(), listing=ListingForm())


@open_to(Group.ADMINISTRATOR)
@require_safe
def edit_tool(request: HttpRequest, tool: str) -> HttpResponse:
    """Show the form with the current version of a tool."""
    base = _base(tool)
    return _form_page(request, base, ToolForm(initial=initial_of(base.definition), name=tool))


@open_to(Group.ADMINISTRATOR)
@require_POST
def read_tools(request: HttpRequest) -> HttpResponse:
    """Read a listing that was pasted; fill the form with the tool that was chosen. Nothing is set by it (T2)."""
    form = ListingForm(request.POST)
    found = read_listing(form.cleaned_data["listing"]) if form.is_valid() else None
    if isinstance(found, Refusal):
        form.refuse(found)
    if found is None or isinstance(found, Refusal):
        return _form_page(request, NEW, ToolForm(), listing=form, status=UNPROCESSABLE)
    chosen = _chosen(found, request.POST.get("pick", ""))
    if chosen is None:
        known = query.is_registered(each.name for each in found)
        listed = [(place, each, claims_of(each.hints), each.name in known) for place, each in enumerate(found)]
        return _form_page(request, NEW, ToolForm(), listing=form, listed=listed)
    base = _current(chosen.name) or NEW
    filled = initial_of(base.definition) | {
        "args_schema": "" if chosen.input_schema is None else pretty(chosen.input_schema),
        "hints": pretty(chosen.hints),
    }
    if base.definition is None:
        filled["tool"] = names_of(chosen.name)
    claimed = claims_of(chosen.hints)
    return _form_page(request, base, ToolForm(initial=filled, name=_name(base)), claimed=claimed, is_filled=True)


@open_to(Group.ADMINISTRATOR)
@require_POST
def review_new_tool(request: HttpRequest) -> HttpResponse:
    """Look at a new tool before it is registered."""
    return _reviewed(request, NEW)


@open_to(Group.ADMINISTRATOR)
@require_POST
def review_tool(request: HttpRequest, tool: str) -> HttpResponse:
    """Look at what a change of a tool does, and what it would have made of the last week."""
    return _reviewed(request, _base(tool))


def _show_new(request: HttpRequest, typed: QueryDict) -> HttpResponseBase:
    return _show_again(request, typed, NEW)


def _show_change(request: HttpRequest, typed: QueryDict, tool: str) -> HttpResponseBase:
    return _show_again(request, typed, _base(tool))


@open_to(Group.ADMINISTRATOR)
@confirmed_recently("register the tool", show=_show_new)
@require_POST
def register_tool(request: HttpRequest) -> HttpResponse:
    """Register a tool that was looked at."""
    return _change(request, NEW)


@open_to(Group.ADMINISTRATOR)
@confirmed_recently("change the tool", show=_show_change)
@require_POST
def change_tool(request: HttpRequest, tool: str) -> HttpResponse:
    """Make a change that was looked at: at once, or for a second administrator to approve."""
    return _change(request, _base(tool))


# -- steps of the way --------------------------------------------------------------------------------------------------


def _reviewed(request: HttpRequest, base: Base) -> HttpResponse:
    form = ToolForm(request.POST, name=_name(base))
    if not form.is_valid() or form.definition is None:
        return _form_page(request, base, form, status=UNPROCESSABLE)
    return _review_page(request, _of_now(base, form.definition), Reviewed(definition=form.definition))


def _show_again(request: HttpRequest, typed: QueryDict, base: Base) -> HttpResponse:
    """Show what was to be sent before the person confirmed, looked at anew."""
    definition = _definition(typed.get("definition", ""), base)
    reason = DecideForm(act="change", initial={"reason": typed.get("reason", "")})
    return _review_page(request, _of_now(base, definition), Reviewed(definition=definition, reason=reason))


def _change(request: HttpRequest, base: Base) -> HttpResponse:
    caller = caller_of(request, Role.ADMINISTRATOR)
    definition = _definition(request.POST.get("definition", ""), base)
    form = DecideForm(request.POST, act="change")
    if not form.is_valid():
        return _review_page(request, base, Reviewed(definition=definition, reason=form), status=UNPROCESSABLE)
    seen = request.POST.get("seen", "")
    asked = ChangeTool(
        definition=definition.as_json(),
        seen=int(seen) if seen.isascii() and seen.isdecimal() and len(seen) < 10 else 0,  # noqa: PLR2004 - a billion
        digest=request.POST.get("digest", ""),
        reason=form.cleaned_data["reason"],
        lookback=_lookback_seen(request.POST.get("lookback", ""), base, definition),
    )
    result = change(asked, caller)
    if isinstance(result, Refusal):
        return _refused(request, base, result, Reviewed(definition=definition, reason=form), asked.seen)
    body = result.body
    if body["state"] == "pending":
        told = "It waits already" if body.get("duplicate") else "Proposed"
        messages.success(request, f"{told}. Another administrator has to read and approve it before it is current.")
        return redirect(f"{reverse('dashboard:tool_change', args=[str(body['change'])])}#main")
    if body.get("duplicate"):
        messages.info(request, f"Version {body['version']} says this already: nothing was changed.")
    else:
        messages.success(request, f"Stored as version {body['version']}. Steps proposed from now on are under it.")
    return redirect(f"{reverse('dashboard:tool', args=[definition.tool])}#main")


def _refused(request: HttpRequest, base: Base, refusal: Refusal, shown: Reviewed, seen: int) -> HttpResponse:
    messages.error(request, f"Nothing was done. {refusal.detail}")
    now = _of_now(base, shown.definition)
    if refusal.code is Code.CHANGED and now.definition is not None:
        shown = replace(shown, changed=_meanwhile(now, seen))
    return _review_page(request, now, shown, status=status_of(refusal))


def _meanwhile(now: Base, seen: int) -> tuple[Change, ...]:
    """Tell what somebody else changed, member by member, between the version that was seen and the current one."""
    assert now.definition is not None  # noqa: S101 - asked by the caller
    was = query.read_version(now.definition.tool, seen) if seen else None
    version = Change(what="version", seen=str(seen) if seen else "not registered", now=str(now.version))
    if was is None:
        return (version,)
    found = changes(was.definition, now.definition)
    return (version, *(Change(what=each.pointer, seen=each.was, now=each.now) for each in found))


def _base(tool: str) -> Base:
    base = _current(tool)
    if base is None:
        raise Http404(f"There is no tool {tool}.")
    return base


def _current(tool: str) -> Base | None:
    found = query.current_definition(tool)
    return None if found is None else Base(version=found[0], definition=found[1])


def _of_now(base: Base, definition: ToolDefinition) -> Base:
    """Compare a definition with what is current of its tool: one that was new may be registered meanwhile."""
    return _current(definition.tool) or base


def _name(base: Base) -> str | None:
    return None if base.definition is None else base.definition.tool


def _definition(text: str, base: Base) -> ToolDefinition:
    """Read the definition that a form carries. It was written by this page: what cannot be read was not."""
    value = strict_json.parse(text.encode("utf-8", "replace"))
    read = value if isinstance(value, Refusal) else read_tool(value, plain_http_hosts=settings.FENCE_TOOL_HOSTS)
    if isinstance(read, Refusal) or _name(base) not in (None, read.tool):
        raise Http404("The form holds no definition of this tool: open it again.")
    return read


def _chosen(found: tuple[Listed, ...], pick: str) -> Listed | None:
    if len(found) == 1:
        return found[0]
    is_place = pick.isascii() and pick.isdecimal() and len(pick) < 6 and int(pick) < len(found)  # noqa: PLR2004
    return found[int(pick)] if is_place else None


# -- pages -------------------------------------------------------------------------------------------------------------


def _form_page(request: HttpRequest, base: Base, form: ToolForm, *, status: int = 200, **more: Any) -> HttpResponse:
    return _answer(request, base, {"form": form, **more}, status)


def _review_page(request: HttpRequest, base: Base, shown: Reviewed, *, status: int = 200) -> HttpResponse:
    definition = shown.definition
    found = () if base.definition is None else changes(base.definition, definition)
    lookback = None if base.definition is None or not found else read_lookback(base.definition, definition)
    weakenings = sum(each.weakens for each in found)
    context = {
        "form": ToolForm(initial=initial_of(definition), name=_name(base)),
        "review": {
            "sentence": explain_review(
                tool=definition.tool, version=base.version, weakenings=weakenings, differences=len(found)
            ),
            "differences": presenter.differences(found),
            "warnings": warnings_of(definition),
            "lookback": None if lookback is None else presenter.lookback_view(lookback, definition.tool),
            "digest": definition.digest,
            "whole": definition.as_json(),
            "is_new": base.definition is None,
            "act": _act(base, shown, weakenings=weakenings, lookback=lookback)
            if found or base.definition is None
            else None,
        },
    }
    return _answer(request, base, context, status)


def _act(base: Base, shown: Reviewed, *, weakenings: int, lookback: Lookback | None) -> Act:
    tool = shown.definition.tool
    seen = {
        "definition": json.dumps(shown.definition.as_json(), ensure_ascii=False, separators=(",", ":")),
        "digest": shown.definition.digest,
        "seen": str(base.version),
    }
    if lookback is not None:
        seen["lookback"] = signing.dumps(lookback.as_json(), salt=SALT, compress=True)
    short = tool if len(tool) <= 32 else f"{tool[:20]}…{tool[-8:]}"  # noqa: PLR2004 - the width of a button
    if base.definition is None:
        opens, says, url = "Register it…", f"Register {short}", reverse("dashboard:register_tool")
    elif weakenings:
        opens, says = "Propose it…", f"Propose it: {short} fences less"
        url = reverse("dashboard:change_tool", args=[tool])
    else:
        opens, says = "Change it…", f"Make it version {base.version + 1} of {short}"
        url = reverse("dashboard:change_tool", args=[tool])
    return Act(
        id="change",
        opens=opens,
        says=says,
        url=f"{url}#change",
        seen=seen,
        form=shown.reason or DecideForm(act="change"),
        changes=shown.changed,
        is_open=True,
        must_confirm=True,
    )


def _lookback_seen(sealed: str, base: Base, definition: ToolDefinition) -> Mapping[str, Any] | None:
    """The figures that the person saw; read again where they are old, or were not written here."""
    if base.definition is None:
        return None
    try:
        told: dict[str, Any] = signing.loads(sealed, salt=SALT, max_age=LOOKBACK_S)
    except signing.BadSignature:
        return read_lookback(base.definition, definition).as_json()
    return told


def _answer(request: HttpRequest, base: Base, context: Mapping[str, Any], status: int) -> HttpResponse:
    tool = _name(base)
    full = {
        "tool": tool,
        "version": base.version,
        "review_url": reverse("dashboard:review_new_tool")
        if tool is None
        else reverse("dashboard:review_tool", args=[tool]),
        **context,
    }
    title = "New tool" if tool is None else f"Change {tool}"
    return answer(request, "dashboard/tool_form.html", Page(title=title, place="tools"), full, status=status)
