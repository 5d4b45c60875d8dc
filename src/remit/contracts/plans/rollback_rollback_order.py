"""The protocol layer's signed order to take back the run of a plan."""

from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from remit.contracts.base import Contract, Count, Digest, Identifier, KeyId, Many, Signature, Timestamp, Uuid, Uuid4


class RollbackOrder(Contract):
    """Which checkpoints of which run to restore. The signature covers every other field.

    `drift` is left out where it is not given: orders that were signed before it was there keep their digest.
    """

    order_id: Identifier
    envelope_id: Identifier = Field(description="The approval under which the plan ran.")
    manifest_id: Uuid4
    attempt: Count = Field(description="The how-manieth order for this manifest, from 1.")
    checkpoints: Many[Uuid] = Field(description="Which to restore; none named: all that are left.")
    force: bool = Field(description="Also where a file was changed since. What stands there is kept aside.")
    drift: Digest | None = Field(
        default=None,
        description="Of the files that were changed since, as somebody looked at them before he said `force`: as they "
        "are then, and no others. Without it, whatever stands there is meant.",
    )
    issued_at: Timestamp
    expires_at: Timestamp
    key_id: KeyId
    signature: Signature

    @model_serializer(mode="wrap")
    def _leave_out_no_drift(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = serialise(self)
        if tree["drift"] is None:
            del tree["drift"]
        return tree
