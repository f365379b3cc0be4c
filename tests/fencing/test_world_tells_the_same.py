"""The world in memory and the services tell the same story: random strings of events, played on both, answer by answer.

It is what makes the simulator a statement about this system. Time stands nearly still (no grace, long leases): what the
clock does is told by the tests of the core and by `test_stories`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any, Final, assert_never

import pytest

from fencing.gateway import outcomes
from fencing.models import Commit, Delivery, Freeze, Grant, Incident, Intent, Run, Step, Vote
from fencing.models.facts import read_clock
from fencing.protocol import grants
from fencing.protocol.actions import Action
from fencing.protocol.errors import Refusal
from fencing.protocol.intents import State
from fencing.protocol.simulate import stage
from fencing.protocol.simulate.forms import KINDS, event_text
from fencing.protocol.simulate.strings import random_string
from fencing.protocol.tools import ToolDefinition, read_tool
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
from fencing.protocol.world.records import Result
from fencing.services import grants as grant_services
from fencing.services import runs
from fencing.services.requests import RestartRun
from tests.length import long_or
from tests.stories import Story, Told, register, told

pytestmark = pytest.mark.django_db

STILL: Final = {"grace_s": 0, "lease_s": 3600, "deadline_s": 3600}
# Seeds in whose strings everything happens that the letters can bring about without time; `--long` tries more.
CHOSEN: Final = (4, 6, 9, 107, 256, 580, 668, 830)
SEEDS: Final = long_or(CHOSEN, long=tuple(range(300)))


def timeless(tool: ToolDefinition) -> dict[str, Any]:
    """A tool of the simulator's stage, for which time does not matter."""
    form = tool.as_json()
    policy = form["policy"]
    assert isinstance(policy, dict)
    return {**form, "policy": {**policy, **STILL}}


def read(form: dict[str, Any]) -> ToolDefinition:
    tool = read_tool(form)
    assert isinstance(tool, ToolDefinition)
    return tool


TOOLS: Final = {name: timeless(tool) for name, tool in stage.TOOLS.items()}


def body(action: Action) -> dict[str, Any]:
    return {"tool": action.tool, "args": action.args}


