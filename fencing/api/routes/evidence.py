"""Evidence packs: a zip of everything about one thing, which anybody checks with bare Python (U4)."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from ninja import Router

from fencing.api.access import WATCHERS, admit
from fencing.api.calls import Names, Read
from fencing.api.document import tell_file
from fencing.api.endpoints import register
from fencing.api.forms import Form
from fencing.api.params import Nothing
from fencing.api.problems import not_found, problem
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Refusal
from fencing.protocol.identifiers import is_identifier
from fencing.queries.evidence import Pack, make_pack
from fencing.services.signing import pack_key

router = Router(tags=["logs"])
MOST_PARTS: Final = 3


def get_evidence(_asked: Nothing, _caller: Caller, _names: Names) -> Result:
    """Take an evidence pack: of a step (`run/step/epoch`), a grant. Sensitive members are masked."""
    return Answer(status=OK, body={})


CALL: Final = Read(roles=WATCHERS, form=Form(Nothing, is_query=True), query=get_evidence)


def pack_response(pack: Pack) -> HttpResponse:
    """Answer with a pack."""
    response = HttpResponse(pack.data, content_type="application/zip")
    response["Content-Disposition"] = f'attachment; filename="{pack.name}"'
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def may_be_subject(name: str) -> bool:
    """Whether something could have such a name: identifiers, with slashes between them."""
    parts = name.split("/")
    return len(parts) <= MOST_PARTS and all(is_identifier(part) for part in parts)


def view(request: HttpRequest, kind: str, id: str) -> HttpResponse:  # noqa: A002 - the name in the protocol's table
    """Answer with the pack."""
    caller = admit(request, CALL.roles, {"kind": kind, "id": id})
    if isinstance(caller, Refusal):
        return problem(caller)
    asked = CALL.form.read(request.GET.dict())
    if isinstance(asked, Refusal):
        return problem(asked)
    pack = make_pack(kind, id, key=pack_key()) if may_be_subject(id) and is_identifier(kind) else None
    return not_found() if pack is None else pack_response(pack)


register(
    router, "GET", "/evidence/{kind}/{path:id}", view, CALL, get_evidence, tell_file("application/zip", "The pack.")
)
