"""Rotates and revokes keys: changes the keyring and records it, in one transaction of the ledger."""

from datetime import datetime
from pathlib import Path

from remit.core.ids import DEFAULT_TENANT, parse_time
from remit.crypto.keyring import revoke_key, rotate_key
from remit.crypto.signing import PublicKey, Role
from remit.ledger.entry import NewEntry
from remit.ledger.verify.verifier import chain_owners
from remit.ledger.writer import Batch, Ledger


def rotate_and_record(
    ledger: Ledger, keys: Path, role: Role, *, revoke: bool, actor: str | None = None
) -> tuple[PublicKey, PublicKey]:
    """Rotate a key. Return the old and the new one. After this returns, no writer signs with the old key.

    The intention is recorded first, so the ledger explains a new keyring whose own entry a crash prevented.
    """
    intended = {"role": role, "revoke": revoke}
    ledger.append(NewEntry(DEFAULT_TENANT, "key.rotation_intended", role, intended, actor=actor))
    kind = "key.revoked" if revoke else "key.rotated"

    def work(batch: Batch) -> tuple[PublicKey, PublicKey]:
        now = _not_before_the_heads(batch) if role == "audit" else batch.clock()
        old, new = rotate_key(keys, role, lambda: now, revoke=revoke)
        known = {"role": role, "old_key_id": old.key_id, "new_key_id": new.key_id}
        # A new audit key signs a head for every chain, so that no chain depends on a revoked key.
        tenants = list(chain_owners(batch.store)) if role == "audit" else []
        for tenant_id in {DEFAULT_TENANT, *tenants}:
            batch.append(NewEntry(tenant_id, kind, new.key_id, known, actor=actor))
        return old, new

    return ledger.transact(work)


def revoke_and_record(ledger: Ledger, keys: Path, key_id: str, *, actor: str | None = None) -> PublicKey:
    def work(batch: Batch) -> PublicKey:
        revoked = revoke_key(keys, key_id, batch.clock)
        known = {"role": revoked.role, "old_key_id": key_id}
        batch.append(NewEntry(DEFAULT_TENANT, "key.revoked", key_id, known, actor=actor))
        return revoked

    return ledger.transact(work)


def _not_before_the_heads(batch: Batch) -> datetime:
    """Return a time that is not earlier than the last signature of the old key, whatever the clock shows.

    The transaction holds the only write lock, so no other writer signs while the keys change.
    """
    newest = batch.store.one("SELECT max(signed_at) FROM ledger_heads")
    return max(batch.clock(), parse_time(newest[0])) if newest and newest[0] else batch.clock()
