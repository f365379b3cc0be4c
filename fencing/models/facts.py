"""What a transaction decides by: rows read under lock in one call, as small objects, and as values of the pure core.

The objects here are the working state of one transaction. A service that writes a fact also notes it here, so that the
next item of the same bulk sees it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from django.db import connection

from fencing.models.actions import Action as ActionRow
from fencing.models.registry import current_registry, registry_at
from fencing.protocol import fence, grants, intents, objects
from fencing.protocol.actions import Action, read_action, resources_of
from fencing.protocol.branches import EMPTY, Branch, Fork, Tree
from fencing.protocol.branches import State as BranchState
from fencing.protocol.epochs import RunEpochs, step_epoch
from fencing.protocol.errors import Refusal
from fencing.protocol.freezes import Freeze, check_frozen
from fencing.protocol.intake import Known
from fencing.protocol.rules import rules_of
from fencing.protocol.tools import ToolDefinition

Row = dict[str, Any]
MAX_RESOURCE = 200


def moment(text: str | None) -> datetime | None:
    """Read a time as PostgreSQL writes it in JSON."""
    return None if text is None else datetime.fromisoformat(text)


@dataclass(slots=True, kw_only=True)
class RunFacts:
    """A run under lock."""

    id: str
    name: str
    epoch: int
    counter: int
    owner_id: str
    owner_group: str
    content_digest: str
    labels: dict[str, str]
    tree: Tree = EMPTY
    fork_ids: dict[str, str] = field(default_factory=dict)
    branch_ids: dict[str, str] = field(default_factory=dict)

    @property
    def epochs(self) -> RunEpochs:
        """The run's two numbers, as the pure core knows them."""
        return RunEpochs(epoch=self.epoch, counter=self.counter)


@dataclass(slots=True, kw_only=True)
class CommitFacts:
    """A commit, standing while `closed_at` is None."""

    id: str
    step_id: str
    step_name: str
    epoch: int
    tool: str
    payload: str
    fence_digest: str
    key: str
    authority: str
    grant_id: str | None
    intent_id: str
    token: str
    closed_at: datetime | None
    closed_reason: str | None

    @property
    def stands(self) -> bool:
        """Whether it was neither revoked nor closed by a failed effect."""
        return self.closed_at is None


@dataclass(slots=True, kw_only=True)
class StepFacts:
    """One epoch of a step under lock, with its votes in the order in which they came."""

    id: str
    run: RunFacts
    row: Row
    votes: list[Row] = field(default_factory=list)
    commit: CommitFacts | None = None

    @property
    def name(self) -> str:
        """The step's name, the same in each epoch."""
        return str(self.row["name"])

    @property
    def epoch(self) -> int:
        """The number that this row belongs to."""
        return int(self.row["epoch"])

    @property
    def phase(self) -> fence.Phase:
        """Where it is, as of this transaction."""
        return fence.Phase(self.row["phase"])

    def pure(self, fenced_by: str | None = None) -> fence.Step:
        """The step as the pure core knows it. `fenced_by` is the name of the grant in the row's key."""
        deadline = moment(self.row["deadline_at"])
        return fence.Step(
            step=self.name,
            epoch=self.epoch,
            phase=self.phase,
            deadline_at=deadline if deadline is not None else datetime.max.replace(tzinfo=UTC),
            pinned_digest=self.row["pinned_digest"],
            pinned_payload=self.row["pinned_payload"],
            pinned_tool=self.row["pinned_tool"],
            votes=tuple(pure_vote(vote) for vote in self.votes),
            fenced_at=moment(self.row["fenced_at"]),
            fenced_by=fenced_by,
            gate=self.gate,
        )

    @property
    def gate(self) -> fence.Gate:
        """Whether its branch may act (B3)."""
        return self.run.tree.gate(self.row.get("branch"))

    def definition(self, tool: str | None) -> ToolDefinition | None:
        """A tool as it was when this step was proposed (T1)."""
        registry = self.row["registry"]
        return None if tool is None or registry is None else registry_at(registry).get(tool)

    def rules(self) -> fence.Rules:
        """What the step's tool asks of the fence; the defaults while no tool is known."""
        return rules_of(self.definition(fence.tool_of(self.pure())))


