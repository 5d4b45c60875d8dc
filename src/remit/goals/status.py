"""Read-only queries for the state of goals, verified against the ledger."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from remit.contracts.goals.access import AccessSnapshot
from remit.contracts.goals.packets import FINDER_PACKET, SimulationMatchPacket
from remit.core.errors import RemitError
from remit.crypto.signing import Keyring
from remit.goals.access.cedar import policy_reasons
from remit.goals.catalogue.catalogue import Catalogue
from remit.goals.composite.layout import FIRST_STEP, StepTarget, find_target, is_undo, planned_steps
from remit.goals.decisions import DecisionRecord
from remit.goals.history import WAITING, History, load_decision, read_approval, read_history
from remit.goals.history_nodes import as_tree
from remit.goals.replay import load_outputs
from remit.goals.rules import PastRules
from remit.ledger.documents import DocumentStore, load_document
from remit.ledger.goal_queries import Recorded, entries_of
from remit.masking import mask_json, mask_shown
from remit.store.connection import Connection

LOST: Final = "the documents of its decision are missing or damaged"


class GoalStatus(NamedTuple):
    """The last event of a goal and its time, and the data that is needed to continue the goal.

    The event of a goal with several steps is that of the whole goal, or that of the step which waits for a person.
    """

    event: str
    event_id: str
    at: str
    user_id: str
    language_tag: str
    rollback_plan_ref: str | None
    step_id: str = FIRST_STEP
    """The step of the last event."""
    has_several_steps: bool = False
    can_undo_steps: bool = False
    """Whether the goal has several steps, has ended, and steps of it can be rolled back."""
    dispatch_key: str = ""
    """The claim of the action that was started last and has no outcome. Empty if there is none."""

    @property
    def waiting_step(self) -> str | None:
        """The step of a goal with several steps that waits for a person."""
        return self.step_id if self.has_several_steps and self.event in WAITING else None


class WaitingGoal(NamedTuple):
    """A goal that waits for an approval or a confirmation, with all that the person should read before they decide.

    Of a goal with several steps, it is the step that waits: its simulation, and the values of its own fields.
    """

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
    step_id: str = ""
    """The id of the step, if the goal has several steps."""
    step: str = ""
    place: str = ""
    """The place of the step in its goal, such as `2 of 3`."""
    whole_title: str = ""


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
    is_running = last.row.event in {"DISPATCHED", "RETRIED"}
    return GoalStatus(
        history.state,
        last.row.event_id,
        last.created_at,
        record.user_id,
        record.language_tag,
        record.rollback_plan_ref,
        last.row.step_id,
        history.whole is not None,
        history.can_undo_steps,
        (last.row.simulation_entry_ref or "").removeprefix("simulation/") if is_running else "",
    )


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
    connection: Connection,
    keyring: Callable[[], Keyring],
    tenant_id: str,
    correlation_id: str,
    decision_ref: str | None = None,
) -> DecidedGoal | None:
    """Return a goal that needed an approval and was decided. None if it was not decided.

    Several steps of a goal may need one. `decision_ref` is the decision that asked; by default it is the last one.
    """
    history = read_history(connection, keyring, tenant_id, correlation_id)
    asked = _find_request(history, decision_ref)
    if asked is None:
        return None
    approval, decided_at, decided_by, reason = read_approval(connection, keyring, tenant_id, asked)
    if approval is None or decided_at is None:
        return None
    shown = History(history.steps[: history.steps.index(asked) + 1])
    goal = _read_waiting(connection, tenant_id, correlation_id, shown)
    return DecidedGoal(goal, approval == "APPROVED", decided_by, decided_at, reason) if goal is not None else None


def _find_request(history: History, decision_ref: str | None) -> Recorded | None:
    requests = (each for each in reversed(history.steps) if each.row.event == "APPROVAL_REQUESTED")
    return next((each for each in requests if decision_ref in {None, each.row.dispatch_decision_hash}), None)


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
    # A question for the user comes before the access decision.
    access = load_document(connection, tenant_id, record.access_decision_ref) if record.access_decision_ref else {}
    documents = DocumentStore(connection, tenant_id)
    packet = FINDER_PACKET.from_tree(documents.tree(record.finder_packet_ref), source="a stored packet")
    if not isinstance(packet, SimulationMatchPacket):
        raise TypeError("only a goal with a simulation waits for a decision")
    catalogue = PastRules().catalogue(documents, record.catalog_snapshot_ref)
    target = find_target(packet, catalogue, record.step_id, load_outputs(documents, record.step_inputs_ref))
    simulation = target.simulation if target is not None else None
    policies = tuple(str(each) for each in access.get("policies", ()))
    return WaitingGoal(
        correlation_id=record.correlation_id,
        tenant_id=tenant_id,
        user_id=record.user_id,
        language_tag=record.language_tag,
        asked_at=at,
        utterance=str(goal["utterance"]),
        simulation_id=simulation.id if simulation else packet.candidates[0].simulation_id,
        title=simulation.title_in(record.language_tag) if simulation else "",
        version=simulation.version if simulation else "",
        impact=simulation.impact if simulation else "",
        risk=simulation.risk if simulation else "",
        fields=mask_fields(target.fields if target is not None else packet.fields),
        policies=policies,
        policy_reasons=_reasons(connection, tenant_id, record, policies),
    )._replace(**_step_of(target, record, catalogue))


def mask_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Mask the values of fields for a person. Each is masked alone, so that a secret word hides no other value."""
    return {name: mask_json(value, name=name, mask=mask_shown, whole_labels=True) for name, value in fields.items()}


def _step_of(target: StepTarget | None, record: DecisionRecord, catalogue: Catalogue) -> dict[str, Any]:
    """Describe the step of a goal with several steps. Empty for a goal with a single step."""
    if record.step_id == FIRST_STEP:
        return {}
    found = {"step_id": record.step_id}
    if target is None:
        return found
    if is_undo(record.step_id):
        return {
            **found,
            "title": f"Roll back all completed steps of “{target.simulation.title_in(record.language_tag)}”",
        }
    if target.whole is None:  # the rollback of a step, which has a packet of its own
        return found
    ids = [each.step_id for each in planned_steps(target.whole, catalogue)]
    place = f"{ids.index(record.step_id) + 1} of {len(ids)}"
    title = target.whole.simulation.title_in(record.language_tag)
    return {**found, "step": target.step.name, "place": place, "whole_title": title}


def _reasons(
    connection: Connection, tenant_id: str, record: DecisionRecord, policies: tuple[str, ...]
) -> Mapping[str, str]:
    """Return the reasons of the deciding policies, from the policies at the time of the decision."""
    if not policies:
        return {}
    tree = load_document(connection, tenant_id, record.policy_snapshot_ref)
    return policy_reasons(AccessSnapshot.from_tree(tree, source="access snapshot"), policies)
