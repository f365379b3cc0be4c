"""Commits: the fencer's durable decisions that an action may happen (protocol, section 8)."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.db import models
from django.db.models import Q

from fencing.models import counts, fields, triggers
from fencing.models.actions import Action
from fencing.models.forks import refused_by_branch
from fencing.models.grants import Grant
from fencing.models.intents import MAY_BE_OUT
from fencing.models.runs import Run
from fencing.models.steps import Step

# Looked at only where it matters what the fence digest may have left out.
HAS_ADVISORY = "coalesce(json_array_length(convert_from(tool.definition, 'UTF8')::json -> 'advisory'), 0) > 0"

BRANCH_FORBIDS = refused_by_branch(
    run="step.run_id", branch="step.branch", unless="state = 'won' OR tool.is_optimistic AND state <> 'lost'"
)

# What a commit is judged by, each looked up for its row of `commit`. T1: the tool as the step's registry knew it.
# F3: D, and who said it; an abstention is no vote.
FACTS = """
LEFT JOIN LATERAL (
    SELECT run_id, name, epoch, phase, branch, registry, pinned_digest, pinned_tool
    FROM fencing_step WHERE id = commit.step_id LIMIT 1
) AS step ON true
LEFT JOIN LATERAL (
    SELECT is_read_only, is_optimistic, required_paths, trusted_path, grant_approvals, max_grant_ttl_s, definition
    FROM fencing_toolversion WHERE tool = commit.tool AND id <= step.registry ORDER BY id DESC LIMIT 1
) AS tool ON true
LEFT JOIN LATERAL (
    SELECT bool_or(digest <> commit.fence_digest) AS diverge,
        bool_or(vote.tool <> commit.tool) AS name_another_tool,
        bool_or(fault IS NOT NULL) AS are_faulty,
        array_agg(path) AS paths,
        array_agg(path) FILTER (WHERE payload_id = commit.payload_id) AS payload_paths
    FROM fencing_vote AS vote WHERE step_id = commit.step_id AND digest IS NOT NULL
) AS votes ON true
"""

# I1. The steps' row locks are those under which votes are inserted (F9): what is read after them is all that was said.
# A snapshot that is older than the locks would miss a vote that came before them, so only READ COMMITTED will do.
COMMIT_GUARD = """
IF current_setting('transaction_isolation') <> 'read committed' THEN
    wrong := 'commit_sees_every_vote: N4, commits are judged at READ COMMITTED';
