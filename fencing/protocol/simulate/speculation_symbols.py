"""Letters about forks, ledgers and undoing: what planners, gateways and reviewers do beside what `symbols` has."""

from __future__ import annotations

from typing import Final

from fencing.protocol.intents import Kind
from fencing.protocol.intents import State as IntentState
from fencing.protocol.ledgers import Match
from fencing.protocol.simulate.symbols import (
    EVERY_ACTION,
    GRACE,
    LEASE,
    PLACES,
    RESTART,
    WORK,
    Phrase,
    Symbol,
    admit,
    agree,
    agree_on_digests,
    alone,
    bound,
    propose,
    replay,
    report,
    resolve,
    send,
    vote,
)
from fencing.protocol.world import World
from fencing.protocol.world.events import (
    Admit,
    Adopt,
    ApproveUndoing,
    Ask,
    Event,
    Observe,
    OpenFork,
    Reconcile,
    Record,
    ReportUndoing,
    ResolveUndoing,
    Waive,
)
from fencing.protocol.world.records import EffectRecord, UndoingRecord

STALE_DIGEST: Final = "sha256:" + "0" * 64

FORKS: Final = {
    "f": OpenFork(fork="f", branches=("A", "B")),
    "g": OpenFork(fork="g", branches=("C", "D"), parent="A"),
    "h": OpenFork(fork="h", branches=("E", "F"), deadline_s=90),
    "clash": OpenFork(fork="i", branches=("G", "A")),
    "other": OpenFork(fork="f", branches=("A", "C")),
}


def fork(name: str, *, weight: float = 1) -> Symbol:
    """A planner opens one of the forks."""
    return Symbol(name=f"open fork {name}", event=lambda _: FORKS[name], weight=weight)


def reconcile(name: str, winner: str | None, *, weight: float = 0.6) -> Symbol:
    """A planner ends a fork."""
    event = Reconcile(fork=name, winner=winner)
    return Symbol(name=f"reconcile {name} with {winner or 'no winner'}", event=lambda _: event, weight=weight)


def call_for(step: str) -> Symbol:
    """A gateway calls with the newest token of a step."""

    def event(world: World) -> Event | None:
        found = [each.commit for each in world.steps if each.facts.step == step and each.commit is not None]
        action = bound(found[-1]) if found else None
        return None if action is None else Admit(action=action, token=found[-1].token)

    return Symbol(name=f"call for {step}", event=event, weight=1)


# ---- undoing ----


def _undoing(world: World, *, older: bool) -> UndoingRecord | None:
    """What a person would look at: the newest that is open, else the newest; or the oldest."""
    still = [each for each in world.undoings if each.is_open] or list(world.undoings)
    return (still[0] if older else still[-1]) if still else None


def approve(by: str, *, older: bool = False, is_stale: bool = False, weight: float = 1.5) -> Symbol:
    """A person approves an undoing by what it shows, or by something that it does not show."""

    def event(world: World) -> Event | None:
        record = _undoing(world, older=older)
        if record is None:
            return None
        digest = STALE_DIGEST if is_stale or record.digest is None else record.digest
        return ApproveUndoing(undoing=record.id, by=by, digest=digest)

    which = "what is not shown" if is_stale else "the oldest undoing" if older else "the newest undoing"
    return Symbol(name=f"{by} approves {which}", event=event, weight=weight)


def waive(by: str) -> Symbol:
    """A person lets an effect stand."""

    def event(world: World) -> Event | None:
        record = _undoing(world, older=False)
        return None if record is None else Waive(undoing=record.id, by=by, digest=record.digest)

    return Symbol(name=f"{by} waives the newest undoing", event=event, weight=0.3)


def record(by: str) -> Symbol:
    """A person records what was undone by hand."""

    def event(world: World) -> Event | None:
        found = _undoing(world, older=False)
        return None if found is None else Record(undoing=found.id, by=by)

    return Symbol(name=f"{by} records the newest undoing", event=event, weight=0.8)


def ask(by: str, *, of_row: bool = False) -> Symbol:
    """A person asks that the newest effect, or the newest wrong ledger row, be undone."""

    def event(world: World) -> Event | None:
        row = _wrong_row(world)
        if of_row:
            return None if row is None else Ask(by=by, effect=row.id)
        done = [each.id for each in world.intents if each.facts.state is IntentState.SUCCEEDED]
        return Ask(by=by, intent=done[-1]) if done else None

    return Symbol(name=f"{by} asks to undo the newest {'row' if of_row else 'effect'}", event=event, weight=0.7)


