"""One dispatch on its way through the SimulationExecutor's door, and the words for what can go wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.core.errors import GOAL_ADVICE, EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.goals.decisions import DecisionRecord, FinalRefusal
from remit.goals.gates import Evidence
from remit.goals.rules import Rules
from remit.ledger.goal_tables import StepRow


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What is asked for. `is_resumed`: by a process that died at it, so the gates were passed then."""

    envelope: DispatchEnvelope
    is_resumed: bool = False
    evidence: list[tuple[DecisionRecord, Evidence]] = field(default_factory=list, compare=False)
    """What it was decided from, once that was found and the decision came out the same."""
    allowed: list[StepRow] = field(default_factory=list, compare=False)
    """The event that let it go, held against its signed entry."""
    passed: list[Rules] = field(default_factory=list, compare=False)
    """The rules by which the final gate has let it through."""
    refused: list[FinalRefusal] = field(default_factory=list, compare=False)
    """What the final gate found."""
    start_refusals: list[RemitError] = field(default_factory=list, compare=False)
    """Why it was not begun by whoever asks here. Somebody else may have begun the same all the same."""


class AlreadyStartedError(EnvironmentFailureError):
    """The rules do not let it begin now, and it was begun before: what came of that counts."""


@dataclass(frozen=True, slots=True)
class StartedDispatch:
    envelope: DispatchEnvelope
    prepared: Mapping[str, Any]
    seconds: float


def ends_step(request: Dispatch, before: str) -> bool:
    """Whether a refusal is the end of the step: not of one that was begun, nor by a dispatch that is not its own."""
    if before not in {"", "ACCESS_ALLOWED", "REFUSED"} and request.evidence:
        envelope = request.envelope
        raise AlreadyStartedError(
            Reason.IN_PROGRESS,
            "it was begun before, and how that ended is not known yet",
            where=f"correlation {envelope.correlation_id}, step {envelope.step_id}",
            next_step=GOAL_ADVICE,
        )
    is_foreign = not request.evidence and request.start_refusals[0].reason is Reason.GOAL_CONFLICT
    return before == "ACCESS_ALLOWED" and not is_foreign


def not_decided(envelope: DispatchEnvelope, what: str) -> RefusedError:
    return RefusedError(
        Reason.GOAL_CONFLICT,
        what,
        where=f"correlation {envelope.correlation_id}, step {envelope.step_id}",
        next_step="Only the agent core makes dispatches, from a goal that passed its gates.",
    )
