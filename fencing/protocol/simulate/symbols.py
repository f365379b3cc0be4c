"""The letters of which strings of events are made: each says what somebody does next, whatever the world is like then.

A letter is resolved against the world as it stands: "a gateway calls with the newest token" has another token in each
string. So a string keeps its meaning when a letter is taken out of it, and the shortest one that fails can be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from typing import Final, TypeAlias

from fencing.protocol.actions import Action
from fencing.protocol.intents import Kind
from fencing.protocol.simulate import stage
from fencing.protocol.world import World
from fencing.protocol.world.events import (
    Admit,
    Approve,
    Cast,
    Event,
    Issue,
    LiftFreeze,
    Propose,
    Replay,
    Report,
    Resolve,
    Restart,
    Review,
    Revoke,
    SetFreeze,
    Sweep,
    Work,
)
from fencing.protocol.world.records import Commit, IntentRecord

Resolver: TypeAlias = Callable[[World], "Event | None"]
"""What an event a letter is now; None where there is nothing to do it to."""

STEPS: Final = ("a", "b")
PLACES: Final = {"x": "A", "y": "B", "z": "C", "w": "E"}
"""Steps in branches: each is always proposed there."""

ACTIONS: Final = {
    "refund": stage.REFUND,
    "more": stage.MORE,
    "hold": stage.HOLD,
    "wire": stage.WIRE,
    "mail": stage.MAIL,
    "other-prose": stage.OTHER_PROSE,
    "no-fit": stage.NO_FIT,
    "unregistered": stage.UNREGISTERED,
    "lookup": stage.LOOKUP,
}
OPTIMISTIC: Final = {"ticket": stage.TICKET, "other-ticket": stage.OTHER_TICKET, "order": stage.ORDER}
EVERY_ACTION: Final = {**ACTIONS, **OPTIMISTIC}


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """One letter. `after_s` is the time that passes before it, in seconds; `weight` is how often chance picks it."""

    name: str
    event: Resolver
    after_s: float = 1
    weight: float = 1

    @property
    def delay(self) -> timedelta:
        """The time that passes before it."""
        return timedelta(seconds=self.after_s)


def own_epoch(world: World, step: str) -> int:
    """The number at which a well-behaved sender speaks now."""
    return max((opening.number for opening in world.openings if opening.step in (None, step)), default=world.start)


def commits(world: World) -> list[Commit]:
    """The commits, newest last."""
    found = (record.commit for record in world.steps if record.commit is not None)
    return sorted(found, key=lambda commit: commit.at)


def _newest(world: World) -> Commit | None:
    found = commits(world)
    return found[-1] if found else None


def propose(
    step: str, what: str = "", *, pinned: str = "nothing", key: str | None = None, weight: float = 0.3
) -> Symbol:
    """A planner proposes a step at its own epoch: pins an action, its digest, its tool, or nothing."""
    action = EVERY_ACTION.get(what)

    def event(world: World) -> Event:
        return Propose(
            step=step,
            epoch=own_epoch(world, step),
            action=action if pinned == "action" else None,
            digest=action.fence_digest if action and pinned == "digest" else None,
            tool=action.tool if action and pinned == "tool" else None,
            key=key,
            branch=PLACES.get(step),
        )

    about = f" pinning the {pinned} of {what}" if what else ""
    name = f"propose {step}{about}" + (f" with key {key}" if key else "")
    return Symbol(name=name, event=event, weight=weight)


def vote(path: str, step: str, what: str, *, as_digest: bool = False, at_start: bool = False) -> Symbol:
    """A path votes for an action or its digest, or abstains; `at_start` at the run's first epoch, however stale."""
    action = EVERY_ACTION.get(what)

    def event(world: World) -> Event:
        return Cast(
            path=path,
            step=step,
            epoch=world.start if at_start else own_epoch(world, step),
            action=None if as_digest else action,
            digest=action.fence_digest if action and as_digest else None,
            model="m-1",
            prompt="p-1" if what == "refund" else None,
        )

    how = "digest of " if as_digest else ""
    name = f"{path} votes {how}{what} on {step}" + (" in the first epoch" if at_start else "")
    return Symbol(name=name, event=event, weight=0.5 if at_start else 0.1)


def grant(name: str, *, step: str | None = None, tool: str | None = None, **scope: object) -> Symbol:
    """A person issues a grant at the epoch in which its scope is now."""

    def event(world: World) -> Event:
        epoch = own_epoch(world, step) if step else own_epoch(world, "")
        return Issue(name=f"{name}-{epoch}", epoch=epoch, by="ann", step=step, tool=tool, **scope)  # type: ignore[arg-type]

    of = " and ".join(each for each in (step and f"step {step}", tool and f"tool {tool}") if each)
    return Symbol(name=f"grant {name} for {of}", event=event)