class Beside:
    """The services, called by the events of a world."""

    def __init__(self) -> None:
        self.story = Story()
        assert self.story.open()["status"] == 201
        self.run = Run.objects.get(name=self.story.run)
        self.people = {"ann": self.story.oncall, "bob": self.story.oncall2, "eve": self.story.reviewer}

    def do(self, event: Event, world: World) -> Told | None:
        """Call what an event stands for. `world` is what the event was made from: it knows the ids."""
        match event:
            case Work():
                self.story.decide()
                return None
            case Sweep():
                grant_services.expire_grants()
                outcomes.sweep_intents()
                return None
            case Propose() | Cast() | Restart() | Replay():
                return self._step(event)
            case Issue() | Approve() | Revoke() | Review():
                return self._grant(event)
            case SetFreeze() | LiftFreeze():
                return self._freeze(event, world)
            case Admit() | Report() | Resolve():
                return self._gateway(event, world)
            case _:
                assert_never(event)

    def _step(self, event: Propose | Cast | Restart | Replay) -> Told:
        match event:
            case Propose():
                members = {name: getattr(event, name) for name in ("digest", "tool", "key") if getattr(event, name)}
                action = None if event.action is None else body(event.action)
                return self.story.propose(event.step, event.epoch, action=action, **members)
            case Cast():
                return self._vote(event)
            case Restart():
                return self._restart(event)
            case Replay():
                return self.story.replay(event.step, event.from_epoch)

    def _grant(self, event: Issue | Approve | Revoke | Review) -> Told:
        name, by = self.name(event.name), self.people[event.by]
        match event:
            case Issue():
                scope = {each: getattr(event, each) for each in ("step", "tool", "path", "digest", "max_uses", "epoch")}
                return self.story.grant(name=name, ttl_s=event.ttl_s, by=by, reason=event.reason, **scope)
            case Approve():
                return self.story.approve(name, by=by)
            case Revoke():
                return self.story.revoke(name, by=by)
            case Review():
                return self.story.review(name, by=by)

    def _freeze(self, event: SetFreeze | LiftFreeze, world: World) -> Told:
        by = self.people[event.by]
        if isinstance(event, SetFreeze):
            scope = {"tool": event.tool} if event.tool else {"run": self.story.run}
            return self.story.freeze(by=by, **scope)
        place = [each.id for each in world.freezes].index(event.freeze)
        return self.story.lift({"id": str(self.freezes()[place].id)}, by=by)

    def freezes(self) -> list[Freeze]:
        """The freezes, in the order in which they were set."""
        return list(Freeze.objects.order_by("id"))

    def _gateway(self, event: Admit | Report | Resolve, world: World) -> Told:
        match event:
            case Admit():
                place = {"run": self.story.run, "step": event.step} if event.step else {}
                return self.story.admit(self.token(event.token, world), body(event.action), **place)
            case Report():
                return self._report(event, world)
            case Resolve():
                intent = self.intent(event.intent, world)
                return self.story.resolve({"intent": intent}, happened=event.happened, by=self.people[event.by])

    def name(self, name: str) -> str:
        """A grant's name here: names are unique over all runs."""
        return f"{self.story.run}.{name}"

    def token(self, token: str | None, world: World) -> str | None:
        """The token of the same commit here."""
        found = next((each for each in world.steps if each.commit is not None and each.commit.token == token), None)
        if found is None:
            return token
        return Commit.objects.get(run=self.run, step_name=found.facts.step, epoch=found.facts.epoch).token

    def intent(self, intent: str, world: World) -> str:
        """The id of the same intent here."""
        found = next(each for each in world.intents if each.id == intent)
        return str(Intent.objects.get(run=self.run, key=found.key, generation=found.facts.generation).id)

    def _vote(self, event: Cast) -> Told:
        by = self.story.production if event.path == "production" else self.story.replica
        members: dict[str, Any] = {"model": event.model, "prompt": event.prompt}
        if event.digest is not None:
            members["digest"] = event.digest
        if event.action is None and event.digest is None:
            members["abstain"] = "it could not"
        action = None if event.action is None else body(event.action)
        return self.story.vote(by, action, event.step, event.epoch, **members)

    def _restart(self, event: Restart) -> Told:
        request = RestartRun(
            run=self.story.run, expected_epoch=event.expected, epoch=event.number, reason="planner restarted"
        )
        return told(runs.restart_run(request, self.story.planner))

    def _report(self, event: Report, world: World) -> Told:
        intent = self.intent(event.intent, world)
        delivery = Delivery.objects.get(intent_id=intent, number=event.number)
        return self.story.report({"intent": intent, "delivery": str(delivery.id)}, event.outcome.value)

    def record(self) -> dict[str, Any]:
        """What is on record here, in the words of `record_of`."""
        self.run.refresh_from_db()
        steps = Step.objects.filter(run=self.run)
        return {
            "epochs": (self.run.epoch, self.run.counter),
            "steps": {(each.name, each.epoch): (each.phase, each.reason) for each in steps},
            "votes": {
                (each.name, each.epoch): list(
                    Vote.objects.filter(step=each).order_by("received_at", "id").values_list("path", "digest")
                )
                for each in steps
            },
            "commits": {
                (each.step_name, each.epoch): (each.authority, each.payload_id, each.closed_at is None)
                for each in Commit.objects.filter(run=self.run)
            },
            "grants": {
                each.name: (self.story.grant_state(each.name), each.uses, each.reviewed_at is not None)
                for each in Grant.objects.filter(run=self.run)
            },
            "freezes": [(each.tool, each.lifted_at is None) for each in self.freezes()],
            "intents": {
                (each.key, each.generation): (each.state, self._claims(each), self._outcomes(each))
                for each in Intent.objects.filter(run=self.run)
            },
            "incidents": sorted(Incident.objects.filter(run=self.run).values_list("kind", flat=True)),
        }

    def _claims(self, intent: Intent) -> list[tuple[str, int, str]]:
        return sorted(intent.claims.values_list("step__name", "step__epoch", "state"))

    def _outcomes(self, intent: Intent) -> list[str | None]:
        found = []
        for delivery in Delivery.objects.filter(intent=intent).order_by("number"):
            last = delivery.outcomes.filter(is_effective=True).order_by("recorded_at", "id").last()
            found.append(None if last is None else last.outcome)
        return found