ELSE
    SELECT bool_or(commit.grant_id IS NOT NULL) INTO is_granted
    FROM (SELECT step_id, grant_id FROM new_rows ORDER BY step_id OFFSET 0) AS commit,
        LATERAL (SELECT FROM fencing_step WHERE id = commit.step_id FOR NO KEY UPDATE) AS step;

    SELECT min(CASE
        WHEN (step.run_id, step.name, step.epoch) IS DISTINCT FROM (commit.run_id, commit.step_name, commit.epoch)
            THEN 'commit_of_its_step: K1, run, step and epoch are those of the step'
        -- F4: from these phases alone a commit may come.
        WHEN step.phase NOT IN ('proposed', 'agreed', 'fenced')
            THEN 'commit_of_an_undecided_step: F4, the step is ' || step.phase
        -- F3 row 1: visible divergence beats everything, a grant too.
        WHEN votes.paths IS NULL THEN 'commit_one_digest: I1, nobody voted'
        WHEN votes.diverge OR step.pinned_digest <> commit.fence_digest
            THEN 'commit_one_digest: I1, another digest is on record'
        WHEN votes.name_another_tool OR step.pinned_tool <> commit.tool
            THEN 'commit_one_digest: I1, another tool is on record'
        -- F3 rows 1a and 1b.
        WHEN tool.is_read_only IS NULL
            THEN 'commit_of_a_known_tool: T1, the tool was not registered when the step was proposed'
        WHEN tool.is_read_only THEN 'commit_of_an_effect: T2, what only reads is exempt from the fence'
        WHEN votes.are_faulty THEN 'commit_without_fault: F6, a vote named what can never be committed'
        -- C6: the payload is an action of that tool ...
        WHEN payload.tool IS DISTINCT FROM commit.tool
            THEN 'commit_payload: C6, the payload is no action of the tool'
        -- ... which the digest that was voted fixes wholly where nothing is advisory, ...
        WHEN commit.payload_id <> commit.fence_digest AND NOT {has_advisory}
            THEN 'commit_payload: C6, the payload is not what was voted'
        -- ... and which else comes from the trusted path, or under a grant from the granted one (below).
        WHEN commit.authority = 'agreement' AND array_position(votes.payload_paths, tool.trusted_path) IS NULL
            AND {has_advisory}
            THEN 'commit_payload: C6, the payload is not the trusted path''s'
        -- F3 row 2.
        WHEN commit.authority IN ('agreement', 'both') AND NOT tool.required_paths <@ votes.paths
            THEN 'commit_by_agreement: I1, a required path did not vote'
        -- F4, B3: in a branch that may act, or with a tool whose effects can be undone.
        WHEN {branch_forbids} THEN 'commit_when_its_branch_may_act: B3, the branch has not won'
        -- L1: the intent is that of its key, for this very effect.
        WHEN (intent.run_id, intent.key, intent.fence_digest)
            IS DISTINCT FROM (commit.run_id, commit.key, commit.fence_digest)
            THEN 'commit_of_its_intent: L1, the intent is of another run, key or digest'
    END) INTO wrong
    FROM new_rows AS commit
    {facts}
    LEFT JOIN LATERAL (SELECT tool FROM fencing_action WHERE payload_digest = commit.payload_id LIMIT 1)
        AS payload ON true
    LEFT JOIN LATERAL (SELECT run_id, key, fence_digest FROM fencing_intent WHERE id = commit.intent_id LIMIT 1)
        AS intent ON true;
END IF;

-- F3 row 3, G2. The clock is read after the grants' locks: a grant that died while this waited is dead.
IF wrong IS NULL AND is_granted THEN
    PERFORM FROM (SELECT grant_id FROM new_rows WHERE grant_id IS NOT NULL ORDER BY grant_id OFFSET 0) AS commit,
        LATERAL (SELECT FROM fencing_grant WHERE id = commit.grant_id FOR NO KEY UPDATE) AS its;

    SELECT min(CASE
        WHEN (its.run_id, its.epoch) IS DISTINCT FROM (commit.run_id, commit.epoch)
            OR its.step_name <> commit.step_name OR its.tool <> commit.tool OR its.digest <> commit.fence_digest
            THEN 'commit_in_the_grants_scope: G1, the grant is for something else'
        WHEN its.epoch < run.epoch
            THEN 'commit_in_the_grants_scope: G2, the epoch of the grant is closed'
        WHEN NOT its.path = ANY (votes.paths)
            THEN 'commit_in_the_grants_scope: G1, the granted path did not vote'
        WHEN its.path <> tool.trusted_path AND its.digest IS NULL
            THEN 'commit_in_the_grants_scope: G1, a witness acts only with the digest that it may commit'
        WHEN commit.payload_id <> commit.fence_digest AND array_position(votes.payload_paths, its.path) IS NULL
            THEN 'commit_payload: C6, the payload is not the granted path''s'
        WHEN its.revoked_at IS NOT NULL OR its.voided_at IS NOT NULL OR its.expired_at IS NOT NULL
            OR its.live_at IS NULL OR its.expires_at <= clock_timestamp()
            THEN 'commit_under_a_live_grant: G2, the grant is not live'
        WHEN its.ttl_s > tool.max_grant_ttl_s
            THEN 'commit_under_a_live_grant: G1, the grant lives longer than the tool allows'
        -- G6: the issuer is the first of the people that the tool asks for.
        WHEN tool.grant_approvals > 1 + approvals.count
            THEN 'commit_under_a_live_grant: G6, the grant is not approved as often as the tool asks'
    END) INTO wrong
    FROM (SELECT * FROM new_rows WHERE grant_id IS NOT NULL OFFSET 0) AS commit
    {facts}
    LEFT JOIN LATERAL (SELECT * FROM fencing_grant WHERE id = commit.grant_id LIMIT 1) AS its ON true
    LEFT JOIN LATERAL (SELECT epoch FROM fencing_run WHERE id = commit.run_id LIMIT 1) AS run ON true
    LEFT JOIN LATERAL (SELECT count(*) FROM fencing_grantapproval WHERE grant_id = commit.grant_id)
        AS approvals ON true;
