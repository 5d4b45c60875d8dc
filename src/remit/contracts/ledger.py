"""The ledger on the wire: entries, signed heads and evidence bundles, as an auditor receives them."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from remit.contracts.base import Contract, Digest, Identifier, JsonObject, KeyId, Signature, Timestamp
from remit.untrusted import Bounds

Kind = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,99}$")]
Sequence = Annotated[int, Field(ge=1, le=2**53 - 1)]


class LedgerHead(Contract):
    """A chain's length and last hash, signed with the audit key: whoever holds one can prove later truncation."""

    tenant_id: Identifier
    seq: Sequence
    hash: Digest
    signed_at: Timestamp
    key_id: KeyId
    signature: Signature


class LedgerEntry(Contract):
    """One event. In a bundle about one correlation, other entries carry their payload's digest in its place."""

    bounds: ClassVar[Bounds] = Bounds(max_bytes=4 << 20)

    tenant_id: Identifier
    seq: Sequence
    entry_id: Identifier
    created_at: Timestamp
    kind: Kind
    correlation_id: Identifier
    task_id: Identifier | None
    capability_id: Identifier | None
    actor: Identifier | None
    payload: JsonObject | None
    payload_digest: Digest
    prev_hash: Digest
    hash: Digest


class BundleHeader(Contract):
    """The first line of an evidence bundle."""

    bundle: Literal["remit-evidence"]
    version: Literal[1]
    tenant_id: Identifier
    first_seq: Sequence
    correlation_id: Identifier | None
    exported_at: Timestamp


class BundleTrailer(Contract):
    """The last line: how many entries stand between, and the signed head that covers them all."""

    entries: Annotated[int, Field(ge=0)]
    head: LedgerHead
