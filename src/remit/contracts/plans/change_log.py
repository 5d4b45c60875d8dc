"""The change log of a plan's run, `change_log.json`: every change, file by file."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from remit.contracts.base import LARGE, Contract, Count, Digest, Identifier, Many, RelativePath, Timestamp, Uuid, Uuid4
from remit.parsing import Bounds

FileOperation = Literal["CREATE", "MODIFY", "DELETE", "RENAME"]


class FileState(Contract):
    """A file at one moment. One that does not exist has no hash, size or time; one that exists has all three."""

    exists: bool
    file_hash: Digest | None = Field(alias="hash")
    size_bytes: Count | None
    last_modified: Timestamp | None

    @model_validator(mode="after")
    def _check_presence(self) -> Self:
        known = [value is not None for value in (self.file_hash, self.size_bytes, self.last_modified)]
        if self.exists and not all(known):
            raise ValueError("a file that exists has hash, size_bytes and last_modified")
        if not self.exists and any(known):
            raise ValueError("a file that does not exist has no hash, size_bytes or last_modified")
        return self


class DiffSummary(Contract):
    """The size and the beginning of a diff. A binary file has no lines: both counts are 0 and the preview says so."""

    lines_added: Count
    lines_removed: Count
    preview: Annotated[str, Field(max_length=500)]


_EXISTENCE: dict[FileOperation, tuple[bool, bool]] = {
    "CREATE": (False, True),
    "MODIFY": (True, True),
    "DELETE": (True, False),
    "RENAME": (True, True),
}


class Change(Contract):
    """One change. For a RENAME, `before_state` is at `file_path` and `after_state` at `new_path`."""

    change_id: Uuid
    action_id: Identifier
    file_path: RelativePath
    new_path: RelativePath | None = None
    operation: FileOperation
    before_state: FileState
    after_state: FileState
    diff_summary: DiffSummary
    timestamp: Timestamp

    @model_validator(mode="after")
    def _check_states(self) -> Self:
        if (self.before_state.exists, self.after_state.exists) != _EXISTENCE[self.operation]:
            raise ValueError(f"before_state and after_state do not fit a {self.operation}")
        if (self.new_path is not None) != (self.operation == "RENAME"):
            raise ValueError("new_path is for a RENAME, and only for a RENAME")
        return self


class ChangeLog(Contract):
    """Every change that a plan made, file by file.

    `files_affected_count` is the number of distinct `file_path`s. `total_lines_changed` is the number of lines that
    were added or removed.
    """

    bounds: ClassVar[Bounds] = LARGE

    log_id: Uuid4
    plan_id: Identifier
    execution_report_id: Uuid4
    created_at: Timestamp
    changes: Many[Change]
    files_affected_count: Count
    total_lines_changed: Count

    @model_validator(mode="after")
    def _check_totals(self) -> Self:
        if self.files_affected_count != len({change.file_path for change in self.changes}):
            raise ValueError("files_affected_count is not the number of files in changes")
        lines = sum(change.diff_summary.lines_added + change.diff_summary.lines_removed for change in self.changes)
        if self.total_lines_changed != lines:
            raise ValueError("total_lines_changed is not the sum over changes")
        return self
