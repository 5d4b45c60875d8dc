"""The edits json_add_property, json_remove_property and json_update_value, in the style of the file that they change.

The text is parsed before and after the edit. The result must be the old tree with exactly the one change.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.effects.edits.data_files import JSON_BOUNDS
from remit.effects.edits.json_path import ValuePath, select_one
from remit.effects.edits.json_spans import JsonSpan, Member, locate, members
from remit.effects.edits.splice import Edited, Splice, TextFile, read_text, spliced
from remit.parsing import parse_json

_INDENT: Final = re.compile(rb"\n([ \t]+)[^ \t\r\n]")
_DEFAULT_UNIT: Final = "  "
_LEADING_SPACE: Final = re.compile(rb"[ \t]*")


def add_property(raw: bytes, path: str, key: str, value: Any) -> Edited:
    """Add the property after the last member, in the style of that member."""
    text, tree = _read(raw)
    value_path = select_one(tree, path)
    parent = _object_at(tree, value_path, path)
    if key in parent:
        raise RefusedError(
            Reason.EDIT_CONFLICT,
            f"the object at {path!r} already has a property {key!r}",
            next_step="Use json_update_value to change it.",
        )
    node = locate(text.body, value_path)
    siblings = members(text.body, node)
    name = json.dumps(key, ensure_ascii=False)
    splice = _after_last(text, siblings, name, value) if siblings else _into_empty(text, node, name, value)
    edited = _finish(raw, text, splice, f"Property {key!r} added successfully")
    parent[key] = value
    _require_only_change(edited, tree, (*value_path, key), value)
    return edited


def remove_property(raw: bytes, path: str, key: str) -> Edited:
    """Remove the member and one comma."""
    text, tree = _read(raw)
    value_path = select_one(tree, path)
    parent = _object_at(tree, value_path, path)
    if key not in parent:
        raise RefusedError(
            Reason.EDIT_NO_MATCH,
            f"the object at {path!r} has no property {key!r}",
            next_step="Compare the edit with the current content of the file.",
        )
    node = locate(text.body, value_path)
    siblings = members(text.body, node)
    place = next(index for index, member in enumerate(siblings) if member.key == key)
    edited = _finish(raw, text, _without(node, siblings, place), f"Property {key!r} removed successfully")
    del parent[key]
    _require_only_change(edited, tree, value_path, parent)
    return edited


def update_value(raw: bytes, path: str, value: Any) -> Edited:
    """Replace the bytes of the value. The bytes around it stay unchanged."""
    text, tree = _read(raw)
    value_path = select_one(tree, path)
    node = locate(text.body, value_path)
    indent = _line_indent(text.body, node.start) if _has_lines(text.body) else None
    splice = Splice(node.start, node.end, _write(value, text, indent))
    edited = _finish(raw, text, splice, f"Value at {path} updated successfully")
    _require_only_change(edited, _with_value(tree, value_path, value), value_path, value)
    return edited


# --- before and after ------------------------------------------------------------------------------------------------


def _read(raw: bytes) -> tuple[TextFile, Any]:
    text = read_text(raw)
    return text, parse_file(text.body)


def parse_file(body: bytes) -> Any:
    """Parse the JSON of a file. `body` has no byte-order mark."""
    try:
        return parse_json(body, JSON_BOUNDS, source="the file")
    except RefusedError as problem:
        if problem.reason is Reason.MALFORMED:
            raise RefusedError(
                Reason.SYNTAX_BROKEN, problem.what, where=problem.where, next_step="Fix the syntax of the file first."
            ) from None
        raise _too_deep_error(problem) from None


def _too_deep_error(problem: RefusedError) -> RefusedError:
    return RefusedError(Reason.LIMIT_EXCEEDED, problem.what, where=problem.where, next_step=problem.next_step)


def _object_at(tree: Any, value_path: ValuePath, path: str) -> dict[str, Any]:
    node = _value_at(tree, value_path)
    if not isinstance(node, dict):
        raise RefusedError(
            Reason.EDIT_UNSUPPORTED,
            f"{path!r} selects a value that is not an object",
            next_step="Select the object that has the property, or that is to have it.",
        )
    return node


def _value_at(tree: Any, value_path: ValuePath) -> Any:
    for step in value_path:
        tree = tree[step]
    return tree


def _with_value(tree: Any, value_path: ValuePath, value: Any) -> Any:
    if not value_path:
        return value
    _value_at(tree, value_path[:-1])[value_path[-1]] = value
    return tree


def _finish(raw: bytes, text: TextFile, splice: Splice, summary: str) -> Edited:
    shift = len(text.bom)
    return spliced(raw, [Splice(splice.start + shift, splice.end + shift, splice.new)], summary)


def _require_only_change(edited: Edited, expected: Any, value_path: ValuePath, value: Any) -> None:
    """Raise unless the edited file is the expected tree.

    The same parser reads unchanged bytes as the same values, so only the new value needs a comparison of types.
    """
    try:
        found = parse_json(read_text(edited.content).body, JSON_BOUNDS, source="the file after the edit")
    except RefusedError as problem:
        if problem.reason is Reason.MALFORMED:
            raise _internal_edit_error() from None
        raise _too_deep_error(problem) from None
    if found != expected or json.dumps(_value_at(found, value_path)) != json.dumps(value):
        raise _internal_edit_error()


def _internal_edit_error() -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.INTERNAL, "a JSON edit would have changed more than its one value, or another value"
    )


# --- splices ---------------------------------------------------------------------------------------------------------


def _after_last(text: TextFile, siblings: list[Member], name: str, value: Any) -> Splice:
    body, last = text.body, siblings[-1]
    before = body[_end_of_delimiter(body, last.key_start) : last.key_start]
    colon = body[last.key_end : last.value_start]
    newline = before.rfind(b"\n")
    if newline >= 0:
        indent = before[newline + 1 :]
        lead = text.newline + indent
        written = _write(value, text, None if _stay_on_one_line(body, siblings) else indent)
    else:
        # A single member does not show the style of the space after a comma. The space after its colon does.
        lead = before or (b" " if len(siblings) == 1 and colon != b":" else b"")
        written = _write(value, text, None)
    return Splice(last.value_end, last.value_end, b"," + lead + name.encode() + colon + written)


def _stay_on_one_line(body: bytes, siblings: list[Member]) -> bool:
    """Whether the last sibling that is an object or array, and not empty, is written on one line."""
    values = (body[member.value_start : member.value_end] for member in reversed(siblings))
    last = next((value for value in values if value[:1] in {b"{", b"["} and value[1:-1].strip()), None)
    return last is not None and b"\n" not in last


def _end_of_delimiter(body: bytes, key_start: int) -> int:
    """Return the offset behind the comma or brace before a key. Between the two there is only white space."""
    return len(body[:key_start].rstrip(b" \t\r\n"))


def _into_empty(text: TextFile, node: JsonSpan, name: str, value: Any) -> Splice:
    inside = (node.start + 1, node.end - 1)
    if not _has_lines(text.body):
        return Splice(*inside, name.encode() + b": " + _write(value, text, None))
    outer = _line_indent(text.body, node.end - 1)
    inner = outer + _unit(text.body).encode()
    member = text.newline + inner + name.encode() + b": " + _write(value, text, inner)
    return Splice(*inside, member + text.newline + outer)


def _without(node: JsonSpan, siblings: list[Member], place: int) -> Splice:
    if len(siblings) == 1:
        return Splice(node.start + 1, node.end - 1, b"")
    if place + 1 < len(siblings):
        return Splice(siblings[place].key_start, siblings[place + 1].key_start, b"")
    return Splice(siblings[place - 1].value_end, siblings[place].value_end, b"")


# --- style -----------------------------------------------------------------------------------------------------------


def _write(value: Any, text: TextFile, indent: bytes | None) -> bytes:
    """Return the value as JSON: on one line, or with `indent`, an object or array over several lines."""
    if indent is None or not isinstance(value, (dict, list)) or not value:
        return json.dumps(value, ensure_ascii=False).encode()
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text.body))
    return lines.encode().replace(b"\n", text.newline + indent)


def _unit(body: bytes) -> str:
    found = _INDENT.search(body)
    return found[1].decode() if found else _DEFAULT_UNIT


def _has_lines(body: bytes) -> bool:
    return b"\n" in body.strip(b" \t\r\n")


def _line_indent(body: bytes, place: int) -> bytes:
    found = _LEADING_SPACE.match(body, body.rfind(b"\n", 0, place) + 1)
    return found[0] if found else b""


# --- editors ---------------------------------------------------------------------------------------------------------


def json_add_property(raw: bytes, operation: Mapping[str, Any]) -> Edited:
    return add_property(raw, operation["path"], operation["key"], operation["value"])


def json_remove_property(raw: bytes, operation: Mapping[str, Any]) -> Edited:
    return remove_property(raw, operation["path"], operation["key"])


def json_update_value(raw: bytes, operation: Mapping[str, Any]) -> Edited:
    return update_value(raw, operation["path"], operation["value"])
