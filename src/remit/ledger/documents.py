"""The documents that decisions were made from, stored under the digest of their canonical JSON (`agent_documents`).

A changed document no longer fits its name: every read computes the digest again. The signed chain holds the names.
Therefore a decision can be made again from exactly the same documents, and not at all if one of them is lost.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.core.ids import render_time
from remit.ledger.writer import Batch
from remit.store.connection import Connection

MAX_DOCUMENT: Final = 4 << 20
_HAS: Final = "SELECT ref FROM agent_documents WHERE tenant_id = ? AND ref IN ({marks})"
_FIND_ALL: Final = "SELECT ref, body FROM agent_documents WHERE tenant_id = ? AND ref IN ({marks})"
_INSERT: Final = "INSERT INTO agent_documents (tenant_id, ref, kind, body, created_at) VALUES (?, ?, ?, ?, ?)"
_ALL: Final = "SELECT ref, body FROM agent_documents WHERE tenant_id = ? ORDER BY ref"


class StoredDocument:
    """A document with its canonical text and its name, both computed once."""

    __slots__ = ("body", "kind", "ref")

    def __init__(self, kind: str, tree: Mapping[str, Any]) -> None:
        raw = canonical_bytes(tree)
        if len(raw) > MAX_DOCUMENT:
            raise RefusedError(
                Reason.TOO_LARGE,
                f"a document for this decision is larger than {MAX_DOCUMENT:,} bytes",
                where=kind,
                next_step="Make the catalogue, the policies or the goal smaller.",
            )
        self.kind = kind
        self.body = raw.decode()
        self.ref = digest_bytes(raw)


def store_documents(batch: Batch, tenant_id: str, documents: Iterable[StoredDocument]) -> None:
    """Store the documents that are not stored yet, in the transaction that names them."""
    wanted = {document.ref: document for document in documents}
    query = _HAS.format(marks=", ".join("?" * len(wanted)))
    present = {row[0] for row in batch.store.rows(query, (tenant_id, *wanted))}
    at = render_time(batch.time_in(tenant_id))
    for ref, document in wanted.items():
        if ref not in present:
            batch.insert(_INSERT, (tenant_id, ref, document.kind, document.body, at))


class DocumentStore:
    """Documents of one tenant. Each is read and verified once. Use it for one view of the store only."""

    def __init__(self, connection: Connection, tenant_id: str) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._bodies: dict[str, str] = {}

    def fetch(self, refs: Iterable[str | None]) -> None:
        """Read all these documents at once. Raises REPLAY_FAILED if one is missing or was changed."""
        wanted = [ref for ref in dict.fromkeys(refs) if ref is not None and ref not in self._bodies]
        query = _FIND_ALL.format(marks=", ".join("?" * len(wanted)))
        found: dict[str, Any] = dict(self._connection.rows(query, (self._tenant_id, *wanted))) if wanted else {}
        for ref in wanted:
            self._bodies[ref] = _verify_ref(ref, found.get(ref))

    def body(self, ref: str) -> str:
        """Return the text of the document with this name."""
        self.fetch((ref,))
        return self._bodies[ref]

    def tree(self, ref: str) -> dict[str, Any]:
        return tree_of(ref, self.body(ref))


def load_document(connection: Connection, tenant_id: str, ref: str) -> dict[str, Any]:
    """Return the document with this name. Raises REPLAY_FAILED if it is missing or was changed: it proves nothing."""
    return DocumentStore(connection, tenant_id).tree(ref)


def _verify_ref(ref: str, body: Any) -> str:
    if body is None:
        raise _lost_document_error(ref, "is missing")
    if not isinstance(body, str) or digest_bytes(body.encode("utf-8", "surrogatepass")) != ref:
        raise _lost_document_error(ref, "was changed")
    return body


def tree_of(ref: str, body: str) -> dict[str, Any]:
    tree = json.loads(body)
    if not isinstance(tree, dict):
        raise _lost_document_error(ref, "is not an object")
    return tree


def changed_documents(connection: Connection, tenant_id: str) -> Iterable[str]:
    """Yield the names of the documents whose text does not fit their name."""
    for ref, body in connection.stream(_ALL, (tenant_id,)):
        if not isinstance(body, str) or digest_bytes(body.encode("utf-8", "surrogatepass")) != ref:
            yield str(ref)


def _lost_document_error(ref: str, how: str) -> RefusedError:
    return RefusedError(
        Reason.REPLAY_FAILED,
        f"a document that a decision was made from {how}",
        where=f"document {ref}",
        next_step="Restore the database from a backup. `remit ledger verify` shows what else was changed.",
    )
