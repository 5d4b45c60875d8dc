"""The steps of a goal that has several of them, as every interface shows them. Built from the ledger only."""

from typing import Literal

from pydantic import Field

from remit.contracts.base import Contract, Count, Identifier, JsonObject, Many, ShortText, Text, Timestamp

GoalOutcome = Literal[
    "RUNNING", "WAITING", "COMPLETED", "ABORTED_ROLLED_BACK", "ABORTED_PARTIAL", "REFUSED", "ROLLED_BACK"
]
StepState = Literal["not started", "running", "waiting", "done", "failed", "refused", "rolled back"]
RollbackState = Literal["running", "waiting", "done", "failed", "refused"]


class WaitingStep(Contract):
    """The question that a goal with several steps waits with. An answer must name its `step_id`."""

    step_id: Identifier
    step: ShortText | None = Field(description="The name of the step. Null for the question whether to roll back.")
    waiting_for: Literal["confirmation", "approval"]
    expires: Timestamp


class GoalStep(Contract):
    """One step of a goal: what it runs, with which values, and its outcome."""

    name: ShortText
    step_id: Identifier
    place: Count = Field(description="Its place in the order in which the steps run, from 1.")
    simulation_id: ShortText
    title: ShortText
    impact: ShortText
    depends_on: Many[ShortText] = Field(description="The names of the steps that must succeed before it.")
    state: StepState
    event: ShortText = Field(description="Its last event in the ledger; empty before the first.")
    attempts: Count
    reason_code: ShortText | None = None
    reason: Text | None = Field(default=None, description="The reason in words, if it was refused or failed, or waits.")
    rollback: RollbackState | None = Field(default=None, description="The state of its rollback, if that has begun.")
    rollback_reason_code: ShortText | None = None
    rollback_reason: Text | None = None
    waiting: WaitingStep | None = None
    fields: JsonObject = Field(description="Its values as far as they are known, masked. Null: withheld.")
    outputs: JsonObject = Field(description="The values that it gives to later steps, masked. Null: withheld.")


class GoalSteps(Contract):
    """A goal with several steps. It has an outcome only as a whole: one step that succeeded does not end it."""

    outcome: GoalOutcome
    remaining: Many[ShortText] = Field(
        description="After the end: the names of the steps whose effect is still there, or may be."
    )
    waiting: WaitingStep | None = None
    steps: Many[GoalStep]
    withheld: Text | None = Field(
        default=None, description="Why an agent gets less information than a person. Null: nothing is withheld."
    )
