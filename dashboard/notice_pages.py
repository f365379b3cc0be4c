"""Where the object of a notice is: what the engine names ("grant night-shift-3") as an address of these pages."""

from __future__ import annotations

from urllib.parse import quote

from django.urls import NoReverseMatch, reverse
from django.utils.http import url_has_allowed_host_and_scheme


def address_of(page: str) -> str:
    """Give the address that a notice leads to; empty where this version has no such page."""
    if page.startswith("/"):
        return page if url_has_allowed_host_and_scheme(page, allowed_hosts=None) else ""
    view, *names = page.split(" ") if page else [""]
    query = names.pop() if names and names[-1].startswith("?") else ""
    try:
        return reverse(f"dashboard:{view}", args=names) + quote(query, safe="?=&")
    except NoReverseMatch:
        return ""
