"""What the desk answers about the record: entries, chains, what a check found, the chain of one goal."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from remit.contracts.base import Contract, Count, Identifier, Many, ShortText, Text, Timestamp
from remit.contracts.ledger import LedgerEntry, LedgerHead, Payload
from remit.contracts.services.common import Page, Progress
from remit.parsing import Bounds


class Chain(Contract):
    """One tenant's chain: how long it is, its signed head, and whether the configuration still has the tenant."""

    tenant_id: Identifier
    entries: Count
    head: LedgerHead | None
    configured: bool


class EntryFilter(Contract):
    """Which entries. `kind` is the beginning of one, such as `task.`; `text` is looked for in what was recorded."""

    kind: Annotated[str, Field(max_length=100, pattern=r"^[a-z0-9_.-]*$")] | None = None
    correlation_id: Identifier | None = None
    task_id: Identifier | None = None
    actor: Identifier | None = None
    text: Identifier | None = None
    since: Timestamp | None = None
    until: Timestamp | None = None


class EntryView(Contract):
    """One entry, and whether a signed head covers it."""

    bounds: ClassVar[Bounds] = LedgerEntry.bounds

    entry: LedgerEntry
    problem: Text | None = None


class EntryPage(Page[EntryView]):
    """Entries, the newest first. A page may be short, even empty, and the list still go on: much was looked through."""

    bounds: ClassVar[Bounds] = LedgerEntry.bounds


class Finding(Contract):
    fault: ShortText
    tenant_id: Text
    seq: Count | None
    what: Text


class Verdict(Contract):
    """What a check of the whole record has found. `holds` when that is nothing."""

    holds: bool
    entries: Count
    heads: Count
    tenants: Count
    anchored: Count = Field(description="Chains that were measured against a head kept outside the database.")
    findings: Many[Finding]
    suppressed: Count = Field(description="Findings that are not listed, since there are too many.")


class VerifyAnswer(Contract):
    """`running`: look again; what it found stays for a while."""

    state: Literal["running", "done"]
    progress: Progress | None = None
    verdict: Verdict | None = None
    checked_at: Timestamp | None = None


class GoalLine(Contract):
    """One goal of a tenant, and its last event."""

    tenant_id: Identifier
    correlation_id: Identifier
    event: ShortText
    at: Timestamp


class Replayed(Contract):
    """One decision about a goal, made again from what was kept of it."""

    event_id: Identifier
    at: Timestamp
    event: ShortText
    reason_code: ShortText
    dispatched: bool
    decision_ref: ShortText | None
    agrees: bool
    why: Text | None


class ReplayAnswer(Contract):
    """Whether every decision about a goal comes out the same."""

    tenant_id: Identifier
    correlation_id: Identifier
    agrees: bool
    decisions: Many[Replayed]


class TraceAnswer(Contract):
    """The chain of one correlation as a tree; `problems` name what is missing in it or does not fit."""

    tenant_id: Identifier
    correlation_id: Identifier
    holds: bool
    problems: Many[Text]
    trace: Payload


class Wanted(Contract):
    """Something that was asked for and nobody can do yet: how often, when, in which words, by which goals."""

    intent: Text
    count: Count
    first_at: Timestamp
    last_at: Timestamp
    languages: Many[ShortText]
    utterances: Many[Text]
    correlations: Many[Identifier]
