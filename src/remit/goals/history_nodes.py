"""Nodes of a trace, and the node that shows one ledger entry."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from remit.core.errors import RemitError
from remit.crypto.signing import Keyring
from remit.ledger.entry import Entry
from remit.ledger.proof import require_covered
from remit.store.connection import Connection


@dataclass(frozen=True, slots=True)
class HistoryNode:
    """One node. `seq` and `at` are its place in the chain of `tenant_id`; `ref` is the name of its document."""

    kind: str
    facts: dict[str, Any] = field(default_factory=dict)
    tenant_id: str | None = None
    seq: int | None = None
    at: str | None = None
    ref: str | None = None
    problem: str = ""
    children: tuple["HistoryNode", ...] = ()
    entry: Entry | None = None
    """The entry, if the node shows only an entry."""

    def tree(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "tenant_id": self.tenant_id,
            "seq": self.seq,
            "at": self.at,
            "ref": self.ref,
            "facts": self.facts,
            "problem": self.problem or None,
            "children": [child.tree() for child in self.children],
        }

    def problems(self) -> Iterator[str]:
        if self.problem:
            yield self.problem
        for child in self.children:
            yield from child.problems()


def as_tree(entry: Entry) -> dict[str, Any]:
    """Return the payload of an entry. Empty if it is not a JSON object: such an entry was forged and is not signed."""
    try:
        tree = json.loads(entry.payload)
    except (ValueError, TypeError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}


def find_coverage_problem(connection: Connection, keyring: Callable[[], Keyring], entry: Entry) -> str:
    """Return the problem of an entry that no signature covers. Empty if the entry is covered."""
    try:
        require_covered(connection, keyring, entry.tenant_id, entry.seq)
    except RemitError:
        return "no signed head covers this entry"
    return ""


def entry_node(connection: Connection, keyring: Callable[[], Keyring], entry: Entry) -> HistoryNode:
    facts: dict[str, Any] = {"kind": entry.kind, "actor": entry.actor, "task_id": entry.task_id}
    facts |= {"capability_id": entry.capability_id, "payload": as_tree(entry)}
    return HistoryNode(
        "entry",
        {name: value for name, value in facts.items() if value is not None},
        tenant_id=entry.tenant_id,
        seq=entry.seq,
        at=entry.created_at,
        ref=entry.entry_id,
        problem=find_coverage_problem(connection, keyring, entry),
        entry=entry,
    )
