"""Idempotency: one row decides which process does the work.

A process acquires a claim by inserting the row. Every other caller gets the row as it is. The outcome is stored with
the claim, in the transaction that records it. Every later caller gets that outcome, byte for byte. A claim carries a
token. A process that lost its claim to recovery (a paused process that wakes up late) can no longer finish it.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from remit.core.errors import Reason, RefusedError
from remit.core.faultpoints import reach
from remit.store.connection import Connection, Row
from remit.store.process_identity import NO_OWNER, this_process

NO_CHECKPOINT: Final = "{}"
"""A checkpoint with nothing to undo."""

_INSERT = """INSERT INTO claims (tenant_id, scope, key, request_digest, correlation_id, checkpoint, owner, claim_token,
    claimed_at, state)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'CLAIMED') ON CONFLICT (tenant_id, scope, key) DO NOTHING"""
_COLUMNS = """tenant_id, scope, key, request_digest, owner, claim_token, state, result, outcome_seq, correlation_id,
  checkpoint, claimed_at"""
_FIND = f"SELECT {_COLUMNS} FROM claims WHERE tenant_id = ? AND scope = ? AND key = ?"
_UNFINISHED = f"""SELECT {_COLUMNS} FROM claims WHERE scope = ? AND state = 'CLAIMED'
  ORDER BY claimed_at, tenant_id, key"""
_TAKE_OVER = """UPDATE claims SET owner = ?, claim_token = ?
  WHERE tenant_id = ? AND scope = ? AND key = ? AND claim_token = ? AND state = 'CLAIMED'"""
_RELEASE = """UPDATE claims SET owner = ?
  WHERE tenant_id = ? AND scope = ? AND key = ? AND claim_token = ? AND state = 'CLAIMED'"""
_FINISH = """UPDATE claims SET state = 'DONE', result = ?, finished_at = ?, outcome_seq = ?
  WHERE tenant_id = ? AND scope = ? AND key = ? AND claim_token = ? AND state = 'CLAIMED'"""


@dataclass(frozen=True, slots=True)
class ClaimKey:
    tenant_id: str
    scope: str
    key: str


@dataclass(frozen=True, slots=True)
class ClaimAcquired:
    """A claim that this caller, and no other, now holds. It does the work."""

    key: ClaimKey
    token: str


@dataclass(frozen=True, slots=True)
class ClaimHeld:
    """A claim that another caller holds and has not finished."""

    key: ClaimKey
    owner: str = field(default="", compare=False)
    token: str = field(default="", compare=False, repr=False)
    request_digest: str = field(default="", compare=False)
    correlation_id: str = field(default="", compare=False)
    checkpoint: str = field(default=NO_CHECKPOINT, compare=False, repr=False)
    """The data for undoing, as the claiming process stored it. Trust it only if the ledger's intent says the same."""
    claimed_at: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ClaimCompleted:
    """A completed claim with its stored outcome."""

    key: ClaimKey
    result: str
    outcome_seq: int = field(default=0, compare=False)
    """The place of the ledger entry that records it."""
    request_digest: str = field(default="", compare=False)
    correlation_id: str = field(default="", compare=False)
    checkpoint: str = field(default=NO_CHECKPOINT, compare=False, repr=False)


def claim(
    connection: Connection,
    key: ClaimKey,
    request_digest: str,
    at: str,
    *,
    correlation_id: str = "",
    checkpoint: str = NO_CHECKPOINT,
    token: str = "",
) -> ClaimAcquired | ClaimHeld | ClaimCompleted:
    """Acquire the key, or return the claim that exists. The same key with another request is refused.

    `token` (from `new_token`) is for a caller that must know its token even if it is interrupted before this returns.

    The checkpoint is stored with the claim. A process that finds the claim unfinished learns from it what was there
    before.
    """
    # First look it up: SQLite's guard against REPLACE stops every insert of a key that exists.
    found = find_claim(connection, key, request_digest)
    if found is not None:
        return found
    token = token or new_token()
    found_with = (correlation_id or key.key, checkpoint)
    values = (key.tenant_id, key.scope, key.key, request_digest, *found_with, this_process(), token, at)
    inserted = connection.execute(_INSERT, values)
    reach("claim.before_commit")
    if inserted == 1:
        return ClaimAcquired(key, token)
    found = find_claim(connection, key, request_digest)
    if found is None:
        raise AssertionError("the claim that caused a conflict is missing")
    return found


def find_claim(connection: Connection, key: ClaimKey, request_digest: str) -> ClaimHeld | ClaimCompleted | None:
    """Return the claim of this key, without acquiring it. The same key with another request is refused."""
    found = read_claim(connection, key)
    if found is not None and found.request_digest != request_digest:
        raise RefusedError(
            Reason.IDEMPOTENCY_CONFLICT,
            "this id was already used for a different request",
            where=f"{key.scope} {key.key}",
            next_step="Give the new request its own id.",
        )
    return found


def read_claim(connection: Connection, key: ClaimKey) -> ClaimHeld | ClaimCompleted | None:
    """Return the claim of this key, for any request."""
    row = connection.one(_FIND, (key.tenant_id, key.scope, key.key))
    return None if row is None else _from_row(row)


def unfinished(connection: Connection, scope: str) -> Iterator[ClaimHeld]:
    """Return every claim of this scope without an outcome, the oldest first: running work, and the rest of a crash."""
    for row in connection.rows(_UNFINISHED, (scope,)):
        found = _from_row(row)
        if isinstance(found, ClaimHeld):
            yield found


def _from_row(row: Row) -> ClaimHeld | ClaimCompleted:
    tenant_id, scope, name, digest, owner, token, state, result, outcome_seq, correlation_id, checkpoint, at = row
    key = ClaimKey(tenant_id, scope, name)
    if state == "DONE":
        return ClaimCompleted(key, result, outcome_seq, digest, correlation_id, checkpoint)
    return ClaimHeld(key, owner, token, digest, correlation_id, checkpoint, at)


def new_token() -> str:
    return secrets.token_hex(16)


def take_over(connection: Connection, orphan: ClaimHeld, token: str = "") -> ClaimAcquired | None:
    """Acquire the unfinished claim of a dead process. Return None if another process was faster.

    The token of the dead process becomes invalid. The start time stays, because recovery may be tried many times.
    """
    key, token = orphan.key, token or new_token()
    changed = connection.execute(_TAKE_OVER, (this_process(), token, key.tenant_id, key.scope, key.key, orphan.token))
    return ClaimAcquired(key, token) if changed == 1 else None


def release_claim(connection: Connection, inserted: ClaimAcquired) -> None:
    """Leave the claim unfinished and without an owner. Does nothing if another process has taken it over."""
    key = inserted.key
    connection.execute(_RELEASE, (NO_OWNER, key.tenant_id, key.scope, key.key, inserted.token))


def finish_claim(connection: Connection, inserted: ClaimAcquired, result: str, at: str, outcome_seq: int = 0) -> None:
    """Store the outcome and its ledger entry permanently. Fails if the claim was finished or taken over."""
    key = inserted.key
    if connection.execute(_FINISH, (result, at, outcome_seq, key.tenant_id, key.scope, key.key, inserted.token)) != 1:
        raise RefusedError(
            Reason.IDEMPOTENCY_CONFLICT,
            "this process no longer holds the claim: recovery took it over, or it is finished",
            where=f"{key.scope} {key.key}",
            next_step="Read the stored outcome instead.",
        )
