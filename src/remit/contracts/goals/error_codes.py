"""The goal door's closed set of reason codes: what each means, which errors it stands for, and what a user reads."""

from typing import Final, Literal

from remit.core.errors import Reason

AgentCode = Literal[
    "SIMULATION_SUCCEEDED",
    "SIMULATION_FAILED",
    "SIMULATION_REFUSED",
    "STEP_TIMEOUT",
    "CLARIFY_REQUIRED",
    "FINDER_REFUSED",
    "SIMULATION_MISSING",
    "CANDIDATES_UNRESOLVED",
    "PACKET_INVALID",
    "FIELDS_INVALID",
    "SIMULATION_NOT_REGISTERED",
    "SIMULATION_NOT_ACTIVE",
    "ROLLBACK_PLAN_MISSING",
    "CONFIRMATION_REQUIRED",
    "CONFIRMATION_AMBIGUOUS",
    "CONFIRMATION_REFUSED",
    "CONFIRMATION_EXPIRED",
    "CONFIRMATION_MISSING",
    "ACCESS_SCOPE_VIOLATION",
    "ACCESS_AP_REQUIRED",
    "ACCESS_ALLOWED",
    "IDEMPOTENCY_VIOLATION",
    "REPLAY_INVARIANT_FAILED",
]

USER_TEXT: Final[dict[str, str]] = {
    "SIMULATION_SUCCEEDED": "Done.",
    "SIMULATION_FAILED": "It was tried and did not succeed. Its record says whether anything of it stands.",
    "SIMULATION_REFUSED": "It cannot be done as things are. Nothing was done.",
    "STEP_TIMEOUT": "It took longer than it may, and was stopped.",
    "CLARIFY_REQUIRED": "",  # the Finder's own question, unchanged
    "FINDER_REFUSED": "This was not understood as something to do. Say it in other words.",
    "SIMULATION_MISSING": "Nothing here can do this yet. It was passed on to the people who build such things.",
    "CANDIDATES_UNRESOLVED": "This could mean several things. Say more exactly which one you want.",
    "PACKET_INVALID": "What was understood does not belong to this request, or is out of date. Ask again.",
    "FIELDS_INVALID": "Something that is needed is missing or not valid. Ask again, with all of it.",
    "SIMULATION_NOT_REGISTERED": "Nothing here can do this.",
    "SIMULATION_NOT_ACTIVE": "This is not switched on for you.",
    "ROLLBACK_PLAN_MISSING": "This could not be taken back, so it is not done.",
    "CONFIRMATION_REQUIRED": "",  # made of the simulation's title, its fields and the words of the language
    "CONFIRMATION_AMBIGUOUS": "",
    "CONFIRMATION_REFUSED": "You said no. Nothing was done.",
    "CONFIRMATION_EXPIRED": "The answer came too late. Ask again.",
    "CONFIRMATION_MISSING": "Nobody has confirmed this. Nothing was done.",
    "ACCESS_SCOPE_VIOLATION": "You may not do this.",
    "ACCESS_AP_REQUIRED": "You may do this only once somebody else has approved it.",
    "ACCESS_ALLOWED": "You may do this.",
    "IDEMPOTENCY_VIOLATION": "It was done or begun before, or its id stands for something else. Nothing was done now.",
    "REPLAY_INVARIANT_FAILED": "What was decided cannot be shown to be right any more, so nothing is done.",
}
"""What a user reads; those that are empty are made where the words are known."""

GOAL_CODES: Final[dict[Reason, AgentCode]] = {
    Reason.GOAL_CONFLICT: "IDEMPOTENCY_VIOLATION",
    Reason.IDEMPOTENCY_CONFLICT: "IDEMPOTENCY_VIOLATION",
    Reason.TRANSITION_INVALID: "IDEMPOTENCY_VIOLATION",
    Reason.SIMULATION_UNKNOWN: "SIMULATION_NOT_REGISTERED",
    Reason.SIMULATION_INACTIVE: "SIMULATION_NOT_ACTIVE",
    Reason.CONFIRMATION_MISSING: "CONFIRMATION_MISSING",
    Reason.ACCESS_DENIED: "ACCESS_SCOPE_VIOLATION",
    Reason.ACCESS_NEEDS_APPROVAL: "ACCESS_AP_REQUIRED",
    Reason.ROLLBACK_MISSING: "ROLLBACK_PLAN_MISSING",
    Reason.REPLAY_FAILED: "REPLAY_INVARIANT_FAILED",
    Reason.EVIDENCE_INVALID: "REPLAY_INVARIANT_FAILED",
    Reason.BINDING_MISMATCH: "PACKET_INVALID",
    Reason.MALFORMED: "FIELDS_INVALID",
    Reason.EXPIRED: "CONFIRMATION_EXPIRED",
    Reason.TIMED_OUT: "STEP_TIMEOUT",
}


def goal_code(reason: Reason) -> AgentCode:
    return GOAL_CODES.get(reason, "SIMULATION_FAILED")


def reason_of(code: str) -> Reason:
    """The error that a gate's code is raised as, where it has to be one."""
    return next((reason for reason, known in GOAL_CODES.items() if known == code), Reason.MALFORMED)
