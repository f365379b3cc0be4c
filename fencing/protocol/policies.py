"""The policy of a tool: who must agree, how long things may take, how often they are tried (T4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fencing.protocol.members import Members
from fencing.protocol.pointers import is_pointer, resolve

if TYPE_CHECKING:
    from fencing.protocol.strict_json import Json

DAY_S: Final = 86_400
MAX_TIMEOUT_S: Final = 3_600
MAX_TRIES: Final = 100

# Anything else is either a success or unknown (L5), and what is unknown may have been done.
_REFUSING_STATUSES: Final = (400, 499)
_REQUEST_TIMEOUT: Final = 408
_ANSWERS: Final = ("nothing_done", "already_done")


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingDone:
    """An HTTP answer by which a tool says that it did nothing, so that the call may be repeated (`busy`, L5).

    `status` alone, or only where the JSON text of the answer has the string `equals` at `pointer`.
    """

    status: int
    pointer: str | None = None
    equals: str | None = None

    def matches(self, status: int, body: Json) -> bool:
        """Whether an answer is this one. `body` is its parsed JSON, None where it has none."""
        return status == self.status and (self.pointer is None or resolve(body, self.pointer) == self.equals)

    def as_json(self) -> Json:
        """Return the form in which it is registered."""
        if self.pointer is None:
            return self.status
        return {"status": self.status, "pointer": self.pointer, "equals": self.equals}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a tool asks of the fence and the gateway (T4). Names that end in `_s` are whole seconds.

    `required_paths` must agree, `trusted_path` among them gives the payload (C6). Of `nothing_done` there is nothing by
    default: an answer is `busy` only where the definition says that this tool means it so. Nor of `already_done`: by
    such an answer the tool says that this very idempotency key has had its effect. `max_in_flight` calls of a push tool
    are under way at once, and `rate_per_s` begin in a second, as many as come where that is None.
    """

    required_paths: tuple[str, ...] = ("production", "replica")
    trusted_path: str = "production"
    deadline_s: int = 120
    grace_s: int = 5
    max_grant_ttl_s: int = 900
    grant_approvals: int = 1
    compensation_approvals: int = 1
    lease_s: int = 60
    max_deliveries: int = 5
    timeout_s: int = 30
    nothing_done: tuple[NothingDone, ...] = ()
    already_done: tuple[NothingDone, ...] = ()
    max_in_flight: int = 50
    rate_per_s: int | None = None

    def says_nothing_done(self, status: int, body: Json) -> bool:
        """Whether this HTTP answer of the tool says that nothing was done (T4, L5)."""
        return any(answer.matches(status, body) for answer in self.nothing_done)

    def says_already_done(self, status: int, body: Json) -> bool:
        """Whether this HTTP answer of the tool says that the effect of this very key has happened (L5)."""
        return any(answer.matches(status, body) for answer in self.already_done)

    def as_json(self) -> dict[str, Json]:
        """Return the policy as it is registered, with every member.

        What came later is written only where it is not the default: the digests of older definitions stay true.
        """
        later: dict[str, Json] = {name: getattr(self, name) for name in LATER if getattr(self, name) != LATER[name]}
        if self.already_done:
            later["already_done"] = [answer.as_json() for answer in self.already_done]
        return {
            **later,
            "required_paths": list(self.required_paths),
            "trusted_path": self.trusted_path,
            **{name: getattr(self, name) for name in RANGES},
            "nothing_done": [answer.as_json() for answer in self.nothing_done],
        }


RANGES: Final = {
    "deadline_s": (1, DAY_S),
    "grace_s": (0, DAY_S),
    "max_grant_ttl_s": (1, DAY_S),
    "grant_approvals": (1, 2),
    "compensation_approvals": (1, 2),
    "lease_s": (1, DAY_S),
    "max_deliveries": (1, MAX_TRIES),
    "timeout_s": (1, MAX_TIMEOUT_S),
}
"""The numbers of a policy, with the least and the greatest that can be registered."""

LATER: Final = {"max_in_flight": 50, "rate_per_s": None}
"""The numbers of push tools alone, with their defaults."""
MAX_PACE: Final = 10_000


def read_policy(value: Json, *, at: str) -> Policy:
    """Read the `policy` of a definition; what it leaves out has the defaults of T4. Raises `Unfit`."""
    members = Members.of(value, at=at, known={"required_paths", "trusted_path", *_ANSWERS, *LATER, *RANGES})
    default = Policy()
    required_paths = members.identifiers("required_paths", default.required_paths)
    trusted_path = members.identifier("trusted_path", default.trusted_path)
    if trusted_path not in required_paths:
        members.refuse("The trusted path must be one of the required paths.", "trusted_path")
    numbers = {name: members.whole(name, getattr(default, name), *ends) for name, ends in RANGES.items()}
    return Policy(
        required_paths=required_paths,
        trusted_path=trusted_path,
        nothing_done=_read_answers(members, "nothing_done"),
        already_done=_read_answers(members, "already_done"),
        max_in_flight=members.whole("max_in_flight", default.max_in_flight, 1, MAX_PACE),
        rate_per_s=(None if members.value.get("rate_per_s") is None else members.whole("rate_per_s", 1, 1, MAX_PACE)),
        **numbers,
    )


def _read_answers(members: Members, name: str) -> tuple[NothingDone, ...]:
    value = members.value.get(name, [])
    if not isinstance(value, list):
        members.refuse("This must be an array.", name)
    return tuple(_read_answer(answer, members.place_of(name, index)) for index, answer in enumerate(value))


def _read_answer(value: Json, at: str) -> NothingDone:
    """Read one answer: a status alone, or `{"status", "pointer", "equals"}`."""
    written: Json = {"status": value} if isinstance(value, int) else value
    members = Members.of(written, at=at, known={"status", "pointer", "equals"})
    status = members.whole("status", 0, *_REFUSING_STATUSES)
    if status == _REQUEST_TIMEOUT:
        members.refuse("After a 408 nobody knows whether something was done.", "status")
    pointer, equals = members.text("pointer"), members.text("equals")
    if (pointer is None) != (equals is None):
        members.refuse("`pointer` and `equals` stand together: a place in the answer, and the string there.")
    if pointer is not None and not is_pointer(pointer):
        members.refuse("This must be a JSON Pointer.", "pointer")
    return NothingDone(status=status, pointer=pointer, equals=equals)
