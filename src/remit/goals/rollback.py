"""A rollback is a simulation too, on the same road: it names the goal that it takes back in the field `of`.

It may do so only for the goal whose own plan named it as the way back, of the same tenant, and once.
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
    """Stands in for the Finder: the simulation is the one that the goal's own plan named as its way back, its fields
    those that the two have in common.
    """
    named = (original.row.rollback_plan_ref or "").partition("@")[0]
    entry = catalogue.find(named)
    if entry is None:
        raise _refused(original.row.correlation_id, f"its way back, {named or 'none'}, is not in the catalogue")
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
    return SimulationMatchPacket.from_tree(tree, source="the goal that takes back")


def require_undoable(connection: Connection, keyring: Callable[[], Keyring], envelope: DispatchEnvelope) -> Recorded:
    """The dispatch that is to be taken back. Refused unless it took place and named this very simulation for that."""
    original = str(envelope.required_fields.get(UNDOES, ""))
    history = read_history(connection, keyring, envelope.tenant_id, original)
    last = history.last
    if last is None or last.row.event not in {"SUCCEEDED", "FAILED"}:
        state = f"it is {history.event}" if history.event else "there is no such goal"
        raise _refused(original, f"there is nothing to take back: {state}")
    named = (last.row.rollback_plan_ref or "").partition("@")[0]
    if named != envelope.simulation_id:
        raise _refused(original, f"its way back is {named or 'none'}, not {envelope.simulation_id}")
    return last


def require_only_rollback(connection: Connection, envelope: DispatchEnvelope) -> None:
    """Inside the transaction of the intent: of several that would take the same goal back at once, one does."""
    tenant_id, original = envelope.tenant_id, str(envelope.required_fields.get(UNDOES, ""))
    state = find_position(connection, tenant_id, plan_id_of(tenant_id, original), FIRST_STEP).event
    if state not in {"SUCCEEDED", "FAILED"}:
        raise _refused(original, f"there is nothing to take back: it is {state or 'not there'}")
    for other in unfinished_dispatches(connection, tenant_id):
        if other.get("correlation_id") == envelope.correlation_id:
            continue
        if other.get("required_fields", {}).get(UNDOES) == original:
            raise _refused(original, f"correlation {other.get('correlation_id')} is taking it back already")


def record_rollback(batch: Batch, keyring: Callable[[], Keyring], envelope: DispatchEnvelope, original: str) -> None:
    """In the transaction of the rollback's own outcome. One that was taken back meanwhile stays as it is."""
    state = find_position(batch.store, envelope.tenant_id, plan_id_of(envelope.tenant_id, original), FIRST_STEP)
    if state.event not in {"SUCCEEDED", "FAILED"}:  # perhaps by this very transaction, which is not signed yet
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
        next_step="`remit ledger trace` shows where that goal stands.",
    )
