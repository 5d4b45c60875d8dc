"""Rollbacks of goals. A rollback is a simulation that passes the same gates, and names its goal in the field `of`.

It may roll back only a goal of the same tenant whose plan names this simulation as its rollback, and only once.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.packets import SimulationMatchPacket
from remit.contracts.goals.simulation import UNDOES
from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError
from remit.core.ids import uuid7
from remit.crypto.signing import Keyring
from remit.goals.catalogue.catalogue import Catalogue
from remit.goals.history import read_history
from remit.goals.planner import FIRST_STEP, plan_id_of
from remit.ledger.goal_queries import Recorded, find_position, unfinished_dispatches
from remit.ledger.projections import append_step
from remit.ledger.writer import Batch
from remit.store.connection import Connection

VERSION: Final = "rollback-1"


def rollback_packet(
    original: Recorded, packet: SimulationMatchPacket, catalogue: Catalogue, correlation_id: str
) -> SimulationMatchPacket:
    """Build the packet of a rollback, in place of the Finder.

    The simulation is the one that the plan of the original goal names as its rollback. The packet has the values of the
    fields that both simulations have.

    Raises:
        RefusedError: The catalogue does not have that simulation, or the goal has no rollback.
    """
    named = (original.row.rollback_plan_ref or "").partition("@")[0]
    entry = catalogue.find(named)
    if entry is None:
        raise _refused(
            original.row.correlation_id, f"the catalogue does not have its rollback simulation ({named or 'none'})"
        )
    wanted = entry.simulation.fields
    fields = {name: value for name, value in packet.fields.items() if name in wanted}
    if UNDOES in wanted:
        fields[UNDOES] = original.row.correlation_id
    made_from = digest([correlation_id, catalogue.ref, named, fields])
    tree = {
        "packet_type": "match",
        "packet_id": made_from,
        "correlation_id": correlation_id,
        "catalog_snapshot_ref": catalogue.ref,
        "finder_version": VERSION,
        "proof_ref": original.row.dispatch_decision_hash or original.row.event_id,
        "idempotency_key": made_from,
        "candidates": [{"simulation_id": named, "score": 1.0}],
        "fields": fields,
    }
    return SimulationMatchPacket.from_tree(tree, source="the goal that rolls back")


def require_undoable(connection: Connection, keyring: Callable[[], Keyring], envelope: DispatchEnvelope) -> Recorded:
    """Return the dispatch to roll back. Refuses one that has not ended or names another rollback simulation."""
    original = str(envelope.required_fields.get(UNDOES, ""))
    history = read_history(connection, keyring, envelope.tenant_id, original)
    last = history.last
    if last is None or last.row.event not in {"SUCCEEDED", "FAILED"}:
        state = f"its state is {history.event}" if history.event else "there is no such goal"
        raise _refused(original, f"there is nothing to roll back: {state}")
    named = (last.row.rollback_plan_ref or "").partition("@")[0]
    if named != envelope.simulation_id:
        raise _refused(original, f"its rollback simulation is {named or 'none'}, not {envelope.simulation_id}")
    return last


def require_only_rollback(connection: Connection, envelope: DispatchEnvelope) -> None:
    """Refuse a second rollback of the same goal. Call it in the transaction of the intent, so that only one can win."""
    tenant_id, original = envelope.tenant_id, str(envelope.required_fields.get(UNDOES, ""))
    state = find_position(connection, tenant_id, plan_id_of(tenant_id, original), FIRST_STEP).event
    if state not in {"SUCCEEDED", "FAILED"}:
        raise _refused(original, f"there is nothing to roll back: its state is {state or 'unknown'}")
    for other in unfinished_dispatches(connection, tenant_id):
        if other.get("correlation_id") == envelope.correlation_id:
            continue
        if other.get("required_fields", {}).get(UNDOES) == original:
            raise _refused(original, f"correlation {other.get('correlation_id')} is rolling it back already")


def record_rollback(batch: Batch, keyring: Callable[[], Keyring], envelope: DispatchEnvelope, original: str) -> None:
    """Record that the original goal is rolled back. A goal that was rolled back meanwhile stays as it is.

    Call it in the transaction of the outcome of the rollback.
    """
    state = find_position(batch.store, envelope.tenant_id, plan_id_of(envelope.tenant_id, original), FIRST_STEP)
    if state.event not in {"SUCCEEDED", "FAILED"}:  # the event may be of this transaction, which is not signed yet
        return
    last = read_history(batch.store, keyring, envelope.tenant_id, original).last
    if last is None or last.row.event not in {"SUCCEEDED", "FAILED"}:
        return
    row = replace(
        last.row,
        event_id=uuid7(batch.time_in(envelope.tenant_id)),
        event="ROLLED_BACK",
        reason_code=None,
        simulation_entry_ref=f"simulation/{envelope.idempotency_key}",
    )
    append_step(batch, envelope.tenant_id, row)


def _refused(original: str, what: str) -> RefusedError:
    return RefusedError(
        Reason.GOAL_CONFLICT,
        what,
        where=f"correlation {original}",
        next_step="`remit ledger trace` shows the state of that goal.",
    )
