"""T2 to T4: what a definition asks of the fence and the gateway."""

from fencing.protocol import rules
from fencing.protocol.fence import Rules
from fencing.protocol.intents import Retries
from fencing.protocol.simulate import stage
from tests.protocol.values import NOW, later


def test_a_definition_tells_the_fence_its_rules() -> None:
    assert rules.rules_of(stage.tools("refund")) == Rules()
    wire = rules.rules_of(stage.tools("wire_transfer"))
    assert (wire.grant_approvals, wire.max_grant_ttl_s) == (2, 300)
    assert rules.rules_of(stage.tools("send_mail")).has_advisory
    assert rules.rules_of(stage.tools("lookup_invoice")).is_read_only


def test_while_nobody_told_the_tool_the_defaults_hold() -> None:
    assert rules.rules_of(None) == Rules(grace_s=5, max_grant_ttl_s=900)


def test_a_definition_tells_how_it_is_tried_again() -> None:
    assert rules.retries_of(stage.tools("refund")) == Retries(is_idempotent=True, max_deliveries=3, lease_s=10)
    assert not rules.retries_of(stage.tools("wire_transfer")).is_idempotent
    assert not rules.retries_of(None).is_idempotent


def test_the_planners_deadline_comes_before_the_tools() -> None:
    assert rules.deadline_of(stage.tools("refund"), None, NOW) == later(120)
    assert rules.deadline_of(stage.tools("refund"), 3, NOW) == later(3)
    assert rules.deadline_of(None, None, NOW) == later(120)
