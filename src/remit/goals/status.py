"""Read-only queries for the state of goals, verified against the ledger."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from remit.contracts.goals.access import AccessSnapshot
from remit.core.errors import RemitError
from remit.crypto.signing import Keyring
from remit.goals.access.cedar import policy_reasons
from remit.goals.decisions import DecisionRecord
from remit.goals.history import History, load_decision, read_history
from remit.goals.history_nodes import as_tree
from remit.goals.rules import PastRules
from remit.ledger.documents import DocumentStore, load_document
from remit.ledger.goal_queries import entries_of
from remit.masking import mask_json, mask_shown
from remit.store.connection import Connection

LOST: Final = "the documents of its decision are missing or damaged"


class GoalStatus(NamedTuple):
    """The last event of a goal and its time, and the data that is needed to continue the goal."""

    event: str
    event_id: str
    at: str
    user_id: str
    language_tag: str
    rollback_plan_ref: str | None


class WaitingGoal(NamedTuple):
    """A goal that waits for an approval or a confirmation, with all that the person should read before they decide."""

    correlation_id: str
    tenant_id: str
    user_id: str
    language_tag: str
    asked_at: str
    utterance: str = ""
    simulation_id: str = ""
    title: str = ""
    version: str = ""
    impact: str = ""
    risk: str = ""
    fields: Mapping[str, Any] = MappingProxyType({})
    policies: tuple[str, ...] = ()
    problem: str = ""
    policy_reasons: Mapping[str, str] = MappingProxyType({})
    """The `@reason` of each policy that has one, by id."""


class DecidedGoal(NamedTuple):
    """A goal that a person has approved or denied, as it was shown to them, and their decision."""

    goal: WaitingGoal
    approved: bool
    decided_by: str
    decided_at: str
    reason: str


def read_goal_status(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str
) -> GoalStatus | None:
    """Return the state of a goal. None if there is no such goal."""
    history = read_history(connection, keyring, tenant_id, correlation_id)
    last = history.last
    if last is None or history.decision_ref is None:
        return None
    record = load_decision(connection, tenant_id, history.decision_ref)
    event_id, at = last.row.event_id, last.created_at
    return GoalStatus(history.event, event_id, at, record.user_id, record.language_tag, record.rollback_plan_ref)


def refusal_of(connection: Connection, tenant_id: str, correlation_id: str, entry_id: str) -> dict[str, Any] | None:
    """Return the ledger entry of a refusal that belongs to no step, for example because of unreadable rules."""
    entries = entries_of(connection, tenant_id, correlation_id)[0]
    found = next((each for each in entries if each.entry_id == entry_id and each.kind == "agent.refused"), None)
    return as_tree(found) if found is not None else None


def read_goal_awaiting_approval(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str
) -> WaitingGoal | None:
    """Return a goal that waits for an approval. None if it does not wait, or was decided already."""
    history = read_history(connection, keyring, tenant_id, correlation_id)
    if history.event != "APPROVAL_REQUESTED" or history.approval is not None:
        return None
    return _read_waiting(connection, tenant_id, correlation_id, history)


def read_decided_goal(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str
) -> DecidedGoal | None:
    """Return a goal that needed an approval and was decided. None if it was not decided."""
    history = read_history(connection, keyring, tenant_id, correlation_id)
    asked = history.newest("APPROVAL_REQUESTED")
    if asked is None or history.approval is None or history.answered_at is None:
        return None
    shown = History(history.steps[: history.steps.index(asked) + 1])
    goal = _read_waiting(connection, tenant_id, correlation_id, shown)
    if goal is None:
        return None
    is_approved = history.approval == "APPROVED"
    return DecidedGoal(goal, is_approved, history.answered_by, history.answered_at, history.answer_reason)


def read_goal_awaiting_confirmation(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str
) -> WaitingGoal | None:
    """Return a goal that waits for the confirmation of its user. None if it does not wait for one."""
    history = read_history(connection, keyring, tenant_id, correlation_id)
    if history.event != "CONFIRMATION_REQUESTED":
        return None
    return _read_waiting(connection, tenant_id, correlation_id, history)


def _read_waiting(connection: Connection, tenant_id: str, correlation_id: str, history: History) -> WaitingGoal | None:
    if history.last is None:
        return None
    try:
        record = load_decision(connection, tenant_id, history.decision_ref or "")
        return _describe(connection, tenant_id, record, history.last.created_at)
    except RemitError:
        return WaitingGoal(
            correlation_id,
            tenant_id,
            "",
            "",
            history.last.created_at,
            simulation_id=history.last.row.simulation_id or "",
            problem=LOST,
        )


def _describe(connection: Connection, tenant_id: str, record: DecisionRecord, at: str) -> WaitingGoal:
    goal = load_document(connection, tenant_id, record.goal_ref)
    packet = load_document(connection, tenant_id, record.finder_packet_ref)
    # A question for the user comes before the access decision.
    access = load_document(connection, tenant_id, record.access_decision_ref) if record.access_decision_ref else {}
    simulation_id = str(packet["candidates"][0]["simulation_id"])
    entry = PastRules().catalogue(DocumentStore(connection, tenant_id), record.catalog_snapshot_ref).find(simulation_id)
    simulation = entry.simulation if entry is not None else None
    fields: Any = {
        # Each value is masked alone, so that a secret word in one of them does not mask the others.
        name: mask_json(value, name=name, mask=mask_shown, whole_labels=True)
        for name, value in packet["fields"].items()
    }
    policies = tuple(str(each) for each in access.get("policies", ()))
    return WaitingGoal(
        correlation_id=record.correlation_id,
        tenant_id=tenant_id,
        user_id=record.user_id,
        language_tag=record.language_tag,
        asked_at=at,
        utterance=str(goal["utterance"]),
        simulation_id=simulation_id,
        title=simulation.title_in(record.language_tag) if simulation else "",
        version=simulation.version if simulation else "",
        impact=simulation.impact if simulation else "",
        risk=simulation.risk if simulation else "",
        fields=fields,
        policies=policies,
        policy_reasons=_reasons(connection, tenant_id, record, policies),
    )


def _reasons(
    connection: Connection, tenant_id: str, record: DecisionRecord, policies: tuple[str, ...]
) -> Mapping[str, str]:
    """Return the reasons of the deciding policies, from the policies at the time of the decision."""
    if not policies:
        return {}
    tree = load_document(connection, tenant_id, record.policy_snapshot_ref)
    return policy_reasons(AccessSnapshot.from_tree(tree, source="access snapshot"), policies)
