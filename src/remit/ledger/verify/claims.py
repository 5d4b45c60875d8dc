"""Compares claims with the chain: a stored outcome must be the recorded one, and nothing runs twice unnoticed.

A claim decides whether work is done, and which outcome every later caller gets. With an inserted, swapped or removed
claim an attacker could speak for the executor. Therefore each claim is compared with the entries that the engine wrote
with it.
"""

import json
from itertools import groupby
from typing import Any, Final

from remit.core.canonical import digest_bytes
from remit.ledger.entry import Entry
from remit.ledger.findings import RecordFault, VerificationReport
from remit.store.claims import NO_CHECKPOINT
from remit.store.connection import Connection

_DONE: Final = """SELECT c.scope, c.key, c.result, c.outcome_seq, e.kind, e.payload FROM claims c
  LEFT JOIN ledger_entries e ON e.tenant_id = c.tenant_id AND e.seq = c.outcome_seq
  WHERE c.tenant_id = ? AND c.state = 'DONE' ORDER BY c.scope, c.key"""
_INTENDED: Final = """SELECT c.scope, c.key, c.request_digest, c.checkpoint, e.payload FROM claims c
  LEFT JOIN ledger_entries e
    ON e.tenant_id = c.tenant_id AND e.correlation_id = c.correlation_id AND e.kind = c.scope || '.intent'
  WHERE c.tenant_id = ? ORDER BY c.scope, c.key"""
_COUNT: Final = "SELECT count(*), count(result) FROM claims WHERE tenant_id = ?"


class ClaimsCheck:
    """Counts the intents and outcomes of the chain, and then compares them with the table."""

    def __init__(self, connection: Connection, tenant_id: str, verdict: VerificationReport) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._verdict = verdict
        self._intents = 0
        self._outcomes = 0

    def pass_entry(self, entry: Entry) -> None:
        self._intents += entry.kind.endswith(".intent")
        self._outcomes += entry.kind.endswith(".outcome")

    def finish(self) -> None:
        row = self._connection.one(_COUNT, (self._tenant_id,)) or (0, 0)
        if row[0] != self._intents:
            self._report(None, f"{self._intents} intents are recorded and {row[0]} claims are there")
        if row[1] != self._outcomes:
            self._report(None, f"{self._outcomes} outcomes are recorded and {row[1]} claims are finished")
        for scope, key, result, seq, kind, payload in self._connection.stream(_DONE, (self._tenant_id,)):
            if kind != f"{scope}.outcome" or not _is_recorded(result, payload):
                self._report(seq, f"the stored outcome of {scope} {key!r} differs from the recorded one")

        self._compare_checkpoints()

    def _compare_checkpoints(self) -> None:
        """Check that the checkpoint in a claim is the one that its intent recorded."""
        rows = self._connection.stream(_INTENDED, (self._tenant_id,))
        for (scope, key), group in groupby(rows, key=lambda row: (row[0], row[1])):
            if not _is_intended([(digest, checkpoint, payload) for _, _, digest, checkpoint, payload in group]):
                self._report(None, f"the checkpoint of {scope} {key!r} differs from the recorded one")

    def _report(self, seq: int | None, what: str) -> None:
        self._verdict.report(RecordFault.CLAIM_FORGED, self._tenant_id, seq, what)


def _is_recorded(result: str, payload: str) -> bool:
    try:
        return bool(json.loads(payload).get("outcome_digest") == digest_bytes(result.encode()))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False


def _is_intended(rows: list[tuple[str, str, str | None]]) -> bool:
    """Whether an intent of the same request recorded the checkpoint. Other intents of the correlation do not matter."""
    _, checkpoint, _ = rows[0]
    recorded = [intent for digest, _, payload in rows if (intent := _read(payload)).get("request_digest") == digest]
    if not recorded:
        return checkpoint == NO_CHECKPOINT
    try:
        found = digest_bytes(checkpoint.encode())
    except AttributeError:  # the column's type can be altered
        return False
    return any(intent.get("checkpoint_digest", digest_bytes(NO_CHECKPOINT.encode())) == found for intent in recorded)


def _read(payload: str | None) -> dict[str, Any]:
    try:
        tree = json.loads(payload or "{}")
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}
