"""Every address of the site, in one place. `ApiMiddleware` answers for the first group before anything else does."""

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("fencing.api.urls")),
    path("", include("dashboard.door.urls")),
    path("", include("dashboard.urls")),
]

handler403 = "dashboard.views.forbidden"
handler404 = "dashboard.views.not_found"
handler429 = "dashboard.views.too_many"
handler500 = "dashboard.views.server_error"
