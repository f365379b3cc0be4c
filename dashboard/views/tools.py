"""The registry of tools, and one tool: what the fence asks of it, and how that came to be."""

from __future__ import annotations

from functools import cache
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from dashboard.access import ANY_GROUP, open_to, reader_of, why_not
from dashboard.pages import Page, answer
from dashboard.paging import read_page
from dashboard.presenters import tools as presenter
from dashboard.presenters.lists import Filter, FilterBar, choices, pager
from fencing.protocol.callers import Role
from fencing.protocol.explain.tools import explain_tool
from fencing.protocol.tool_changes import State
from fencing.queries import tools as query
from fencing.queries.pages import Filters

LIMIT: Final = 50
VERSIONS: Final = 20
SHORT_SCHEMA: Final = 800
EFFECTS: Final = (("side_effecting", "side-effecting"), ("read_only", "read-only"))
MODES: Final = (("pull", "pull"), ("push", "push"))


@open_to(ANY_GROUP)
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    """List the tools, the one that was changed last first, and the changes that wait."""
    reader_of(request)
    wanted = _wanted(request)
    lines, following = read_page(request, lambda page: query.list_tool_lines(wanted, page), LIMIT)
    context = {
        "lines": [
            (line, presenter.tool_mark(line.definition), presenter.policy_in_short(line.definition),
             presenter.traits(line.definition))
            for line in lines
        ],
        "waiting": cache(lambda: [(line, presenter.change_mark(line)) for line in query.waiting_changes()]),
        "count": cache(query.count_tools),
        "bar": _bar(request),
        "is_filtered": bool(wanted),
        "why_not_new": why_not(request.user, Role.ADMINISTRATOR),
        "pager": pager(
            shown=len(lines),
            what="tool" if len(lines) == 1 else "tools",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=following,
        ),
    }  # fmt: skip
    parts = {"waiting": "dashboard/tools/waiting.html", "rows": "dashboard/tools/rows.html"}
    return answer(request, "dashboard/tools.html", Page(title="Tools", place="tools", parts=parts), context)


@open_to(ANY_GROUP)
@require_safe
def tool(request: HttpRequest, tool: str) -> HttpResponse:
    """Show one tool: its current version, the changes of it that wait, and its versions."""
    reader_of(request)
    found = None if "\x00" in tool else query.read_tool_page(tool)
    if found is None:
        raise Http404(f"There is no tool {tool}.")
    definition = found.line.definition
    versions, following = read_page(request, lambda page: query.list_versions(tool, page), VERSIONS)
    context = {
        "tool": tool,
        "line": found.line,
        "definition": definition,
        "sentence": explain_tool(definition),
        "mark": presenter.tool_mark(definition),
        "traits": presenter.traits(definition),
        "policy": presenter.policy_facts(definition),
        "claims": presenter.claims(definition),
        "hints": dict(definition.hints),
        "schema": definition.args_schema,
        "is_short": len(str(definition.args_schema)) < SHORT_SCHEMA,
        "version_words": f"version {found.line.version}",
        "whole": definition.as_json(),
        "waiting": [(line, presenter.change_mark(line)) for line in found.waiting],
        "versions": [(line, presenter.differences(line.changes)) for line in versions],
        "why_not_edit": why_not(request.user, Role.ADMINISTRATOR),
        "pager": pager(
            shown=len(versions),
            what="version" if len(versions) == 1 else "versions",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=following,
        ),
    }
    return answer(request, "dashboard/tool.html", Page(title=tool, place="tools"), context)


@open_to(ANY_GROUP)
@require_safe
def tool_changes(request: HttpRequest) -> HttpResponse:
    """List every change that ever waited for a second administrator."""
    reader_of(request)
    state, name = _text(request, "state"), _text(request, "tool")
    wanted = {key: value for key, value in (("state", state), ("tool", name)) if value}
    lines, following = read_page(request, lambda page: query.list_changes(wanted, page), LIMIT)
    states = choices([(each.value, "waits" if each is State.PENDING else each.value) for each in State], state)
    context = {
        "lines": [(line, presenter.change_mark(line)) for line in lines],
        "is_filtered": bool(wanted),
        "bar": FilterBar(
            filters=(
                Filter(name="state", label="State", value=state, choices=states),
                Filter(name="tool", label="Tool", value=name, hint="refund"),
            ),
            clear_url=request.path,
        ),
        "pager": pager(
            shown=len(lines),
            what="change" if len(lines) == 1 else "changes",
            path=request.path,
            query=request.GET.dict(),
            next_cursor=following,
        ),
    }
    parts = {"rows": "dashboard/tool_changes/rows.html"}
    page = Page(title="Changes of tools", place="tools", parts=parts)
    return answer(request, "dashboard/tool_changes.html", page, context)


def _wanted(request: HttpRequest) -> Filters:
    given = {"part": _text(request, "tool"), "effect": _text(request, "effect"), "mode": _text(request, "mode")}
    found: dict[str, object] = {name: text for name, text in given.items() if text}
    if _text(request, "waiting"):
        found["waiting"] = True
    return found


def _text(request: HttpRequest, name: str) -> str:
    # PostgreSQL text holds no U+0000, and nothing that is stored has one.
    return request.GET.get(name, "").strip().replace("\x00", "")


def _bar(request: HttpRequest) -> FilterBar:
    value = {name: _text(request, name) for name in ("tool", "effect", "mode", "waiting")}
    waits = choices([("yes", "with a change that waits")], value["waiting"])
    return FilterBar(
        filters=(
            Filter(name="tool", label="Name has", value=value["tool"], hint="refund"),
            Filter(name="effect", label="Effect", value=value["effect"], choices=choices(EFFECTS, value["effect"])),
            Filter(name="mode", label="Delivery", value=value["mode"], choices=choices(MODES, value["mode"])),
            Filter(name="waiting", label="Changes", value=value["waiting"], choices=waits),
        ),
        clear_url=request.path,
    )
