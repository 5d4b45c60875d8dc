"""The contracts of task results: a signed result with either an output or an error."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Discriminator, Field, GetJsonSchemaHandler, Tag, ValidationInfo, field_validator, model_validator
from pydantic_core import CoreSchema

from remit.contracts.base import AbsolutePath, Contract, Digest, Identifier, JsonObject, KeyId, Signature
from remit.contracts.tasks.by_capability import close_by_capability, narrow_schema
from remit.contracts.tasks.task import SnapshotReference
from remit.core.errors import TaskCode


class ExecutionError(Contract):
    """Why a task failed: one of the five codes, and a masked sentence."""

    error_code: TaskCode = Field(description="The error code of the task.")
    message: Annotated[str, Field(min_length=1, max_length=10_000)] = Field(
        description="What was wrong, where, and what to do next. Masked."
    )


class TransferSummary(Contract):
    source: AbsolutePath
    destination: AbsolutePath


class DeleteSummary(Contract):
    """The files of a delete. The destination is always null; it exists because every file output has this field."""

    source: AbsolutePath
    destination: None


class RestoreSummary(Contract):
    """The files of a restore. The source is a snapshot."""

    source: SnapshotReference
    destination: AbsolutePath


class MoveUndo(Contract):
    """The path to which an undo moves the file."""

    original_path: AbsolutePath


class CopyUndo(Contract):
    """The file that an undo removes, if it still has these bytes."""

    created_path: AbsolutePath
    sha256: Digest


class DeleteUndo(Contract):
    """The snapshot from which the file can be restored."""

    recovery: SnapshotReference


class Nothing(Contract):
    """A field type: an empty object, for example if there is nothing to undo."""


def _copy_undo_kind(value: Any) -> str:
    return "nothing" if value == {} or isinstance(value, Nothing) else "copy"


class MoveOutput(Contract):
    """The output of FILE_MOVE. It always has the original path, even if the caller did not require reversibility."""

    task_id: Identifier
    capability_id: Literal["FILE_MOVE"]
    result_summary: TransferSummary
    undo_metadata: MoveUndo


class CopyOutput(Contract):
    """The output of FILE_COPY. It has undo metadata only if the caller required reversibility."""

    task_id: Identifier
    capability_id: Literal["FILE_COPY"]
    result_summary: TransferSummary
    undo_metadata: Annotated[
        Annotated[CopyUndo, Tag("copy")] | Annotated[Nothing, Tag("nothing")], Discriminator(_copy_undo_kind)
    ]


class DeleteOutput(Contract):
    """The output of FILE_DELETE. It always names a snapshot, because no file is deleted without one."""

    task_id: Identifier
    capability_id: Literal["FILE_DELETE"]
    result_summary: DeleteSummary
    undo_metadata: DeleteUndo


class RestoreOutput(Contract):
    """The output of FILE_RESTORE. It needs no undo metadata: the snapshot stays, and the file can be deleted again."""

    task_id: Identifier
    capability_id: Literal["FILE_RESTORE"]
    result_summary: RestoreSummary
    undo_metadata: Nothing


class NoEffectOutput(Contract):
    """The output of NO_EFFECT, a task that changes nothing."""

    task_id: Identifier
    capability_id: Literal["NO_EFFECT"]
    result_summary: Nothing = Nothing()
    undo_metadata: Nothing = Nothing()


FileOutput = Annotated[MoveOutput | CopyOutput | DeleteOutput, Field(discriminator="capability_id")]

TaskOutput = MoveOutput | CopyOutput | DeleteOutput | RestoreOutput | NoEffectOutput | JsonObject

OUTPUT_BY_CAPABILITY: Final[dict[str, type[Contract]]] = {
    "FILE_MOVE": MoveOutput,
    "FILE_COPY": CopyOutput,
    "FILE_DELETE": DeleteOutput,
    "FILE_RESTORE": RestoreOutput,
    "NO_EFFECT": NoEffectOutput,
}


class ExecutionResult(Contract):
    """The signed result of one task.

    `output` is given exactly on SUCCESS, and `error` exactly on FAILURE. The other one is null, and neither key may be
    missing. The output of a built-in capability is a closed model, and names this task and capability.
    """

    status: Literal["SUCCESS", "FAILURE"] = Field(description="How the task ended.")
    task_id: Identifier = Field(description="The id of the task.")
    capability_id: Identifier = Field(description="The requested capability.")
    output: TaskOutput | None = Field(description="The effect and the data to undo it; null on FAILURE.")
    error: ExecutionError | None = Field(description="Why it failed; null on SUCCESS.")
    executor_id: Identifier = Field(description="The executor that is responsible for the result.")
    key_id: KeyId = Field(description="The executor key that signed it.")
    signature: Signature = Field(description="Covers every other field.")

    @field_validator("output", mode="plain", json_schema_input_type=TaskOutput | None)
    @classmethod
    def _close_output(cls, value: Any, info: ValidationInfo) -> Contract | dict[str, Any] | None:
        return None if value is None else close_by_capability(value, info, OUTPUT_BY_CAPABILITY)

    @model_validator(mode="after")
    def _check_presence(self) -> Self:
        succeeded = self.status == "SUCCESS"
        if (self.output is not None) != succeeded:
            raise ValueError("output must be given exactly if the status is SUCCESS")
        if (self.error is None) != succeeded:
            raise ValueError("error must be given exactly if the status is FAILURE")
        return self

    @model_validator(mode="after")
    def _check_subject(self) -> Self:
        if isinstance(self.output, MoveOutput | CopyOutput | DeleteOutput | RestoreOutput | NoEffectOutput):
            about = (self.output.task_id, self.output.capability_id)
            if about != (self.task_id, self.capability_id):
                raise ValueError("the output names another task or capability than the result")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = narrow_schema(handler(core), handler, "output", OUTPUT_BY_CAPABILITY)
        rules = handler.resolve_ref_schema(schema)["allOf"]
        for status, present, absent in (("SUCCESS", "output", "error"), ("FAILURE", "error", "output")):
            rules.append(
                {
                    "if": {"properties": {"status": {"const": status}}},
                    "then": {"properties": {present: {"type": "object"}, absent: {"type": "null"}}},
                }
            )
        return schema