def decide_grant(kind: type[Approve | Revoke | Review], *, by: str, weight: float = 1) -> Symbol:
    """A person approves, revokes or reviews the newest grant."""

    def event(world: World) -> Event | None:
        return kind(name=world.grants[-1].facts.name, by=by) if world.grants else None

    return Symbol(name=f"{by} {kind.__name__.lower()}s the newest grant", event=event, weight=weight)


def freeze(tool: str | None, *, by: str) -> Symbol:
    """A person freezes a tool, or the run. Chance does it seldom: nothing leaves while it stands."""
    return Symbol(name=f"{by} freezes {tool or 'the run'}", event=lambda _: SetFreeze(by=by, tool=tool), weight=0.15)


def lift(*, by: str, weight: float) -> Symbol:
    """A person lifts the oldest freeze that stands, else the newest that was lifted."""

    def event(world: World) -> Event | None:
        standing = [each.id for each in world.freezes if each.lifted_by is None]
        last = world.freezes[-1].id if world.freezes else None
        return LiftFreeze(freeze=standing[0] if standing else last, by=by) if last is not None else None

    return Symbol(name=f"{by} lifts a freeze", event=event, weight=weight)


def admit(which: str, *, mutated: bool = False, older: bool = False) -> Symbol:
    """A gateway calls with a commit's token, and with exactly its action or another one."""

    def event(world: World) -> Event | None:
        found = commits(world)
        commit = found[0 if older else -1] if found else None
        action = stage.MORE if mutated else bound(commit)
        return None if commit is None or action is None else Admit(action=action, token=commit.token)

    return Symbol(name=f"call with {which}", event=event, weight=1 if mutated or older else 6)


def bound(commit: Commit | None) -> Action | None:
    """The action that a commit binds."""
    return next((each for each in EVERY_ACTION.values() if commit and each.payload_digest == commit.payload), None)


def call_without_token(step: str, what: str = "refund") -> Symbol:
    """A gateway names a step and has no token."""
    return Symbol(
        name=f"call for {step} without token", event=lambda _: Admit(action=ACTIONS[what], step=step), weight=0.5
    )


def _open_delivery(world: World, *, older: bool) -> tuple[IntentRecord, int] | None:
    found = [(intent, each.number) for intent in world.intents for each in intent.facts.deliveries]
    return (found[0] if older else found[-1]) if found else None


def report(outcome: Kind, *, older: bool = False) -> Symbol:
    """A gateway reports on the newest delivery, or on the oldest."""

    def event(world: World) -> Event | None:
        found = _open_delivery(world, older=older)
        return None if found is None else Report(intent=found[0].id, number=found[1], outcome=outcome)

    name = f"report {outcome.value} of the {'oldest' if older else 'newest'} delivery"
    return Symbol(name=name, event=event, weight=1 if older else 2)


def resolve(*, happened: bool) -> Symbol:
    """A reviewer says whether the newest effect happened."""

    def event(world: World) -> Event | None:
        return Resolve(intent=world.intents[-1].id, happened=happened, by="eve") if world.intents else None

    return Symbol(name=f"a reviewer says that it {'happened' if happened else 'did not happen'}", event=event)


def replay(step: str) -> Symbol:
    """A step is replayed from the epoch in which it is now."""
    return Symbol(name=f"replay {step}", event=lambda world: Replay(step=step, from_epoch=own_epoch(world, step)))


def again(back: int = 1) -> Symbol:
    """An earlier event arrives once more: a delivery doubled, or repeated after a crash."""

    def event(world: World) -> Event | None:
        return world.history[-back].event if len(world.history) >= back else None

    return Symbol(name=f"again, what was {back} before" if back > 1 else "again", event=event, weight=2)


WORK: Final = Symbol(name="the fencer works", event=lambda _: Work(), weight=12)
GRACE: Final = Symbol(name="the grace passes, the fencer works", event=lambda _: Work(), after_s=6, weight=3)
SWEEP: Final = Symbol(name="a minute passes, the sweep", event=lambda _: Sweep(), after_s=61)
LEASE: Final = Symbol(name="a lease passes, the sweep", event=lambda _: Sweep(), after_s=11, weight=2)
DEADLINE: Final = Symbol(name="the deadline passes, the fencer works", event=lambda _: Work(), after_s=121, weight=0.3)
RESTART: Final = Symbol(name="restart", event=lambda world: Restart(expected=own_epoch(world, "")), weight=0.6)
BACKWARD: Final = Symbol(
    name="restart into the first epoch",
    event=lambda world: Restart(expected=own_epoch(world, ""), number=world.start),
    weight=0.2,
)
STALE_RESTART: Final = Symbol(name="restart as at first", event=lambda world: Restart(expected=world.start), weight=0.2)
NONSENSE: Final = "forged"
FORGED: Final = Symbol(
    name="call with a forged token", event=lambda _: Admit(action=stage.REFUND, token=NONSENSE), weight=0.2
)
READ: Final = Symbol(name="call what only reads", event=lambda _: Admit(action=stage.LOOKUP), weight=0.2)

