"""The state of a goal, computed from its outcome and its last event: whether it waits, for what, and how it ended."""

from typing import Final, Literal

from remit.contracts.goals.goal import AgentExecutionOutcome, AgentGoalRequest
from remit.contracts.goals.simulation import UNDOES
from remit.contracts.services.common import WaitingFor
from remit.contracts.services.ledger import GoalLineState
from remit.core.ids import is_within, parse_time
from remit.goals.composite.progress import ENDINGS
from remit.goals.gates import ANSWER_LIFE, APPROVAL_LIFE
from remit.goals.status import GoalStatus

GoalState = Literal["done", "failed", "refused", "waiting"]

ENDED: Final = frozenset({"SUCCEEDED", "FAILED", "REFUSED", "ESCALATED", "ROLLED_BACK", *ENDINGS})
STARTED_EVENTS: Final = frozenset({"DISPATCHED", "FAILED", "ROLLED_BACK"})
"""Events of goals whose action was started."""
_WHOLE: Final[dict[str, GoalState]] = {
    "STARTED": "waiting",
    "COMPLETED": "done",
    "ABORTED_ROLLED_BACK": "failed",
    "ABORTED_PARTIAL": "failed",
}
"""By the event of a whole goal with several steps. The outcome of one step says nothing about the goal."""
_WAITS: Final[dict[tuple[str, str], WaitingFor]] = {
    ("CONFIRMATION_REQUIRED", "CONFIRMATION_REQUESTED"): "confirmation",
    ("CONFIRMATION_AMBIGUOUS", "CONFIRMATION_REQUESTED"): "confirmation",
    ("ACCESS_AP_REQUIRED", "APPROVAL_REQUESTED"): "approval",
    ("CLARIFY_REQUIRED", "CLARIFIED"): "clarification",
}


_LINE_STATES: Final[dict[str, GoalLineState]] = {
    "CONFIRMATION_REQUESTED": "waiting_for_confirmation",
    "APPROVAL_REQUESTED": "waiting_for_approval",
    "CLARIFIED": "asks_question",
    "SUCCEEDED": "done",
    "FAILED": "failed",
    "REFUSED": "refused",
    "ESCALATED": "recorded",
    "ROLLED_BACK": "rolled_back",
    "COMPLETED": "done",
    "ABORTED_ROLLED_BACK": "failed",
    "ABORTED_PARTIAL": "failed",
}
"""By the last event. A goal with any other event is running."""
_LIVES: Final = {"CONFIRMATION_REQUESTED": ANSWER_LIFE, "APPROVAL_REQUESTED": APPROVAL_LIFE}


def waiting_for(outcome: AgentExecutionOutcome, event: str) -> WaitingFor | None:
    """Return what a goal waits for. Both must agree, because the event may belong to another goal with this id."""
    return _WAITS.get((outcome.reason_code, event))


def state_of(outcome: AgentExecutionOutcome, event: str) -> GoalState:
    if waiting_for(outcome, event) is not None:
        return "waiting"
    if event in _WHOLE:
        return _WHOLE[event] if outcome.step_id is not None else "refused"  # without a step, it is a refused request
    if outcome.reason_code == "SIMULATION_SUCCEEDED" and outcome.simulation_outcome is not None:
        return "done"
    return "failed" if outcome.simulation_outcome is not None and event in STARTED_EVENTS else "refused"


def line_state(event: str, at: str, now: str) -> GoalLineState:
    """Return the state of a goal in a list, from its last event and the time of that event.

    A question that no person answered in time waits no longer, although the ledger has no event for that.
    """
    life = _LIVES.get(event)
    if life is not None and not is_within(parse_time(at), parse_time(now), life):
        return "expired"
    return _LINE_STATES.get(event, "running")


def can_undo(goal: AgentGoalRequest, now: GoalStatus) -> bool:
    """Return whether a goal can be rolled back. A rollback cannot: the user can ask for the same goal again instead."""
    if now.has_several_steps:
        return now.can_undo_steps
    is_undo = UNDOES in getattr(goal.sim_finder_packet, "fields", {})
    return now.rollback_plan_ref is not None and not is_undo and now.event == "SUCCEEDED"
