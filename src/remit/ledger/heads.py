"""Signed heads, and the anchor: the newest head, kept outside the database.

An attacker who can write to the database can cut off its tail together with the heads that covered it. The anchor in
the state directory reveals that. It is a small file with two slots (`anchor_file`) that are overwritten in turn, so an
append costs no second fsync. It is always written after the commit of its entry. Therefore a lost write makes the proof
weaker, and never causes a false alarm.
"""

import errno
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from remit.contracts.ledger import LedgerHead
from remit.core.canonical import canonical_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.crypto.signing import Keyring, Signer
from remit.fs.atomic_write import disk_failure, make_private_directory, write_durably
from remit.ledger.anchor_file import BLANK, SEQ_WIDTH, SLOT, AnchorFile, is_unused, slot_number

MAX_OPEN: Final = 64
HEAD_FIELDS: Final = tuple(LedgerHead.model_fields)
"""Also the columns of `ledger_heads`, in this order."""

_UNSIGNED: Final = frozenset({"signature"})
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
_LOG: Final = logging.getLogger("remit.ledger")


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


def is_ours(head: LedgerHead, keyring: Keyring) -> bool:
    """Whether an audit key of this workspace signed the head, even a retired or revoked one.

    This is enough to continue a chain, and not enough to prove it.
    """
    # Built by hand: a model made of a row is not validated, and every verified entry calls this.
    body = canonical_bytes({name: getattr(head, name) for name in HEAD_FIELDS if name not in _UNSIGNED})
    return keyring.signed("ledger-head", head.key_id, body, head.signature)


def verify_head(head: LedgerHead, keyring: Keyring) -> None:
    """Refuse a head that no valid audit key signed."""
    body = head.canonical(without=_UNSIGNED)
    keyring.verify("ledger-head", head.key_id, body, head.signature, signed_at=head.signed_at)


class Anchors:
    """The anchor files, one for each tenant, in a folder of the state directory. Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: dict[str, Path] = {}
        self._open: dict[str, AnchorFile] = {}
        self._owed: dict[str, LedgerHead] = {}

    def prepare(self, tenant_id: str) -> None:
        """Check before the commit that the anchor can be written, and write an earlier head that failed before.

        Refuses a file that is not private or not ours, and content that Remit did not write.
        """
        path = self._path(tenant_id)
        try:
            held = self._open.get(tenant_id)
            if held is None or not held.is_at(path):
                self._close_anchor(tenant_id)
                self._make(path)
                self._opened(tenant_id)
            else:
                held.require_sound()
            if tenant_id in self._owed:
                self._write(self._owed[tenant_id])
                del self._owed[tenant_id]
        except OSError as problem:
            raise _unwritable(problem, path) from problem

    def record(self, head: LedgerHead) -> None:
        """Write the head after the commit, unless a newer one is there.

        It is too late to fail, so a failure is logged. The head is then written before the next commit, or on close.
        """
        try:
            self._write(head)
        except (OSError, EnvironmentFailureError) as problem:
            self._owed[head.tenant_id] = head
            _LOG.warning("the anchor of entry %d was not written: %s", head.seq, problem)

    def read(self, tenant_id: str) -> LedgerHead | None:
        """Return the newest head recorded for this tenant, or None if there is no readable one."""
        path = self._path(tenant_id)
        head = _newest(_read(path))
        return head if head is not None and self._path(head.tenant_id) == path else None

    def __iter__(self) -> Iterator[tuple[str, LedgerHead | None]]:
        """Yield every anchor in use by file name, with None if it holds no head of its tenant.

        A blank anchor is left out: it was made for a commit that a crash may have prevented.
        """
        if self._folder.is_dir():
            for path in sorted(self._folder.glob("*.anchor")):
                raw = _read(path)
                if not is_unused(raw):
                    head = _newest(raw)
                    yield path.name, head if head is not None and self._path(head.tenant_id) == path else None

    def where(self, tenant_id: str) -> str:
        return str(self._path(tenant_id))

    def close(self) -> None:
        """Write the heads that failed before, and close the files. A later use opens them again."""
        for head in list(self._owed.values()):
            del self._owed[head.tenant_id]
            self.record(head)
        while self._open:
            self._close_anchor(next(iter(self._open)))

    def _make(self, path: Path) -> None:
        if not os.path.lexists(path):
            make_private_directory(self._folder)
            try:
                write_durably(path, BLANK, replace=False)
            except EnvironmentFailureError:
                if not os.path.lexists(path):  # otherwise another process made it first, which is fine
                    raise

    def _opened(self, tenant_id: str) -> AnchorFile:
        held = self._open.get(tenant_id)
        if held is None:
            if len(self._open) >= MAX_OPEN:
                self._close_anchor(next(iter(self._open)))
            held = self._open[tenant_id] = AnchorFile(self._path(tenant_id), lambda raw: _is_head(raw, tenant_id))
        return held

    def _write(self, head: LedgerHead) -> None:
        self._opened(head.tenant_id).record(head.seq, canonical_bytes(vars(head)))

    def _close_anchor(self, tenant_id: str) -> None:
        held = self._open.pop(tenant_id, None)
        if held is not None:
            held.close()

    def _path(self, tenant_id: str) -> Path:
        known = self._paths.get(tenant_id)
        if known is None:
            name = f"{hashlib.sha256(tenant_id.encode()).hexdigest()[:32]}.anchor"
            known = self._paths[tenant_id] = self._folder / name
        return known


def _read(path: Path) -> bytes:
    """Return the two slots, or nothing if the file cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as problem:
        if problem.errno in _NO_DESCRIPTORS:  # the file itself may be good
            raise _unwritable(problem, path) from problem
        return b""
    try:
        return os.pread(descriptor, 2 * SLOT, 0)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _unwritable(problem: OSError, path: Path) -> EnvironmentFailureError:
    if problem.errno in _NO_DESCRIPTORS:
        return EnvironmentFailureError(
            Reason.STORE_UNAVAILABLE,
            "the anchor cannot be opened: too many files are open",
            where=str(path),
            next_step="Close some files, or allow more: ulimit -n",
        )
    return disk_failure(problem, path)


def _newest(raw: bytes) -> LedgerHead | None:
    slots = [head for head in (_slot(raw[:SLOT]), _slot(raw[SLOT : 2 * SLOT])) if head is not None]
    return max(slots, key=lambda head: head.seq, default=None)


def _is_head(raw: bytes, tenant_id: str) -> bool:
    head = _slot(raw)
    return head is not None and head.tenant_id == tenant_id


def _slot(raw: bytes) -> LedgerHead | None:
    try:
        head = LedgerHead.parse(raw[SEQ_WIDTH:].strip())
    except RemitError:
        return None
    return head if head.seq == slot_number(raw[:SEQ_WIDTH]) else None
