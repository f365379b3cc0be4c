"""The services, called by the events of a world in memory, and both records in words that both can say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencing.gateway import adopting, compensating, ledgers, outcomes, undoings
from fencing.models import (
    Commit,
    Compensation,
    CompensationDelivery,
    CompensationRelease,
    Delivery,
    Freeze,
    Incident,
    Intent,
    Run,
)
from fencing.protocol import intents
from fencing.protocol.actions import Action
from fencing.protocol.callers import Role
from fencing.protocol.errors import Refusal
from fencing.protocol.world import World, events
from fencing.protocol.world.events import Event
from fencing.protocol.world.records import Done, Result
from fencing.services import forks, runs
from fencing.services import grants as grant_services
from fencing.services.requests import (
    AdoptEffect,
    ApproveCompensation,
    AskCompensation,
    ObserveEffect,
    OpenFork,
    ReconcileFork,
    RecordCompensation,
    ReportOutcome,
    ResolveCompensation,
    RestartRun,
    WaiveCompensation,
)
from tests.stories import Story, Told, actor, told

WHY: Final = "looked at the ticket system"
NO_DIGEST: Final = "sha256:" + "0" * 64


def body(action: Action) -> dict[str, Any]:
    return {"tool": action.tool, "args": action.args}


class Beside:
    """The services of one run, called by the events of a world."""

    def __init__(self) -> None:
        self.story = Story()
        assert self.story.open()["status"] == 201
        self.run = Run.objects.get(name=self.story.run)
        self.people = {
            "ann": self.story.oncall,
            "bob": self.story.oncall2,
            "eve": self.story.reviewer,
            "dan": actor(Role.REVIEWER),
        }

    def do(self, event: Event, world: World) -> Told | None:
        """Call what an event stands for. `world` is what the event was made from: it knows the ids."""
        return CALLS[type(event)](self, event, world)

    # ---- planners, paths, and what works by itself ----

    def work(self, _event: events.Work, _world: World) -> None:
        self.story.decide()
        undoings.release_due()

    def sweep(self, _event: events.Sweep, _world: World) -> None:
        grant_services.expire_grants()
        forks.expire_forks()
        outcomes.sweep_intents()
        undoings.sweep_compensations()

    def propose(self, event: events.Propose, _world: World) -> Told:
        members = {name: getattr(event, name) for name in ("digest", "tool", "key", "branch") if getattr(event, name)}
        action = None if event.action is None else body(event.action)
        return self.story.propose(event.step, event.epoch, action=action, **members)

    def vote(self, event: events.Cast, _world: World) -> Told:
        by = self.story.production if event.path == "production" else self.story.replica
        members: dict[str, Any] = {"model": event.model, "prompt": event.prompt}
        if event.digest is not None:
            members["digest"] = event.digest
        if event.action is None and event.digest is None:
            members["abstain"] = "it could not"
        action = None if event.action is None else body(event.action)
        return self.story.vote(by, action, event.step, event.epoch, **members)

    def restart(self, event: events.Restart, _world: World) -> Told:
        request = RestartRun(
            run=self.story.run, expected_epoch=event.expected, epoch=event.number, reason="planner restarted"
        )
        return told(runs.restart_run(request, self.story.planner))

    def replay(self, event: events.Replay, _world: World) -> Told:
        return self.story.replay(event.step, event.from_epoch)

    def fork(self, event: events.OpenFork, _world: World) -> Told:
        asked = {name: getattr(event, name) for name in ("fork", "branches", "parent", "deadline_s")}
        return told(forks.open_fork(OpenFork(run=self.story.run, **asked), self.story.planner))

    def reconcile(self, event: events.Reconcile, _world: World) -> Told:
        request = ReconcileFork(run=self.story.run, fork=event.fork, winner=event.winner)
        return told(forks.reconcile_fork(request, self.story.planner))

    # ---- grants and freezes ----

    def issue(self, event: events.Issue, _world: World) -> Told:
        scope = {each: getattr(event, each) for each in ("step", "tool", "path", "digest", "max_uses", "epoch")}
        by = self.people[event.by]
        return self.story.grant(name=self.name(event.name), ttl_s=event.ttl_s, by=by, reason=event.reason, **scope)

    def decide_grant(self, event: events.Approve | events.Revoke | events.Review, _world: World) -> Told:
        call = {events.Approve: self.story.approve, events.Revoke: self.story.revoke, events.Review: self.story.review}
        return call[type(event)](self.name(event.name), by=self.people[event.by])

    def freeze(self, event: events.SetFreeze, _world: World) -> Told:
        scope = {"tool": event.tool} if event.tool else {"run": self.story.run}
        return self.story.freeze(by=self.people[event.by], **scope)

    def lift(self, event: events.LiftFreeze, world: World) -> Told:
        place = [each.id for each in world.freezes].index(event.freeze)
        freeze = list(Freeze.objects.order_by("id"))[place]
        return self.story.lift({"id": str(freeze.id)}, by=self.people[event.by])

    # ---- the gateway ----

    def admit(self, event: events.Admit, world: World) -> Told:
        place = {"run": self.story.run, "step": event.step} if event.step else {}
        return self.story.admit(self.token(event.token, world), body(event.action), **place)

    def report(self, event: events.Report, world: World) -> Told:
        intent = self.intent(event.intent, world)
        delivery = Delivery.objects.get(intent_id=intent, number=event.number)
        return self.story.report({"intent": intent, "delivery": str(delivery.id)}, event.outcome.value)

    def resolve(self, event: events.Resolve, world: World) -> Told:
        intent = self.intent(event.intent, world)
        return self.story.resolve({"intent": intent}, happened=event.happened, by=self.people[event.by])

    def report_undoing(self, event: events.ReportUndoing, world: World) -> Told:
        made = self.undoing(event.undoing, world)
        row = CompensationDelivery.objects.get(compensation=made, release__round=event.round, number=event.number)
        outcome: Any = event.outcome.value
        request = ReportOutcome(compensation=str(made.pk), delivery=str(row.pk), outcome=outcome)
        return told(outcomes.report_outcomes([request], self.story.gateway)[0])

    def observe(self, event: events.Observe, world: World) -> Told:
        action = None if event.action is None else body(event.action)
        key = self.key(event.of, world)
        request = ObserveEffect(tool=event.tool, external_id=event.external_id, action=action, idempotency_key=key)
        return told(ledgers.observe_effects([request], self.story.gateway)[0])

    # ---- people about effects ----

    def adopt(self, event: events.Adopt, world: World) -> Told:
        incident = Incident.objects.get(effect__external_id=event.effect, kind__in=["landed_escape", "doubled"])
        request = AdoptEffect(incident=str(incident.pk), reason=WHY)
        return told(adopting.adopt_effect(self.intent(event.intent, world), request, self.people[event.by]))

    def ask(self, event: events.Ask, world: World) -> Told:
        if event.intent is not None:
            about = {"intent": self.intent(event.intent, world)}
        else:
            wrong = Incident.objects.get(effect__external_id=event.effect, kind__in=["landed_escape", "doubled"])
            about = {"incident": str(wrong.pk)}
        return told(compensating.ask(AskCompensation(reason=WHY, **about), self.people[event.by]))

    def approve(self, event: events.ApproveUndoing, world: World) -> Told:
        request = ApproveCompensation(digest=event.digest, reason=WHY)
        made = self.undoing(event.undoing, world)
        return told(compensating.approve(str(made.pk), request, self.people[event.by]))

    def waive(self, event: events.Waive, world: World) -> Told:
        request = WaiveCompensation(digest=event.digest, reason=WHY)
        return told(compensating.waive(str(self.undoing(event.undoing, world).pk), request, self.people[event.by]))

    def record_by_hand(self, event: events.Record, world: World) -> Told:
        request = RecordCompensation(evidence=WHY)
        return told(compensating.record(str(self.undoing(event.undoing, world).pk), request, self.people[event.by]))

    def resolve_undoing(self, event: events.ResolveUndoing, world: World) -> Told:
        request = ResolveCompensation(happened=event.happened, evidence=WHY)
        return told(compensating.resolve(str(self.undoing(event.undoing, world).pk), request, self.people[event.by]))

    # ---- what things are called here ----

    def name(self, name: str) -> str:
        """A grant's name here: names are unique over all runs."""
        return f"{self.story.run}.{name}"

    def token(self, token: str | None, world: World) -> str | None:
        """The token of the same commit, or of the same approval, here."""
        found = next((each for each in world.steps if each.commit is not None and each.commit.token == token), None)
        if found is not None:
            return Commit.objects.get(run=self.run, step_name=found.facts.step, epoch=found.facts.epoch).token
        release = self.release(token, world)
        return token if release is None else release.token

    def release(self, token: str | None, world: World) -> CompensationRelease | None:
        """The release of the same approval here."""
        named, _, number = (token or "").rpartition("/")
        if all(each.id != named for each in world.undoings):
            return None
        return CompensationRelease.objects.get(compensation=self.undoing(named, world), round=int(number))

    def key(self, of: str | None, world: World) -> str | None:
        """The idempotency key of the same intent, or of the same approval, here."""
        intent = next((each for each in world.intents if each.id == of), None)
        if intent is not None:
            return intents.idempotency_key(self.story.run, intent.key, intent.facts.generation)
        release = self.release(of, world)
        row = None if release is None else CompensationDelivery.objects.filter(release=release).first()
        return of if row is None else row.idempotency_key

    def intent(self, intent: str, world: World) -> str:
        """The id of the same intent here."""
        found = next(each for each in world.intents if each.id == intent)
        return str(Intent.objects.get(run=self.run, key=found.key, generation=found.facts.generation).id)

    def undoing(self, undoing: str, world: World) -> Compensation:
        """The same compensation here: of the same effect, and as many before it."""
        found = next(each for each in world.undoings if each.id == undoing)
        alike = [each.id for each in world.undoings if (each.intent, each.effect) == (found.intent, found.effect)]
        about = {} if found.intent is None else {"intent_id": self.intent(found.intent, world)}
        rows = Compensation.objects.filter(effect__external_id=found.effect, **about).order_by("proposed_at", "id")
        return rows[alike.index(undoing)]


