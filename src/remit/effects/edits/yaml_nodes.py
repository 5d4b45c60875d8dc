"""The nodes of a YAML text, with their place and their style. Built on the parser's events.

`remit.parsing.yaml` reads settings. This module reads all files of a project: with anchors, tags and several documents.
It constructs no object from a tag and never expands an alias.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)
from ruamel.yaml.reader import ReaderError

from remit.core.errors import Reason, RefusedError

MAX_BYTES: Final = 1 << 20
"""The parser is pure Python and takes about five seconds for a file of this size."""
MAX_DEPTH: Final = 200

Kind = Literal["scalar", "sequence", "mapping", "alias"]

_COLON: Final = re.compile(r"[ \t]*+:")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")  # from an escape: UTF-8 cannot carry one

# YAML 1.2.2, 10.3.2: the core schema.
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAX_DIGITS: Final = 1_000


class YamlNode:
    """One node, from the character `start` to `end`, without the comments and line ends behind it."""

    __slots__ = ("anchor", "end", "entries", "flow", "items", "kind", "start", "style", "tag", "target", "text")

    def __init__(self, kind: Kind, start: int, end: int) -> None:
        self.kind: Kind = kind
        self.start = start
        """Where its anchor or tag begins, if it has one."""
        self.end = end
        self.text = ""
        """The text of a scalar, without quotes and escapes."""
        self.style = ""
        """The style of a scalar: `'`, `"`, `|`, `>`, or empty."""
        self.flow = False
        """Whether a collection is written in brackets."""
        self.tag: str | None = None
        self.anchor: str | None = None
        self.items: list[YamlNode] = []
        self.entries: list[tuple[YamlNode, YamlNode]] = []
        self.target: YamlNode | None = None

    @property
    def children(self) -> Iterator["YamlNode"]:
        yield from self.items
        for key, value in self.entries:
            yield key
            yield value


class YamlDocument:
    """One document of a text."""

    def __init__(self, start: DocumentStartEvent) -> None:
        self.root: YamlNode | None = None
        self.has_directives = bool(start.version or start.tags)
        self.anchors: dict[str, YamlNode] = {}
        self.aliases: list[YamlNode] = []


def compose_all(text: str) -> list[YamlDocument]:
    """Return all documents of a text.

    Raises `RefusedError` if the text is not YAML, has a key twice in a mapping, refers to itself, or is nested too
    deeply.
    """
    building = _Building(text)
    for event in _events(text):
        building.add(event)
    return building.documents


class _Building:
    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[YamlNode] = []
        self._keys: list[YamlNode | None] = []
        self._names: list[set[tuple[str, Any]]] = []
        self.documents: list[YamlDocument] = []

    def add(self, event: Event) -> None:
        if isinstance(event, DocumentStartEvent):
            self.documents.append(YamlDocument(event))
        elif isinstance(event, CollectionEndEvent):
            self._close(event)
        elif isinstance(event, NodeEvent):
            self._add(self._node(event), event)

    def _node(self, event: NodeEvent) -> YamlNode:
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, AliasEvent):
            return self._alias(event, start, end)
        kind: Kind = "scalar"
        if isinstance(event, CollectionStartEvent):
            kind = "mapping" if isinstance(event, MappingStartEvent) else "sequence"
        node = YamlNode(kind, start, end)
        if isinstance(event, ScalarEvent):
            self._read_scalar(node, event)
        elif isinstance(event, CollectionStartEvent):
            node.flow, node.tag = bool(event.flow_style), _tag(event.tag)
        if event.anchor is not None:
            node.anchor = str(event.anchor)
            self.documents[-1].anchors[node.anchor] = node
        return node

    def _alias(self, event: AliasEvent, start: int, end: int) -> YamlNode:
        node = YamlNode("alias", start, end)
        node.target = self.documents[-1].anchors.get(str(event.anchor))
        if node.target is None:
            _refuse_at(event.start_mark, f"the alias {str(event.anchor)!r} has no anchor")
        if any(node.target is parent for parent in self._open):
            _refuse_at(event.start_mark, f"the alias {str(event.anchor)!r} refers to a value that contains it")
        self.documents[-1].aliases.append(node)
        return node

    def _read_scalar(self, node: YamlNode, event: ScalarEvent) -> None:
        node.text, node.style, node.tag = str(event.value), str(event.style or ""), _tag(event.tag)
        if _SURROGATE.search(node.text):
            _refuse_at(event.start_mark, "a string contains half a surrogate pair")
        if node.style in {"|", ">"}:
            node.end = node.start + len(self._text[node.start : node.end].rstrip(" \t\r\n"))
        elif node.start == node.end:
            node.start = node.end = self._empty_scalar_position(node.start)

    def _empty_scalar_position(self, place: int) -> int:
        """Return the place behind the colon, because the parser reports the place of the next token."""
        key = self._keys[-1] if self._keys else None
        colon = _COLON.match(self._text, key.end) if key is not None else None
        return colon.end() if colon else place

    def _add(self, node: YamlNode, event: NodeEvent) -> None:
        if not self._open:
            self.documents[-1].root = node
        elif (parent := self._open[-1]).kind == "sequence":
            parent.items.append(node)
        elif (key := self._keys[-1]) is None:
            self._require_new_key(node, event)
            self._keys[-1] = node
        else:
            parent.entries.append((key, node))
            self._keys[-1] = None
        if isinstance(event, CollectionStartEvent):
            self._enter(node, event)

    def _enter(self, node: YamlNode, event: NodeEvent) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise RefusedError(
                Reason.TOO_DEEP,
                f"the nesting is deeper than {MAX_DEPTH} levels",
                where=_place(event.start_mark),
                next_step="Flatten the document.",
            )
        self._open.append(node)
        self._keys.append(None)
        self._names.append(set())

    def _close(self, event: CollectionEndEvent) -> None:
        node = self._open.pop()
        self._keys.pop()
        self._names.pop()
        # The parser reports the start of the next token as the end of a block, behind comments that are not part of it.
        node.end = event.end_mark.index if node.flow else max((child.end for child in node.children), default=node.end)

    def _require_new_key(self, node: YamlNode, event: NodeEvent) -> None:
        if node.kind != "scalar":
            return
        value = resolve(node)
        name = (type(value).__name__, value)
        if name in self._names[-1]:
            _refuse_at(event.start_mark, f"the key {node.text!r} occurs twice in one mapping")
        self._names[-1].add(name)


def resolve(node: YamlNode) -> Any:
    """Return the value of a scalar. With a tag, the value is the text, because the tag is not interpreted."""
    if node.style or node.tag:
        return node.text
    text = node.text
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MAX_DIGITS:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def _tag(tag: object) -> str | None:
    return None if tag is None else str(tag)


class _Parser(YAML):
    def official_plug_ins(self) -> list[Any]:
        """Return no plug-ins. Otherwise the parser would search the disk for them, again for every text."""
        return []


def _events(text: str) -> Iterator[Event]:
    try:
        yield from _Parser(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as problem:
        _refuse_at(problem.problem_mark, f"the file is not YAML: {problem.problem or problem.context}")
    except ReaderError as problem:
        line = text.count("\n", 0, problem.position) + 1
        _refuse(f"line {line}", "the file is not YAML: a control character is not allowed")
    except YAMLError as problem:
        _refuse("", f"the file is not YAML: {problem}")
    except (ValueError, OverflowError):  # the scanner does not check that a \\U escape is a character
        _refuse("", "the file is not YAML: an escape names no character")


def _refuse_at(mark: StringMark | None, what: str) -> NoReturn:
    _refuse(_place(mark), what)


def _refuse(where: str, what: str) -> NoReturn:
    raise RefusedError(Reason.SYNTAX_BROKEN, what, where=where, next_step="Fix the syntax of the file first.") from None


def _place(mark: StringMark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""


# --- for edits -------------------------------------------------------------------------------------------------------


def compose(text: str) -> YamlDocument:
    """Return the only document of a text that an edit may change."""
    documents = compose_all(text)
    if len(documents) != 1:
        what = "several documents" if documents else "no document"
        raise unsupported(f"the file has {what}", "Use text_replace.")
    if documents[0].has_directives:
        raise unsupported("the file has directives", "Use text_replace.")
    return documents[0]


def unsupported(what: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.EDIT_UNSUPPORTED, what, next_step=next_step)


def as_tree(root: YamlNode) -> Any:
    """Return the tree in which a path is looked up.

    Keys are their text, so `$['404']` finds the key 404. An alias and its anchor are one object.
    """
    made: dict[int, Any] = {}

    def make(node: YamlNode) -> Any:
        if node.kind == "alias" and node.target is not None:
            return made[id(node.target)]
        value: Any = resolve(node)
        if node.kind == "sequence":
            value = [make(item) for item in node.items]
        elif node.kind == "mapping":
            value = {_name(key): make(content) for key, content in node.entries}
            if len(value) != len(node.entries):
                raise unsupported("two keys of a mapping differ only in their type", "Use text_replace.")
        made[id(node)] = value
        return value

    def _name(key: YamlNode) -> str:
        if key.kind != "scalar":
            raise unsupported("a key of a mapping is not a scalar", "Use text_replace.")
        make(key)
        return key.text

    return make(root)


def follow(root: YamlNode, value_path: Sequence[str | int]) -> list[YamlNode]:
    """Return all nodes from the root to the value, the root first. Stops at an alias."""
    nodes = [root]
    for step in value_path:
        here = nodes[-1]
        if here.kind == "alias":
            break
        if isinstance(step, int):
            nodes.append(here.items[step])
        else:
            nodes.append(next(value for key, value in here.entries if key.text == step))
    return nodes


def outline(node: YamlNode, without: YamlNode) -> Any:
    """Return the content of a node for comparison, with None in the place of `without`."""
    if node is without:
        return None
    if node.kind == "alias":
        return ("alias", node.target.anchor if node.target else "")
    children = [outline(child, without) for child in node.children]
    return (node.kind, node.tag, node.anchor, node.text, node.style, node.flow, children)
