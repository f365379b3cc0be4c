"""The machine's own pages: liveness, readiness, figures, public keys. They need no key; the operator binds them."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET
from prometheus_client import CONTENT_TYPE_LATEST

from fencing.api import metrics
from fencing.api.calls import JSON_TYPE
from fencing.api.dependencies import check_all, is_ready
from fencing.api.problems import RETRY_AFTER_S
from fencing.api.rendering import json_bytes
from fencing.models import SigningKey


@require_GET
def healthz(_request: HttpRequest) -> HttpResponse:
    """This process answers. It asks nobody else: a restart of it would not bring a database back."""
    return _json({"status": "alive"})


@require_GET
def readyz(_request: HttpRequest) -> HttpResponse:
    """Whether calls can be taken, and how each dependency is."""
    checks = check_all()
    is_whole = all(check["ok"] for check in checks.values())
    if is_ready(checks):
        return _json({"status": "ready" if is_whole else "degraded", "checks": checks})
    response = _json({"status": "unavailable", "checks": checks}, status=503)
    response["Retry-After"] = str(RETRY_AFTER_S)
    return response


@require_GET
def figures(_request: HttpRequest) -> HttpResponse:
    """Prometheus' figures."""
    return HttpResponse(metrics.exposition(), content_type=CONTENT_TYPE_LATEST)


@require_GET
def jwks(_request: HttpRequest) -> HttpResponse:
    """The public halves of the keys that sign commit tokens, retired ones too: old tokens can still be checked (K2)."""
    keys = [key.public for key in SigningKey.objects.order_by("-created_at", "kid")]
    response = _json({"keys": keys})
    response["Cache-Control"] = "public, max-age=60"
    return response


def _json(value: object, status: int = 200) -> HttpResponse:
    return HttpResponse(json_bytes(value), status=status, content_type=JSON_TYPE)