@dataclass(slots=True, kw_only=True)
class IntentFacts:
    """An intent under lock, with its claims and deliveries."""

    id: str
    run_id: str
    key: str
    row: Row

    def pure(self) -> intents.Intent:
        """The intent as the pure core knows it."""
        return intents.Intent(
            generation=self.row["generation"],
            fence_digest=self.row["fence_digest"],
            state=intents.State(self.row["state"]),
            claims=tuple(intents.ClaimState(each["state"]) for each in self.row["claims"]),
            deliveries=tuple(pure_delivery(each) for each in self.row["deliveries"]),
            not_before=moment(self.row["not_before"]),
            is_contradicted=self.row["is_contradicted"],
            is_optimistic=any(each["state"] == "open" and each["is_committed"] for each in self.row["claims"]),
            is_undone=self.undoing == "done",
            is_being_undone=self.undoing in ("in_flight", "in_doubt"),
        )

    @property
    def undoing(self) -> str | None:
        """The state of what would undo the effect, None where nothing would (P1)."""
        found = self.row.get("compensation")
        return None if found is None else str(found["state"])

    @property
    def is_admitted(self) -> bool:
        """Whether the effect may be out."""
        return intents.is_admitted(self.pure())


class Facts:
    """Everything that was read in one call. `now` is the database's clock after the last lock."""

    def __init__(self, answer: Row) -> None:
        self.now = datetime.fromisoformat(answer["now"])
        self.registry: int = answer["registry"]
        self.wanted: int = answer.get("wanted", 0)
        self.runs = {row["name"]: RunFacts(**row) for row in answer["runs"]}
        by_id = {run.id: run for run in self.runs.values()}
        _plant(by_id, answer.get("forks", ()), answer.get("branches", ()))
        self.steps = {row["id"]: StepFacts(id=row["id"], run=by_id[row["run_id"]], row=row) for row in answer["steps"]}
        for vote in answer["votes"]:
            self.steps[vote["step_id"]].votes.append(vote)
        for row in answer["commits"]:
            self.steps[row["step_id"]].commit = _commit(row)
        self.grants = {row["id"]: row for row in answer["grants"]}
        self.intents = {row["id"]: _intent(row) for row in answer["intents"]}
        names = {run.id: run.name for run in self.runs.values()}
        self.freezes = [
            Freeze(id=row["id"], tool=row["tool"], run=names.get(row["run_id"]), at=datetime.fromisoformat(row["at"]))
            for row in answer.get("freezes", ())
        ]
        self._locked: set[str] = set()

    def check_frozen(self, *, run: str | None, tool: str | None) -> Refusal | None:
        """Refuse what a freeze stops (L10). `lock_due` reads freezes, and `lock_steps` for `admit` and `update`."""
        return check_frozen(self.freezes, run=run, tool=tool)

    def epochs_of(self, run: str, step: str) -> list[StepFacts]:
        """All rows of a step, by epoch."""
        found = (each for each in self.steps.values() if each.run.name == run and each.name == step)
        return sorted(found, key=lambda each: each.epoch)

    def own_epoch(self, run: RunFacts, step: str) -> int:
        """A step's own number (R1)."""
        return step_epoch(run.epochs, (each.epoch for each in self.epochs_of(run.name, step)))

    def grants_of(self, run: RunFacts) -> list[grants.Grant]:
        """The run's grants that are not known to be over, and those that its commits rest on."""
        return [pure_grant(row) for row in self.grants.values() if row["run_id"] == run.id]

    def claimed_by(self, step: StepFacts) -> IntentFacts | None:
        """The intent that an undecided step has claimed already, if it was read (L1)."""
        return next(
            (
                intent
                for intent in self.intents.values()
                if any(claim["step_id"] == step.id and claim["state"] == "open" for claim in intent.row["claims"])
            ),
            None,
        )

    def grant_name(self, grant_id: str | None) -> str | None:
        """The name of a grant that was read."""
        return None if grant_id is None or grant_id not in self.grants else str(self.grants[grant_id]["name"])

    def pure_commit(self, commit: CommitFacts) -> fence.Committed:
        """A commit as the pure core knows it."""
        row = self.grants.get(commit.grant_id) if commit.grant_id else None
        return fence.Committed(
            authority=commit.authority,
            digest=commit.fence_digest,
            grant=None if row is None else pure_grant(row),
            stands=commit.stands,
        )

    def known(self, run: str, step: str) -> list[Known]:
        """What is on record for a step, by epoch, as intake and admission judge it."""
        return [self.as_known(each) for each in self.epochs_of(run, step)]

    def as_known(self, step: StepFacts) -> Known:
        """One epoch of a step, as intake and admission judge it."""
        return Known(
            step=step.pure(),
            content=step.row["content_digest"],
            commit=None if step.commit is None else self.pure_commit(step.commit),
            reason=None if step.row["reason"] is None else fence.Reason(step.row["reason"]),
        )

    def lock_intents(
        self, *, keys: Iterable[tuple[str, str]] = (), ids: Iterable[str] = ()
    ) -> dict[tuple[str, str], IntentFacts]:
        """Lock intents, after all steps: the newest generation of each (run id, key), and those named by id.

        They stand in `intents` from then on, and `now` is read again. What this transaction has locked already keeps
        its working state. Gives the newest generations by (run id, key).
        """
        wanted, named = sorted(set(keys)), sorted(set(ids) - self._locked)
        if not wanted and not named:
            return {}
        answer = _call("fence_lock_intents", [run for run, _ in wanted], [key for _, key in wanted], named)
        found = [_intent(row) for row in answer["intents"] if row["id"] not in self._locked]
        self.intents.update({each.id: each for each in found})
        self._locked.update(each.id for each in found)
        self.now = datetime.fromisoformat(answer["now"])
        newest: dict[tuple[str, str], IntentFacts] = {}
        for row in sorted(answer["intents"], key=lambda row: row["generation"]):
            newest[row["run_id"], row["key"]] = self.intents[row["id"]]
        return {place: newest[place] for place in wanted if place in newest}

    @classmethod
    def of_intents(cls, ids: Sequence[str]) -> Facts:
        """Read intents alone, without locks: for answers."""
        intents_read = _call("fence_read_intents", list(ids))
        return cls(
            {
                "now": read_clock().isoformat(),
                "registry": 0,
                "runs": [],
                "steps": [],
                "votes": [],
                "commits": [],
                "grants": [],
                "intents": intents_read,
            }
        )

    def lost_authority(self, step: StepFacts) -> fence.Reason | None:
        """Why a standing commit must be taken back if its effect is not admitted (F8, G5, R3)."""
        if step.commit is None or not step.commit.stands:
            return None
        return fence.lost_authority(
            self.pure_commit(step.commit), step.pure(), step.rules(), run_epoch=step.run.epoch, now=self.now
        )


