"""Who may do what until when, through which grant."""

from __future__ import annotations

from ninja import Router

from fencing.api.access import WATCHERS
from fencing.api.calls import Names, Read
from fencing.api.document import ref
from fencing.api.endpoints import read
from fencing.api.forms import Form
from fencing.api.params import AuthorityQuery
from fencing.protocol.answers import OK, Answer, Result
from fencing.protocol.callers import Caller
from fencing.protocol.errors import Refusal
from fencing.queries.authority import authority_body, read_authority

router = Router(tags=["grants"])


def get_authority(asked: AuthorityQuery, _caller: Caller, _names: Names) -> Result:
    """Tell who may do what until when, and through which grant: now, or at a moment of the past."""
    found = read_authority(asked.at)
    return found if isinstance(found, Refusal) else Answer(status=OK, body=authority_body(found))


read(
    router,
    "/authority",
    Read(roles=WATCHERS, form=Form(AuthorityQuery, is_query=True), query=get_authority),
    answer=ref("authority"),
)
