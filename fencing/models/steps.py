"""Steps and the votes on them (protocol, section 6)."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce

from fencing.models import counts, fields, triggers
from fencing.models.actions import Action
from fencing.models.forks import refused_by_branch
from fencing.models.runs import Run
from fencing.protocol import fence

PROPOSAL = (
    "branch",
    "registry",
    "pinned_digest",
    "pinned_payload",
    "pinned_tool",
    "key",
    "occurrence",
    "deadline_s",
    "content_digest",
    "context_ref",
    "proposed_at",
)
DECISION = (
    "deadline_at",
    "phase",
    "reason",
    "fenced_at",
    "fenced_by",
    "decided_at",
    "difference",
    "is_correlated",
    "due_at",
)


PHASE_GUARD = f"""
wrong := CASE
    -- F7: what is rejected or exempt stays so, for the reason and since the moment that were recorded.
    -- L7: so does a step whose effect definitely failed.
    WHEN (OLD.phase IN ('rejected', 'exempt') OR OLD.phase = 'committed' AND OLD.reason = 'effect_failed')
        AND (NEW.phase, NEW.reason, NEW.decided_at) IS DISTINCT FROM (OLD.phase, OLD.reason, OLD.decided_at)
        THEN 'step_final: F7, the step is decided for good'
    -- Section 6: the moves of a step, from the one table in `fencing.protocol.fence`.
    WHEN NEW.phase <> OLD.phase AND NOT {triggers.moves(fence.TRANSITIONS, "phase")}
        THEN 'step_moves: F3, a step in ' || OLD.phase || ' does not become ' || NEW.phase
    WHEN NEW.phase = OLD.phase AND OLD.phase = 'committed' AND NEW.reason IS DISTINCT FROM OLD.reason
        AND NEW.reason IS DISTINCT FROM 'effect_failed'
        THEN 'step_moves: F4, a committed step keeps its reason'
    -- F9: who may not commit may take authority away, and never gives any.
    WHEN NEW.phase <> OLD.phase AND NEW.phase IN ('agreed', 'fenced', 'committed')
        AND NOT has_table_privilege('fencing_commit', 'INSERT')
        THEN 'step_decided_by_the_fencer: F9, agreeing, fencing and committing is the fencer''s alone'
END;
"""


# What a step refers to is there, and never goes. A proposal that fills an idle step comes later, by an update.
STEP_GUARD = """
SELECT min(CASE
    WHEN run.epoch IS NULL THEN 'step_in_its_run: R1, there is no such run'
    WHEN step.pinned_payload_id IS NOT NULL AND action.tool IS NULL
        THEN 'step_action_stored: C7, the action is not stored'
END) INTO wrong
FROM new_rows AS step
LEFT JOIN LATERAL (SELECT epoch FROM fencing_run WHERE id = step.run_id LIMIT 1) AS run ON true
LEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = step.pinned_payload_id LIMIT 1)
    AS action ON true;
"""
ACTION_GUARD = """
IF NEW.pinned_payload_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM fencing_action WHERE payload_digest = NEW.pinned_payload_id)
THEN
    wrong := 'step_action_stored: C7, the action is not stored';
END IF;
"""


# B1, B4: a step lies in a branch that is there and not lost. Its row is locked, so that no reconciliation passes.
BRANCH_GUARD = f"""
PERFORM FROM fencing_branch WHERE run_id = NEW.run_id AND name = NEW.branch FOR SHARE;
IF {refused_by_branch(run="NEW.run_id", branch="NEW.branch", unless="state <> 'lost'")} THEN
    wrong := 'step_in_a_living_branch: B4, the branch is lost or not there';
