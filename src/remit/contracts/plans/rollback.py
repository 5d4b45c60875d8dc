"""The rollback of a run: its manifest, `rollback_manifest.json`, and the signed order to roll it back."""

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
    """The data to undo one change.

    A created file has no backup. Every other file has one, with its hash, size, mode and times. `hash_after` and
    `mode_after` describe the file after the run. If the file no longer has both, it has drifted.
    """

    checkpoint_id: Uuid
    file_path: RelativePath
    file_kind: Literal["file", "directory"] = "file"
    backup_location: RelativePath | None
    original_hash: Digest | None
    original_size: Count | None
    original_mode: Annotated[str, Field(max_length=4, pattern=r"^[0-7]{4}$")] | None = None
    original_mtime_ns: Annotated[str, Field(max_length=20, pattern=r"^-?[0-9]{1,19}$")] | None = None
    """Nanoseconds since 1970, as digits, because JSON numbers are exact only up to 2^53."""
    original_owner: Annotated[str, Field(max_length=21, pattern=r"^[0-9]{1,10}:[0-9]{1,10}$")] | None = None
    original_attributes: Annotated[
        dict[Annotated[str, Field(max_length=255)], Annotated[str, Field(max_length=350_000)]], Field(max_length=100)
    ] = Field(default_factory=dict)
    """Extended attributes by name, in base64."""
    operation_to_reverse: FileOperation
    new_path: RelativePath | None = None
    hash_after: Digest | None = None
    mode_after: Annotated[str, Field(max_length=4, pattern=r"^[0-7]{4}$")] | None = None
    """The permissions after the run. Missing in manifests from before this field existed."""
    restore_command: ShortText
    restored_at: Timestamp | None = None
    restored_by: Identifier | None = None
    """The rollback order that restored it. None if the run itself restored it."""

    @model_validator(mode="after")
    def _check_backup(self) -> Self:
        known = [value is not None for value in (self.backup_location, self.original_hash, self.original_size)]
        if self.operation_to_reverse == "CREATE" and any(known):
            raise ValueError("a created file has no backup, original_hash or original_size")
        if self.operation_to_reverse != "CREATE" and not all(known):
            raise ValueError("a change other than CREATE needs backup_location, original_hash and original_size")
        if (self.new_path is not None) != (self.operation_to_reverse == "RENAME"):
            raise ValueError("new_path is for a RENAME, and only for a RENAME")
        return self


class RowsCheckpoint(Contract):
    """The data to undo the changes of a run in a database on a server.

    The backup contains the rows before and after the run. If not all changes can be undone, there is no backup, and
    `irreversible` gives the reason.
    """

    checkpoint_id: Uuid
    connection: Name
    server: ShortText
    """The address of the server, without a password."""
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
            raise ValueError("rows that cannot be restored have no restored_at")
        return self


class RollbackManifest(Contract):
    """The data to undo the run of a plan.

    `rollback_order` gives the order in which checkpoints are restored, and names each of them once. EXECUTED means that
    every checkpoint was restored, and the rows too. A partly restored manifest stays ACTIVE.
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
    """The changes of the run on a server. Omitted if there are none, so that manifests which were signed before this
    field existed keep their digest."""

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
            raise ValueError("executed_at must be given exactly if the status is EXECUTED")
        if self.status == "EXECUTED" and any(c.restored_at is None for c in self.checkpoints):
            raise ValueError("an EXECUTED manifest has restored every checkpoint")
        if self.status == "EXECUTED" and self.rows is not None and self.rows.restored_at is None:
            raise ValueError("an EXECUTED manifest has restored the rows")
        return self


class RollbackOrder(Contract):
    """The protocol's signed order to restore checkpoints of a run. The signature covers every other field.

    `drift` is omitted if it is not given, so that orders which were signed before this field existed keep their digest.
    """

    order_id: Identifier
    envelope_id: Identifier = Field(description="The approval under which the plan ran.")
    manifest_id: Uuid4
    attempt: Count = Field(description="The number of this order among those for the manifest. The first is 1.")
    checkpoints: Many[Uuid] = Field(description="The checkpoints to restore. Empty: all that are not restored yet.")
    force: bool = Field(description="Restore drifted files too. Their current versions are kept as copies.")
    drift: Digest | None = Field(
        default=None,
        description="The digest of the drifted files that a person reviewed before the order with `force`. Only these "
        "files, in this state, may be overwritten. Without it, every drifted file may be.",
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
