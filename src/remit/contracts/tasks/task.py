"""The contracts of tasks: the request (TaskManifest) and its authority (LeaseToken)."""

from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, GetJsonSchemaHandler, ValidationInfo, field_validator
from pydantic_core import CoreSchema

from remit.contracts.base import SMALL, AbsolutePath, Contract, Identifier, JsonObject, KeyId, Signature, Timestamp
from remit.contracts.tasks.by_capability import close_by_capability, narrow_schema
from remit.parsing import Bounds

FILE_MOVE: Final = "FILE_MOVE"
FILE_COPY: Final = "FILE_COPY"
FILE_DELETE: Final = "FILE_DELETE"
FILE_RESTORE: Final = "FILE_RESTORE"
NO_EFFECT: Final = "NO_EFFECT"

SnapshotReference = Annotated[str, Field(min_length=1, max_length=4096)]
"""The snapshot of a deleted file, as the result of the delete names it. It is looked up when it is used."""


class TransferInputs(Contract):
    """The inputs of FILE_MOVE and FILE_COPY: the source and the destination."""

    source_path: AbsolutePath
    destination_path: AbsolutePath


class DeleteInputs(Contract):
    """The inputs of FILE_DELETE: the file."""

    source_path: AbsolutePath


class RestoreInputs(Contract):
    """The inputs of FILE_RESTORE: the snapshot and the destination."""

    recovery: SnapshotReference
    destination_path: AbsolutePath


class NoInputs(Contract):
    """The inputs of NO_EFFECT: an empty object."""


TaskInputs = TransferInputs | DeleteInputs | RestoreInputs | NoInputs | JsonObject

INPUTS_BY_CAPABILITY: Final[dict[str, type[Contract]]] = {
    FILE_MOVE: TransferInputs,
    FILE_COPY: TransferInputs,
    FILE_DELETE: DeleteInputs,
    FILE_RESTORE: RestoreInputs,
    NO_EFFECT: NoInputs,
}


class TaskConstraints(Contract):
    """The conditions of the caller."""

    reversible: bool = Field(description="Whether it must be possible to undo the effect.")


class TaskManifest(Contract):
    """One task for one executor.

    The inputs of a built-in capability are a closed model. Those of any other are a bounded object, which its executor
    validates. Whether the capability exists, and whether these inputs are allowed, is checked later, after the lease.
    """

    bounds: ClassVar[Bounds] = SMALL

    task_id: Identifier = Field(description="The caller's id of this task. The same id and content never run twice.")
    capability_id: Identifier = Field(description="The requested capability, such as FILE_MOVE.")
    inputs: TaskInputs = Field(description="The inputs of the capability.")
    constraints: TaskConstraints = Field(description="The conditions of the caller.")

    @field_validator("inputs", mode="plain", json_schema_input_type=TaskInputs)
    @classmethod
    def _close_inputs(cls, value: Any, info: ValidationInfo) -> Contract | dict[str, Any]:
        return close_by_capability(value, info, INPUTS_BY_CAPABILITY)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return narrow_schema(handler(core), handler, "inputs", INPUTS_BY_CAPABILITY)


class LeaseToken(Contract):
    """The kernel's signed permission to run one task once. The signature covers every other field."""

    bounds: ClassVar[Bounds] = SMALL

    lease_id: Identifier = Field(description="The kernel's id of this lease.")
    task_id: Identifier = Field(description="The only task that may run under it.")
    capability_id: Identifier = Field(description="The capability of that task.")
    executor_id: Identifier = Field(description="The executor that may run it.")
    issued_at: Timestamp = Field(description="The time of the signature.")
    expires_at: Timestamp = Field(description="The time from which the lease is refused.")
    key_id: KeyId = Field(description="The kernel key that signed it.")
    signature: Signature = Field(description="Covers every other field.")