def lock_steps(pairs: Iterable[tuple[str, str]], *, strength: str = "key share") -> Facts:
    """Lock runs and all epochs of the named steps, and read what is known of them. Pairs are (run, step).

    `strength` is that of the runs' locks; `admit` is `key share` and keeps freezes out for the transaction (L10).
    """
    wanted = sorted(set(pairs))
    return Facts(_call("fence_lock_steps", [run for run, _ in wanted], [step for _, step in wanted], strength))


def lock_frozen(*, run: str | None, tool: str | None) -> Facts:
    """Lock what a freeze of this scope may change, and keep admissions and new grants of it waiting (L10)."""
    return Facts(_call("fence_lock_frozen", run, tool))


def lock_run(run: str) -> Facts:
    """Lock a run alone, and read the steps that the end of an epoch or of a grant may change."""
    return Facts(_call("fence_lock_run", run))


def lock_branches(run: str) -> Facts:
    """Lock a run alone, and read all steps in its branches that a reconciliation may change (B4)."""
    return Facts(_call("fence_lock_branches", run))


def lock_due(limit: int) -> Facts | None:
    """Lock a batch of steps that want a look, passing over what another fencer holds; None when nothing is due."""
    answer = _call("fence_lock_due", limit)
    return None if answer is None else Facts(answer)


def pure_vote(row: Row) -> fence.Vote:
    """A vote's row as the pure core knows it."""
    return fence.Vote(
        path=row["path"],
        digest=row["digest"],
        payload=row["payload"],
        tool=row["tool"],
        fault=row["fault"],
        model=row["model"],
        prompt=row["prompt"],
    )


def pure_grant(row: Row) -> grants.Grant:
    """A grant's row as the pure core knows it."""
    return grants.Grant(
        name=row["name"],
        epoch=row["epoch"],
        step=row["step_name"],
        tool=row["tool"],
        path=row["path"],
        digest=row["digest"],
        max_uses=row["max_uses"],
        uses=row["uses"],
        ttl_s=row["ttl_s"],
        approvals=row["approvals"],
        approvals_needed=row["approvals_needed"],
        pending_until=moment(row["pending_until"]),
        expires_at=moment(row["expires_at"]),
        expired_at=moment(row["expired_at"]),
        revoked_at=moment(row["revoked_at"]),
        voided_at=moment(row["voided_at"]),
        void_reason=row["void_reason"],
        review_due_at=moment(row["review_due_at"]),
        reviewed_at=moment(row["reviewed_at"]),
    )


def pure_delivery(row: Row) -> intents.Delivery:
    """A delivery's row as the pure core knows it."""
    return intents.Delivery(
        number=row["number"],
        payload=row["payload"],
        lease_until=datetime.fromisoformat(row["lease_until"]),
        outcome=None if row["outcome"] is None else intents.Kind(row["outcome"]),
    )


def _plant(runs: dict[str, RunFacts], forks: Iterable[Row], branches: Iterable[Row]) -> None:
    """Give each run its tree of forks; most have none."""
    found: dict[str, tuple[list[Fork], list[Branch]]] = {}
    for row in forks:
        runs[row["run_id"]].fork_ids[row["name"]] = row["id"]
        fork = Fork(
            name=row["name"],
            parent=row["parent"],
            winner=row["winner"],
            is_reconciled=row["reconciled_at"] is not None,
        )
        found.setdefault(row["run_id"], ([], []))[0].append(fork)
    for row in branches:
        runs[row["run_id"]].branch_ids[row["name"]] = row["id"]
        branch = Branch(name=row["name"], fork=row["fork"], state=BranchState(row["state"]))
        found[row["run_id"]][1].append(branch)
    for run_id, (forks_, branches_) in found.items():
        runs[run_id].tree = Tree.of(forks_, branches_)