END IF;
"""

BOTH_GUARD = """
PERFORM 1 FROM fencing_step WHERE id = NEW.step_id FOR NO KEY UPDATE;
SELECT bool_or(digest <> NEW.fence_digest) AS diverge, array_agg(path) AS paths INTO its_votes
FROM fencing_vote WHERE step_id = NEW.step_id AND digest IS NOT NULL;
SELECT required_paths INTO its_paths FROM fencing_toolversion
WHERE tool = NEW.tool AND id <= (SELECT registry FROM fencing_step WHERE id = NEW.step_id) ORDER BY id DESC LIMIT 1;
IF OLD.authority <> 'grant' OR NEW.authority <> 'both' OR its_votes.diverge OR NOT its_paths <@ its_votes.paths
    OR current_setting('transaction_isolation') <> 'read committed'
THEN
    wrong := 'commit_gains_agreement: F7, only the late votes of every required path add to a grant';
END IF;
"""

# F8, G5, R3: taken back before its effect is admitted, and never after; closed by failure once that is on record (L7).
CLOSE_GUARD = """
IF current_setting('transaction_isolation') <> 'read committed' OR EXISTS (
    SELECT FROM fencing_delivery AS delivery WHERE commit_id = NEW.id AND {may_be_out}
) THEN
    wrong := 'commit_closes_before_admission: F8, the effect of the commit may be out';
END IF;
"""


# B6: a commit that waited while its effect was being undone goes on to the next generation, before it is admitted.
MOVE_GUARD = """
IF NEW.closed_at IS NOT NULL
    OR EXISTS (SELECT FROM fencing_delivery WHERE commit_id = NEW.id)
    OR NOT EXISTS (SELECT FROM fencing_compensation
        WHERE intent_id = OLD.intent_id AND effect_id IS NULL AND state IN ('in_flight', 'in_doubt', 'done'))
    OR NOT EXISTS (
        SELECT FROM (SELECT * FROM fencing_intent WHERE id = OLD.intent_id LIMIT 1) AS before,
            LATERAL (SELECT * FROM fencing_intent WHERE id = NEW.intent_id LIMIT 1) AS after
        WHERE (after.run_id, after.key, after.fence_digest, after.generation)
            = (before.run_id, before.key, before.fence_digest, before.generation + 1))
THEN
    wrong := 'commit_moves_on: B6, only to the next generation of an effect that is undone';
