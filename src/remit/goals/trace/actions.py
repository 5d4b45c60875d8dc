"""What a dispatch was bound to, as its own door recorded it: found by the refs of the outcome, or by what was begun."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from remit.crypto.signing import Keyring
from remit.goals.history_nodes import HistoryNode, as_tree, entry_node
from remit.ledger.entry import Entry
from remit.ledger.goal_queries import entries_of
from remit.store.claims import ClaimCompleted, ClaimHeld, ClaimKey, read_claim
from remit.store.connection import Connection

_CHECKPOINT_IDS: Final = {
    "task": ("manifest", "task_id"),
    "plan": ("envelope", "envelope_id"),
    "browser": ("action", "action_id"),
}
"""Where the id of a bound action stands in what a dispatch had made ready."""


def read_actions(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, key: str, operation_tenant: str
) -> Iterator[HistoryNode]:
    """One node for each bound action. The doors below have a chain of their own, that of `operation_tenant`."""
    found = read_claim(connection, ClaimKey(tenant_id, "simulation", key))
    if found is None:
        yield HistoryNode("action", {}, problem="there is no record of what was dispatched")
        return
    for ref in _refs(found):
        scope, _, name = ref.partition("/")
        claim = read_claim(connection, ClaimKey(operation_tenant, scope, name))
        if claim is None:
            # A refusal claims nothing; a plan's envelope has its own id as the correlation, a task its goal's.
            entries = _entries(connection, operation_tenant, scope, name, (name, found.correlation_id))
        else:
            entries = _entries(connection, operation_tenant, scope, name, (claim.correlation_id,))
        state = "ended" if isinstance(claim, ClaimCompleted) else "begun" if claim is not None else "not begun"
        children = tuple(entry_node(connection, keyring, entry) for entry in entries)
        problem = _missing_entries_problem(claim, children)
        yield HistoryNode(
            "action", {"action": ref, "state": state}, tenant_id=operation_tenant, problem=problem, children=children
        )


def _missing_entries_problem(claim: ClaimCompleted | ClaimHeld | None, children: tuple[HistoryNode, ...]) -> str:
    """What the store says was done, the door's own chain must say too."""
    if claim is None or any(isinstance(claim, ClaimHeld) or child.seq == claim.outcome_seq for child in children):
        return ""
    return (
        "its outcome is gone from the ledger"
        if isinstance(claim, ClaimCompleted)
        else "its entries are gone from the ledger"
    )


def _refs(found: ClaimCompleted | ClaimHeld) -> list[str]:
    if isinstance(found, ClaimCompleted):
        refs = _tree(found.result).get("audit_refs")
        if isinstance(refs, list) and refs:
            return [str(ref) for ref in refs]
    prepared = _tree(found.checkpoint).get("prepared")
    kind = str(prepared.get("type")) if isinstance(prepared, dict) else ""
    if kind not in _CHECKPOINT_IDS or not isinstance(prepared, dict):
        return []
    inside, name = _CHECKPOINT_IDS[kind]
    return [f"{kind}/{prepared[inside][name]}"] if name in prepared.get(inside, {}) else []


def _entries(
    connection: Connection, tenant_id: str, scope: str, name: str, correlations: tuple[str, ...]
) -> list[Entry]:
    entries = [each for one in dict.fromkeys(correlations) for each in entries_of(connection, tenant_id, one)[0]]
    return [entry for entry in entries if _belongs(entry, scope, name)]


def _belongs(entry: Entry, scope: str, name: str) -> bool:
    """A correlation may hold more than one request: a plan and its rollback, a task and its restore."""
    match scope:
        case "task":
            return entry.task_id == name
        case "plan":
            return entry.kind.startswith(("plan.", "envelope."))
        case "rollback":
            return entry.kind.startswith("rollback.") and as_tree(entry).get("key") == name
        case _:
            return True


def _tree(text: str) -> dict[str, Any]:
    try:
        tree = json.loads(text)
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}
