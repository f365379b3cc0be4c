"""Stories without HTTP: the actors of one run, who call the services as their keys would, on the real database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fencing.gateway import admissions, outcomes
from fencing.models import Credential
from fencing.protocol.answers import Result
from fencing.protocol.callers import Caller, Role
from fencing.protocol.canonical import canonical_bytes, digest_of
from fencing.protocol.errors import Refusal
from fencing.queries import grants as grant_queries
from fencing.queries import intents as intent_queries
from fencing.queries import steps as step_queries
from fencing.queries.pages import Page
from fencing.services import fencing, freezes, grants, runs, signing, steps, votes
from fencing.services.credentials import COMMAND_LINE
from fencing.services.requests import (
    Admit,
    CastVote,
    DecideGrant,
    FreezeScope,
    IssueGrant,
    OpenRun,
    ProposeStep,
    ReplayStep,
    ReportOutcome,
    ResolveIntent,
    RestartRun,
    SetFreeze,
)
from fencing.services.tools import LoadReport, load_definitions
from tests.factories import fresh, make_credential

Told = dict[str, Any]
Action = Mapping[str, Any]

REFUND: Final[Action] = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
OTHER_REFUND: Final[Action] = {"tool": "refund", "args": {"invoice": 9, "cents": 1}}
MAIL: Final[Action] = {"tool": "send_mail", "args": {"to": "a@example.org", "body": "one"}}
OTHER_MAIL: Final[Action] = {"tool": "send_mail", "args": {"to": "a@example.org", "body": "two"}}
NOTE: Final[Action] = {"tool": "send_note", "args": {"to": "oncall"}}
REASON: Final = "replica host is down since 02:10"
EPOCH: Final = 7
MOST_BATCHES: Final = 200

_LEASE: Final = {"grace_s": 0, "lease_s": 1, "max_deliveries": 3}
TOOLS: Final[list[dict[str, Any]]] = [
    {"tool": "refund", "idempotent": True, "resources": ["/invoice"], "policy": _LEASE},
    {"tool": "refund_slow", "idempotent": True, "policy": {**_LEASE, "grace_s": 60}},
    {"tool": "send_mail", "idempotent": True, "advisory": ["/body"], "policy": _LEASE},
    {"tool": "send_note", "idempotent": False, "policy": _LEASE},
    {"tool": "wire", "idempotent": False, "policy": {**_LEASE, "grant_approvals": 2}},
    {"tool": "solo_note", "idempotent": True, "policy": {**_LEASE, "required_paths": ["production"]}},
    {"tool": "look_up", "effect": "read_only"},
]


def digest(action: Action) -> str:
    """The payload digest of an action."""
    return digest_of(canonical_bytes(dict(action)))


def told(result: Result) -> Told:
    """What a service answered, as its caller sees it; a refusal by its code."""
    if isinstance(result, Refusal):
        return {"code": result.code.value, "pointer": result.pointer, **result.extras}
    return {"status": result.status, **result.body}


def actor(role: Role, *, path: str | None = None, group: str = "", tools: frozenset[str] | None = None) -> Caller:
    """Make a key and speak as its owner."""
    row: Credential = make_credential(role=role.value, path=path, group=group or fresh("group"))
    is_person = role in (Role.ONCALL, Role.REVIEWER)
    return Caller(
        credential_id=row.id,
        name=row.name,
        role=role,
        group=row.group,
        path=path,
        tools=tools,
        person_id=row.person_id if is_person else None,
        person=row.person.get_username() if is_person and row.person else None,
    )


def register(definitions: list[dict[str, Any]] | None = None) -> LoadReport:
    """Register tools, those of the stories unless others are named, and have a key to sign with."""
    signing.ensure_keys()
    report = load_definitions(TOOLS if definitions is None else definitions, COMMAND_LINE)
    assert isinstance(report, LoadReport), report
    return report


@dataclass(kw_only=True)
class Story:
    """A run with everybody who acts in it. Each call gives what its caller is told."""

    run: str = field(default_factory=lambda: fresh("run"))
    planner: Caller = field(default_factory=lambda: actor(Role.PLANNER))
    production: Caller = field(default_factory=lambda: actor(Role.PATH, path="production"))
    replica: Caller = field(default_factory=lambda: actor(Role.PATH, path="replica"))
    third: Caller = field(default_factory=lambda: actor(Role.PATH, path="third"))
    gateway: Caller = field(default_factory=lambda: actor(Role.GATEWAY))
    oncall: Caller = field(default_factory=lambda: actor(Role.ONCALL))
    oncall2: Caller = field(default_factory=lambda: actor(Role.ONCALL))
    reviewer: Caller = field(default_factory=lambda: actor(Role.REVIEWER))

    @classmethod
    def begin(cls) -> Story:
        """Register the tools and open the run in epoch 7."""
        register()
        story = cls()
        assert story.open()["status"] == 201
        return story

    def open(self, epoch: int = EPOCH) -> Told:
        return told(runs.open_runs([OpenRun(run=self.run, epoch=epoch)], self.planner)[0])

    def restart(self, expected: int = EPOCH, *, by: Caller | None = None) -> Told:
        request = RestartRun(run=self.run, expected_epoch=expected, reason="planner restarted")
        return told(runs.restart_run(request, by or self.planner))

    def propose(self, step: str = "s1", epoch: int = EPOCH, *, by: Caller | None = None, **members: Any) -> Told:
        request = ProposeStep(run=self.run, step=step, epoch=epoch, **members)
        return told(steps.propose_steps([request], by or self.planner)[0])

    def replay(self, step: str = "s1", from_epoch: int = EPOCH, *, by: Caller | None = None) -> Told:
        request = ReplayStep(run=self.run, step=step, from_epoch=from_epoch, reason="try again")
        return told(steps.replay_step(request, by or self.planner))

    def vote(
        self, by: Caller, action: Action | None = REFUND, step: str = "s1", epoch: int = EPOCH, **members: Any
    ) -> Told:
        request = CastVote(
            run=self.run, step=step, epoch=epoch, action=None if action is None else dict(action), **members
        )
        return told(votes.cast_votes([request], by)[0])

    def grant(self, *, ttl_s: int = 60, name: str | None = None, by: Caller | None = None, **members: Any) -> Told:
        scope: dict[str, Any] = {"epoch": EPOCH, "reason": REASON} | members
        request = IssueGrant(name=name or fresh("grant"), run=self.run, ttl_s=ttl_s, **scope)
        return told(grants.issue_grant(request, by or self.oncall))

    def revoke(self, name: str, *, by: Caller | None = None) -> Told:
        return told(grants.revoke_grant(name, DecideGrant(reason="wrong customer"), by or self.oncall))

    def approve(self, name: str, *, by: Caller | None = None) -> Told:
        return told(grants.approve_grant(name, DecideGrant(reason="checked with finance"), by or self.oncall2))

    def review(self, name: str, *, by: Caller | None = None) -> Told:
        return told(grants.review_grant(name, DecideGrant(reason="it did what it should"), by or self.reviewer))

    def freeze(self, *, by: Caller | None = None, reason: str = "something is very wrong", **scope: str) -> Told:
        """Freeze a tool, a run, or with no scope everything."""
        request = SetFreeze(scope=FreezeScope(**scope), reason=reason)  # type: ignore[typeddict-item]
        return told(freezes.freeze(request, by or self.oncall))

    def lift(self, frozen: Told, *, by: Caller | None = None) -> Told:
        return told(
            freezes.lift_freeze(str(frozen["id"]), DecideGrant(reason="checked, it is fine"), by or self.oncall2)
        )

    def admit(self, token: str | None, action: Action = REFUND, **place: Any) -> Told:
        return told(admissions.admit([Admit(action=dict(action), token=token, **place)], self.gateway)[0])

    def report(self, admitted: Told, outcome: Any, **members: Any) -> Told:
        request = ReportOutcome(intent=admitted["intent"], delivery=admitted["delivery"], outcome=outcome, **members)
        return told(outcomes.report_outcomes([request], self.gateway)[0])

    def resolve(self, admitted: Told, *, happened: bool, by: Caller | None = None) -> Told:
        request = ResolveIntent(happened=happened, evidence="seen in the outbox")
        return told(outcomes.resolve_intent(admitted["intent"], request, by or self.reviewer))

    # -- what is there -------------------------------------------------------------------------------------------

    def step(self, step: str = "s1", epoch: int = EPOCH) -> Told:
        return told(step_queries.get_step(self.run, step, epoch, self.planner))

    def intent(self, admitted: Told) -> Told:
        return told(intent_queries.get_intent(admitted["intent"], self.planner))

    def intents(self, **filters: object) -> list[Told]:
        """The intents that a list shows."""
        found = intent_queries.list_intents(filters, Page(limit=100), self.planner)
        assert not isinstance(found, Refusal), found
        return [dict(each) for each in found[0]]

    def grant_state(self, name: str) -> Any:
        return told(grant_queries.get_grant(name, self.planner))["state"]

    def token(self, step: str = "s1", epoch: int = EPOCH) -> str:
        """The token of a step that must be committed."""
        body = self.step(step, epoch)
        assert body["phase"] == "committed", body
        assert body["commit"] is not None, body
        return str(body["commit"]["token"])

    # -- chapters ------------------------------------------------------------------------------------------------

    def decide(self) -> None:
        """Let the fencer decide what is due."""
        for _ in range(MOST_BATCHES):
            if not fencing.decide_due():
                return
        raise AssertionError("the fencer does not come to an end")

    def sweep(self) -> None:
        """Find what the clock alone has made due, and let the fencer decide."""
        grants.expire_grants()
        outcomes.sweep_intents()
        self.decide()

    def agree(self, step: str = "s1", action: Action = REFUND, epoch: int = EPOCH, **members: Any) -> str:
        """Propose, have both paths vote alike, and give the token of the commit."""
        assert "code" not in self.propose(step, epoch, **members)
        for path in (self.replica, self.production):
            assert "code" not in self.vote(path, action, step, epoch)
        self.decide()
        return self.token(step, epoch)

    def go_alone(
        self, step: str = "s1", action: Action = REFUND, *, ttl_s: int = 60, **members: Any
    ) -> tuple[str, str]:
        """Commit a step by the production path alone; give its token and the grant's name."""
        name = str(self.grant(ttl_s=ttl_s, tool=str(action["tool"]))["name"])
        assert "code" not in self.propose(step, **members)
        assert "code" not in self.vote(self.production, action, step)
        self.decide()
        return self.token(step), name
