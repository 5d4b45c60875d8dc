"""A plan: a list of actions with their order, and the conditions before and after each.

A plan contains the files that it creates, so it may be as large as the largest bounds. Only the form is checked here.
Whether the dependencies form a DAG, and whether the paths are allowed, is checked later and has its own error codes.
"""

from collections import Counter
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from remit.contracts.base import LARGE, Contract, Digest, Identifier, Many, RelativePath, RiskLevel, Some
from remit.contracts.config.limits import (
    MAX_FILE_OPERATION_SECONDS,
    MAX_PIPELINE_SECONDS,
    MAX_SCHEMA_UPDATE_SECONDS,
    MAX_SQL_SECONDS,
    MAX_TASK_SECONDS,
)
from remit.contracts.plans.operations import (
    DeleteFile,
    ModifyOperation,
    PipelineRun,
    RenameFile,
    SchemaOperation,
    SqlExecute,
    WriteFile,
)
from remit.contracts.plans.validation_rules import ValidationRule
from remit.parsing import Bounds

ActionType = Literal[
    "FILE_CREATE", "FILE_MODIFY", "FILE_DELETE", "FILE_RENAME", "SCHEMA_UPDATE", "SQL_EXECUTE", "PIPELINE_RUN"
]


class PlanAction(Contract):
    """The fields of every action. `expected_hash_*` are hashes of the target's bytes."""

    action_id: Identifier
    depends_on: Many[Identifier] = ()
    reversible: bool = True
    risk_level: RiskLevel = "LOW"
    expected_hash_before: Digest | None = None
    expected_hash_after: Digest | None = None


class FileAction(PlanAction):
    target: RelativePath
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_FILE_OPERATION_SECONDS)] | None = None


class FileCreate(FileAction):
    action_type: Literal["FILE_CREATE"]
    operation: WriteFile


class FileModify(FileAction):
    action_type: Literal["FILE_MODIFY"]
    operation: ModifyOperation


class FileDelete(FileAction):
    action_type: Literal["FILE_DELETE"]
    operation: DeleteFile


class FileRename(FileAction):
    action_type: Literal["FILE_RENAME"]
    operation: RenameFile


class SchemaUpdate(PlanAction):
    """An edit of a JSON or YAML schema file, which must be a valid schema afterwards."""

    action_type: Literal["SCHEMA_UPDATE"]
    target: RelativePath
    operation: SchemaOperation
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_SCHEMA_UPDATE_SECONDS)] | None = None


class SqlAction(PlanAction):
    """An action that runs SQL. The connection names the database. A target is optional and names the database file."""

    action_type: Literal["SQL_EXECUTE"]
    target: RelativePath | None = None
    operation: SqlExecute
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_SQL_SECONDS)] | None = None


class PipelineAction(PlanAction):
    """An action that runs a pipeline. The plan must state whether the pipeline can be undone. Only a pipeline of query
    files can, and only if Remit keeps the data that it changes.
    """

    action_type: Literal["PIPELINE_RUN"]
    target: RelativePath | None = None
    operation: PipelineRun
    reversible: bool
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_PIPELINE_SECONDS)] | None = None


Action = Annotated[
    FileCreate | FileModify | FileDelete | FileRename | SchemaUpdate | SqlAction | PipelineAction,
    Field(discriminator="action_type"),
]


class ExecutionInstructions(Contract):
    """How to run the actions. The defaults are the safe ones."""

    execution_order: Literal["sequential", "parallel"] = "sequential"
    stop_on_error: bool = True
    rollback_on_failure: bool = True
    preserve_permissions: bool = True
    verify_hashes: bool = True
    timeout_seconds: Annotated[int, Field(ge=1, le=MAX_TASK_SECONDS)] | None = None


class Plan(Contract):
    """A plan. Only the files, databases and pipelines in its list of actions are changed."""

    bounds: ClassVar[Bounds] = LARGE

    plan_id: Identifier
    action_plan: Some[Action]
    execution_instructions: ExecutionInstructions = ExecutionInstructions()
    validation_rules: Many[ValidationRule] = ()

    @model_validator(mode="after")
    def _check_unique_ids(self) -> Self:
        counts = Counter(action.action_id for action in self.action_plan)
        repeated = [action_id for action_id, times in counts.items() if times > 1]
        if repeated:
            raise ValueError(f"the action id {repeated[0]!r} is used more than once")
        return self
