"""The way back from a run of a plan: `rollback_manifest.json`.

The protocol layer's signed order to take back the run of a plan.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from remit.contracts.base import (
    LARGE,
    Contract,
    Count,
    Digest,
    Identifier,
    KeyId,
    Many,
    Name,
    RelativePath,
    ShortText,
    Signature,
    Text,
    Timestamp,
    Uuid,
    Uuid4,
)
from remit.contracts.plans.change_log import FileOperation
from remit.contracts.plans.sql_report import MAX_TABLES_TOLD, ChangedTable
from remit.parsing import Bounds


class Checkpoint(Contract):
    """How to undo one change.

    What was created has no backup; everything else has one, with its hash, size, mode and times. `hash_after` and
    `mode_after` are what the run left behind: a file that no longer has both was changed by somebody else since.
    """

    checkpoint_id: Uuid
    file_path: RelativePath
    file_kind: Literal["file", "directory"] = "file"
    backup_location: RelativePath | None
    original_hash: Digest | None
    original_size: Count | None
    original_mode: Annotated[str, Field(max_length=4, pattern=r"^[0-7]{4}$")] | None = None
    original_mtime_ns: Annotated[str, Field(max_length=20, pattern=r"^-?[0-9]{1,19}$")] | None = None
    """Nanoseconds since 1970, as digits: JSON numbers end at 2^53."""
    original_owner: Annotated[str, Field(max_length=21, pattern=r"^[0-9]{1,10}:[0-9]{1,10}$")] | None = None
    original_attributes: Annotated[
        dict[Annotated[str, Field(max_length=255)], Annotated[str, Field(max_length=350_000)]], Field(max_length=100)
    ] = Field(default_factory=dict)
    """Extended attributes by name, in base64."""
    operation_to_reverse: FileOperation
    new_path: RelativePath | None = None
    hash_after: Digest | None = None
    mode_after: Annotated[str, Field(max_length=4, pattern=r"^[0-7]{4}$")] | None = None
    """The permissions that the run left; not known of runs before this was kept."""
    restore_command: ShortText
    restored_at: Timestamp | None = None
    restored_by: Identifier | None = None
    """The order that restored it; none if the run itself did."""

    @model_validator(mode="after")
    def _check_backup(self) -> Self:
        known = [value is not None for value in (self.backup_location, self.original_hash, self.original_size)]
        if self.operation_to_reverse == "CREATE" and any(known):
            raise ValueError("what was created has no backup, original_hash or original_size")
        if self.operation_to_reverse != "CREATE" and not all(known):
            raise ValueError("backup_location, original_hash and original_size are needed to go back")
        if (self.new_path is not None) != (self.operation_to_reverse == "RENAME"):
            raise ValueError("new_path belongs to a RENAME, and to nothing else")
        return self


class RowsCheckpoint(Contract):
    """How to undo what a run changed in a database on a server: by the rows as they were before and after it, which
    lie in a backup. Where not all of it can be undone there is none, and `irreversible` says why.
    """

    checkpoint_id: Uuid
    connection: Name
    server: ShortText
    """Its address, never a password."""
    action_ids: Many[Identifier]
    tables: Annotated[tuple[ChangedTable, ...], Field(strict=False, max_length=MAX_TABLES_TOLD)] = ()
    backup_location: RelativePath | None
    original_hash: Digest | None
    original_size: Count | None
    irreversible: Text | None = None
    restore_command: ShortText
    restored_at: Timestamp | None = None
    restored_by: Identifier | None = None

    @model_validator(mode="after")
    def _check_backup(self) -> Self:
        known = [value is not None for value in (self.backup_location, self.original_hash, self.original_size)]
        if any(known) != all(known) or all(known) == (self.irreversible is not None):
            raise ValueError("rows have a backup with its hash and size, or a reason why they cannot be restored")
        if self.irreversible is not None and self.restored_at is not None:
            raise ValueError("what cannot be restored was not")
        return self


class RollbackManifest(Contract):
    """What is needed to undo the run of a plan.

    `rollback_order` is the order of restoring, and names every checkpoint once. EXECUTED means that every
    checkpoint was restored, and the rows too; a partly restored manifest stays ACTIVE.
    """

    bounds: ClassVar[Bounds] = LARGE

    manifest_id: Uuid4
    plan_id: Identifier
    created_at: Timestamp
    expires_at: Timestamp | None = None
    executed_at: Timestamp | None = None
    status: Literal["ACTIVE", "EXECUTED", "EXPIRED"]
    checkpoints: Many[Checkpoint]
    rollback_order: Many[Uuid]
    auto_rollback_script: RelativePath | None
    notes: Text
    rows: RowsCheckpoint | None = None
    """What the run changed on a server. Left out where it is nothing: manifests that were signed before this field was
    there keep their digest."""

    @model_serializer(mode="wrap")
    def _omit_empty_rows(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = serialise(self)
        if tree["rows"] is None:
            del tree["rows"]
        return tree

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if sorted(self.rollback_order) != sorted(c.checkpoint_id for c in self.checkpoints):
            raise ValueError("rollback_order must name every checkpoint exactly once")
        if len(set(self.rollback_order)) != len(self.rollback_order):
            raise ValueError("two checkpoints have the same id")
        return self

    @model_validator(mode="after")
    def _check_status(self) -> Self:
        if (self.status == "EXECUTED") != (self.executed_at is not None):
            raise ValueError("executed_at is there exactly when the status is EXECUTED")
        if self.status == "EXECUTED" and any(c.restored_at is None for c in self.checkpoints):
            raise ValueError("an EXECUTED manifest has restored every checkpoint")
        if self.status == "EXECUTED" and self.rows is not None and self.rows.restored_at is None:
            raise ValueError("an EXECUTED manifest has restored the rows")
        return self


class RollbackOrder(Contract):
    """Which checkpoints of which run to restore. The signature covers every other field.

    `drift` is left out where it is not given: orders that were signed before it was there keep their digest.
    """

    order_id: Identifier
    envelope_id: Identifier = Field(description="The approval under which the plan ran.")
    manifest_id: Uuid4
    attempt: Count = Field(description="The how-manieth order for this manifest, from 1.")
    checkpoints: Many[Uuid] = Field(description="Which to restore; none named: all that are left.")
    force: bool = Field(description="Also where a file was changed since. What stands there is kept aside.")
    drift: Digest | None = Field(
        default=None,
        description="Of the files that were changed since, as somebody looked at them before he said `force`: as they "
        "are then, and no others. Without it, whatever stands there is meant.",
    )
    issued_at: Timestamp
    expires_at: Timestamp
    key_id: KeyId
    signature: Signature

    @model_serializer(mode="wrap")
    def _omit_empty_drift(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = serialise(self)
        if tree["drift"] is None:
            del tree["drift"]
        return tree
