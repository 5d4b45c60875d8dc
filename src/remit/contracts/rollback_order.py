"""The protocol layer's signed order to take back the run of a plan."""

from pydantic import Field

from remit.contracts.base import Contract, Count, Identifier, KeyId, Many, Signature, Timestamp, Uuid, Uuid4


class RollbackOrder(Contract):
    """Which checkpoints of which run to restore. The signature covers every other field."""

    order_id: Identifier
    envelope_id: Identifier = Field(description="The approval under which the plan ran.")
    manifest_id: Uuid4
    attempt: Count = Field(description="The how-manieth order for this manifest, from 1.")
    checkpoints: Many[Uuid] = Field(description="Which to restore; none named: all that are left.")
    force: bool = Field(description="Also where a file was changed since. What stands there is kept aside.")
    issued_at: Timestamp
    expires_at: Timestamp
    key_id: KeyId
    signature: Signature
