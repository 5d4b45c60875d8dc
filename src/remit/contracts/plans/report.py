"""The report on a run of a plan: `execution_report.json`."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from remit.contracts.base import LARGE, Contract, Count, Identifier, JsonObject, Many, ShortText, Text, Timestamp, Uuid4
from remit.contracts.plans.pipeline_report import PipelineTold
from remit.contracts.plans.sql_report import SqlTold
from remit.core.ids import parse_time
from remit.parsing import Bounds

ErrorCode = Annotated[int, Field(ge=1000, le=5999)]

_LEFT_OUT_WHERE_EMPTY: Final = frozenset({"sql", "pipelines", "prepared_ms"})

Version = Annotated[str, Field(min_length=1, max_length=50)]


class ActionsSummary(Contract):
    total: Count
    completed: Count
    failed: Count
    skipped: Count


class CompletedAction(Contract):
    """A completed action. `output` is a sentence, or the findings of the operation: rows, or steps of a pipeline."""

    action_id: Identifier
    status: Literal["SUCCESS"]
    started_at: Timestamp
    completed_at: Timestamp
    output: Text | JsonObject


class FailedAction(Contract):
    action_id: Identifier
    status: Literal["FAILED"]
    error_code: ErrorCode
    error_message: Text
    stack_trace: Text | None = None


class SkippedAction(Contract):
    action_id: Identifier
    reason: ShortText


class ExecutionReport(Contract):
    """How the run of a plan ended, action by action.

    The counts add up and match the lists, no action is in two lists, and the status fits the counts.
    """

    bounds: ClassVar[Bounds] = LARGE

    report_id: Uuid4
    plan_id: Identifier
    executor_version: Version
    status: Literal["SUCCESS", "PARTIAL", "FAILED", "ROLLED_BACK", "CANCELLED"]
    started_at: Timestamp
    completed_at: Timestamp
    duration_ms: Count
    """The time from `started_at` to `completed_at`, and `prepared_ms`."""
    prepared_ms: Count = 0
    """How long SQL and pipelines ran when the approved preview was computed, before `started_at`. Omitted if they did
    not run."""
    actions_summary: ActionsSummary
    actions_completed: Many[CompletedAction]
    actions_failed: Many[FailedAction]
    actions_skipped: Many[SkippedAction]
    rollback_performed: bool
    rollback_manifest_id: Uuid4 | None
    warnings: Many[ShortText] = ()
    """Facts that a reader must know, such as a run without a sandbox."""
    sql: Many[SqlTold] = ()
    """Each completed action that ran SQL: its statements, and the numbers of rows that they read and changed. Omitted
    if empty, so that reports which were signed before this field existed keep their digest."""
    pipelines: Many[PipelineTold] = ()
    """Each action that ran a pipeline: its steps, how they ended, and their rows. A failed one also has its log.
    Omitted if empty, for the same reason."""

    @model_serializer(mode="wrap")
    def _omit_empty(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = serialise(self)
        return {name: value for name, value in tree.items() if value or name not in _LEFT_OUT_WHERE_EMPTY}

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        counts = self.actions_summary
        listed = (len(self.actions_completed), len(self.actions_failed), len(self.actions_skipped))
        if (counts.completed, counts.failed, counts.skipped) != listed:
            raise ValueError("actions_summary does not match the lists of actions")
        if counts.total != sum(listed):
            raise ValueError("actions_summary.total is not the sum of completed, failed and skipped")
        ids = [action.action_id for action in self.actions_completed]
        ids += [action.action_id for action in self.actions_failed]
        ids += [action.action_id for action in self.actions_skipped]
        if len(set(ids)) != len(ids):
            raise ValueError("an action is in the lists of actions twice")
        return self

    @model_validator(mode="after")
    def _check_status(self) -> Self:
        counts = self.actions_summary
        if self.status == "SUCCESS" and (counts.failed or counts.skipped or self.rollback_performed):
            raise ValueError("a SUCCESS has no failed and no skipped action, and no rollback")
        if self.status == "PARTIAL" and self.rollback_performed:
            raise ValueError("a PARTIAL run was not rolled back")
        if self.status == "ROLLED_BACK" and not (self.rollback_performed and self.rollback_manifest_id):
            raise ValueError("ROLLED_BACK needs rollback_performed and rollback_manifest_id")
        return self

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        if parse_time(self.completed_at) < parse_time(self.started_at):
            raise ValueError("completed_at comes before started_at")
        return self
