"""Looking around in a snapshot."""

from collections.abc import Iterator
from typing import Any


def nodes_of(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.get("children", []))


def names_of(tree: dict[str, Any]) -> list[str]:
    return [node["name"] for node in nodes_of(tree)]


def node_of(tree: dict[str, Any], name: str) -> dict[str, Any]:
    found = [node for node in nodes_of(tree) if node["name"].strip() == name and "ref" in node]
    assert len(found) == 1, (name, tree)
    return found[0]


def ref_of(tree: dict[str, Any], name: str) -> str:
    return str(node_of(tree, name)["ref"])