END IF;
"""


# The reasons for which paths visibly disagreed: what a reviewer looks at.
DIVERGED = ["divergence", "equivocation", "proposal_mismatch", "late_divergence"]


class Step(models.Model):
    """One decision inside a run: (run, step, epoch).

    `phase` and what follows from it change by compare-and-set and can be recomputed from the facts. `due_at` is the
    work list of the fencer: the moment from which the step wants a look, and null where only a new fact can move it.
    """

    class Phase(models.TextChoices):
        """Where a step is (section 6)."""

        IDLE = "idle"
        PROPOSED = "proposed"
        AGREED = "agreed"
        FENCED = "fenced"
        COMMITTED = "committed"
        REJECTED = "rejected"
        EXEMPT = "exempt"

    id = fields.key()
    # Run and action without a constraint: `step_in_its_run` and `step_action_stored` look them up.
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="steps"
    )
    name = fields.identifier()
    epoch = models.BigIntegerField()
    branch = fields.identifier(null=True)
    phase = models.CharField(max_length=9, choices=Phase)
    reason = models.CharField(max_length=40, null=True)
    # The registry as it was when the step was proposed; null while it is idle.
    registry = models.BigIntegerField(null=True)
    pinned_digest = fields.digest(null=True)
    pinned_payload: models.ForeignKey[Any, Any] = models.ForeignKey(
        Action, on_delete=models.PROTECT, null=True, db_index=False, db_constraint=False, related_name="+"
    )
    pinned_tool = fields.identifier(null=True)
    # The planner's own invocation key and occurrence (L1).
    key = fields.identifier(null=True)
    occurrence = models.BigIntegerField(default=0)
    # Seconds, where the planner named its own deadline instead of the tool's (F1).
    deadline_s = models.FloatField(null=True)
    deadline_at = models.DateTimeField(null=True)
    content_digest = fields.digest(null=True)
    context_ref = models.CharField(max_length=200, null=True)
    proposed_at = models.DateTimeField(null=True)
    fenced_at = models.DateTimeField(null=True)
    fenced_by: models.ForeignKey[Any, Any] = models.ForeignKey(
        "fencing.Grant", on_delete=models.PROTECT, null=True, db_index=False, related_name="fenced_steps"
    )
    decided_at = models.DateTimeField(null=True)
    difference = models.CharField(max_length=40, null=True)
    is_correlated = models.BooleanField(default=False)
    due_at = models.DateTimeField(null=True)
    opened_at = fields.recorded_at()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "name", "epoch"], name="step_once"),
            # A restart also rejects steps that a replay opened and nobody proposed (R3).
            models.CheckConstraint(
                condition=Q(phase__in=["idle", "rejected"])
                | Q(proposed_at__isnull=False, registry__isnull=False, deadline_at__isnull=False),
                name="step_proposed_or_idle",
            ),
            models.CheckConstraint(
                condition=~Q(phase="fenced") | Q(fenced_at__isnull=False, fenced_by__isnull=False),
                name="step_fenced_by_a_grant",
            ),
        ]
        indexes = [
            # The fencer's question alone: what is due? Its cost grows with what is due, never with history.
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="step_due"),
            models.Index(
                fields=["phase", "proposed_at"],
                condition=Q(phase__in=["proposed", "agreed", "fenced"]),
                name="step_undecided",
            ),
            # Counted beside them: what a replay opened and nobody proposed.
            models.Index(fields=["opened_at"], condition=Q(phase="idle"), name="step_idle"),
            # What a revocation has to call back (G5).
            models.Index(fields=["fenced_by"], condition=Q(phase="fenced"), name="step_fenced_under"),
            # The reviewer's inbox, newest first, and the figures of the last hours.
            models.Index(
                F("decided_at").desc(),
                F("id").desc(),
                condition=Q(reason__in=DIVERGED),
                name="step_diverged",
            ),
            models.Index(fields=["decided_at"], condition=Q(decided_at__isnull=False), name="step_decided"),
        ]
        triggers = [
            *triggers.kept(*PROPOSAL, *DECISION),
            triggers.Unchanged(
                name="step_proposal_fixed",
                fields=PROPOSAL,
                sentence="F1, a proposal never changes once it is made",
                where="OLD.phase <> 'idle'",
            ),
            # While undecided it may change: a vote tells the tool, whose deadline counts from the proposal.
            triggers.Unchanged(
                name="step_deadline_fixed",
                fields=["deadline_at"],
                sentence="F3, the deadline of a decided step is history",
                where="OLD.phase IN ('committed', 'rejected', 'exempt')",
            ),
            triggers.Guard(
                name="step_moves", operation=triggers.update_of("phase", "reason", "decided_at"), func=PHASE_GUARD
            ),
            triggers.Guard(
                name="step_begins",
                operation=pgtrigger.Insert,
                condition=pgtrigger.Condition("NEW.phase NOT IN ('idle', 'proposed', 'exempt')"),
                func=triggers.refused("step_begins", "F3, a step begins idle, proposed or exempt"),
            ),
            *counts.STEPS,
            triggers.LookupGuard(
                name="step_in_a_living_branch",
                operation=pgtrigger.Insert,
                condition=pgtrigger.Condition("NEW.branch IS NOT NULL"),
                func=BRANCH_GUARD,
            ),
            triggers.StatementGuard(name="step_in_its_run", operation=pgtrigger.Insert, func=STEP_GUARD),
            triggers.LookupGuard(
                name="step_action_stored",
                operation=triggers.update_of("pinned_payload_id"),
                condition=pgtrigger.Condition("OLD.pinned_payload_id IS DISTINCT FROM NEW.pinned_payload_id"),
                func=ACTION_GUARD,
            ),
        ]


VOTE_GUARD = """
-- F9, design 10: the lock under which commits and deliveries are judged, so that a vote comes before or after one. What
-- is read of a step is read with its lock.
SELECT min(CASE
    WHEN step.run_id IS DISTINCT FROM vote.run_id THEN 'vote_in_its_run: N2, the step lies in another run'
    WHEN step.phase = 'idle' THEN 'vote_on_a_proposal: F6, the step has no proposal'
    WHEN vote.payload_id IS NOT NULL AND action.tool IS NULL THEN 'vote_of_an_action: C7, the action is not stored'
    WHEN credential.role IS NULL THEN 'vote_by_a_key: N8, there is no such key'
END) INTO wrong
FROM (SELECT run_id, step_id, payload_id, by_id FROM new_rows ORDER BY step_id OFFSET 0) AS vote
LEFT JOIN LATERAL (SELECT run_id, phase FROM fencing_step WHERE id = vote.step_id FOR NO KEY UPDATE) AS step ON true
LEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = vote.payload_id LIMIT 1) AS action ON true
LEFT JOIN LATERAL (SELECT role FROM fencing_credential WHERE id = vote.by_id LIMIT 1) AS credential ON true;
"""


class Vote(models.Model):
    """What one path said about one step. Append-only; small: prose lies in cold storage (C7).

    A path that re-sends its vote with the action of the same digest (F5), or votes twice differently (F2), has several
    rows. `fault` is `unknown_tool` or `invalid_args` where the named action can never be committed (F6).
    """

    id = fields.key()
    # Four references without a constraint: `vote_beside_nothing` looks each of them up, and what it finds never goes.
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    step: models.ForeignKey[Any, Any] = models.ForeignKey(
        Step, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="votes"
    )
    path = fields.identifier()
    digest = fields.digest(null=True)
    payload: models.ForeignKey[Any, Any] = models.ForeignKey(
        Action, on_delete=models.PROTECT, null=True, db_index=False, db_constraint=False, related_name="+"
    )
    tool = fields.identifier(null=True)
    abstain = models.TextField(null=True)
    fault = models.CharField(max_length=20, null=True)
    is_late = models.BooleanField(default=False)
    model = models.CharField(max_length=200, null=True)
    prompt = models.CharField(max_length=200, null=True)
    rationale_ref = models.CharField(max_length=200, null=True)
    by = models.ForeignKey(
        "fencing.Credential", on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    received_at = fields.recorded_at()

    class Meta:
        constraints = [
            # Null equals null here. PostgreSQL 14 cannot say NULLS NOT DISTINCT; it also serves reads by step.
            models.UniqueConstraint(
                F("step"),
                F("path"),
                Coalesce(F("digest"), Value("")),
                Coalesce(F("payload_id"), Value("")),
                name="vote_once",
            ),
            models.CheckConstraint(
                condition=Q(digest__isnull=True, abstain__isnull=False, payload__isnull=True)
                | Q(digest__isnull=False, abstain__isnull=True),
                name="vote_or_abstention",
            ),
            models.CheckConstraint(
                condition=Q(payload__isnull=True) | Q(tool__isnull=False), name="vote_payload_names_its_tool"
            ),
        ]
        triggers = [
            *triggers.append_only(),
            triggers.StatementGuard(name="vote_beside_nothing", operation=pgtrigger.Insert, func=VOTE_GUARD),
        ]
