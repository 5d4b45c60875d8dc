"""What comes back through the task door: a signed result, with an output or an error and never both."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Discriminator, Field, GetJsonSchemaHandler, Tag, ValidationInfo, field_validator, model_validator
from pydantic_core import CoreSchema

from remit.contracts.base import AbsolutePath, Contract, Digest, Identifier, JsonObject, KeyId, Signature
from remit.contracts.tasks.by_capability import close_by_capability, narrow_schema
from remit.contracts.tasks.task import SnapshotReference
from remit.core.errors import TaskCode


class ExecutionError(Contract):
    """Why a task failed: one of the five codes, and a masked sentence."""

    error_code: TaskCode = Field(description="The task door's code.")
    message: Annotated[str, Field(min_length=1, max_length=10_000)] = Field(
        description="What was wrong, where, and what to do next. Masked."
    )


class TransferSummary(Contract):
    source: AbsolutePath
    destination: AbsolutePath


class DeleteSummary(Contract):
    """A delete has no destination; the field is there all the same, since every file output has it."""

    source: AbsolutePath
    destination: None


class RestoreSummary(Contract):
    """The source of a restore is a snapshot."""

    source: SnapshotReference
    destination: AbsolutePath


class MoveUndo(Contract):
    """Move the file back to here."""

    original_path: AbsolutePath


class CopyUndo(Contract):
    """Remove this file, if it still has these bytes."""

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
    """Always says where the file was, whether or not the caller asked for reversibility."""

    task_id: Identifier
    capability_id: Literal["FILE_MOVE"]
    result_summary: TransferSummary
    undo_metadata: MoveUndo


class CopyOutput(Contract):
    """Undo metadata only where the caller asked for reversibility."""

    task_id: Identifier
    capability_id: Literal["FILE_COPY"]
    result_summary: TransferSummary
    undo_metadata: Annotated[
        Annotated[CopyUndo, Tag("copy")] | Annotated[Nothing, Tag("nothing")], Discriminator(_copy_undo_kind)
    ]


class DeleteOutput(Contract):
    """No snapshot, no delete: the recovery reference is never absent."""

    task_id: Identifier
    capability_id: Literal["FILE_DELETE"]
    result_summary: DeleteSummary
    undo_metadata: DeleteUndo


class RestoreOutput(Contract):
    """The way back has no way back of its own: the snapshot stays, and the file can be deleted again."""

    task_id: Identifier
    capability_id: Literal["FILE_RESTORE"]
    result_summary: RestoreSummary
    undo_metadata: Nothing


class NoEffectOutput(Contract):
    """What a task that does nothing reports: that it did nothing."""

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

    `output` is there exactly on SUCCESS, `error` exactly on FAILURE; the other one is null, and neither key may be left
    out. The output of a built-in capability is closed, and speaks of this task and capability.
    """

    status: Literal["SUCCESS", "FAILURE"] = Field(description="How the task ended.")
    task_id: Identifier = Field(description="The task that this is the result of.")
    capability_id: Identifier = Field(description="The capability that was asked for.")
    output: TaskOutput | None = Field(description="What was done and how to undo it; null on FAILURE.")
    error: ExecutionError | None = Field(description="Why it failed; null on SUCCESS.")
    executor_id: Identifier = Field(description="The executor that answers for it.")
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
            raise ValueError("output must be there exactly when the status is SUCCESS")
        if (self.error is None) != succeeded:
            raise ValueError("error must be there exactly when the status is FAILURE")
        return self

    @model_validator(mode="after")
    def _check_subject(self) -> Self:
        if isinstance(self.output, MoveOutput | CopyOutput | DeleteOutput | RestoreOutput | NoEffectOutput):
            about = (self.output.task_id, self.output.capability_id)
            if about != (self.task_id, self.capability_id):
                raise ValueError("the output speaks of another task or capability than the result")
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
