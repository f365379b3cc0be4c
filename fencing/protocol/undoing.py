"""What becomes of an effect's undoing as claims come and go (P1, P4, B4, B5).

An effect is undone only while nobody wants it. So what would undo it is held while a claim on the same key is open,
withdrawn when one wins, and due again when it loses; and it is withdrawn when the effect turns out not to be there.
"""

from __future__ import annotations

from fencing.protocol.compensations import OPEN, WITHDRAWABLE, Cause, State
from fencing.protocol.intents import ClaimState, Intent, is_admitted


def is_owed(intent: Intent, newest: State | None, *, is_of_lost_branch: bool) -> bool:
    """Tell whether a compensation is due for the effect of a lost branch (B4, P1).

    It may become so long after the branch lost: when the last other claim comes to nothing, or when it turns out that
    the effect happened after all, also that of a commit which was taken back before its branch was lost. `newest` is
    the state of the last compensation that there was; what a person let stand is not asked about again.
    `is_of_lost_branch`: a step that claimed it lies in a branch that is lost.
    """
    if not is_of_lost_branch:
        return False
    if newest is not None and (newest in OPEN or newest in (State.DONE, State.WAIVED)):
        return False
    return bool(intent.claims) and not intent.is_wanted and is_admitted(intent)


def state_after_claims(state: State, intent: Intent, *, has_won: bool) -> State:
    """Give the state of what would undo an intent's effect, after its claims or its deliveries changed (P4).

    `has_won`: a claim was won just now. (A reviewer may ask to undo what a standing commit had done: claims that were
    won before say nothing against it.) What is in flight or in doubt goes on; what it comes to decides.
    """
    if state not in WITHDRAWABLE:
        return state
    if not is_admitted(intent) or has_won:
        return State.WITHDRAWN
    if ClaimState.OPEN in intent.claims:
        return State.HELD
    return State.PROPOSED if state is State.HELD else state


def state_after_failure(intent: Intent, *, has_won: bool) -> State:
    """Give the state of what did not undo an effect after all (P5): due again, unless the effect is wanted by now."""
    return state_after_claims(State.HELD, intent, has_won=has_won)


def may_be_asked(cause: Cause) -> bool:
    """Whether a person asked for it, who then does not approve it (P3)."""
    return cause is Cause.REQUESTED
