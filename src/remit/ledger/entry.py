"""An entry and its hash. Pure: the same columns give the same hash on any machine, for ever."""

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
    """Somebody who is known by what can end while he waits, such as a session or a token.

    No entry that names him is written unless that counts in the very transaction: one rule for whatever is asked of
    Remit, since every durable step is recorded. It raises, takes no lock, and looks at the database only by the
    connection of that transaction.
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
    """Of whoever may be one: all others count as long as they are asked for."""
    if isinstance(actor, Actor):
        actor.require_still_valid(connection, now)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """What a room wants recorded. The payload must be masked already: the ledger is for ever."""

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
        """How other records point here: the id, and the hash that proves it."""
        return f"{self.entry_id}@{self.hash}"

    def is_intact(self) -> bool:
        """Does the content fit the hash? No, too, for content that only somebody else can have put there."""
        try:
            return self.expected_hash() == self.hash
        except (RefusedError, UnicodeError, AttributeError, TypeError):
            return False

    def as_wire(self, *, shown: bool = True) -> dict[str, Any]:
        """The entry as an auditor receives it; not shown, its payload is represented by the digest alone."""
        tree = self._asdict()
        try:
            tree["payload"] = json.loads(self.payload) if shown else None
            tree["payload_digest"] = digest_bytes(self.payload.encode())
        except (ValueError, AttributeError, TypeError, RecursionError):
            raise RefusedError(
                Reason.EVIDENCE_INVALID,
                "the payload of this entry is not what Remit wrote",
                where=f"tenant {self.tenant_id}, entry {self.seq}",
                next_step="`remit ledger verify` tells what else was changed.",
            ) from None
        return tree

    def expected_hash(self) -> str:
        covered: dict[str, Any] = dict(zip(self._fields, self, strict=True))
        del covered["payload"], covered["hash"]
        covered["payload_digest"] = digest_bytes(self.payload.encode())
        return _hash_of(covered)


COLUMNS: Final = ", ".join(Entry._fields)

# Every column but the hash itself; the payload by its digest, so that a bundle can prove the chain and not disclose it.
HASHED: Final = (*(name for name in Entry._fields if name not in {"payload", "hash"}), "payload_digest")


def entry_hash(columns: Mapping[str, Any]) -> str:
    """Takes what it needs from the columns; a missing one is an error, so none can be forgotten."""
    return _hash_of({name: columns[name] for name in HASHED})


def _hash_of(covered: dict[str, Any]) -> str:
    return digest_bytes(_DOMAIN + canonical_bytes(covered))
