"""Signed heads, and the anchor: the newest head, kept outside the database.

Whoever can write to the database can cut off its tail together with the heads that covered it. The anchor in the state
directory notices. It is a small file with two slots; the older slot is overwritten in place with one write, so a crash
or power cut can spoil only that slot, and an append costs no second fsync. A lost last anchor is a weaker alarm, never
a false one: it is always written after the commit that it speaks of.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from remit.authority.signing import Keyring, Signer
from remit.canonical import canonical_bytes
from remit.contracts.ledger import LedgerHead
from remit.durable import make_private_directory, write_durably
from remit.errors import RemitError

SLOT: Final = 4096
SEQ_WIDTH: Final = 20
_UNSIGNED: Final = frozenset({"signature"})


def sign_head(signer: Signer, tenant_id: str, seq: int, entry_hash: str, signed_at: str) -> LedgerHead:
    unsigned: dict[str, Any] = {
        "tenant_id": tenant_id,
        "seq": seq,
        "hash": entry_hash,
        "signed_at": signed_at,
        "key_id": signer.key_id,
    }
    signature = signer.sign("ledger-head", canonical_bytes(unsigned))
    # Not validated: every part was made here, and this runs once for each durable transaction.
    return LedgerHead.model_construct(**unsigned, signature=signature)


def verify_head(head: LedgerHead, keyring: Keyring) -> None:
    """Return if the audit key signed this head; refuse otherwise."""
    body = head.canonical(without=_UNSIGNED)
    keyring.verify("ledger-head", head.key_id, body, head.signature, signed_at=head.signed_at)


class Anchors:
    """One anchor file a tenant, in a folder of the state directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def record(self, head: LedgerHead) -> None:
        """Remember the head, unless a newer one is already there."""
        path = self._path(head.tenant_id)
        if not path.exists():
            make_private_directory(self._folder)
            write_durably(path, b"\n" * (2 * SLOT))
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            first, second = (_slot_seq(os.pread(descriptor, SEQ_WIDTH, offset)) for offset in (0, SLOT))
            if head.seq > max(first, second):
                text = f"{head.seq:0{SEQ_WIDTH}d} ".encode() + head.canonical()
                os.pwrite(descriptor, text.ljust(SLOT - 1) + b"\n", 0 if first < second else SLOT)
        finally:
            os.close(descriptor)

    def read(self, tenant_id: str) -> LedgerHead | None:
        path = self._path(tenant_id)
        return _newest(path.read_bytes()) if path.exists() else None

    def __iter__(self) -> Iterator[tuple[str, LedgerHead | None]]:
        """Every anchor by file name; None where neither slot can be read."""
        if self._folder.is_dir():
            for path in sorted(self._folder.glob("*.anchor")):
                yield path.name, _newest(path.read_bytes())

    def _path(self, tenant_id: str) -> Path:
        return self._folder / f"{hashlib.sha256(tenant_id.encode()).hexdigest()[:32]}.anchor"


def _newest(raw: bytes) -> LedgerHead | None:
    slots = [head for head in (_slot(raw[:SLOT]), _slot(raw[SLOT : 2 * SLOT])) if head is not None]
    return max(slots, key=lambda head: head.seq, default=None)


def _slot_seq(raw: bytes) -> int:
    return int(raw) if raw.isdigit() else 0


def _slot(raw: bytes) -> LedgerHead | None:
    try:
        return LedgerHead.parse(raw[SEQ_WIDTH:].strip())
    except RemitError:
        return None
