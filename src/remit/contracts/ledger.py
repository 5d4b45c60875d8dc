"""The ledger on the wire: entries, signed heads and evidence bundles, as an auditor receives them."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, JsonValue

from remit.contracts.base import (
    Contract,
    Digest,
    Identifier,
    KeyId,
    Signature,
    Timestamp,
    VersionOne,
    bounded_json_validator,
)
from remit.core.canonical import MAX_SAFE_INTEGER
from remit.parsing import Bounds

# Higher than the limits of every document inside a payload, so that a payload can always hold such a document.
MAX_PAYLOAD_DEPTH: Final = 40
MAX_PAYLOAD_VALUES: Final = 90_000


Payload = Annotated[
    dict[Annotated[str, Field(max_length=1 << 20)], JsonValue],
    Field(max_length=MAX_PAYLOAD_VALUES),
    AfterValidator(bounded_json_validator(MAX_PAYLOAD_DEPTH, MAX_PAYLOAD_VALUES)),
]
"""Any JSON object with a canonical form, at most 40 deep, with at most 90,000 values."""

Kind = Annotated[str, Field(max_length=100, pattern=r"^[a-z][a-z0-9_.-]{0,99}$")]
Sequence = Annotated[int, Field(ge=1, le=2**53 - 1)]


class LedgerHead(Contract):
    """A chain's length and last hash, signed with the audit key. A reader who keeps one can prove later truncation."""

    tenant_id: Identifier
    seq: Sequence
    hash: Digest
    signed_at: Timestamp
    key_id: KeyId
    signature: Signature


class LedgerEvent(Contract):
    """The part of an entry that its writer chooses."""

    tenant_id: Identifier
    kind: Kind
    correlation_id: Identifier
    task_id: Identifier | None
    capability_id: Identifier | None
    actor: Identifier | None
    payload: Payload


class LedgerEntry(Contract):
    """One event at its place in the chain. In a bundle of one correlation, other entries have no payload, only its
    digest.
    """

    bounds: ClassVar[Bounds] = Bounds(
        max_bytes=4 << 20, max_depth=MAX_PAYLOAD_DEPTH + 2, max_members=MAX_PAYLOAD_VALUES
    )

    tenant_id: Identifier
    seq: Sequence
    entry_id: Identifier
    created_at: Timestamp
    kind: Kind
    correlation_id: Identifier
    task_id: Identifier | None
    capability_id: Identifier | None
    actor: Identifier | None
    payload: Payload | None
    payload_digest: Digest
    prev_hash: Digest
    hash: Digest


class BundleHeader(Contract):
    """The first line of an evidence bundle."""

    bundle: Literal["remit-evidence"]
    version: VersionOne
    tenant_id: Identifier
    first_seq: Sequence
    correlation_id: Identifier | None
    exported_at: Timestamp


class BundleTrailer(Contract):
    """The last line of an evidence bundle: the number of entries before it, and the signed head that covers them."""

    entries: Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
    head: LedgerHead
