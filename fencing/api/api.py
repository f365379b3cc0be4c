"""`/api/v1` as one object of django-ninja: the routers, the document and its page."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from ninja import NinjaAPI, Swagger
from ninja.openapi.schema import OpenAPISchema

from fencing.api.document import OBJECTS
from fencing.api.routes import (
    attempts,
    authority,
    compensations,
    evidence,
    forks,
    freezes,
    gateway,
    grants,
    incidents,
    intents,
    lanes,
    logs,
    runs,
    steps,
)

DESCRIPTION: Final = """
The fence between agents and the world: planners propose, paths vote, the fencer decides, the gateway admits.

Every call may be repeated: the same identity with the same content has the same answer. Errors are
`application/problem+json` with a `code`. Calls that take `{"items": […]}` answer with `{"results": […]}`, one for each
item in order.
"""


class FenceAPI(NinjaAPI):
    """Adds the protocol's objects to the document, which is made once: it depends on nothing but the code."""

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """The OpenAPI document."""
        del path_prefix, path_params
        return self._document

    @cached_property
    def _document(self) -> OpenAPISchema:
        document = super().get_openapi_schema(path_prefix=None, path_params=None)
        document["components"] = {
            "schemas": dict(OBJECTS),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key of one role (H1)."}},
        }
        return document


api = FenceAPI(
    title="Fence",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api",
    # The page's assets are served from here; this would make it ask a host of somebody else about the document.
    docs=Swagger(settings={"validatorUrl": None}),
)
for _router in (
    runs.router,
    steps.router,
    forks.router,
    grants.router,
    freezes.router,
    authority.router,
    gateway.router,
    intents.router,
    incidents.router,
    compensations.router,
    lanes.router,
    attempts.router,
    logs.router,
    evidence.router,
):
    api.add_router("", _router)
