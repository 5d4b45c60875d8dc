"""The states of a proposed plan. The module imports almost nothing, because ledger verification needs it too."""

from typing import Final, Literal

MAX_NOTE: Final = 1_000
StoredProposalState = Literal["PENDING", "APPROVED", "DENIED", "EXPIRED", "VOID"]
"""The stored states of a proposal. After APPROVED, the run of its envelope gives the state."""
