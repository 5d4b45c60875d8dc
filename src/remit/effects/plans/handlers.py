"""What each kind of action does to one file's bytes and permissions. Pure: preview and effect ask the same handler."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.effects.edits.splice import Edited, Editor
from remit.effects.edits.whole_file import create_content
from remit.effects.plans.steps import Move

NEW_FILE: Final = 0o644

Editors = Mapping[str, Editor]
"""By the operation's type."""
RequireSchema = Callable[[bytes, str], None]
"""Refuses content that is no valid JSON Schema; the second argument is the operation's type."""


class Handler(Protocol):
    """One kind of action."""

    action_type: str
    move: Move

    def edit(self, before: bytes | None, operation: Mapping[str, Any], editors: Editors) -> Edited | None:
        """The new content, or None: the file is gone. Pure; raises one of ours."""

    def mode(self, before: int | None, operation: Mapping[str, Any], *, keep_permissions: bool) -> int:
        """The permission bits of the result."""


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
    """The file stays the same one, so nothing of it changes but its name."""

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
    """For actions that were tried out on copies before the plan began: their new bytes come along with the step, and
    are put in place as they are. There is nothing to edit.
    """

    move: Move = "modify"

    def edit(self, before: bytes | None, operation: Mapping[str, Any], editors: Editors) -> Edited | None:  # noqa: ARG002
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "the new bytes of this file were made before the plan began, and did not come along",
            next_step="Nothing was done to the file. Have the plan approved anew.",
        )

    def mode(self, before: int | None, operation: Mapping[str, Any], *, keep_permissions: bool) -> int:  # noqa: ARG002
        return before if keep_permissions and before is not None else NEW_FILE


class SqlExecuteHandler(PreparedHandler):
    """A database, or a file of rows, as the statements left it on a copy."""

    action_type = "SQL_EXECUTE"


class PipelineRunHandler(PreparedHandler):
    """One of the files that the pipeline left on copies of them."""

    action_type = "PIPELINE_RUN"


def handlers(require_schema: RequireSchema | None = None) -> Mapping[str, Handler]:
    """By the type of action. Without `require_schema`, no schema can be updated."""
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
    """What the handler makes of the file. An editor knows no path, so what it refuses is given one here."""
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
    """As a plan writes it: "0644" or "0755". The contract lets nothing else through; this is the second lock."""
    mode = operation.get("mode")
    if mode is None:
        return None
    if mode not in {"0644", "0755"}:
        raise RefusedError(
            Reason.MALFORMED,
            "a mode is 0644 or 0755",
            next_step="Give one of the two, or leave it out.",
        )
    return int(mode, 8)


def _not_loaded(kind: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.INTERNAL,
        f"an operation {kind!r} was sent to a sandboxed process that has no editor for it",
        next_step="This is a bug in Remit: report the plan's operations.",
    )
