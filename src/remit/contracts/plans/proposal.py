"""What a proposed plan can be, in its own words. Loads next to nothing: whoever verifies the ledger has it."""

from typing import Final, Literal

MAX_NOTE: Final = 1_000
StoredProposalState = Literal["PENDING", "APPROVED", "DENIED", "EXPIRED", "VOID"]
"""What a proposal itself can be. Whatever comes after APPROVED is told by the run of its envelope."""