CALLS: Final[dict[type[Any], Callable[[Beside, Any, World], Told | None]]] = {
    events.Work: Beside.work,
    events.Sweep: Beside.sweep,
    events.Propose: Beside.propose,
    events.Cast: Beside.vote,
    events.Restart: Beside.restart,
    events.Replay: Beside.replay,
    events.OpenFork: Beside.fork,
    events.Reconcile: Beside.reconcile,
    events.Issue: Beside.issue,
    events.Approve: Beside.decide_grant,
    events.Revoke: Beside.decide_grant,
    events.Review: Beside.decide_grant,
    events.SetFreeze: Beside.freeze,
    events.LiftFreeze: Beside.lift,
    events.Admit: Beside.admit,
    events.Report: Beside.report,
    events.Resolve: Beside.resolve,
    events.ReportUndoing: Beside.report_undoing,
    events.Observe: Beside.observe,
    events.Adopt: Beside.adopt,
    events.Ask: Beside.ask,
    events.ApproveUndoing: Beside.approve,
    events.Waive: Beside.waive,
    events.Record: Beside.record_by_hand,
    events.ResolveUndoing: Beside.resolve_undoing,
}


def answer_of(result: Result) -> dict[str, Any]:
    """What an answer says, in words that both can say."""
    if isinstance(result, Refusal):
        return {"code": result.code.value}
    said: dict[str, Any] = {"duplicate": True} if result.duplicate else {}
    if result.number is not None:
        said["admit"] = True
    if result.match is not None:
        said["match"] = result.match.value
    return said if result.duplicate else said | _reached(result)


def _reached(result: Done) -> dict[str, Any]:
    """What a reconciliation reached: which keys, and how many compensations."""
    reached = {
        "cancelled": list(result.cancelled),
        "compensations": len(result.owed),
        "withdrawn": len(result.withdrawn),
    }
    return {name: told for name, told in reached.items() if told}


def compared(answer: Told | None, event: Event) -> dict[str, Any]:
    """The members of an answer here that a world gives, too."""
    if answer is None:
        return {}
    names = ["code", "duplicate"]
    match event:
        case events.Admit():
            names.append("admit")
        case events.Observe():
            names.append("match")
        case events.Reconcile() if not answer.get("duplicate"):
            counted = {name: len(answer[name]) for name in ("compensations", "withdrawn") if answer.get(name)}
            cancelled = {"cancelled": answer["cancelled"]} if answer.get("cancelled") else {}
            return {name: answer[name] for name in names if answer.get(name)} | counted | cancelled
        case _:
            pass
    return {name: answer[name] for name in names if answer.get(name) and "exempt" not in answer}
