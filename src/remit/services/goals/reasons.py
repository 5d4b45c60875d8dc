"""The reason why a gate stopped a goal, read from the stored decision and its policies. It changes nothing."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from remit.contracts.goals.access import AccessSnapshot
from remit.core.errors import RemitError
from remit.crypto.signing import Keyring
from remit.goals.access.cedar import policy_reasons
from remit.goals.decisions import DecisionRecord
from remit.goals.history import History, load_decision, read_history
from remit.ledger.documents import load_document
from remit.store.connection import Connection

STOPPING_EVENTS: Final = frozenset({"REFUSED", "APPROVAL_REQUESTED"})
DENIED_REASON: Final = "a person was asked to approve it, and denied it"


class DecidingPolicy(NamedTuple):
    """A policy that decided, by its `@id`, with its `@reason` if it has one. Never its text."""

    policy_id: str
    reason: str


class Explained(NamedTuple):
    why: str = ""
    rules: tuple[DecidingPolicy, ...] = ()


def explain_event(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str, event_id: str
) -> Explained:
    """Explain the last event of a goal or of a step, if it is this one and a gate stopped the step with it.

    Empty otherwise, and if the stored documents are missing or invalid. A replay reports those.
    """
    whole = read_history(connection, keyring, tenant_id, correlation_id)
    found = next((each for each in whole.steps if each.row.event_id == event_id), None)
    if found is None:
        return Explained()
    history = whole.of(found.row.step_id)
    last = history.last
    if last is None or last.row.event_id != event_id or last.row.event not in STOPPING_EVENTS:
        return Explained()
    try:
        record = load_decision(connection, tenant_id, last.row.dispatch_decision_hash or "")
        access = load_document(connection, tenant_id, record.access_decision_ref) if record.access_decision_ref else {}
        return Explained(_why(record, access, history), _rules(connection, tenant_id, record, access))
    except RemitError:
        return Explained()


def _why(record: DecisionRecord, access: dict[str, Any], history: History) -> str:
    if record.reason_code == "FINDER_REFUSED":
        return ""  # the reason code of the Finder is in the answer already
    needed = access.get("verdict") == "APPROVAL_REQUIRED"
    if needed and record.approval == "DENIED":
        return f"{DENIED_REASON}: {history.answer_reason}" if history.answer_reason else DENIED_REASON
    return record.why or ""


def _rules(
    connection: Connection, tenant_id: str, record: DecisionRecord, access: dict[str, Any]
) -> tuple[DecidingPolicy, ...]:
    """Return the deciding policies. Empty if the policies allowed the goal and something else stopped it."""
    names = [str(name) for name in access.get("policies", ())] if access.get("verdict") != "ALLOWED" else []
    if not names:
        return ()
    tree = load_document(connection, tenant_id, record.policy_snapshot_ref)
    reasons = policy_reasons(AccessSnapshot.from_tree(tree, source="access snapshot"), names)
    return tuple(DecidingPolicy(name, reasons.get(name, "")) for name in names)


def describe_failure(payload: Mapping[str, Any]) -> str:
    """Return the error message of the operation that the simulation is bound to."""
    errors = payload.get("errors")
    error = errors[0] if isinstance(errors, list) and errors else payload.get("error")
    if error is None and isinstance(result := payload.get("result"), dict):
        error = result.get("error")
    if not isinstance(error, dict):
        return ""
    return str(error.get("message") or error.get("what") or "")
