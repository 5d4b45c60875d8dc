"""What a whole row about a proposed plan is worth: signed entries say who proposed what, and what became of it.

A row decides who may see a plan, withdraw it and take it back, and it is what people are shown. So it is compared as a
whole, each time somebody uses it, and not only when it is answered or applied.
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
    """Compares rows with their entries. What was found to agree is remembered, word for word: entries never change.

    That no later step is recorded is asked each time.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._agreed: OrderedDict[bytes, None] = OrderedDict()
        """By the digest of the row: it may be large."""

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
    """`entries` are its steps, in order; that their kinds lead to the row's state is known."""
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
