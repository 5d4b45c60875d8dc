"""The question that a goal waits with, and the stored preview that its user sees beside it. It only reads."""

from collections.abc import Callable
from typing import Any, NamedTuple

from remit.contracts.goals.packets import FINDER_PACKET, SimulationMatchPacket
from remit.crypto.signing import Keyring
from remit.goals.binding.binding import BoundAction, fill
from remit.goals.composite.layout import find_target, is_undo
from remit.goals.history import decision_of, find_preview, read_history
from remit.goals.replay import load_outputs
from remit.goals.rules import PastRules
from remit.ledger.documents import DocumentStore, load_document
from remit.store.connection import Connection


class OpenQuestion(NamedTuple):
    """The question of a step: the action that would run, its key, and the place of the question in the chain."""

    step_id: str
    bound: BoundAction
    key: str
    seq: int


def find_unseen_question(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str
) -> OpenQuestion | None:
    """Return the question that a goal waits with, if its step has an action and no preview is stored yet."""
    history = read_history(connection, keyring, tenant_id, correlation_id)
    last = history.last
    if last is None or history.decision_ref is None or last.row.event != "CONFIRMATION_REQUESTED":
        return None
    step_id = last.row.step_id
    if is_undo(step_id) or find_preview(connection, keyring, tenant_id, correlation_id, step_id) is not None:
        return None
    documents = DocumentStore(connection, tenant_id)
    record = decision_of(documents, history.decision_ref)
    packet = FINDER_PACKET.from_tree(documents.tree(record.finder_packet_ref), source="a stored packet")
    if not isinstance(packet, SimulationMatchPacket):
        return None
    catalogue = PastRules().catalogue(documents, record.catalog_snapshot_ref)
    target = find_target(packet, catalogue, step_id, load_outputs(documents, record.step_inputs_ref))
    if target is None:
        return None
    return OpenQuestion(step_id, fill(target.simulation, target.fields), record.idempotency_key, last.seq)


def read_stored_preview(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str, step_id: str
) -> dict[str, Any] | None:
    """Return the stored preview of a step. None if none was computed."""
    ref = find_preview(connection, keyring, tenant_id, correlation_id, step_id)
    return load_document(connection, tenant_id, ref) if ref is not None else None