def call_to_undo(*, older: bool = False, mutated: bool = False) -> Symbol:
    """A gateway calls with the token of an approval."""

    def event(world: World) -> Event | None:
        found = [each for each in world.undoings if each.released and each.action is not None]
        if not found:
            return None
        each = found[0] if older else found[-1]
        token = each.token(each.released[0] if older else each.released[-1])
        action = EVERY_ACTION["refund"] if mutated else each.action
        return None if action is None else Admit(action=action, token=token)

    which = "the oldest approval" if older else "the newest approval"
    weight = 0.3 if mutated or older else 2
    return Symbol(name=f"call with {which}{' and another action' if mutated else ''}", event=event, weight=weight)


def report_undoing(outcome: Kind, *, older: bool = False) -> Symbol:
    """A gateway reports on the newest call that undoes, or on the oldest."""

    def event(world: World) -> Event | None:
        found = [(each.id, told) for each in world.undoings for told in each.tries]
        if not found:
            return None
        name, told = min(found, key=lambda pair: pair[1].at) if older else max(found, key=lambda pair: pair[1].at)
        return ReportUndoing(undoing=name, round=told.round, number=told.delivery.number, outcome=outcome)

    which = "oldest" if older else "newest"
    weight = 0.3 if older else 0.8
    return Symbol(name=f"report {outcome.value} of the {which} undoing", event=event, weight=weight)


def say_undone(*, happened: bool) -> Symbol:
    """A person says whether an undoing in doubt happened."""

    def event(world: World) -> Event | None:
        found = _undoing(world, older=False)
        return None if found is None else ResolveUndoing(undoing=found.id, happened=happened, by="eve")

    word = "was undone" if happened else "was not undone"
    return Symbol(name=f"a reviewer says that it {word}", event=event, weight=0.6)


# ---- ledgers ----


def _row_id(world: World) -> str:
    return f"row-{len(world.effects) + 1}"


def _wrong_row(world: World) -> EffectRecord | None:
    wrong = [each for each in world.effects if each.match is not Match.INTENT and each.match is not Match.COMPENSATION]
    return wrong[-1] if wrong else None


def row_of_effect(*, by_key: bool) -> Symbol:
    """A tool's ledger shows the newest effect, with our key or with its action alone."""

    def event(world: World) -> Event | None:
        sent = [each for each in world.intents if each.action is not None and each.facts.deliveries]
        action = sent[-1].action if sent else None
        if action is None:
            return None
        of, told = (sent[-1].id, None) if by_key else (None, action)
        return Observe(tool=action.tool, external_id=_row_id(world), action=told, of=of)

    return Symbol(name=f"the ledger shows the effect by its {'key' if by_key else 'action'}", event=event, weight=0.5)


def row_of_undoing() -> Symbol:
    """A tool's ledger shows what undid an effect, with our key."""

    def event(world: World) -> Event | None:
        sent = [each for each in world.undoings if each.tries and each.action is not None]
        action = sent[-1].action if sent else None
        if action is None:
            return None
        of = sent[-1].token(sent[-1].tries[-1].round)
        return Observe(tool=action.tool, external_id=_row_id(world), of=of)

    return Symbol(name="the ledger shows the undoing", event=event, weight=1)


def escape(what: str, *, has_key: bool = False) -> Symbol:
    """A tool's ledger shows an effect, as if somebody had called the tool past the gateway."""
    action = EVERY_ACTION[what]

    def event(world: World) -> Event:
        of = "a key of somebody else" if has_key else None
        return Observe(tool=action.tool, external_id=_row_id(world), action=action, of=of)

    return Symbol(name=f"the ledger shows {what}{' with a strange key' if has_key else ''}", event=event, weight=0.3)


def adopt(by: str) -> Symbol:
    """A person adopts the newest wrong row for the newest intent that waits."""

    def event(world: World) -> Event | None:
        row, ready = _wrong_row(world), [each for each in world.intents if each.facts.state is IntentState.READY]
        wanting = ready or list(world.intents)
        return None if row is None or not wanting else Adopt(intent=wanting[-1].id, effect=row.id, by=by)

    return Symbol(name=f"{by} adopts the newest escape", event=event, weight=0.5)


# ---- phrases ----


def undo(outcome: Kind, *, by: tuple[str, ...] = ("eve", "dan")) -> Phrase:
    """Two people approve, the token is minted, a gateway calls and tells what became of it."""
    return *(approve(each) for each in by), WORK, call_to_undo(), report_undoing(outcome)


def speculate(step: str, what: str, outcome: Kind) -> Phrase:
    """A branch commits and sends."""
    return *agree(step, what), call_for(step), report(outcome)


def lose(what: str) -> Phrase:
    """A branch commits and sends, and another one wins."""
    return *speculate("x", what, Kind.SUCCEEDED), reconcile("f", "B")


