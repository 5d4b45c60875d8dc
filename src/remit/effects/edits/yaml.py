"""The edit yaml_update: replaces one value in its own style. Comments, order and all other text stay.

The result is parsed again and must be the old document with exactly that one change. If one way of writing the value
fails this check, the next one is tried. If all fail, the edit is refused.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.json_path import ValuePath, select_one
from remit.effects.edits.splice import Edited, Splice, TextFile, read_text, spliced
from remit.effects.edits.yaml_nodes import (
    MAX_BYTES,
    YamlDocument,
    YamlNode,
    as_tree,
    compose,
    follow,
    outline,
    unsupported,
)
from remit.effects.edits.yaml_writer import write_block, write_flow, write_in_place, write_quoted

_INDENT: Final = re.compile(r"\n( {1,8})[^ #\r\n]")
_COLON: Final = re.compile(r"[ \t]*+:")

_Pieces = list[tuple[int, int, str]]
"""Splices in characters. Later they are converted to bytes."""


class _Place:
    """The node that is replaced, and its surroundings."""

    def __init__(self, text: str, document: YamlDocument, nodes: Sequence[YamlNode]) -> None:
        self.text = text
        self.document = document
        self.node = nodes[-1]
        self.in_flow = any(node.flow for node in nodes[:-1])
        parent = nodes[-2] if len(nodes) > 1 else None
        self.key = next((key for key, value in parent.entries if value is self.node), None) if parent else None

    @property
    def is_block(self) -> bool:
        return self.node.kind in {"mapping", "sequence"} and not self.node.flow

    @property
    def line_start(self) -> int:
        return self.text.rfind("\n", 0, self.node.start) + 1

    @property
    def column(self) -> int:
        return self.node.start - self.line_start

    @property
    def is_alone_on_line(self) -> bool:
        """Whether the node is on lines of its own, below its key."""
        return self.key is not None and not self.text[self.line_start : self.node.start].strip(" ")


def update_yaml(raw: bytes, path: str, value: Any) -> Edited:
    """Replace the text of the value. The text around it stays unchanged."""
    text = read_text(raw)
    document = compose_file(text)
    body = text.body.decode()
    root = document.root
    if root is None:
        raise unsupported("the file has no document", "Use replace_content.")
    value_path = select_one(as_tree(root), path)
    nodes = follow(root, value_path)
    _require_unshared(document, nodes, path)
    place = _Place(body, document, nodes)
    for pieces in _candidate_pieces(place, value):
        edited = _splice(raw, text, body, pieces, f"Value at {path} updated successfully")
        if _is_only_change(edited, place, value_path, value):
            return edited
    raise unsupported(f"the value cannot be written at {path!r}", "Use text_replace.")


def compose_file(text: TextFile) -> YamlDocument:
    """Parse the only document of a file."""
    if len(text.body) > MAX_BYTES:
        raise RefusedError(
            Reason.LIMIT_EXCEEDED,
            f"the file is larger than {MAX_BYTES:,} bytes, the limit for YAML",
            next_step="Use text_replace.",
        )
    try:
        return compose(text.body.decode())
    except RefusedError as problem:
        if problem.reason is Reason.TOO_DEEP:
            raise RefusedError(
                Reason.LIMIT_EXCEEDED, problem.what, where=problem.where, next_step=problem.next_step
            ) from None
        raise


def _require_unshared(document: YamlDocument, nodes: Sequence[YamlNode], path: str) -> None:
    """Raise if the change would appear at other places too, or would remove a value that an alias refers to."""
    used = {id(alias.target) for alias in document.aliases}
    if any(node.kind == "alias" or id(node) in used for node in nodes) or _contains_any(nodes[-1], used):
        raise RefusedError(
            Reason.EDIT_AMBIGUOUS,
            f"{path!r} selects a value that an anchor and its aliases share",
            next_step="Use text_replace at the place that you mean.",
        )
    if nodes[-1].tag:
        raise unsupported(f"{path!r} selects a value that has a tag", "Use text_replace.")
    if any(key.text == "<<" and not key.style for node in nodes for key, _ in node.entries):
        raise unsupported(f"{path!r} leads through a mapping that is merged with <<", "Use text_replace.")


def _contains_any(node: YamlNode, used: set[int]) -> bool:
    return any(id(child) in used or _contains_any(child, used) for child in node.children)


# --- writing ---------------------------------------------------------------------------------------------------------


def _candidate_pieces(place: _Place, value: Any) -> Iterator[_Pieces]:
    """Yield the possible ways to write the value, the best one first."""
    node = place.node
    is_collection = isinstance(value, (dict, list)) and bool(value)
    if is_collection and place.is_block and not place.in_flow:
        yield [(node.start, node.end, _block(place, value))]
    if is_collection or isinstance(value, (dict, list)):
        yield _on_one_line(place, write_flow(value))
        yield _on_one_line(place, json.dumps(value))
        return
    yield _on_one_line(place, write_in_place(value, node, in_flow=place.in_flow))
    if isinstance(value, str):
        yield _on_one_line(place, write_quoted(value))


def _block(place: _Place, value: Any) -> str:
    found = _INDENT.search(place.text)
    unit = len(found[1]) if found else 2
    column, lead = place.column, ""
    if place.key is not None and isinstance(value, dict) and column <= _column(place.text, place.key.start):
        # A sequence may have the same indent as its key. A mapping must have a larger one.
        column, lead = column + unit, " " * unit
    return lead + write_block(value, column, unit)


def _column(text: str, start: int) -> int:
    return start - text.rfind("\n", 0, start) - 1


def _on_one_line(place: _Place, new: str) -> _Pieces:
    node, text = place.node, place.text
    colon = _COLON.match(text, place.key.end) if place.key is not None else None
    if place.is_block and place.is_alone_on_line and colon:
        # The value moves up to the line of its key. The comments between the two stay, and so does one at the end.
        return [(colon.end(), colon.end(), " " + new), (len(text[: place.line_start].rstrip("\r\n")), node.end, "")]
    needs_space = node.start == node.end and not text[: node.start].endswith((" ", "\t", "\n"))
    return [(node.start, node.end, " " + new if needs_space else new)]


def _splice(raw: bytes, text: TextFile, body: str, pieces: _Pieces, summary: str) -> Edited:
    newline = text.newline.decode()
    splices = []
    for start, end, new in pieces:
        first = len(text.bom) + len(body[:start].encode())
        last = first + len(body[start:end].encode())
        splices.append(Splice(first, last, new.replace("\n", newline).encode()))
    return spliced(raw, splices, summary)


# --- afterwards ------------------------------------------------------------------------------------------------------


def _is_only_change(edited: Edited, place: _Place, value_path: ValuePath, value: Any) -> bool:
    try:
        after = compose(read_text(edited.content).body.decode())
        nodes = follow(after.root, value_path) if after.root is not None else []
        tree = as_tree(nodes[-1])
    except (RefusedError, StopIteration, IndexError, KeyError):
        return False
    before = place.document.root
    if before is None or after.root is None or json.dumps(tree) != json.dumps(value):
        return False
    return bool(outline(before, place.node) == outline(after.root, nodes[-1]))


def yaml_update(raw: bytes, operation: Mapping[str, Any]) -> Edited:
    return update_yaml(raw, operation["path"], operation["value"])
