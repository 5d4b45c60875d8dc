"""Checks YAML files: syntax, and tags that create objects. Needs the YAML parser."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from remit.core.errors import RefusedError
from remit.effects.edits.data_files import PLAIN_CHECKS, Check, ContentFinding, too_large_to_be_checked
from remit.effects.edits.splice import read_text
from remit.effects.edits.yaml_nodes import MAX_BYTES, YamlNode, compose_all

_CORE_NAMES: Final = ("str", "int", "float", "bool", "null", "map", "seq")
_CORE: Final = frozenset({"!", *(f"tag:yaml.org,2002:{name}" for name in _CORE_NAMES)})


def check_yaml(content: bytes) -> list[ContentFinding]:
    """Return findings about the syntax, and about tags that tell a reader to create an object."""
    if len(content) > MAX_BYTES:
        return [too_large_to_be_checked(MAX_BYTES)]
    try:
        text = read_text(content).body.decode()
        roots = [document.root for document in compose_all(text)]
    except RefusedError as problem:
        return [ContentFinding("syntax", problem.where, problem.what)]
    tagged = (node for root in roots if root is not None for node in _tagged(root))
    return [
        ContentFinding("object_tag", f"line {text.count(chr(10), 0, node.start) + 1}", f"there is a tag: {node.tag}")
        for node in tagged
    ]


def _tagged(node: YamlNode) -> Iterator[YamlNode]:
    if node.tag is not None and node.tag not in _CORE:
        yield node
    for child in node.children:
        yield from _tagged(child)


FULL_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        **PLAIN_CHECKS,
        ".yaml": check_yaml,
        ".yml": check_yaml,
    }
)
"""The checks, by the end of a file's name."""
