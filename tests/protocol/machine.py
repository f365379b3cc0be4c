"""A state machine over a world: everybody does anything in any order, and the invariants are judged each time."""

from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from fencing.protocol.intents import Kind
from fencing.protocol.simulate import speculation_symbols as speculative
from fencing.protocol.simulate import stage, symbols
from fencing.protocol.simulate.strings import THEMES, opening
from fencing.protocol.simulate.symbols import ACTIONS, EVERY_ACTION, OPTIMISTIC, PLACES, STEPS, Symbol
from fencing.protocol.world.events import Approve, Review, Revoke
from tests.length import long_or

BOUNDED = settings(
    max_examples=long_or(40, long=1500),
    stateful_step_count=long_or(30, long=50),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
"""How long a property is looked for."""

paths = st.sampled_from(["production", "replica"])
steps = st.sampled_from(STEPS)
reported = st.sampled_from([kind for kind in Kind if kind is not Kind.NOT_HAPPENED])
people = st.sampled_from(["eve", "dan", "ann"])
ends = [("f", "A"), ("f", "B"), ("f", None), ("g", "C"), ("g", None), ("h", "E"), ("f", "C")]


class FenceMachine(RuleBasedStateMachine):
    """One run with two steps, two paths, some people and a gateway. Most of it is about one action, the theme."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = opening()
        self.theme = "refund"

    def act(self, *letters: Symbol) -> None:
        """Do what letters say, and judge what follows from each."""
        for symbol in letters:
            after = self.scene.after(symbol)
            if after is not None:
                self.scene, violations = after
                assert not violations, violations

    @initialize(theme=st.sampled_from(THEMES), step=steps)
    def open(self, theme: str, step: str) -> None:
        self.theme = theme
        self.act(symbols.propose(step))

    @rule(step=steps)
    def agree(self, step: str) -> None:
        self.act(*symbols.agree(step, self.theme))

    @rule(step=steps)
    def act_alone(self, step: str) -> None:
        self.act(*symbols.alone(step, self.theme))

    @rule(step=steps, what=st.sampled_from(["refund", "more"]))
    def agree_with_key(self, step: str, what: str) -> None:
        self.act(*symbols.agree(step, what, key="k"))

    @rule(outcome=reported)
    def send(self, outcome: Kind) -> None:
        self.act(*symbols.send(outcome))

    @rule(step=steps, how=st.sampled_from(["nothing", "action", "digest", "tool"]))
    def propose(self, step: str, how: str) -> None:
        self.act(symbols.propose(step, self.theme, pinned=how))

    @rule(path=paths, step=steps, at_start=st.sampled_from([False, False, True]))
    def vote(self, path: str, step: str, *, at_start: bool) -> None:
        self.act(symbols.vote(path, step, self.theme, at_start=at_start))

    @rule(path=paths, step=steps, what=st.sampled_from([*ACTIONS, "nothing"]), as_digest=st.booleans())
    def vote_otherwise(self, path: str, step: str, what: str, *, as_digest: bool) -> None:
        self.act(symbols.vote(path, step, what, as_digest=as_digest))

    @rule(what=st.sampled_from([symbols.WORK, symbols.GRACE, symbols.SWEEP, symbols.LEASE, symbols.DEADLINE]))
    def pass_time(self, what: Symbol) -> None:
        self.act(what)

    @rule(scope=st.sampled_from(["tool", "step", "both", "witness"]), step=steps, ttl_s=st.sampled_from([20, 60, 300]))
    def grant(self, scope: str, step: str, ttl_s: int) -> None:
        wanted = ACTIONS[self.theme]
        tool = None if scope == "step" or stage.tools(wanted.tool) is None else wanted.tool
        of_step = step if tool is None or scope in ("both", "witness") else None
        only = {"path": "replica", "digest": wanted.fence_digest} if scope == "witness" else {}
        self.act(symbols.grant(f"{scope}-{ttl_s}", step=of_step, tool=tool, ttl_s=ttl_s, **only))

    @rule(kind=st.sampled_from([Approve, Revoke, Approve, Revoke, Review]), by=st.sampled_from(["ann", "bob"]))
    def decide_grant(self, kind: type[Approve | Revoke | Review], by: str) -> None:
        self.act(symbols.decide_grant(kind, by=by))

    @rule(what=st.sampled_from(["lift", "lift", "lift", "tool", "run"]), by=st.sampled_from(["ann", "bob"]))
    def freeze_or_lift(self, what: str, by: str) -> None:
        frozen = symbols.freeze(ACTIONS[self.theme].tool if what == "tool" else None, by=by)
        self.act(symbols.lift(by=by, weight=1) if what == "lift" else frozen)

    @rule(older=st.booleans(), mutated=st.sampled_from([False, False, True]))
    def call(self, *, older: bool, mutated: bool) -> None:
        self.act(symbols.admit("a token", older=older, mutated=mutated))

    @rule(step=steps)
    def call_without_token(self, step: str) -> None:
        self.act(symbols.call_without_token(step))

    @rule(outcome=reported, older=st.booleans())
    def report(self, outcome: Kind, *, older: bool) -> None:
        self.act(symbols.report(outcome, older=older))

    @rule(happened=st.booleans())
    def resolve(self, *, happened: bool) -> None:
        self.act(symbols.resolve(happened=happened))

    @rule(what=st.sampled_from([symbols.RESTART, symbols.RESTART, symbols.STALE_RESTART, symbols.BACKWARD]))
    def restart(self, what: Symbol) -> None:
        self.act(what)

    @rule(step=steps)
    def replay(self, step: str) -> None:
        self.act(symbols.replay(step))

    @rule(back=st.integers(1, 12))
    def arrive_again(self, back: int) -> None:
        self.act(symbols.again(back))


class BranchMachine(FenceMachine):
    """The same run with speculative branches, ledgers and people who undo what should not have stayed."""

    @initialize()
    def fork(self) -> None:
        self.act(speculative.fork("f"))

    @rule(name=st.sampled_from(sorted(speculative.FORKS)))
    def open_fork(self, name: str) -> None:
        self.act(speculative.fork(name))

    @rule(step=st.sampled_from(sorted(PLACES)), what=st.sampled_from([*OPTIMISTIC, "refund"]), outcome=reported)
    def speculate(self, step: str, what: str, outcome: Kind) -> None:
        self.act(*speculative.speculate(step, what, outcome))

    @rule(step=st.sampled_from([*STEPS, *PLACES]), what=st.sampled_from([*OPTIMISTIC]))
    def want(self, step: str, what: str) -> None:
        self.act(*symbols.agree(step, what), speculative.call_for(step))

    @rule(end=st.sampled_from(ends))
    def reconcile(self, end: tuple[str, str | None]) -> None:
        self.act(speculative.reconcile(*end), symbols.WORK)

    @rule(outcome=reported)
    def undo(self, outcome: Kind) -> None:
        self.act(*speculative.undo(outcome))

    @rule(by=people, older=st.booleans(), is_stale=st.sampled_from([False, False, True]))
    def approve_undoing(self, by: str, *, older: bool, is_stale: bool) -> None:
        self.act(speculative.approve(by, older=older, is_stale=is_stale))

    @rule(by=people, what=st.sampled_from([speculative.waive, speculative.record, speculative.ask, speculative.adopt]))
    def decide_on_an_effect(self, by: str, what: Callable[[str], Symbol]) -> None:
        self.act(what(by))

    @rule(older=st.booleans(), mutated=st.sampled_from([False, False, True]))
    def call_to_undo(self, *, older: bool, mutated: bool) -> None:
        self.act(speculative.call_to_undo(older=older, mutated=mutated))

    @rule(outcome=reported, older=st.booleans())
    def report_undoing(self, outcome: Kind, *, older: bool) -> None:
        self.act(speculative.report_undoing(outcome, older=older))

    @rule(happened=st.booleans())
    def resolve_undoing(self, *, happened: bool) -> None:
        self.act(speculative.say_undone(happened=happened))

    @rule(what=st.sampled_from(sorted(EVERY_ACTION)), has_key=st.booleans())
    def escape(self, what: str, *, has_key: bool) -> None:
        self.act(speculative.escape(what, has_key=has_key))

    @rule(by_key=st.booleans())
    def show_in_a_ledger(self, *, by_key: bool) -> None:
        self.act(speculative.row_of_effect(by_key=by_key), speculative.row_of_undoing())
