"""What a goal's outcome and its last event say together: whether it waits, for what, and how it ended."""

from typing import Final, Literal

from remit.contracts.goals.goal import AgentExecutionOutcome, AgentGoalRequest
from remit.contracts.goals.simulation import UNDOES
from remit.contracts.services.common import WaitingFor
from remit.goals.status import GoalStatus

GoalState = Literal["done", "failed", "refused", "waiting"]

ENDED: Final = frozenset({"SUCCEEDED", "FAILED", "REFUSED", "ESCALATED", "ROLLED_BACK"})
STARTED_EVENTS: Final = frozenset({"DISPATCHED", "FAILED", "ROLLED_BACK"})
"""From here on, more than nothing was done."""
_WAITS: Final[dict[tuple[str, str], WaitingFor]] = {
    ("CONFIRMATION_REQUIRED", "CONFIRMATION_REQUESTED"): "confirmation",
    ("CONFIRMATION_AMBIGUOUS", "CONFIRMATION_REQUESTED"): "confirmation",
    ("ACCESS_AP_REQUIRED", "APPROVAL_REQUESTED"): "approval",
    ("CLARIFY_REQUIRED", "CLARIFIED"): "clarification",
}


def waiting_for(outcome: AgentExecutionOutcome, event: str) -> WaitingFor | None:
    """By both: a correlation that another goal has used waits for nothing of ours."""
    return _WAITS.get((outcome.reason_code, event))


def state_of(outcome: AgentExecutionOutcome, event: str) -> GoalState:
    if waiting_for(outcome, event) is not None:
        return "waiting"
    if outcome.reason_code == "SIMULATION_SUCCEEDED":
        return "done"
    return "failed" if outcome.simulation_outcome is not None and event in STARTED_EVENTS else "refused"


def can_undo(goal: AgentGoalRequest, now: GoalStatus) -> bool:
    """Whether it names a way back. Taking back what took something back would be asking for it anew."""
    is_undo = UNDOES in getattr(goal.sim_finder_packet, "fields", {})
    return now.rollback_plan_ref is not None and not is_undo and now.event == "SUCCEEDED"
