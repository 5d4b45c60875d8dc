"""Answers of the services about the ledger: entries, chains, the findings of a verification, the trace of one goal."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from remit.contracts.base import Contract, Count, Identifier, Many, ShortText, Text, Timestamp
from remit.contracts.ledger import LedgerEntry, LedgerHead, Payload
from remit.contracts.services.common import Page, Progress
from remit.parsing import Bounds


class Chain(Contract):
    """The chain of one tenant: its length, its signed head, and whether the tenant is still in the configuration."""

    tenant_id: Identifier
    entries: Count
    head: LedgerHead | None
    configured: bool


class EntryFilter(Contract):
    """A filter for entries. `kind` is the beginning of a kind, such as `task.`. `text` is searched in the payload."""

    kind: Annotated[str, Field(max_length=100, pattern=r"^[a-z0-9_.-]*$")] | None = None
    correlation_id: Identifier | None = None
    task_id: Identifier | None = None
    actor: Identifier | None = None
    text: Identifier | None = None
    since: Timestamp | None = None
    until: Timestamp | None = None


class EntryView(Contract):
    """One entry of the ledger. `problem` says why it cannot be shown whole or verified. Null if nothing was found."""

    bounds: ClassVar[Bounds] = LedgerEntry.bounds

    entry: LedgerEntry
    problem: Text | None = None


class EntryPage(Page[EntryView]):
    """Entries, the newest first. One page searches a limited number of entries, so an empty page may have a `next`."""

    bounds: ClassVar[Bounds] = LedgerEntry.bounds


class Finding(Contract):
    fault: ShortText
    tenant_id: Text
    seq: Count | None
    what: Text


class Verdict(Contract):
    """The result of a verification of the ledger or one chain. `holds` is true if there are no findings."""

    holds: bool
    entries: Count
    heads: Count
    tenants: Count
    anchored: Count = Field(description="Chains that were compared with a head stored outside of the database.")
    findings: Many[Finding]
    suppressed: Count = Field(description="The number of findings that are not listed, because there are too many.")


class VerifyAnswer(Contract):
    """The state of a verification. If it is `running`, ask again later. Its result is kept for a few minutes."""

    state: Literal["running", "done"]
    progress: Progress | None = None
    verdict: Verdict | None = None
    checked_at: Timestamp | None = None


GoalLineState = Literal[
    "waiting_for_confirmation",
    "waiting_for_approval",
    "asks_question",
    "expired",
    "running",
    "done",
    "failed",
    "refused",
    "recorded",
    "rolled_back",
]
"""The state of a goal in a list. `expired`: no answer came in time. `recorded`: no simulation covers it yet."""


class GoalLine(Contract):
    """One goal of a tenant, its last event, and the state that follows from it. With several steps, of the whole."""

    tenant_id: Identifier
    correlation_id: Identifier
    event: ShortText
    at: Timestamp
    state: GoalLineState = Field(description="What the goal waits for, or how it ended.")


class Replayed(Contract):
    """One decision about a goal, computed again from its stored evidence."""

    event_id: Identifier
    at: Timestamp
    event: ShortText
    reason_code: ShortText
    dispatched: bool
    decision_ref: ShortText | None
    agrees: bool
    why: Text | None
    step_id: ShortText | None = Field(
        default=None, description="The step of a goal with several steps, or `goal` for the begin and end of the whole."
    )
    step: ShortText | None = Field(default=None, description="The name of this step, if it has one.")


class ReplayAnswer(Contract):
    """The replay of a goal. `agrees` is true if every decision has the same result again."""

    tenant_id: Identifier
    correlation_id: Identifier
    agrees: bool
    decisions: Many[Replayed]


class TraceAnswer(Contract):
    """The entries of one correlation as a tree. `problems` names missing and inconsistent parts."""

    tenant_id: Identifier
    correlation_id: Identifier
    holds: bool
    problems: Many[Text]
    trace: Payload


class Wanted(Contract):
    """A request that no simulation covers yet: how often it was made, when, in which words, and by which goals."""

    intent: Text
    count: Count
    first_at: Timestamp
    last_at: Timestamp
    languages: Many[ShortText]
    utterances: Many[Text]
    correlations: Many[Identifier]
