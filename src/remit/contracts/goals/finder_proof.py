"""What the embedded Finder keeps of how it came to a packet: enough to see why, and nothing that a user typed."""

from typing import Annotated, Literal

from pydantic import Field

from remit.contracts.base import Contract, Count, Digest, Identifier, JsonObject, Many, Name, ReasonCode, VersionOne
from remit.contracts.goals.goal import LanguageTag


class Considered(Contract):
    """A simulation that came into question. The words are those of its own phrase."""

    simulation_id: Name
    score: Count = Field(description="In ten-thousandths.")
    words: Many[Annotated[str, Field(max_length=300)]]


class FinderProof(Contract):
    """The values collected so far stand here for a question, since the next answer of the thread builds on them."""

    version: VersionOne
    finder_version: Identifier
    catalog_snapshot_ref: Digest
    correlation_id: Identifier
    tenant_id: Identifier
    user_id: Identifier
    thread_id: Identifier
    language_tag: LanguageTag
    utterance_digest: Digest
    earlier_thread_digest: Digest | None
    outcome: Literal["match", "clarify", "refuse", "missing"]
    reason_code: ReasonCode | None
    considered: Annotated[Many[Considered], Field(max_length=5)]
    simulation_id: Name | None
    awaiting: Identifier | None
    attempt: Count
    fields: JsonObject
