"""Who may call what: from the `Authorization` header to a caller whose role and rate allow the call (H1, N8)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest

from fencing.api.bodies import body_of
from fencing.api.limits import BUCKETS, HELD
from fencing.protocol import strict_json
from fencing.protocol.callers import KEY_ROLES, Caller, Role
from fencing.protocol.errors import Code, Refusal
from fencing.services.credentials import authenticate
from fencing.services.side_log import record_refusals, subject_of
from fencing.services.tallies import PENDING

ANY: Final = KEY_ROLES
ANY_BUT_PATH: Final = ANY - {Role.PATH}
WATCHERS: Final = frozenset({Role.AUDITOR, Role.ONCALL, Role.REVIEWER})
PEOPLE: Final = frozenset({Role.ONCALL, Role.REVIEWER})


def admit(request: HttpRequest, roles: frozenset[Role], names: Mapping[str, object]) -> Caller | Refusal:
    """Tell whose key this is and whether it may make this call; `names` are those in the address.

    An auditor may make every GET. A wrong role goes to the side log; a missing key and a key that calls too often are
    counted, or whoever floods the door would also flood the log (N7).
    """
    caller = _authenticate(request)
    if isinstance(caller, Refusal):
        return caller
    # A waiting read that runs again was let in and counted when it arrived.
    if not getattr(request, "is_rerun", False) and (refusal := BUCKETS.take(caller)) is not None:
        PENDING.add("rate_limited")
        HELD.hold(request.META.get("HTTP_AUTHORIZATION", "").encode(), refusal)
        return refusal
    if caller.role in roles or (caller.role is Role.AUDITOR and request.method == "GET"):
        return caller
    return _forbidden(request, caller, roles, names)


def address_of(request: HttpRequest) -> str:
    """Where a request came from: the peer, or what the operator's own proxy says of it (the last address it added)."""
    return address_from(request.META.get("REMOTE_ADDR", ""), request.META.get("HTTP_X_FORWARDED_FOR"))


def address_from(peer: str, forwarded: str | None) -> str:
    """Read an address out of the peer's and the header that proxies write."""
    if settings.SECURE_PROXY_SSL_HEADER and forwarded is not None:
        peer = forwarded.rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(peer)) if peer else ""
    except ValueError:
        return ""


def _authenticate(request: HttpRequest) -> Caller | Refusal:
    header = request.META.get("HTTP_AUTHORIZATION")
    origin = {"address": address_of(request), "request_id": getattr(request, "request_id", "")}
    try:
        return authenticate(header, **origin)
    except (OperationalError, InterfaceError):
        # The database may have closed a connection that lay idle. This read is the first query of every call, so a
        # fresh connection and a second try here stand in for a check of each connection before each call.
        connection.close()
        return authenticate(header, **origin)


def _forbidden(request: HttpRequest, caller: Caller, roles: frozenset[Role], names: Mapping[str, object]) -> Refusal:
    may = ", ".join(sorted(roles))
    detail = f"A key of the role {caller.role} may not make this call; it takes {may}."
    refusal = Refusal(code=Code.FORBIDDEN_ROLE, detail=detail)
    body = body_of(request)
    told = strict_json.parse(body.data) if body.data else None
    record_refusals([(refusal, subject_of({**names, **told} if isinstance(told, dict) else names), body.kept)], caller)
    BUCKETS.charge(caller, refused=1, length=body.length)
    return refusal
