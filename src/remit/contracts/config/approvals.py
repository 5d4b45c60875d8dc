"""The `approvals` settings of `remit.yaml`: who may approve their own requests, and what an approval must name."""

from pydantic import Field

from remit.contracts.base import Contract


class ApprovalSettings(Contract):
    """Who may approve, and what an approval must name. No setting lets an agent approve anything."""

    allow_own: bool | None = Field(
        default=None,
        description="Whether people may approve what they requested themselves. Null: at the command line of the "
        "workspace they may; through `remit serve` (console and HTTP) another person must.",
    )
    allow_without_preview: bool = Field(
        default=False,
        description="Whether `remit apply` may run SQL on files and pipelines if the envelope names no stored preview. "
        "Such an envelope is from an earlier version of Remit, or from a protocol layer outside of Remit.",
    )
