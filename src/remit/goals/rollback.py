"""Rollbacks of goals. A rollback is a simulation that passes the same gates, and names its goal in the field `of`.

It may roll back only a goal of the same tenant whose plan names this simulation as its rollback, and only once. A goal
with several steps rolls back its own completed steps in the same way, under the confirmations of these steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from pydantic import JsonValue

from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.packets import SimulationMatchPacket
from remit.contracts.goals.simulation import UNDOES
from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError
from remit.core.ids import uuid7
from remit.crypto.signing import Keyring
from remit.goals.catalogue.catalogue import Catalogue
from remit.goals.composite.layout import FIRST_STEP
from remit.goals.history import read_history, require_recorded
from remit.goals.planner import plan_id_of
from remit.ledger.goal_queries import Recorded, find_position, step_events, unfinished_dispatches
from remit.ledger.projections import append_step
from remit.ledger.writer import Batch
from remit.store.connection import Connection

VERSION: Final = "rollback-1"


def rollback_packet(
    original: Recorded,
    fields: Mapping[str, JsonValue],
    catalogue: Catalogue,
    correlation_id: str,
    *,
    own_step: bool = False,
) -> SimulationMatchPacket:
    """Build the packet of a rollback, in place of the Finder.

    Args:
        original: The last event of the step to roll back. Its plan names the rollback simulation.
        fields: The values with which the step ran. The packet has those that the rollback simulation has too.
        catalogue: The present catalogue.
        correlation_id: The goal that rolls back: a new one, or the same goal if it rolls back its own step.
        own_step: A goal rolls back its own step. Then the gates refuse a simulation that is missing, and record it.

    Raises:
        RefusedError: The catalogue does not have that simulation, or the step has no rollback.
    """
    named = (original.row.rollback_plan_ref or "").partition("@")[0]
    entry = catalogue.find(named)
    if entry is None and not (own_step and named):
        raise _refused(
            original.row.correlation_id, f"the catalogue does not have its rollback simulation ({named or 'none'})"
        )
    wanted = entry.simulation.fields if entry is not None else {}
    given = {name: value for name, value in fields.items() if name in wanted}
    if UNDOES in wanted:
        given[UNDOES] = original.row.correlation_id
    made_from = digest([correlation_id, catalogue.ref, named, given])
    tree = {
        "packet_type": "match",
        "packet_id": made_from,
        "correlation_id": correlation_id,
        "catalog_snapshot_ref": catalogue.ref,
        "finder_version": VERSION,
        "proof_ref": original.row.dispatch_decision_hash or original.row.event_id,
        "idempotency_key": made_from,
        "candidates": [{"simulation_id": named, "score": 1.0}],
        "fields": given,
    }
    return SimulationMatchPacket.from_tree(tree, source="the goal that rolls back")


class UndoneStep(NamedTuple):
    """The step that a dispatch rolls back."""

    correlation_id: str
    step_id: str


def undone_step(envelope: DispatchEnvelope) -> UndoneStep | None:
    """Return the step that a dispatch rolls back. None if it is no rollback."""
    return _undone(envelope.correlation_id, envelope.undoes_step, envelope.required_fields)


def _undone(correlation_id: str, step_id: str | None, fields: Mapping[str, JsonValue]) -> UndoneStep | None:
    original = fields.get(UNDOES)
    if step_id is not None:
        return UndoneStep(correlation_id if original is None else str(original), step_id)
    return UndoneStep(str(original), FIRST_STEP) if original is not None else None


def require_undoable(
    connection: Connection, keyring: Callable[[], Keyring], envelope: DispatchEnvelope, undone: UndoneStep
) -> Recorded:
    """Return the dispatch to roll back. Refuses one that has not ended or names another rollback simulation."""
    history = read_history(connection, keyring, envelope.tenant_id, undone.correlation_id).of(undone.step_id)
    last = history.last
    if last is None or last.row.event not in {"SUCCEEDED", "FAILED"}:
        state = f"its state is {history.event}" if history.event else "there is no such goal"
        raise _refused(undone.correlation_id, f"there is nothing to roll back: {state}")
    named = (last.row.rollback_plan_ref or "").partition("@")[0]
    if named != envelope.simulation_id:
        what = f"its rollback simulation is {named or 'none'}, not {envelope.simulation_id}"
        raise _refused(undone.correlation_id, what)
    return last


def require_only_rollback(connection: Connection, envelope: DispatchEnvelope, undone: UndoneStep) -> None:
    """Refuse a second rollback of the same step. Call it in the transaction of the intent, so that only one can win."""
    tenant_id, original = envelope.tenant_id, undone.correlation_id
    state = find_position(connection, tenant_id, plan_id_of(tenant_id, original), undone.step_id).event
    if state not in {"SUCCEEDED", "FAILED"}:
        raise _refused(original, f"there is nothing to roll back: its state is {state or 'unknown'}")
    for tree in unfinished_dispatches(connection, tenant_id):
        if (tree.get("correlation_id"), tree.get("step_id")) == (envelope.correlation_id, envelope.step_id):
            continue
        other = _undone(str(tree.get("correlation_id")), tree.get("undoes_step"), tree.get("required_fields", {}))
        if other == undone:
            raise _refused(original, f"correlation {tree.get('correlation_id')} is rolling it back already")


def record_rollback(
    batch: Batch, keyring: Callable[[], Keyring], envelope: DispatchEnvelope, undone: UndoneStep, key: str
) -> None:
    """Record that a step is rolled back. A step that was rolled back meanwhile stays as it is.

    Call it in the transaction of the outcome of the rollback.
    """
    plan_id = plan_id_of(envelope.tenant_id, undone.correlation_id)
    state = find_position(batch.store, envelope.tenant_id, plan_id, undone.step_id)
    if state.event not in {"SUCCEEDED", "FAILED"}:  # the event may be of this transaction, which is not signed yet
        return
    last = _last_event(batch.store, keyring, envelope.tenant_id, undone)
    if last is None or last.row.event not in {"SUCCEEDED", "FAILED"}:
        return
    row = replace(
        last.row,
        event_id=uuid7(batch.time_in(envelope.tenant_id)),
        event="ROLLED_BACK",
        reason_code=None,
        simulation_entry_ref=f"simulation/{key}",
        outputs_ref=None,
    )
    append_step(batch, envelope.tenant_id, row)


def _last_event(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, undone: UndoneStep
) -> Recorded | None:
    """Return the last event of the step, verified. Events of this transaction are not signed yet, and not read."""
    events = step_events(connection, tenant_id, undone.correlation_id)
    last = next((each for each in reversed(events) if each.row.step_id == undone.step_id), None)
    if last is not None:
        require_recorded(connection, keyring, tenant_id, last)
    return last


def _refused(original: str, what: str) -> RefusedError:
    return RefusedError(
        Reason.GOAL_CONFLICT,
        what,
        where=f"correlation {original}",
        next_step="`remit ledger trace` shows the state of that goal.",
    )
