"""A publisher, scorers and a reviewer at the services: what they send, with a default for everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from fencing.protocol.callers import Caller, Role
from fencing.services import attempts, fragments, lanes, permits, publishing
from fencing.services.requests import (
    AskPermit,
    LeaseFragments,
    MakeAttempt,
    MakeLane,
    PublishAttempt,
    ReportSpend,
    RestartAttempt,
    ResumeLane,
    SendFragment,
    SetThresholds,
    Thresholds,
)
from tests.factories import fresh
from tests.stories import Told, actor, told


@dataclass(kw_only=True)
class Marking:
    """A lane and one attempt of two fragments in it."""

    publisher: Caller = field(default_factory=lambda: actor(Role.PUBLISHER))
    scorer: Caller = field(default_factory=lambda: actor(Role.SCORER))
    reviewer: Caller = field(default_factory=lambda: actor(Role.REVIEWER))
    lane: str = field(default_factory=lambda: fresh("lane"))
    attempt: str = field(default_factory=lambda: fresh("attempt"))

    @classmethod
    def begin(cls, *, expected: int = 2, **more: Any) -> Self:
        """Make the lane and the attempt."""
        marking = cls()
        assert told(lanes.make_lane(MakeLane(lane=marking.lane, thresholds={}), marking.publisher))["status"] == 201
        marking.admit(marking.attempt, expected=expected, **more)
        return marking

    def admit(self, name: str, *, expected: int = 2, **more: Any) -> Told:
        request = MakeAttempt(attempt=name, lane=self.lane, expected=expected, **more)
        answer = told(attempts.make_attempt(request, self.publisher))
        assert answer["status"] == 201, answer
        return answer

    def send(self, seq: int, epoch: int = 1, body: str = "sample", **more: Any) -> Told:
        request = SendFragment(attempt=self.attempt, epoch=epoch, seq=seq, body=body, **{"score": 0.5, **more})
        return told(fragments.send_fragments([request], self.scorer)[0])

    def whole(self, epoch: int = 1, expected: int = 2) -> None:
        for seq in range(expected):
            assert self.send(seq, epoch)["result"] == "accept"

    def restart(self, expected_epoch: int = 1, reason: str = "worker restarted") -> Told:
        request = RestartAttempt(attempt=self.attempt, expected_epoch=expected_epoch, reason=reason)
        return told(attempts.restart_attempt(request, self.publisher))

    def publish(self, expected: int | None = None) -> Told:
        return told(publishing.publish_attempt(PublishAttempt(attempt=self.attempt, expected=expected), self.publisher))

    def lease(self, limit: int = 1) -> list[dict[str, Any]]:
        answer = told(fragments.lease_fragments(LeaseFragments(lane=self.lane, limit=limit), self.scorer))
        items: list[dict[str, Any]] = answer["items"]
        return items

    def permit(self, seq: int = 0, epoch: int = 1) -> Told:
        return told(permits.ask_permits([AskPermit(attempt=self.attempt, epoch=epoch, seq=seq)], self.scorer)[0])

    def spend(self, permit: str, tokens: int = 1000, model: str | None = None) -> Told:
        request = ReportSpend(permit=permit, tokens_in=tokens, tokens_out=tokens, model=model)
        return told(permits.report_spend([request], self.scorer)[0])

    def resume(self, reason: str = "It was a drill.", seen: int | None = None) -> Told:
        return told(lanes.resume_lane(self.lane, ResumeLane(reason=reason), self.reviewer, seen=seen))

    def ask(self, thresholds: Thresholds, reason: str = "for the launch", seen: int | None = None) -> Told:
        request = SetThresholds(thresholds=thresholds, reason=reason)
        return told(lanes.set_thresholds(self.lane, request, self.reviewer, seen=seen))
