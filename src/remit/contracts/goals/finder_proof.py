"""The proof of the embedded Finder: why it made a packet. It contains no text of the user, except values of fields."""

from typing import Annotated, Literal

from pydantic import Field

from remit.contracts.base import Contract, Count, Digest, Identifier, JsonObject, Many, Name, ReasonCode, VersionOne
from remit.contracts.goals.goal import LanguageTag


class Considered(Contract):
    """A simulation that the Finder considered. The words are those of its own phrase."""

    simulation_id: Name
    score: Count = Field(description="The score, in ten-thousandths.")
    words: Many[Annotated[str, Field(max_length=300)]]


class FinderProof(Contract):
    """The proof of one packet. For a question, `fields` has the values so far, because the next answer needs them."""

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
