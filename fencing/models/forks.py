"""Forks and their branches (protocol, section 10): each fork is reconciled once, with at most one winner."""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.db import models
from django.db.models import F, Q

from fencing.models import fields, triggers
from fencing.models.runs import Run
from fencing.protocol import branches

# A branch called `{branch}` of a run, and all that it lies in: one row each, with its state.
UPWARD = """
WITH RECURSIVE upward AS (
    SELECT branch.state, fork.parent_id FROM fencing_branch AS branch
        JOIN fencing_fork AS fork ON fork.id = branch.fork_id
    WHERE branch.run_id = {run} AND branch.name = {branch}
    UNION ALL
    SELECT branch.state, fork.parent_id FROM upward
        JOIN fencing_branch AS branch ON branch.id = upward.parent_id
        JOIN fencing_fork AS fork ON fork.id = branch.fork_id
)
"""


def refused_by_branch(*, run: str, branch: str, unless: str) -> str:
    """Write as SQL whether a step's branch forbids: it is named, and not all of it and its ancestors are `unless`."""
    upward = UPWARD.replace("{run}", run).replace("{branch}", branch)
    return f"({branch} IS NOT NULL AND ({upward} SELECT bool_and({unless}) FROM upward) IS NOT TRUE)"  # noqa: S608 - ours


# B1: a fork lies in its run, in a branch that is not lost.
FORK_GUARD = """
IF NEW.parent_id IS NOT NULL THEN
    PERFORM FROM fencing_branch WHERE id = NEW.parent_id FOR SHARE;
    SELECT CASE
        WHEN parent.run_id IS DISTINCT FROM NEW.run_id
            THEN 'fork_in_its_run: B1, the fork lies in a branch of another run'
        WHEN {branch_forbids}
            THEN 'fork_in_no_lost_branch: B4, the branch is lost'
    END INTO wrong
    FROM (SELECT run_id, name FROM fencing_branch WHERE id = NEW.parent_id LIMIT 1) AS parent;
END IF;
""".replace("{branch_forbids}", refused_by_branch(run="NEW.run_id", branch="parent.name", unless="state <> 'lost'"))
# B1, deferred: its branches are rows that refer to it.
FORK_OF_BRANCHES = """
IF (SELECT count(*) FROM fencing_branch WHERE fork_id = NEW.id) < 2 THEN
    wrong := 'fork_of_branches: B1, a fork has two branches or more';
END IF;
"""
BRANCH_GUARD = """
SELECT CASE
    WHEN fork.run_id IS DISTINCT FROM NEW.run_id THEN 'branch_in_its_run: B1, the fork lies in another run'
    WHEN fork.reconciled_at IS NOT NULL THEN 'branch_of_an_open_fork: B2, the fork is reconciled'
    WHEN NEW.state <> 'undecided' THEN 'branch_begins_undecided: B2, a branch is decided by a reconciliation'
END INTO wrong
FROM (SELECT 1) AS nothing
LEFT JOIN LATERAL (SELECT run_id, reconciled_at FROM fencing_fork WHERE id = NEW.fork_id LIMIT 1) AS fork ON true;
"""
# B2, B4: what a branch became is what its fork's reconciliation says, or what it lies in was lost.
DECIDED_GUARD = """
SELECT min(CASE
    WHEN branch.state = 'won' AND (fork.reconciled_at IS NULL OR fork.winner IS DISTINCT FROM branch.name)
        THEN 'branch_decided_by_its_fork: B2, the fork was not reconciled with this winner'
    WHEN branch.state = 'lost' AND parent.state IS DISTINCT FROM 'lost'
        AND (fork.reconciled_at IS NULL OR fork.winner IS NOT DISTINCT FROM branch.name)
        THEN 'branch_decided_by_its_fork: B4, neither its fork nor what it lies in made it lose'
END) INTO wrong
FROM new_rows AS branch
LEFT JOIN LATERAL (SELECT winner, parent_id, reconciled_at FROM fencing_fork WHERE id = branch.fork_id LIMIT 1)
    AS fork ON true
LEFT JOIN LATERAL (SELECT state FROM fencing_branch WHERE id = fork.parent_id LIMIT 1) AS parent ON true;
"""
STATE_GUARD = f"""
IF NEW.state <> OLD.state AND NOT {triggers.moves(branches.TRANSITIONS, "state")} THEN
    wrong := 'branch_moves: B2, a branch that is ' || OLD.state || ' does not become ' || NEW.state;
END IF;
"""


