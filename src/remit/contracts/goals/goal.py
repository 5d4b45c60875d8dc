"""Goals: the request of a user, the plan that is made from it, and how each step ended."""

from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from remit.contracts.base import (
    Contract,
    Digest,
    ExtendedContract,
    Identifier,
    Many,
    ReasonCode,
    RiskLevel,
    ShortText,
    Text,
    Timestamp,
)
from remit.contracts.goals.dispatch import SimulationOutcome
from remit.contracts.goals.packets import ClarifyPacket, FinderPacket

LanguageTag = Annotated[str, Field(max_length=35, pattern=r"^[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8}){0,6}$")]
"""A language tag of BCP 47."""

DEFAULT_LANGUAGE: Final = "en"
"""The language of a goal that names none."""

Attempts = Annotated[int, Field(ge=0, le=1_000)]
"""A number of questions in one thread."""

KeyPart = Literal[
    "correlation_id", "step_id", "simulation_id", "required_fields_fingerprint", "policy_snapshot_version"
]

KEY_RECIPE: Final[tuple[KeyPart, ...]] = (
    "correlation_id",
    "step_id",
    "simulation_id",
    "required_fields_fingerprint",
    "policy_snapshot_version",
)


class ConfirmState(ExtendedContract):
    """The state of the confirmation. `answer` is the text of the user; another step decides what it means."""

    added_later: ClassVar[frozenset[str]] = frozenset({"step_id"})

    status: Literal["NONE", "AWAITING", "ANSWERED"]
    answer: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    step_id: Identifier | None = Field(
        default=None, description="The step that the answer is for. A goal with several steps requires it."
    )

    @model_validator(mode="after")
    def _check_answer(self) -> Self:
        if (self.answer is not None) != (self.status == "ANSWERED"):
            raise ValueError("answer is required if the status is ANSWERED, and not allowed otherwise")
        return self


class AgentGoalRequest(Contract):
    """A user's goal, with the Finder's packet. A confirmation is read only in the language of the tag.

    `attempt_counter` is the number of questions that the user was asked in the thread before this goal. So the question
    of a ClarifyPacket has the next number.
    """

    correlation_id: Identifier
    tenant_id: Identifier
    user_id: Identifier
    thread_id: Identifier
    raw_user_utterance: Text
    language_tag: LanguageTag = DEFAULT_LANGUAGE
    normalized_intent: ShortText
    sim_finder_packet: FinderPacket
    confirm_state: ConfirmState
    idempotency_key: Identifier
    attempt_counter: Attempts

    @model_validator(mode="after")
    def _check_counter(self) -> Self:
        packet = self.sim_finder_packet
        if isinstance(packet, ClarifyPacket) and packet.attempt != self.attempt_counter + 1:
            raise ValueError("attempt_counter must be one less than the attempt of the Finder's question")
        return self


RetryCode = Literal["SIMULATION_FAILED", "SIMULATION_REFUSED", "STEP_TIMEOUT"]


class StepRetryPolicy(ExtendedContract):
    """How often a step may be tried, and the waits between the attempts. One attempt means no retry.

    Only a failure that had no effect is followed by another attempt.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"codes"})

    max_attempts: Annotated[int, Field(ge=1, le=10)]
    backoff_ms: Annotated[Many[Annotated[int, Field(ge=0, le=600_000)]], Field(max_length=9)] = ()
    codes: Annotated[Many[RetryCode], Field(max_length=3)] = Field(
        default=(), description="The reason codes of failures that are tried again. An empty list means all of them."
    )

    @model_validator(mode="after")
    def _check_waits(self) -> Self:
        if len(self.backoff_ms) != self.max_attempts - 1:
            raise ValueError("backoff_ms must have one wait fewer than max_attempts")
        return self


class AgentStep(Contract):
    """One simulation to run. The key recipe always has the same five parts in the same order."""

    step_id: Identifier
    simulation_id: Identifier
    required_fields: Many[Identifier]
    required_fields_fingerprint: Digest
    policy_snapshot_version: Identifier
    confirmation_required: bool
    access_action: Identifier
    idempotency_key_recipe: Many[KeyPart]
    retry_policy: StepRetryPolicy
    rollback_plan_ref: Identifier | None

    @model_validator(mode="after")
    def _check_recipe(self) -> Self:
        if self.idempotency_key_recipe != KEY_RECIPE:
            raise ValueError(f"idempotency_key_recipe must be {', '.join(KEY_RECIPE)}, in this order")
        return self


class AgentExecutionPlan(Contract):
    """The steps in order. `required_confirmations` lists the ids of the steps that need a confirmation."""

    plan_id: Identifier
    finder_packet_ref: Identifier
    ordered_steps: Many[AgentStep]
    required_confirmations: Many[Identifier]
    risk_level: RiskLevel
    access_actions_required: Many[Identifier]
    policy_snapshot_ref: Identifier
    created_at: Timestamp

    @model_validator(mode="after")
    def _check_steps(self) -> Self:
        steps = {step.step_id: step for step in self.ordered_steps}
        if len(steps) != len(self.ordered_steps):
            raise ValueError("two steps have the same id")
        needed = sorted(step.step_id for step in self.ordered_steps if step.confirmation_required)
        if sorted(self.required_confirmations) != needed:
            raise ValueError("required_confirmations must name exactly the steps with confirmation_required")
        if not {step.access_action for step in self.ordered_steps} <= set(self.access_actions_required):
            raise ValueError("access_actions_required must contain the access action of every step")
        return self


class AgentExecutionOutcome(Contract):
    """How a cycle ended. Without a dispatch there is no simulation outcome, and there may be no step."""

    step_id: Identifier | None
    simulation_outcome: SimulationOutcome | None
    audit_event_id: Identifier
    proof_refs: Many[Identifier]
    dispatch_decision_hash: Digest
    next_step: Identifier | None
    reason_code: ReasonCode
    user_visible_text: Text
    text_language: LanguageTag | None = Field(
        default=None, description="The language of the text. Null for the Finder's own question."
    )
    attempt_counter: Attempts = Field(
        default=0, description="How many questions the user was asked in the thread, with the one in this outcome."
    )
