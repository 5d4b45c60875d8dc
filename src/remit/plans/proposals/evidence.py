"""Compares the whole row of a proposal with the signed ledger entries about who proposed what and how it ended.

A row decides who may see a plan, withdraw it and roll it back, and people see it. Therefore Remit compares the whole
row each time that the row is used, and not only when the proposal is decided or applied.
"""

import json
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import Any, Final

from remit.core.canonical import digest_bytes
from remit.core.errors import RemitError
from remit.crypto.signing import Keyring
from remit.ledger.entry import Entry
from remit.ledger.proof import require_covered
from remit.store.connection import Connection
from remit.store.proposals import KIND_OF, ProposalRow, matches_recorded_steps, steps_recorded

MAX_REMEMBERED: Final = 2_000


class ProposalVerifier:
    """Compares rows with their entries. It remembers each row that agreed, byte for byte, since entries never change.

    It checks each time that no later step is recorded.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._agreed: OrderedDict[bytes, None] = OrderedDict()
        """The digests of the rows that agreed, since a row may be large."""

    def is_verified(self, connection: Connection, keyring: Callable[[], Keyring], row: ProposalRow) -> bool:
        steps = steps_recorded(connection, row.tenant_id, row.proposal_id)
        if not matches_recorded_steps(row, steps):
            return False
        key = sha256(repr(tuple(row)).encode("utf-8", "backslashreplace")).digest()
        with self._lock:
            if key in self._agreed:
                self._agreed.move_to_end(key)
                return True
        try:
            entries = [require_covered(connection, keyring, row.tenant_id, seq) for seq, _ in steps]
            agrees = _matches_entries(row, entries)
        except (RemitError, ValueError, TypeError, AttributeError):  # the columns' types can be altered
            return False
        if agrees:
            with self._lock:
                self._agreed[key] = None
                while len(self._agreed) > MAX_REMEMBERED:
                    self._agreed.popitem(last=False)
        return agrees


def _matches_entries(row: ProposalRow, entries: list[Entry]) -> bool:
    """Compare the row with `entries`, its steps in order. The caller has checked that their kinds fit its state."""
    payloads: list[dict[str, Any]] = [json.loads(entry.payload) for entry in entries]
    answer = next((at for at, entry in enumerate(entries) if entry.kind in _ANSWERS), None)
    decided = (entries[answer].actor, entries[answer].created_at) if answer is not None else (None, None)
    approval = payloads[answer] if answer is not None and entries[answer].kind == KIND_OF["APPROVED"] else {}
    signed = digest_bytes(row.envelope.encode()) if row.envelope is not None else None
    return (
        all(entry.correlation_id == row.proposal_id for entry in entries)
        and all(payload.get("bound_digest") == row.bound_digest for payload in payloads)
        and (answer is None or bool(decided[0]))
        and (row.decided_by, row.decided_at) == decided
        and row.reason == (payloads[-1].get("reason") if len(entries) > 1 else None)
        and (row.envelope_id, signed) == (approval.get("envelope_id"), approval.get("envelope_digest"))
    )


_ANSWERS: Final = frozenset({KIND_OF["APPROVED"], KIND_OF["DENIED"]})
