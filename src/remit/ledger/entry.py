"""An entry of the ledger and its hash. Pure: the same columns always give the same hash, on every machine."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.store.connection import Connection

GENESIS: Final = "sha256:" + "0" * 64
_DOMAIN: Final = b"remit.ledger.entry.v1\0"


class Actor(str):
    """The name of an actor whose session or token can end while a request runs.

    Remit writes no entry with this name unless the session or token is valid in the same transaction. One rule covers
    every request, since every durable step is recorded. The check raises, takes no lock, and reads the database only
    through the connection of that transaction.
    """

    __slots__ = ("_require_still",)
    _require_still: Callable[[Connection, datetime], None]

    def __new__(cls, name: str, require_still_valid: Callable[[Connection, datetime], None]) -> Self:
        made = super().__new__(cls, name)
        made._require_still = require_still_valid
        return made

    def require_still_valid(self, connection: Connection, now: datetime) -> None:
        self._require_still(connection, now)


def require_still_valid(actor: str | None, connection: Connection, now: datetime) -> None:
    """Check an `Actor`. A plain name cannot end, so there is nothing to check."""
    if isinstance(actor, Actor):
        actor.require_still_valid(connection, now)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An event to record. The payload must be masked already, since an entry can never be removed."""

    tenant_id: str
    kind: str
    correlation_id: str
    payload: dict[str, Any]
    task_id: str | None = None
    capability_id: str | None = None
    actor: str | None = None


class Entry(NamedTuple):
    """A row of the ledger, in column order. `payload` is canonical JSON text."""

    tenant_id: str
    seq: int
    entry_id: str
    created_at: str
    kind: str
    correlation_id: str
    task_id: str | None
    capability_id: str | None
    actor: str | None
    payload: str
    prev_hash: str
    hash: str

    @property
    def ref(self) -> str:
        """The reference that other records use: the id, and the hash that proves it."""
        return f"{self.entry_id}@{self.hash}"

    def is_intact(self) -> bool:
        """Whether the content fits the hash. False also for content that Remit cannot have written."""
        try:
            return self.expected_hash() == self.hash
        except (RefusedError, UnicodeError, AttributeError, TypeError):
            return False

    def as_wire(self, *, shown: bool = True) -> dict[str, Any]:
        """Return the entry as an auditor receives it. If it is not `shown`, only the digest stands for its payload."""
        tree = self._asdict()
        try:
            tree["payload"] = json.loads(self.payload) if shown else None
            tree["payload_digest"] = digest_bytes(self.payload.encode())
        except (ValueError, AttributeError, TypeError, RecursionError):
            raise RefusedError(
                Reason.EVIDENCE_INVALID,
                "the payload of this entry is not what Remit wrote",
                where=f"tenant {self.tenant_id}, entry {self.seq}",
                next_step="`remit ledger verify` shows what else was changed.",
            ) from None
        return tree

    def expected_hash(self) -> str:
        covered: dict[str, Any] = dict(zip(self._fields, self, strict=True))
        del covered["payload"], covered["hash"]
        covered["payload_digest"] = digest_bytes(self.payload.encode())
        return _hash_of(covered)


COLUMNS: Final = ", ".join(Entry._fields)

# Every column but the hash itself. The payload is hashed by its digest, so a bundle can prove it without disclosing it.
HASHED: Final = (*(name for name in Entry._fields if name not in {"payload", "hash"}), "payload_digest")


def entry_hash(columns: Mapping[str, Any]) -> str:
    """Return the hash of an entry. A missing column is an error, so no column can be forgotten."""
    return _hash_of({name: columns[name] for name in HASHED})


def _hash_of(covered: dict[str, Any]) -> str:
    return digest_bytes(_DOMAIN + canonical_bytes(covered))
