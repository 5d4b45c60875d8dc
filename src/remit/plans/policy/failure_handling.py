"""Decides whether a plan is kept or undone after a failure, and what the report says about the failure. Pure."""

from collections.abc import Sequence
from enum import Enum
from typing import Literal, NamedTuple

from remit.contracts.plans.plan import ExecutionInstructions
from remit.contracts.plans.status import PlanStatus
from remit.core.errors import Reason
from remit.effects.plans.steps import ABOUT_ONE_ACTION

RecoveryAction = Literal["SKIPPED", "ROLLED_BACK", "MANUAL_REQUIRED"]


class StepFate(Enum):
    """What decides about the plan when a step has failed."""

    FLAGS_DECIDE = "flags decide"
    """The flags `stop_on_error` and `rollback_on_failure` decide, since the failure is about this action alone."""
    ALWAYS_BACK = "always back"
    """Nothing can change it: the plan stops and is undone."""


class JudgedStep(NamedTuple):
    """How a step ended."""

    number: int
    state: Literal["done", "failed", "skipped"]
    reason: Reason | None = None
    """Why it failed or was skipped."""
    action_id: str = ""
    """The action that the step belongs to. An action may have several steps. Empty if it belongs to none."""


class PlanFate(NamedTuple):
    verdict: Literal["GOOD", "KEEP", "BACK"]
    """`GOOD`: everything is done. `KEEP`: a part is done, and it stays. `BACK`: what was done is undone."""
    status: PlanStatus


def fate_of(reason: Reason) -> StepFate:
    return StepFate.FLAGS_DECIDE if reason in ABOUT_ONE_ACTION else StepFate.ALWAYS_BACK


def decide_fate(results: Sequence[JudgedStep], instructions: ExecutionInstructions) -> PlanFate:
    """Decide from how every step ended. A plan without any step done has failed, and there is nothing to undo."""
    if results and all(result.state == "done" for result in results):
        return PlanFate("GOOD", "SUCCESS")
    if any(result.reason is Reason.CANCELLED for result in results):
        return PlanFate("BACK", "CANCELLED")
    if not any(result.state == "done" for result in results):
        return PlanFate("BACK", "FAILED")
    if instructions.rollback_on_failure or any(map(_is_grave, results)) or _is_any_in_half(results):
        return PlanFate("BACK", "ROLLED_BACK")
    return PlanFate("KEEP", "PARTIAL")


def _is_any_in_half(results: Sequence[JudgedStep]) -> bool:
    """Whether an action changed some of its files and not others. A half-done action does not stay."""
    done = {result.action_id for result in results if result.state == "done"}
    return any(result.action_id in done for result in results if result.action_id and result.state != "done")


def _is_grave(result: JudgedStep) -> bool:
    """Whether this failure undoes the plan whatever the flags say. A failure without a reason does: its cause is
    unknown.
    """
    if result.state != "failed":
        return False
    return result.reason is None or fate_of(result.reason) is StepFate.ALWAYS_BACK


def recovery_action(reason: Reason, status: PlanStatus | None) -> RecoveryAction:
    """Return what was done about an error.

    `status` is the status that the plan ended with. It is None if the plan was refused or has not ended.
    """
    if reason is Reason.ROLLBACK_FAILED:
        return "MANUAL_REQUIRED"
    if reason is not Reason.DEPENDENCY_FAILED and status in {"ROLLED_BACK", "CANCELLED"}:
        return "ROLLED_BACK"
    return "SKIPPED"
