"""The tables: one aggregate a file, with the constraints, indexes and triggers that hold the invariants.

Names follow section 0 of the protocol. Nothing here decides; `fencing.protocol` does.
"""

from fencing.models.actions import Action
from fencing.models.attempts import Attempt, AttemptEpoch, AttemptInput, Fragment, FragmentLease, Permit, Spend
from fencing.models.audit import AuditEvent, FeedEvent
from fencing.models.breakers import Breaker
from fencing.models.commits import Commit
from fencing.models.compensations import (
    Compensation,
    CompensationApproval,
    CompensationDelivery,
    CompensationOutcome,
    CompensationRelease,
)
from fencing.models.counts import Change, Total
from fencing.models.credentials import Credential, SigningKey
from fencing.models.deliveries import Delivery, Outcome
from fencing.models.deployment import Deployment
from fencing.models.effects import ObservedEffect
from fencing.models.forgetting import Forgotten
from fencing.models.forks import Branch, Fork
from fencing.models.freezes import Freeze
from fencing.models.grades import Grade, GradeFinding
from fencing.models.grants import Grant, GrantApproval, GrantRefusal, GrantReview, GrantUse
from fencing.models.incidents import Incident
from fencing.models.intents import Claim, Intent
from fencing.models.lanes import GateReading, Lane, LaneEvent, LaneThresholds
from fencing.models.ledgers import Ledger
from fencing.models.notices import Notice, NoticeItem, QuietHours, Sighting, Target, Telling, TellingTry
from fencing.models.runs import EpochOpening, Run
from fencing.models.seals import Seal, Verification, Witness
from fencing.models.side_log import Acknowledgement, SideLogRow, Tally
from fencing.models.steps import Step, Vote
from fencing.models.tools import ToolChange, ToolChangeApproval, ToolVersion
from fencing.models.verdicts import Verdict

__all__ = [
    "Acknowledgement",
    "Action",
    "Attempt",
    "AttemptEpoch",
    "AttemptInput",
    "AuditEvent",
    "Branch",
    "Breaker",
    "Change",
    "Claim",
    "Commit",
    "Compensation",
    "CompensationApproval",
    "CompensationDelivery",
    "CompensationOutcome",
    "CompensationRelease",
    "Credential",
    "Delivery",
    "Deployment",
    "EpochOpening",
    "FeedEvent",
    "Forgotten",
    "Fork",
    "Fragment",
    "FragmentLease",
    "Freeze",
    "GateReading",
    "Grade",
    "GradeFinding",
    "Grant",
    "GrantApproval",
    "GrantRefusal",
    "GrantReview",
    "GrantUse",
    "Incident",
    "Intent",
    "Lane",
    "LaneEvent",
    "LaneThresholds",
    "Ledger",
    "Notice",
    "NoticeItem",
    "ObservedEffect",
    "Outcome",
    "Permit",
    "QuietHours",
    "Run",
    "Seal",
    "SideLogRow",
    "Sighting",
    "SigningKey",
    "Spend",
    "Step",
    "Tally",
    "Target",
    "Telling",
    "TellingTry",
    "ToolChange",
    "ToolChangeApproval",
    "ToolVersion",
    "Total",
    "Verdict",
    "Verification",
    "Vote",
    "Witness",
]