Phrase: TypeAlias = "tuple[Symbol, ...]"
"""Letters that lead somewhere together."""


def agree(step: str, what: str, *, key: str | None = None) -> Phrase:
    """Both paths want the same, and the fencer sees it."""
    return propose(step, key=key), vote("production", step, what), vote("replica", step, what), WORK


def agree_on_digests(step: str, what: str) -> Phrase:
    """Both paths name a digest, and production sends its action later (F5)."""
    bare = (vote(path, step, what, as_digest=True) for path in ("production", "replica"))
    return propose(step), *bare, WORK, vote("production", step, what), WORK


def alone(step: str, what: str) -> Phrase:
    """Production alone wants something, a grant of one use covers it, and the grace passes."""
    tool = EVERY_ACTION[what].tool
    glass = (grant("break-glass", tool=tool), decide_grant(Approve, by="bob")) if stage.tools(tool) else ()
    return propose(step), vote("production", step, what), *glass, WORK, GRACE


def send(outcome: Kind) -> Phrase:
    """A gateway calls with the newest token, and tells what became of it."""
    return admit("the newest token"), report(outcome)


def phrases(what: str) -> tuple[Phrase, ...]:
    """Phrases about one action, and about what follows."""
    return (
        *(agree(step, what) for step in STEPS),
        *(alone(step, what) for step in STEPS),
        agree_on_digests("a", what),
        agree("a", "refund", key="k"),
        agree("b", "more", key="k"),
        *(send(kind) for kind in (Kind.SUCCEEDED, Kind.FAILED, Kind.UNKNOWN, Kind.UNKNOWN, Kind.NOT_SENT)),
        (LEASE, admit("the newest token")),
        (
            *alone("b", what),
            freeze(EVERY_ACTION[what].tool, by="bob"),
            admit("the newest token"),
            lift(by="ann", weight=1),
        ),
        (RESTART, *agree("a", what)),
        (DEADLINE, replay("a"), *agree("a", what)),
    )


SMALL: Final = (
    vote("production", "a", "refund"),
    vote("production", "a", "hold"),
    vote("replica", "a", "refund"),
    grant("g", tool="refund"),
    decide_grant(Revoke, by="ann"),
    WORK,
    GRACE,
    SWEEP,
    call_without_token("a"),
    admit("the newest token"),
    report(Kind.SUCCEEDED),
    report(Kind.UNKNOWN),
    report(Kind.FAILED),
    RESTART,
    replay("a"),
    propose("a"),
)
"""The small alphabet, of which every string up to a length is tried."""


def _votes() -> Iterator[Symbol]:
    for path, step, what in product(("production", "replica"), STEPS, ACTIONS):
        yield vote(path, step, what)
    for path, step in product(("production", "replica"), STEPS):
        yield vote(path, step, "refund", as_digest=True)
        yield vote(path, step, "mail", as_digest=True)
        yield vote(path, step, "nothing")
        yield vote(path, step, "refund", at_start=True)


LARGE: Final = (
    *_votes(),
    *(propose(step, weight=6) for step in STEPS),
    *(propose(step, "refund", pinned=what) for step in STEPS for what in ("action", "digest", "tool")),
    *(propose(step, key="k") for step in STEPS),
    propose("a", "lookup", pinned="tool"),
    grant("refunds", tool="refund", max_uses=1),
    grant("holds", tool="hold_for_review", max_uses=2, ttl_s=20),
    grant("wires", tool="wire_transfer"),
    grant("any-a", step="a"),
    grant("witness-b", step="b", tool="refund", path="replica", digest=stage.REFUND.fence_digest),
    decide_grant(Approve, by="bob"),
    decide_grant(Approve, by="ann"),
    decide_grant(Revoke, by="ann"),
    decide_grant(Review, by="eve", weight=0.5),
    decide_grant(Review, by="ann", weight=0.2),
    freeze(None, by="ann"),
    freeze("refund", by="bob"),
    freeze("drop_table", by="bob"),
    lift(by="bob", weight=1),
    lift(by="ann", weight=1),
    admit("the newest token"),
    admit("the oldest token", older=True),
    admit("the newest token and another action", mutated=True),
    *(call_without_token(step) for step in STEPS),
    *(report(kind, older=older) for kind in Kind if kind is not Kind.NOT_HAPPENED for older in (False, True)),
    resolve(happened=True),
    resolve(happened=False),
    *(replay(step) for step in STEPS),
    again(),
    again(2),
    again(5),
    WORK,
    GRACE,
    SWEEP,
    LEASE,
    DEADLINE,
    RESTART,
    STALE_RESTART,
    BACKWARD,
    FORGED,
    READ,
)
"""The large alphabet, of which chance makes strings: stale, late, doubled, mutated and contradicting inputs as well."""