END IF;
"""


class Commit(models.Model):
    """The decision that one step's action may happen, with its token. Its id is the token's `jti`.

    It stands while `closed_at` is null. Only a row of the fencer's role can be inserted, and a trigger lets it in only
    with equal digests of all required paths or a live covering grant (I1).
    """

    class Authority(models.TextChoices):
        """What the commit rests on."""

        AGREEMENT = "agreement"
        GRANT = "grant"
        BOTH = "both"

    id = fields.key()
    # References without a constraint: `commit_admissible` looks each of them up, and what it finds never goes.
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="commits"
    )
    step = models.OneToOneField(Step, on_delete=models.PROTECT, db_constraint=False, related_name="commit")
    step_name = fields.identifier()
    epoch = models.BigIntegerField()
    tool = fields.identifier()
    payload: models.ForeignKey[Any, Any] = models.ForeignKey(
        Action, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    fence_digest = fields.digest()
    key = fields.identifier()
    authority = models.CharField(max_length=9, choices=Authority)
    grant: models.ForeignKey[Any, Any] = models.ForeignKey(
        Grant, on_delete=models.PROTECT, null=True, db_index=False, db_constraint=False, related_name="commits"
    )
    intent = models.ForeignKey("fencing.Intent", on_delete=models.PROTECT, db_constraint=False, related_name="commits")
    token = models.TextField()
    kid = models.CharField(max_length=64)
    committed_at = fields.recorded_at()
    closed_at = models.DateTimeField(null=True)
    closed_reason = models.CharField(max_length=40, null=True)

    class Meta:
        constraints = [
            # R6: at most one standing commit of a (run, step) over all epochs.
            models.UniqueConstraint(
                fields=["run", "step_name"], condition=Q(closed_at__isnull=True), name="commit_stands_once"
            ),
            models.CheckConstraint(
                condition=Q(authority="agreement", grant__isnull=True)
                | Q(authority__in=["grant", "both"], grant__isnull=False),
                name="commit_grant_where_it_rests_on_one",
            ),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True, closed_reason__isnull=True)
                | Q(closed_at__isnull=False, closed_reason__isnull=False),
                name="commit_closed_with_a_reason",
            ),
        ]
        indexes = [
            # What a grant let through; most commits rest on none.
            models.Index(fields=["grant"], condition=Q(grant__isnull=False), name="commit_under_grant"),
        ]
        triggers = [
            *triggers.kept("authority", "intent", "closed_at", "closed_reason"),
            triggers.LookupGuard(
                name="commit_moves_on",
                operation=triggers.update_of("intent_id"),
                condition=pgtrigger.Condition("OLD.intent_id IS DISTINCT FROM NEW.intent_id"),
                func=MOVE_GUARD,
            ),
            counts.COMMITS,
            counts.AUTHORITIES,
            triggers.WrittenOnce("closed_at", "closed_reason"),
            triggers.StatementGuard(
                name="commit_admissible",
                operation=pgtrigger.Insert,
                declare=[("is_granted", "boolean")],
                func=COMMIT_GUARD.replace("{facts}", FACTS)
                .replace("{has_advisory}", HAS_ADVISORY)
                .replace("{branch_forbids}", BRANCH_FORBIDS),
            ),
            triggers.LookupGuard(
                name="commit_gains_agreement",
                operation=triggers.update_of("authority"),
                condition=pgtrigger.Condition("OLD.authority IS DISTINCT FROM NEW.authority"),
                declare=[("its_votes", "record"), ("its_paths", "varchar[]")],
                func=BOTH_GUARD,
            ),
            triggers.LookupGuard(
                name="commit_closes_before_admission",
                operation=triggers.update_of("closed_at"),
                condition=pgtrigger.Condition("OLD.closed_at IS NULL AND NEW.closed_at IS NOT NULL"),
                func=CLOSE_GUARD.replace("{may_be_out}", MAY_BE_OUT),
            ),
            # G3, deferred: the use of the grant is a row that refers to this one.
            triggers.LookupGuard(
                name="commit_takes_a_use",
                when=pgtrigger.After,
                timing=pgtrigger.Deferred,
                operation=pgtrigger.Insert,
                condition=pgtrigger.Condition("NEW.grant_id IS NOT NULL"),
                func="""
                IF NOT EXISTS (SELECT FROM fencing_grantuse WHERE commit_id = NEW.id AND grant_id = NEW.grant_id) THEN
                    wrong := 'commit_takes_a_use: G3, a commit under a grant takes a use of it';
                END IF;
                """,
            ),
        ]
