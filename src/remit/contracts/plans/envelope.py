"""The envelope: the signed approval of one exact plan."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from remit.contracts.base import (
    LARGE,
    Contract,
    Digest,
    ExtendedContract,
    Identifier,
    KeyId,
    Many,
    RelativePath,
    Signature,
    Timestamp,
)
from remit.contracts.plans.plan import Plan
from remit.parsing import Bounds

FileMode = Annotated[str, Field(max_length=4, pattern=r"^0[0-7]{3}$")]
"""Permission bits in octal, as in `chmod`."""


class ApprovedInput(Contract):
    """A file that the plan names but does not contain, or the state of a target before the run."""

    path: RelativePath
    input_digest: Digest = Field(alias="digest")
    mode: FileMode | None = Field(
        default=None, description="The permissions of a file that the plan changes; null for one that is only read."
    )


class Approvals(Contract):
    """The exceptions that the approver allowed, each by its name. Empty: none."""

    protected: Many[RelativePath]
    executable: Many[RelativePath]
    content: Many[RelativePath]
    irreversible: Many[Identifier]


class Envelope(ExtendedContract):
    """An approved plan. The signature covers every other field, and the plan by its digest. The status is always
    APPROVED.
    """

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (1 << 20))
    added_later: ClassVar[frozenset[str]] = frozenset({"preview_digest"})

    envelope_id: Identifier
    status: Literal["APPROVED"]
    plan: Plan
    config_digest: Digest
    plan_digest: Digest
    inputs: Many[ApprovedInput]
    approvals: Approvals
    preview_digest: Digest | None = Field(
        default=None,
        description="The stored preview that was approved. What SQL and pipelines made for it is what is applied."
        " Omitted if there is none: in an envelope of an earlier version, or of a protocol layer outside of Remit.",
    )
    issued_at: Timestamp
    expires_at: Timestamp
    key_id: KeyId
    signature: Signature
