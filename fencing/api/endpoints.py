"""How a call becomes a route of django-ninja: it routes and documents; reading and answering is ours (`calls`)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Router

from fencing.api.calls import Export, Names, Read, Write, play_read, play_write
from fencing.api.document import Schema, tell_read, tell_write

_NAME: Final = re.compile(r"{(?:\w+:)?(\w+)}")


def write(router: Router, path: str, call: Write[Any], *, answer: Schema, is_creation: bool = False) -> None:
    """Register a POST. Its documentation is the docstring of the service's adapter."""

    def view(request: HttpRequest, **names: str) -> HttpResponse:
        return play_write(request, call, names)

    told = tell_write(call.form, answer, has_bulk=call.has_bulk, is_creation=is_creation)
    register(router, "POST", path, view, call, call.service, told)


def read(router: Router, path: str, call: Read[Any], *, answer: Schema) -> None:
    """Register a GET. Its documentation is the docstring of the query's adapter."""

    def view(request: HttpRequest, **names: str) -> HttpResponse:
        return play_read(request, call, names)

    told = tell_read(call.form, answer, is_found_by_name="{" in path)
    register(router, "GET", path, view, call, call.query, told)


def register(
    router: Router,
    method: str,
    path: str,
    view: Callable[..., HttpResponseBase],
    call: Write[Any] | Read[Any] | Export[Any],
    adapter: Callable[..., Any],
    told: dict[str, Any],
) -> None:
    """Give a view to the router, with what the document says of it."""
    names: Names = dict.fromkeys(_NAME.findall(path), "")
    request = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=HttpRequest)
    given = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=str) for name in names]
    view.__signature__ = inspect.Signature([request, *given])  # type: ignore[attr-defined]
    view.__name__ = adapter.__name__
    roles = ", ".join(sorted(call.roles)) + (" (an auditor too)" if method == "GET" else "")
    router.add_api_operation(
        path,
        [method],
        view,
        operation_id=adapter.__name__,
        summary=(adapter.__doc__ or "").partition("\n")[0],
        description=f"{inspect.cleandoc(adapter.__doc__ or '')}\n\nRoles: {roles}.",
        openapi_extra={**told, "security": [{"key": []}]},
    )