def phrases(what: str) -> tuple[Phrase, ...]:
    """Phrases about one action in branches, and about what follows."""
    optimistic = what if what in ("ticket", "order") else "ticket"
    return (
        (fork("f"),),
        (fork("f"), fork("g"), *agree("z", optimistic)),
        (fork("h"), *speculate("w", optimistic, Kind.SUCCEEDED)),
        *(speculate(step, optimistic, Kind.SUCCEEDED) for step in ("x", "y", "z")),
        *(speculate(step, optimistic, Kind.UNKNOWN) for step in ("x", "y")),
        *(agree(step, what) for step in ("x", "y", "z", "a")),
        (*agree("x", "ticket", key="k"), *agree("y", "other-ticket", key="k")),
        (reconcile("f", "A"), WORK),
        (reconcile("f", "B"), WORK),
        (reconcile("f", None),),
        (reconcile("g", "C"), WORK),
        undo(Kind.SUCCEEDED),
        (*undo(Kind.SUCCEEDED), row_of_undoing()),
        undo(Kind.FAILED),
        undo(Kind.UNKNOWN),
        undo(Kind.NOT_SENT),
        (*undo(Kind.UNKNOWN), say_undone(happened=True)),
        (*undo(Kind.UNKNOWN), say_undone(happened=False)),
        (ask("eve"), *undo(Kind.SUCCEEDED, by=("dan", "ann"))),
        (ask("eve"), *undo(Kind.SUCCEEDED)),
        (*undo(Kind.SUCCEEDED)[:-2], call_to_undo(mutated=True)),
        (*lose(optimistic), *undo(Kind.SUCCEEDED), *speculate("a", optimistic, Kind.SUCCEEDED)),
        (*lose(optimistic), *undo(Kind.SUCCEEDED)[:-2], *agree("a", optimistic), call_to_undo()),
        (ask("eve"), record("dan")),
        (*undo(Kind.SUCCEEDED), *agree("a", optimistic), admit("the newest token"), report(Kind.SUCCEEDED)),
        (*undo(Kind.UNKNOWN)[:-1], *agree("b", optimistic), report_undoing(Kind.SUCCEEDED), admit("the newest token")),
        (escape(what), *agree("a", what), admit("the newest token"), adopt("eve")),
        (escape(optimistic, has_key=True), *undo(Kind.SUCCEEDED)),
        (row_of_effect(by_key=True), row_of_effect(by_key=True)),
        (row_of_effect(by_key=False), row_of_effect(by_key=False)),
        (report(Kind.NOT_SENT), report(Kind.SUCCEEDED), resolve(happened=True)),
        (LEASE, resolve(happened=False), report(Kind.SUCCEEDED), resolve(happened=True)),
        (*undo(Kind.FAILED), *undo(Kind.FAILED), report_undoing(Kind.SUCCEEDED, older=True)),
        (propose("y"), *(vote(path, "y", "nothing") for path in ("production", "replica")), WORK),
        send(Kind.SUCCEEDED),
        alone("y", "ticket"),
        (*alone("x", "refund"), GRACE),
        (*agree_on_digests("y", "ticket"), RESTART),
        (call_for("x"), call_for("y"), report(Kind.SUCCEEDED)),
    )


def _letters_of_steps() -> tuple[Symbol, ...]:
    votes = (
        vote(path, step, what)
        for path in ("production", "replica")
        for step in PLACES
        for what in ("ticket", "order", "refund", "other-ticket")
    )
    return *votes, *(propose(step, weight=2) for step in PLACES), *(replay(step) for step in PLACES)


SPECULATIVE: Final = (
    *_letters_of_steps(),
    *(fork(name, weight=1.5 if name in ("f", "g", "h") else 0.2) for name in FORKS),
    *(reconcile("f", winner) for winner in ("A", "B", None)),
    *(reconcile("g", winner) for winner in ("C", "D", None)),
    *(reconcile("h", winner, weight=0.4) for winner in ("E", None)),
    reconcile("f", "C", weight=0.1),
    reconcile("nowhere", None, weight=0.1),
    *(call_for(step) for step in PLACES),
    *(approve(by) for by in ("eve", "dan", "ann")),
    approve("eve", older=True, weight=0.5),
    approve("dan", is_stale=True, weight=0.2),
    *(waive(by) for by in ("eve", "dan")),
    *(record(by) for by in ("eve", "dan")),
    *(ask(by, of_row=of_row) for by in ("eve", "dan") for of_row in (False, True)),
    call_to_undo(),
    call_to_undo(older=True),
    call_to_undo(mutated=True),
    *(report_undoing(kind, older=older) for kind in Kind if kind is not Kind.NOT_HAPPENED for older in (False, True)),
    say_undone(happened=True),
    say_undone(happened=False),
    row_of_effect(by_key=True),
    row_of_effect(by_key=False),
    row_of_undoing(),
    *(escape(what) for what in ("ticket", "order", "refund", "wire")),
    escape("ticket", has_key=True),
    *(adopt(by) for by in ("eve", "dan")),
)
"""What is added to the large alphabet: branches, ledgers and undoing, stale, doubled and contradicting as well."""