def record_of(world: World, beside: Beside, now: datetime) -> dict[str, Any]:
    """What a world has on record, in words that both can say."""
    return {
        "epochs": (world.epochs.epoch, world.epochs.counter),
        "steps": {each.place: (each.phase, each.reason) for each in world.steps},
        "votes": {each.place: [(vote.path, vote.digest) for vote in each.facts.votes] for each in world.steps},
        "commits": {
            each.place: (each.commit.authority, each.commit.payload, each.commit.stands)
            for each in world.steps
            if each.commit is not None
        },
        "grants": {
            beside.name(each.facts.name): (
                grants.state_of(each.facts, now),
                each.facts.uses,
                each.facts.reviewed_at is not None,
            )
            for each in world.grants
        },
        "freezes": [(each.asked.tool, each.lifted_by is None) for each in world.freezes],
        "intents": {
            (each.key, each.facts.generation): (
                each.facts.state,
                sorted((claim.step, claim.epoch, claim.state) for claim in each.claims),
                [delivery.outcome for delivery in each.facts.deliveries],
            )
            for each in world.intents
        },
        "incidents": sorted(each.kind for each in world.incidents),
    }


def answer_of(result: Result) -> dict[str, Any]:
    """What an answer says, in words that both can say."""
    if isinstance(result, Refusal):
        return {"code": result.code.value}
    said: dict[str, Any] = {"duplicate": True} if result.duplicate else {}
    if result.number is not None:
        said["admit"] = True
    return said


def compared(answer: Told | None, event: Event) -> dict[str, Any]:
    """The members of an answer here that a world gives, too."""
    if answer is None:
        return {}
    names = ("code", "duplicate", "admit") if isinstance(event, Admit) else ("code", "duplicate")
    return {name: answer[name] for name in names if answer.get(name) and "exempt" not in answer}


@pytest.mark.parametrize("seed", SEEDS)
def test_services_and_world_tell_the_same(seed: int) -> None:
    tell_the_same(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_straight_way_and_the_world_tell_the_same(seed: int, straight_way: list[int]) -> None:
    tell_the_same(seed)
    assert sum(straight_way) > 0, "nothing went the straight way: the string shows nothing"


def tell_the_same(seed: int) -> None:
    register(list(TOOLS.values()))
    definitions = {name: read(form) for name, form in TOOLS.items()}
    world, beside = World.opened(definitions.get), Beside()
    world = replace(world, run=beside.story.run)
    said: list[str] = []
    for symbol in random_string(Random(seed)):  # noqa: S311 - a seed, no secret
        event = symbol.event(world)
        if event is None:
            continue
        said.append(event_text(event))
        before, answer = world, beside.do(event, world)
        now = read_clock()
        world, result = before.handle(event, now)
        assert compared(answer, event) == answer_of(result), "\n".join(said)
        assert beside.record() == record_of(world, beside, now), "\n".join(said)


def test_the_strings_reach_everything_that_matters() -> None:
    reached: set[str] = set()
    definitions = {name: read(form) for name, form in TOOLS.items()}
    for seed in CHOSEN:
        world = World.opened(definitions.get)
        for symbol in random_string(Random(seed)):  # noqa: S311 - a seed, no secret
            event = symbol.event(world)
            if event is not None:
                world, result = world.handle(event, stage.START)
                reached.add(type(event).__name__ + (f" {result.code.value}" if isinstance(result, Refusal) else ""))
                if isinstance(event, SetFreeze) and not isinstance(result, Refusal) and result.touched:
                    reached.add("a freeze stops")
                reached.update(each.reason.value for each in world.steps if each.reason is not None)
                reached.update(f"intent {each.facts.state.value}" for each in world.intents)
                reached.update(f"by {each.commit.authority}" for each in world.steps if each.commit is not None)
    assert reached >= {"agreement", "grant", "divergence", "equivocation", "proposal_mismatch", "key_conflict"}
    assert reached >= {"superseded", "late_divergence", "epoch_closed", "grant_revoked", "effect_failed", "read_only"}
    assert reached >= {f"intent {state.value}" for state in State}
    assert reached >= {"by agreement", "by grant", "by both"}
    assert reached >= {kind.__name__ for kind in KINDS.values()}
    assert reached >= {"Admit revoked", "Admit payload_mismatch", "Admit in_doubt", "Report outcome_conflict"}
    assert reached >= {"Admit frozen", "Issue frozen", "LiftFreeze own_freeze", "Review own_grant", "a freeze stops"}
