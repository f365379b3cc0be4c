"""Tools: what the registry says of each, and how a definition is read when it is registered (T1 to T5)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fencing.protocol.addresses import fault_of_host
from fencing.protocol.canonical import MAX_CANONICAL, MAX_DEPTH, NoCanonicalForm, canonical_bytes, digest_of
from fencing.protocol.errors import Code, Refusal
from fencing.protocol.json_faults import depth_of
from fencing.protocol.members import Members, Unfit
from fencing.protocol.plain_schemas import Fits, plainly
from fencing.protocol.pointers import pointer_to
from fencing.protocol.policies import NothingDone, Policy, read_policy
from fencing.protocol.schemas import compiled, fault_of_args, fault_of_schema
from fencing.protocol.strict_json import explain, parse
from fencing.protocol.templates import Compensator, check_template, render
from fencing.protocol.weakening import weakenings

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

    from fencing.protocol.strict_json import Json

__all__ = [
    "Compensator",
    "Effect",
    "Mode",
    "NothingDone",
    "Policy",
    "ToolDefinition",
    "read_tool",
    "render_compensation",
    "stored_tool",
]

_MEMBERS: Final = frozenset({
    "tool", "effect", "idempotent", "optimistic", "mode", "advisory", "sensitive", "resources", "compensator",
    "args_schema", "endpoint", "credential", "read_back", "ledger", "hints", "policy",
})  # fmt: skip
_DEFINITIONS_KEPT: Final = 1024


class Effect(StrEnum):
    """What a call of a tool does to the world (T2)."""

    SIDE_EFFECTING = "side_effecting"
    READ_ONLY = "read_only"


class Mode(StrEnum):
    """Who calls the tool (T5): a worker of this system, or a gateway outside."""

    PUSH = "push"
    PULL = "pull"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolDefinition:
    """One version of a tool in the registry (T1 to T5). Two are equal when their digests are.

    `advisory`, `sensitive` and `resources` are JSON Pointers into `args`. `credential` is a name; what it names is kept
    elsewhere. `read_back` and `ledger` are addresses at the host of `endpoint`: where a push tool tells what became of
    one idempotency key (for `{key}` in it), and where it lists its effects. `hints` are what others say of the tool,
    for people to read: nothing is ever decided by them (T2).
    `digest` is made over the canonical form of `as_json()`.
    """

    tool: str
    effect: Effect
    idempotent: bool
    optimistic: bool
    mode: Mode
    advisory: tuple[str, ...]
    sensitive: tuple[str, ...]
    resources: tuple[str, ...]
    compensator: Compensator | None
    args_schema: dict[str, Json] | None
    endpoint: str | None
    credential: str | None
    hints: Mapping[str, Json]
    policy: Policy
    digest: str
    read_back: str | None = None
    ledger: str | None = None

    def __eq__(self, other: object) -> bool:
        """Compare by digest, which covers everything."""
        return self.digest == other.digest if isinstance(other, ToolDefinition) else NotImplemented

    def __hash__(self) -> int:
        """Hash by digest."""
        return hash(self.digest)

    @property
    def is_read_only(self) -> bool:
        """Whether calls skip the fence (T2)."""
        return self.effect is Effect.READ_ONLY

    def check_args(self, args: Json, *, at: str = "") -> Refusal | None:
        """Return `invalid_args` with its place if `args` do not fit the tool's schema, else None (T3).

        `at` is the pointer to the action in the body, put before the refusal's pointer, which begins with `/args`.
        """
        if self.args_schema is None:
            return None
        plain = _plain_of(self)
        if plain is not None and plain(args):
            return None
        return fault_of_args(_validator_of(self), args, at=at + "/args")

    def is_weaker_than(self, older: ToolDefinition) -> tuple[str, ...]:
        """Return, as sentences, how this version fences less than an older one; empty where it does not (T1)."""
        return weakenings(older, self)

    def as_json(self) -> dict[str, Json]:
        """Return the definition with every member written out: what is stored, shown and hashed."""
        compensator = self.compensator
        # What came later is written only where it is there: the digests of older definitions stay true.
        later = {name: value for name in ("read_back", "ledger") if (value := getattr(self, name)) is not None}
        return {
            **later,
            "tool": self.tool,
            "effect": self.effect.value,
            "idempotent": self.idempotent,
            "optimistic": self.optimistic,
            "mode": self.mode.value,
            "advisory": list(self.advisory),
            "sensitive": list(self.sensitive),
            "resources": list(self.resources),
            "compensator": None if compensator is None else {"tool": compensator.tool, "args": compensator.args},
            "args_schema": self.args_schema,
            "endpoint": self.endpoint,
            "credential": self.credential,
            "hints": dict(self.hints),
            "policy": self.policy.as_json(),
        }


def read_tool(
    value: Json, *, plain_http_hosts: Collection[str] = (), is_stored: bool = False
) -> ToolDefinition | Refusal:
    """Read a definition that is to be registered, or say what is wrong with it and where.

    Everything that can be checked is checked here, so that no later step meets a broken schema, template or pointer
    (T3). `plain_http_hosts` are those hosts of endpoints that the operator lets be called without TLS (L9). One that
    `is_stored` is not refused for a rule that came after it: the registry must stay readable.
    Refuses with `unknown_member`, `invalid_value`, `invalid_identifier`, `too_large`, `too_deep`, and with
    `invalid_tool` for what is right by itself and does not fit together. Never raises.
    """
    try:
        canonical = canonical_bytes(value)
    except NoCanonicalForm:
        return explain(value)
    if len(canonical) > MAX_CANONICAL:
        detail = f"The definition has {len(canonical)} bytes; at most {MAX_CANONICAL} are taken."
        return Refusal(code=Code.TOO_LARGE, detail=detail, pointer="")
    if depth_of(canonical) > MAX_DEPTH:
        return explain(value)
    if not is_stored and b"\\u0000" in canonical and (place := _place_of_nul(value)) is not None:
        # PostgreSQL cannot take such a text apart, and its guards read definitions.
        return Refusal(code=Code.INVALID_VALUE, detail="The character U+0000 cannot stand here.", pointer=place)
    try:
        # Read from the canonical form: a copy of our own, so that nobody changes what the digest was made over.
        members = Members.of(json.loads(canonical), at="", known=_MEMBERS)
        draft = _read(members, plain_http_hosts, is_stored=is_stored)
    except Unfit as unfit:
        return unfit.refusal
    return replace(draft, digest=digest_of(canonical_bytes(draft.as_json())))


@lru_cache(maxsize=_DEFINITIONS_KEPT)
def stored_tool(canonical: bytes) -> ToolDefinition:
    """Return the definition whose canonical form was stored; read once, then remembered.

    Its endpoint is not asked about again: what was registered under the operator's rules of then is delivered under
    those of now. Raises `ValueError` for bytes that no `read_tool` can have let through.
    """
    value = parse(canonical)
    host = urlsplit(str(value.get("endpoint"))).hostname if isinstance(value, dict) else None
    found = value if isinstance(value, Refusal) else read_tool(value, plain_http_hosts={host or ""}, is_stored=True)
    if isinstance(found, Refusal):
        message = f"a stored tool definition is broken: {found.code} at {found.pointer}"
        raise ValueError(message)  # noqa: TRY004 - the bytes are wrong, not their type
    return found


def render_compensation(definition: ToolDefinition, action: Json, response: Json) -> Json | Refusal:
    """Return the exact action that would undo an effect of this tool (P2), from that effect's action and response.

    `response` is what the tool answered, None where nobody knows it. Refuses with `invalid_value` where the template
    asks for something that is not there. Raises `ValueError` for a tool without a compensator (P6).
    """
    if definition.compensator is None:
        message = f"{definition.tool} has no compensator"
        raise ValueError(message)
    return render(definition.compensator, action, response)


@lru_cache(maxsize=_DEFINITIONS_KEPT)
def _plain_of(definition: ToolDefinition) -> Fits | None:
    return plainly(definition.args_schema or {})


@lru_cache(maxsize=_DEFINITIONS_KEPT)
def _validator_of(definition: ToolDefinition) -> Draft202012Validator:
    return compiled(definition.args_schema or {})


def _place_of_nul(value: Json, at: str = "") -> str | None:
    """Give the pointer to the first text, or the first name, that holds U+0000."""
    if isinstance(value, str):
        return at if "\0" in value else None
    children: Iterable[tuple[str | int, Json]] = ()
    if isinstance(value, dict):
        if any("\0" in name for name in value):
            return at
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    found = (_place_of_nul(child, at + pointer_to([name])) for name, child in children)
    return next((place for place in found if place is not None), None)


def _read(members: Members, plain_http_hosts: Collection[str], *, is_stored: bool) -> ToolDefinition:
    draft = ToolDefinition(
        tool=members.identifier("tool"),
        effect=members.choice("effect", Effect.SIDE_EFFECTING),
        idempotent=members.flag("idempotent", default=False),
        optimistic=members.flag("optimistic", default=False),
        mode=members.choice("mode", Mode.PULL),
        advisory=members.pointers("advisory"),
        sensitive=members.pointers("sensitive"),
        resources=members.pointers("resources"),
        compensator=_read_compensator(members),
        args_schema=_read_schema(members, is_stored=is_stored),
        endpoint=_read_endpoint(members, "endpoint", plain_http_hosts, is_stored=is_stored),
        read_back=_read_endpoint(members, "read_back", plain_http_hosts, is_stored=is_stored),
        ledger=_read_endpoint(members, "ledger", plain_http_hosts, is_stored=is_stored),
        credential=members.optional_identifier("credential"),
        hints=members.mapping("hints"),
        policy=read_policy(members.value.get("policy", {}), at=members.place_of("policy")),
        digest="",
    )
    _check_together(draft, members)
    return draft


def _check_together(draft: ToolDefinition, members: Members) -> None:
    """Check what no member shows alone. Raises `Unfit`."""
    if draft.optimistic and not (draft.idempotent and draft.compensator is not None):
        detail = "An optimistic tool must be idempotent and have a compensator: its effects may have to be undone."
        members.refuse(detail, "optimistic", code=Code.INVALID_TOOL)
    if draft.mode is Mode.PUSH and draft.endpoint is None:
        members.refuse("A push tool needs an endpoint.", "endpoint", code=Code.INVALID_TOOL)
    _check_places(draft, members)
    if draft.mode is Mode.PULL and draft.endpoint is not None:
        detail = "A pull tool is called by its gateway, never at an endpoint: leave it out, or set `mode` to `push`."
        members.refuse(detail, "endpoint", code=Code.INVALID_TOOL)
    if draft.mode is Mode.PULL and draft.credential is not None:
        detail = "A pull tool is called by its gateway, never with a credential of this system."
        members.refuse(detail, "credential", code=Code.INVALID_TOOL)


def _read_compensator(members: Members) -> Compensator | None:
    value = members.value.get("compensator")
    if value is None:
        return None
    inner = Members.of(value, at=members.place_of("compensator"), known={"tool", "args"})
    compensator = Compensator(tool=inner.identifier("tool"), args=inner.mapping("args"))
    check_template(compensator.args, at=inner.place_of("args"))
    return compensator


def _read_schema(members: Members, *, is_stored: bool) -> dict[str, Json] | None:
    if members.value.get("args_schema") is None:
        return None
    schema = members.mapping("args_schema")
    fault = fault_of_schema(schema, at=members.place_of("args_schema"), is_stored=is_stored)
    if fault is not None:
        raise Unfit(fault.code, fault.detail, fault.pointer or "")
    return schema


def _read_endpoint(members: Members, name: str, open_hosts: Collection[str], *, is_stored: bool) -> str | None:
    """Read an address of a push tool: https, a host that may be called, nothing that hides where a call goes (L9)."""
    text = members.text(name)
    if text is None:
        return None
    try:
        url = urlsplit(text)
        host, _port = url.hostname, url.port
    except ValueError:
        members.refuse("This is no address.", name)
    if not host or not text.isascii() or any(mark <= " " for mark in text):
        members.refuse("This must be an address with a host, in ASCII.", name)
    if url.scheme != "https" and not (url.scheme == "http" and host in open_hosts):
        members.refuse("A tool is called over https, unless the operator allows plain http for its host.", name)
    if url.username is not None or url.password is not None or "#" in text:
        members.refuse("An address has no user, password or fragment; a credential is named apart.", name)
    if not is_stored and host not in open_hosts and (fault := fault_of_host(host)) is not None:
        members.refuse(f"{fault} Nothing is called there unless the operator allows this host.", name)
    return text


def _check_places(draft: ToolDefinition, members: Members) -> None:
    """Check that everything of a push tool lies at one host: its credential goes nowhere else (L9)."""
    for name, text in (("read_back", draft.read_back), ("ledger", draft.ledger)):
        if text is None:
            continue
        if draft.endpoint is None or urlsplit(text)[:2] != urlsplit(draft.endpoint)[:2]:
            members.refuse("This must be an address at the scheme, host and port of `endpoint`.", name)
    if draft.read_back is not None and "{key}" not in draft.read_back:
        members.refuse("This must hold `{key}`, where the idempotency key is put.", "read_back")