def _call(function: str, *arguments: Any) -> Any:
    casts = {
        "fence_lock_intents": "%s::uuid[], %s::text[], %s::uuid[]",
        "fence_lock_steps": "%s::text[], %s::text[], %s",
        "fence_lock_frozen": "%s::text, %s::text",
        "fence_read_facts": "%s::uuid[], %s::uuid[]",
        "fence_read_intents": "%s::uuid[]",
    }
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}({casts.get(function, '%s')})::text", arguments)
        answer: Sequence[Any] | None = cursor.fetchone()
    return None if answer is None or answer[0] is None else json.loads(answer[0])


def _commit(row: Row) -> CommitFacts:
    return CommitFacts(
        id=row["id"],
        step_id=row["step_id"],
        step_name=row["step_name"],
        epoch=row["epoch"],
        tool=row["tool"],
        payload=row["payload"],
        fence_digest=row["fence_digest"],
        key=row["key"],
        authority=row["authority"],
        grant_id=row["grant_id"],
        intent_id=row["intent_id"],
        token=row["token"],
        closed_at=moment(row["closed_at"]),
        closed_reason=row["closed_reason"],
    )


def _intent(row: Row) -> IntentFacts:
    return IntentFacts(id=row["id"], run_id=row["run_id"], key=row["key"], row=row)


def lookup_of(registry: int) -> Callable[[str], ToolDefinition | None]:
    """A lookup of tools as of a registry version, as readers of actions want it."""
    return registry_at(registry).get


def resources_touched(action: Action | None, registry: int | None = None) -> list[str]:
    """What an action touches, as its tool declares (T3), for the search by resource.

    PostgreSQL text holds no NUL, and an index entry has its limit: a long text is found by its beginning.
    """
    if action is None:
        return []
    definition = lookup_of(current_registry() if registry is None else registry)(action.tool)
    touched = () if definition is None else resources_of(action.args, definition.resources)
    return [text.replace("\x00", "\u2400")[:MAX_RESOURCE] for text in touched]


def resources_of_payload(payload_digest: str) -> list[str]:
    """What a stored action touches (T3)."""
    stored = ActionRow.objects.get(payload_digest=payload_digest)
    action = read_action(json.loads(bytes(stored.canonical)))
    return [] if isinstance(action, Refusal) else resources_touched(action)


def step_body(facts: Facts, step: StepFacts) -> objects.Object:
    """The step's object, as every call gives it (H6)."""
    pure, commit = step.pure(), step.commit
    seen = fence.digests_on_record(pure)
    intent = facts.intents.get(commit.intent_id) if commit else facts.claimed_by(step)
    return objects.step_object(
        run=step.run.name,
        row=step.row,
        votes=step.votes,
        digest=next(iter(seen)) if len(seen) == 1 else None,
        tool=fence.tool_of(pure),
        commit=None if commit is None or not commit.stands else commit_body(facts, commit),
        revoked=None
        if commit is None or commit.stands
        else {"reason": commit.closed_reason, "at": objects.rfc3339(commit.closed_at)},
        intent=None if intent is None else intent_brief(intent),
    )


def commit_body(facts: Facts, commit: CommitFacts) -> objects.Object:
    """The commit's object, with its token."""
    return objects.commit_object(
        token=commit.token,
        authority=commit.authority,
        grant=facts.grant_name(commit.grant_id),
        payload_digest=commit.payload,
        key=commit.key,
    )


def intent_brief(intent: IntentFacts) -> objects.Object:
    """The intent as it stands in its step's object."""
    row = intent.row
    return {
        "id": intent.id,
        "state": row["state"],
        "generation": row["generation"],
        "outcome": outcome_body(row["settled"]),
    }


def outcome_body(row: Row | None) -> objects.Object | None:
    """The outcome that settled an intent. `response` was stored as canonical JSON."""
    if row is None:
        return None
    response = None if row["response"] is None else json.loads(row["response"])
    return objects.outcome_object(outcome=row["outcome"], response=response, at=row["at"], by=row["by"])


def read_clock() -> datetime:
    """The database's clock, now (N3). In a transaction: call it after the last lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone()
    return cast("datetime", now)


def read_facts(runs: Iterable[str], steps: Iterable[str]) -> Facts:
    """Read facts by ids without any lock: for answers, never for decisions."""
    return Facts(_call("fence_read_facts", list(runs), list(steps)))
