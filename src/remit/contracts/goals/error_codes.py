"""The closed set of reason codes of goals, the text that a user reads for each, and the errors that each stands for."""

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
    "SIMULATION_FAILED": "It was tried and did not succeed. Its trace shows whether anything was changed.",
    "SIMULATION_REFUSED": "This cannot be done at present. Nothing was done.",
    "STEP_TIMEOUT": "It took longer than allowed and was stopped.",
    "CLARIFY_REQUIRED": "",  # the Finder's own question is shown unchanged
    "FINDER_REFUSED": "Your request was not understood. Say it in other words.",
    "SIMULATION_MISSING": "Remit cannot do this yet. Your request was recorded for the people who can add it.",
    "CANDIDATES_UNRESOLVED": "Your request could mean several things. Say more exactly which one you want.",
    "PACKET_INVALID": "The interpretation of your request belongs to another request, or is out of date. Ask again.",
    "FIELDS_INVALID": "A value is missing or not valid. Ask again, and give all values.",
    "SIMULATION_NOT_REGISTERED": "Remit cannot do this.",
    "SIMULATION_NOT_ACTIVE": "This action is not active for you.",
    "ROLLBACK_PLAN_MISSING": "This could not be rolled back afterwards, so it was not done.",
    "CONFIRMATION_REQUIRED": "",  # made from the title, the fields and the words of the language
    "CONFIRMATION_AMBIGUOUS": "",
    "CONFIRMATION_REFUSED": "You answered no. Nothing was done.",
    "CONFIRMATION_EXPIRED": "The answer came too late. Ask again.",
    "CONFIRMATION_MISSING": "This was not confirmed. Nothing was done.",
    "ACCESS_SCOPE_VIOLATION": "You are not allowed to do this.",
    "ACCESS_AP_REQUIRED": "You may do this only after another person has approved it.",
    "ACCESS_ALLOWED": "You may do this.",
    "IDEMPOTENCY_VIOLATION": "It was done or started before, or the id belongs to another goal. Nothing was done now.",
    "REPLAY_INVARIANT_FAILED": "The decision about your request cannot be verified, so nothing is done.",
}
"""The text that a user reads, by code. An empty text is made by the code that knows the words to show."""

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
    """Return the reason code of an error."""
    return GOAL_CODES.get(reason, "SIMULATION_FAILED")


def reason_of(code: str) -> Reason:
    """Return the error reason under which the code of a gate is raised."""
    return next((reason for reason, known in GOAL_CODES.items() if known == code), Reason.MALFORMED)
