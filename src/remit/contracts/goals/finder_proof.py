"""The proof of the embedded Finder: why it made a packet. It contains no text of the user, except values of fields."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from remit.contracts.base import (
    Count,
    Digest,
    ExtendedContract,
    Identifier,
    JsonObject,
    Many,
    Name,
    ReasonCode,
    VersionOne,
)
from remit.contracts.goals.goal import LanguageTag


class Considered(ExtendedContract):
    """A simulation that the Finder considered. The words are those of its own phrase."""

    added_later: ClassVar[frozenset[str]] = frozenset({"bonus"})

    simulation_id: Name
    score: Count = Field(description="The score, in ten-thousandths.")
    words: Many[Annotated[str, Field(max_length=300)]]
    bonus: Annotated[int, Field(ge=-500, le=500)] = Field(
        default=0, description="The learned points. They are in the score, except in that of an exact match."
    )


class FinderProof(ExtendedContract):
    """The proof of one packet. For a question, `fields` has the values so far, because the next answer needs them."""

    added_later: ClassVar[frozenset[str]] = frozenset({"learned_until"})

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
    learned_until: Count | None = Field(
        default=None, description="The last ledger entry of the tenant from which the learned points follow."
    )