class Fork(models.Model):
    """A question with several speculative answers. `winner` and `answer` are those of its one reconciliation (B2)."""

    id = fields.key()
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, related_name="forks"
    )
    name = fields.identifier()
    parent: models.ForeignKey[Any, Any] = models.ForeignKey(
        "fencing.Branch", on_delete=models.PROTECT, null=True, related_name="forks"
    )
    content_digest = fields.digest()
    by = models.ForeignKey("fencing.Credential", on_delete=models.PROTECT, db_index=False, related_name="+")
    opened_at = fields.recorded_at()
    deadline_at = models.DateTimeField(null=True)
    reconciled_at = models.DateTimeField(null=True)
    winner = fields.identifier(null=True)
    # Null where its deadline, or the loss of what it lies in, ended it.
    reconciled_by = models.ForeignKey(
        "fencing.Credential", on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    answer = models.JSONField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "name"], name="fork_once"),
            models.CheckConstraint(
                condition=Q(reconciled_at__isnull=False)
                | Q(reconciled_at__isnull=True, winner__isnull=True, reconciled_by__isnull=True, answer__isnull=True),
                name="fork_winner_by_reconciliation",
            ),
        ]
        indexes = [
            # The sweep's work list.
            models.Index(
                fields=["deadline_at"],
                condition=Q(deadline_at__isnull=False, reconciled_at__isnull=True),
                name="fork_due",
            ),
        ]
        triggers = [
            *triggers.kept("reconciled_at", "winner", "reconciled_by", "answer"),
            triggers.Unchanged(
                name="fork_reconciled_once",
                fields=["reconciled_at", "winner", "reconciled_by", "answer"],
                sentence="B2, a fork is reconciled once",
                where="OLD.reconciled_at IS NOT NULL",
            ),
            triggers.LookupGuard(name="fork_in_its_run", operation=pgtrigger.Insert, func=FORK_GUARD),
            triggers.LookupGuard(
                name="fork_of_branches",
                when=pgtrigger.After,
                timing=pgtrigger.Deferred,
                operation=pgtrigger.Insert,
                func=FORK_OF_BRANCHES,
            ),
        ]


class Branch(models.Model):
    """One answer that is tried. Its name is unique in the run, so that a step names it alone (B1)."""

    class State(models.TextChoices):
        """What became of it."""

        UNDECIDED = "undecided"
        WON = "won"
        LOST = "lost"

    id = fields.key()
    run: models.ForeignKey[Any, Any] = models.ForeignKey(
        Run, on_delete=models.PROTECT, db_index=False, related_name="branches"
    )
    fork: models.ForeignKey[Any, Any] = models.ForeignKey(Fork, on_delete=models.PROTECT, related_name="branches")
    name = fields.identifier()
    place = models.IntegerField()
    state = models.CharField(max_length=9, choices=State, default=State.UNDECIDED)
    decided_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "name"], name="branch_once"),
            models.UniqueConstraint(fields=["fork"], condition=Q(state="won"), name="branch_wins_once"),
            models.CheckConstraint(condition=Q(state__in=["undecided", "won", "lost"]), name="branch_state_known"),
            models.CheckConstraint(
                condition=Q(state="undecided", decided_at__isnull=True)
                | Q(state__in=["won", "lost"], decided_at__isnull=False),
                name="branch_decided_at_a_moment",
            ),
        ]
        indexes = [models.Index(F("run"), F("fork"), F("place"), name="branch_of_run")]
        triggers = [
            *triggers.kept("state", "decided_at"),
            triggers.Guard(name="branch_moves", operation=triggers.update_of("state"), func=STATE_GUARD),
            triggers.LookupGuard(name="branch_in_its_run", operation=pgtrigger.Insert, func=BRANCH_GUARD),
            triggers.StatementGuard(name="branch_decided_by_its_fork", operation=pgtrigger.Update, func=DECIDED_GUARD),
        ]
