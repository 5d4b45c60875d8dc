"""What the ledger says about simulations of a tenant: which definition was promoted or retired last, and by whom.

Only reading. The entries are written by `remit.goals.promotion`, for a person; nothing that an agent runs can reach
that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from remit.contracts.goals.simulation import StatePayload
from remit.crypto.signing import Keyring
from remit.ledger.proof import require_covered
from remit.store.connection import Connection

KIND: Final = "catalogue.state"
CORRELATION: Final = "catalogue"

_SAID: Final = """SELECT seq, payload FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ? AND kind = ?
  ORDER BY seq DESC"""
_NEWEST: Final = """SELECT seq FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ? AND kind = ?
  ORDER BY seq DESC LIMIT 1"""


@dataclass(frozen=True, slots=True)
class PromotedState:
    """The newest word of a person about one simulation. It holds for this digest and no other."""

    simulation_id: str
    version: str
    digest: str
    state: Literal["ACTIVE", "RETIRED"]
    actor: str
    changed_at: str
    entry_ref: str


def newest_state_seq(connection: Connection, tenant_id: str) -> int:
    """The place of the newest such entry, 0 for none: as long as it stays, so do the states."""
    row = connection.one(_NEWEST, (tenant_id, CORRELATION, KIND))
    return row[0] if row else 0


def read_states(connection: Connection, keyring: Callable[[], Keyring], tenant_id: str) -> dict[str, PromotedState]:
    """By simulation. The newest entry of each must be one that Remit wrote and signed; otherwise nothing is believed.

    Limit: whoever can write to the database past Remit can hide the newest entries. `remit ledger verify` finds that.
    """
    states: dict[str, PromotedState] = {}
    for seq, payload in list(connection.rows(_SAID, (tenant_id, CORRELATION, KIND))):
        said = _read(payload, seq)
        if said.simulation_id in states:
            continue
        entry = require_covered(connection, keyring, tenant_id, seq)
        said = _read(entry.payload, seq)
        states[said.simulation_id] = PromotedState(
            said.simulation_id,
            said.version,
            said.simulation_digest,
            said.state,
            entry.actor or "",
            entry.created_at,
            entry.ref,
        )
    return states


def _read(payload: str, seq: int) -> StatePayload:
    return StatePayload.parse(str(payload).encode("utf-8", "replace"), source=f"entry {seq}")
