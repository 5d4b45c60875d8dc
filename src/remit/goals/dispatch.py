"""One dispatch on its way through the SimulationExecutor, and the errors that can occur."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.core.canonical import digest
from remit.core.errors import GOAL_ADVICE, EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.goals.decisions import DecisionRecord, FinalRefusal
from remit.goals.gates import Evidence
from remit.goals.rules import Rules
from remit.ledger.goal_tables import StepRow


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A request for a dispatch. `is_resumed`: a process that died had started it, and it had passed the gates."""

    envelope: DispatchEnvelope
    is_resumed: bool = False
    attempt: int = 1
    """The number of the attempt. A later attempt follows a failure that surely had no effect."""
    evidence: list[tuple[DecisionRecord, Evidence]] = field(default_factory=list, compare=False)
    """The decision and its evidence, once the decision was replayed with the same result."""
    allowed: list[StepRow] = field(default_factory=list, compare=False)
    """The event that allowed the dispatch, compared with its signed ledger entry."""
    passed: list[Rules] = field(default_factory=list, compare=False)
    """The rules with which the final gate allowed it."""
    refused: list[FinalRefusal] = field(default_factory=list, compare=False)
    """The refusal of the final gate."""
    start_refusals: list[RemitError] = field(default_factory=list, compare=False)
    """Why this caller did not start it. Another caller may have started the same dispatch nevertheless."""

    @property
    def key(self) -> str:
        """The key of the claim of this attempt."""
        return attempt_key(self.envelope.idempotency_key, self.attempt)

    @property
    def digest(self) -> str:
        """The digest of this request. Each attempt is a request of its own, and the journal allows each only once."""
        own = self.envelope.digest()
        return own if self.attempt == 1 else digest({"dispatch": own, "attempt": self.attempt})


class AlreadyStartedError(EnvironmentFailureError):
    """The rules do not allow the dispatch now, but it was started before. The outcome of the earlier start is valid."""


@dataclass(frozen=True, slots=True)
class StartedDispatch:
    """The checkpoint of a dispatch: the envelope, the prepared action, and the time limit in seconds."""

    envelope: DispatchEnvelope
    prepared: Mapping[str, Any]
    seconds: float


def attempt_key(idempotency_key: str, attempt: int) -> str:
    """Return the key of one attempt under the step's one idempotency key. The first attempt has that key itself."""
    return idempotency_key if attempt == 1 else f"{idempotency_key}.{attempt}"


def ends_step(request: Dispatch, before: str) -> bool:
    """Tell whether a refusal ends the step. A refusal of a foreign dispatch does not end it.

    Raises:
        AlreadyStartedError: The step was started before.
    """
    if request.attempt == 1 and before not in {"", "ACCESS_ALLOWED", "REFUSED"} and request.evidence:
        envelope = request.envelope
        raise AlreadyStartedError(
            Reason.IN_PROGRESS,
            "the dispatch was started before, and its outcome is not known yet",
            where=f"correlation {envelope.correlation_id}, step {envelope.step_id}",
            next_step=GOAL_ADVICE,
        )
    is_foreign = not request.evidence and request.start_refusals[0].reason is Reason.GOAL_CONFLICT
    return before == ("ACCESS_ALLOWED" if request.attempt == 1 else "FAILED") and not is_foreign


def not_decided(envelope: DispatchEnvelope, what: str) -> RefusedError:
    return RefusedError(
        Reason.GOAL_CONFLICT,
        what,
        where=f"correlation {envelope.correlation_id}, step {envelope.step_id}",
        next_step="Only the agent core makes dispatches, for a goal that has passed its gates.",
    )
