"""The addresses that are answered without the machinery of pages."""

from django.urls import path

from fencing.api import probes
from fencing.api.api import api

urlpatterns = [
    path("api/v1/", api.urls),
    path("healthz", probes.healthz),
    path("readyz", probes.readyz),
    path("metrics", probes.figures),
    path(".well-known/jwks.json", probes.jwks),
]
