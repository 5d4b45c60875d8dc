"""Handlers: what an action makes of bytes and permissions, and that none can be asked for what is not loaded."""

from typing import Any, get_args

import pytest

from remit.contracts.plans.operations import ModifyOperation, SchemaOperation
from remit.contracts.plans.plan import ActionType
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.effects.edits.json_schema import require_valid_schema
from remit.effects.edits.registry_full import FULL_EDITORS
from remit.effects.edits.registry_plain import PLAIN_EDITORS
from remit.effects.plans.handlers import HANDLERS, handlers
from remit.plans.runtime.steps import _MOVES, _PARSED
from remit.services.plans.agent_preview import _OPERATIONS


@pytest.mark.req("PX-03")
def test_there_is_a_handler_for_every_kind_of_action() -> None:
    moves = {kind: handler.move for kind, handler in HANDLERS.items()}
    assert moves == {
        "FILE_CREATE": "create",
        "FILE_MODIFY": "modify",
        "FILE_DELETE": "delete",
        "FILE_RENAME": "rename",
        "SCHEMA_UPDATE": "modify",
        "SQL_EXECUTE": "modify",
        "PIPELINE_RUN": "modify",
    }
    assert set(moves) == set(get_args(ActionType))
    names = {kind: type(handler).__name__ for kind, handler in HANDLERS.items()}
    assert names == {kind: f"{kind.title().replace('_', '')}Handler" for kind in get_args(ActionType)}


def test_every_kind_of_action_on_files_is_in_each_table_of_kinds() -> None:
    assert {kind: handler.move for kind, handler in HANDLERS.items()} == _MOVES
    assert set(_OPERATIONS) == set(get_args(ActionType)) - {"SQL_EXECUTE", "PIPELINE_RUN"}


def test_every_edit_of_the_contract_has_an_editor() -> None:
    models = {model for union in (ModifyOperation, SchemaOperation) for model in get_args(get_args(union)[0])}
    assert {get_args(model.model_fields["type"].annotation)[0] for model in models} == set(FULL_EDITORS)
    assert all(name.startswith(_PARSED) for name in set(FULL_EDITORS) - set(PLAIN_EDITORS)), (
        "`needs_parsers` goes by the name"
    )


@pytest.mark.req("PX-03")
@pytest.mark.parametrize("kind", ["SQL_EXECUTE", "PIPELINE_RUN"])
def test_what_was_prepared_is_never_edited_here(kind: str) -> None:
    with pytest.raises(EnvironmentFailureError, match="does not contain them"):
        HANDLERS[kind].edit(b"old", {}, PLAIN_EDITORS)
    assert HANDLERS[kind].mode(0o600, {}, keep_permissions=True) == 0o600
    assert HANDLERS[kind].mode(0o600, {}, keep_permissions=False) == 0o644
    assert HANDLERS[kind].mode(None, {}, keep_permissions=True) == 0o644


def test_modes(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        ("FILE_CREATE", {}, None, True, 0o644),
        ("FILE_CREATE", {"mode": "0755"}, None, True, 0o755),
        ("FILE_MODIFY", {}, 0o600, True, 0o600),
        ("FILE_MODIFY", {}, 0o600, False, 0o644),
        ("FILE_MODIFY", {"mode": "0755"}, 0o600, True, 0o755),
        ("FILE_MODIFY", {"mode": None}, 0o000, True, 0o000),
        ("FILE_RENAME", {}, 0o711, False, 0o711),
        ("FILE_DELETE", {}, 0o711, False, 0o711),
        ("SCHEMA_UPDATE", {}, 0o664, True, 0o664),
    ]
    for kind, operation, before, keep, expected in cases:
        with subtests.test(kind):
            assert HANDLERS[kind].mode(before, operation, keep_permissions=keep) == expected


@pytest.mark.parametrize("mode", ["4755", "0777", "0o644", 493])
def test_no_other_mode_gets_past_the_handler(mode: object) -> None:
    with pytest.raises(RefusedError, match="0644 or 0755"):
        HANDLERS["FILE_CREATE"].mode(None, {"mode": mode}, keep_permissions=True)


def test_content_comes_as_text_or_in_base64() -> None:
    create = HANDLERS["FILE_CREATE"]
    text = create.edit(None, {"type": "write", "content": "é\r\n"}, PLAIN_EDITORS)
    raw = create.edit(None, {"type": "write", "content_base64": "AP8="}, PLAIN_EDITORS)
    assert text is not None
    assert raw is not None
    assert (text.content, raw.content) == ("é\r\n".encode(), b"\0\xff")


def test_a_delete_leaves_nothing_and_a_rename_all() -> None:
    assert HANDLERS["FILE_DELETE"].edit(b"x", {}, PLAIN_EDITORS) is None
    renamed = HANDLERS["FILE_RENAME"].edit(b"x", {"new_path": "b"}, PLAIN_EDITORS)
    assert renamed is not None
    assert renamed.content == b"x"


@pytest.mark.parametrize("kind, operation", [("FILE_MODIFY", "json_update_value"), ("SCHEMA_UPDATE", "text_replace")])
def test_an_operation_that_this_process_has_no_editor_for_is_a_failure_and_no_guess(kind: str, operation: str) -> None:
    with pytest.raises(EnvironmentFailureError) as problem:
        HANDLERS[kind].edit(b"{}", {"type": operation, "pattern": "{", "replacement": "["}, PLAIN_EDITORS)
    assert problem.value.reason is Reason.INTERNAL


@pytest.mark.req("PX-04")
def test_a_schema_update_must_leave_a_valid_schema() -> None:
    update = handlers(require_valid_schema)["SCHEMA_UPDATE"]
    operation = {"type": "json_update_value", "path": "$.type", "value": "string"}
    edited = update.edit(b'{"type": "object"}', operation, FULL_EDITORS)
    assert edited is not None
    assert edited.content == b'{"type": "string"}'
    assert edited.summary == "Schema updated: Value at $.type updated successfully"
    with pytest.raises(RefusedError) as problem:
        update.edit(b'{"type": "object"}', {**operation, "value": "no such type"}, FULL_EDITORS)
    assert problem.value.reason is Reason.SCHEMA_INVALID
