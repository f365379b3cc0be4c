"""A state machine over a world: everybody does anything in any order, and the invariants are judged each time."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from fencing.protocol.intents import Kind
from fencing.protocol.simulate import stage, symbols
from fencing.protocol.simulate.strings import THEMES, opening
from fencing.protocol.simulate.symbols import ACTIONS, STEPS, Symbol
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
