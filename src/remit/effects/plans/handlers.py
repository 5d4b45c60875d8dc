"""Handlers: for each type of action, the new bytes and permissions of a file. Pure. Preview and effect use the same."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.effects.edits.splice import Edited, Editor
from remit.effects.edits.whole_file import create_content
from remit.effects.plans.steps import Move

NEW_FILE: Final = 0o644

Editors = Mapping[str, Editor]
"""Editors, by the operation's type."""
RequireSchema = Callable[[bytes, str], None]
"""A function that refuses content that is not a valid JSON Schema. Its second argument is the operation's type."""


class Handler(Protocol):
    """One type of action."""

    action_type: str
    move: Move

    def edit(self, before: bytes | None, operation: Mapping[str, Any], editors: Editors) -> Edited | None:
        """Return the new content, or None if the file is removed. Pure. Raises `RemitError`."""

    def mode(self, before: int | None, operation: Mapping[str, Any], *, keep_permissions: bool) -> int:
        """Return the permission bits of the result."""


class FileCreateHandler:
    action_type = "FILE_CREATE"
    move: Move = "create"

    def edit(self, before: bytes | None, operation: Mapping[str, Any], editors: Editors) -> Edited | None:  # noqa: ARG002
        return create_content(operation)

    def mode(self, before: int | None, operation: Mapping[str, Any], *, keep_permissions: bool) -> int:  # noqa: ARG002
        return _requested_mode(operation) or NEW_FILE


class FileModifyHandler:
    action_type = "FILE_MODIFY"
    move: Move = "modify"

    def edit(self, before: bytes | None, operation: Mapping[str, Any], editors: Editors) -> Edited | None:
        return _edit(before, operation, editors)

    def mode(self, before: int | None, operation: Mapping[str, Any], *, keep_permissions: bool) -> int:
        return _requested_mode(operation) or (before if keep_permissions and before is not None else NEW_FILE)


class FileDeleteHandler:
    action_type = "FILE_DELETE"
    move: Move = "delete"

    def edit(self, before: bytes | None, operation: Mapping[str, Any], editors: Editors) -> Edited | None:  # noqa: ARG002
        return None

    def mode(self, before: int | None, operation: Mapping[str, Any], *, keep_permissions: bool) -> int:  # noqa: ARG002
        return before or 0


class FileRenameHandler:
    """The file stays the same file. Only its name changes."""

    action_type = "FILE_RENAME"
    move: Move = "rename"

    def edit(self, before: bytes | None, operation: Mapping[str, Any], editors: Editors) -> Edited | None:  # noqa: ARG002
        return Edited(before or b"", (), f"File renamed to {operation.get('new_path', '')}")

    def mode(self, before: int | None, operation: Mapping[str, Any], *, keep_permissions: bool) -> int:  # noqa: ARG002
        return before or 0


class SchemaUpdateHandler(FileModifyHandler):
    """An edit after which the file must be a valid JSON Schema."""

    action_type = "SCHEMA_UPDATE"

    def __init__(self, require_schema: RequireSchema | None = None) -> None:
        self._require_schema = require_schema

    def edit(self, before: bytes | None, operation: Mapping[str, Any], editors: Editors) -> Edited | None:
        if self._require_schema is None:
            raise _not_loaded("SCHEMA_UPDATE")
        edited = _edit(before, operation, editors)
        self._require_schema(edited.content, str(operation["type"]))
        return edited._replace(summary=f"Schema updated: {edited.summary}")


class PreparedHandler:
    """For actions that ran on copies before the plan began. Their new bytes come with the step and are put in place
    unchanged. There is nothing to edit.
    """

    move: Move = "modify"

    def edit(self, before: bytes | None, operation: Mapping[str, Any], editors: Editors) -> Edited | None:  # noqa: ARG002
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "the new bytes of this file were prepared before the plan began, and the order does not contain them",
            next_step="The file was not changed. Have the plan approved again.",
        )

    def mode(self, before: int | None, operation: Mapping[str, Any], *, keep_permissions: bool) -> int:  # noqa: ARG002
        return before if keep_permissions and before is not None else NEW_FILE


class SqlExecuteHandler(PreparedHandler):
    """Puts a database, or a file of rows, in place as the statements left it on a copy."""

    action_type = "SQL_EXECUTE"


class PipelineRunHandler(PreparedHandler):
    """Puts a file in place as the pipeline left it on a copy."""

    action_type = "PIPELINE_RUN"


def handlers(require_schema: RequireSchema | None = None) -> Mapping[str, Handler]:
    """Return all handlers by the type of action. Without `require_schema`, SCHEMA_UPDATE is refused."""
    known: tuple[Handler, ...] = (
        FileCreateHandler(),
        FileModifyHandler(),
        FileDeleteHandler(),
        FileRenameHandler(),
        SchemaUpdateHandler(require_schema),
        SqlExecuteHandler(),
        PipelineRunHandler(),
    )
    return {handler.action_type: handler for handler in known}


HANDLERS: Final = handlers()


def edit_file(
    handler: Handler, path: str, before: bytes | None, operation: Mapping[str, Any], editors: Editors
) -> Edited | None:
    """Return the result of the handler. An editor knows no path, so this function adds the path to its errors."""
    try:
        return handler.edit(before, operation, editors)
    except RemitError as problem:
        where = f"{path}, {problem.where}" if problem.where else path
        raise problem.with_changes(where=where) from None


def _edit(before: bytes | None, operation: Mapping[str, Any], editors: Editors) -> Edited:
    kind = str(operation.get("type", ""))
    if kind not in editors:
        raise _not_loaded(kind)
    return editors[kind](before or b"", operation)


def _requested_mode(operation: Mapping[str, Any]) -> int | None:
    """Return the mode that the plan asks for, "0644" or "0755". The contract refuses others, and so does this check."""
    mode = operation.get("mode")
    if mode is None:
        return None
    if mode not in {"0644", "0755"}:
        raise RefusedError(
            Reason.MALFORMED,
            "the mode of a file must be 0644 or 0755",
            next_step="Use one of the two, or leave it out.",
        )
    return int(mode, 8)


def _not_loaded(kind: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.INTERNAL,
        f"the sandboxed process has no editor for the operation {kind!r}",
        next_step="This is a bug in Remit. Report the plan's operations.",
    )
