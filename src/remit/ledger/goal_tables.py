"""The three append-only tables of goals. Each row is also an entry of the tenant's chain with the same content.

The tables provide the columns and indexes for queries and replay. The chain provides the proof. Both are written in one
transaction, and verification compares them row by row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from remit.contracts.goals.error_codes import USER_TEXT
from remit.core.canonical import canonical_bytes
from remit.core.errors import Reason, RefusedError
from remit.core.metrics import GOAL_EVENTS
from remit.ledger.entry import Entry, NewEntry
from remit.ledger.findings import RecordFault, VerificationReport
from remit.ledger.writer import Batch
from remit.store.connection import ConflictError, Connection, Row

SOURCE: Final = "PH1.AGENT_EXECUTION"
MAX_WORD: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One event of one step (`agent_execution_ledger`), with the refs from which its decision can be replayed."""

    event_id: str
    correlation_id: str
    plan_id: str
    step_id: str
    event: str
    idempotency_key: str
    source: str = SOURCE
    simulation_id: str | None = None
    reason_code: str | None = None
    finder_packet_ref: str | None = None
    policy_snapshot_ref: str | None = None
    catalog_snapshot_ref: str | None = None
    artifact_fingerprint_bundle_ref: str | None = None
    access_decision_ref: str | None = None
    confirmation_parse_proof_ref: str | None = None
    simulation_entry_ref: str | None = None
    rollback_plan_ref: str | None = None
    dispatch_decision_hash: str | None = None
    attempt: str | None = None
    """The number of a later attempt of the step, from 2 on."""
    effect: str | None = None
    """Of a failure: NONE if it surely changed nothing, or UNKNOWN."""
    outputs_ref: str | None = None
    """The document with the values that the completed step gives to later steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRow:
    """A person's answer, and the word and lexicon that matched it (`agent_execution_confirmation_ledger`)."""

    confirmation_id: str
    correlation_id: str
    plan_id: str
    step_id: str
    user_id: str
    verdict: Literal["CONFIRMED", "REFUSED", "AMBIGUOUS"]
    language_tag: str
    confirm_lexicon_version_ref: str
    accepted_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRow:
    """The decision of the access policies, and which policies they were (`agent_execution_access_decision_ledger`)."""

    decision_id: str
    correlation_id: str
    plan_id: str
    step_id: str
    user_id: str
    access_action: str
    verdict: Literal["ALLOWED", "DENIED", "APPROVAL_REQUIRED"]
    policy_snapshot_ref: str
    reason_code: str | None = None


AgentRow = StepRow | ConfirmationRow | AccessRow

TABLE_OF: Final[dict[type[AgentRow], str]] = {
    StepRow: "agent_execution_ledger",
    ConfirmationRow: "agent_execution_confirmation_ledger",
    AccessRow: "agent_execution_access_decision_ledger",
}
KIND_OF: Final = {
    "agent_execution_ledger": "agent.step",
    "agent_execution_confirmation_ledger": "agent.confirmation",
    "agent_execution_access_decision_ledger": "agent.access",
}
TABLE_OF_KIND: Final = {kind: table for table, kind in KIND_OF.items()}
ADDED_LATER: Final = ("attempt", "effect", "outputs_ref")
"""Columns that older rows and their entries do not have. An entry has them only with a value."""
_INSERT: Final = {
    kind: (
        f"INSERT INTO {table} (tenant_id, entry_seq, created_at, {', '.join(kind.__dataclass_fields__)})"
        f" VALUES ({', '.join('?' * (3 + len(kind.__dataclass_fields__)))})"
    )
    for kind, table in TABLE_OF.items()
}
_FIELDS: Final = {TABLE_OF[kind]: tuple(sorted(kind.__dataclass_fields__)) for kind in TABLE_OF}


def row_values(row: AgentRow) -> dict[str, str | None]:
    """Return the values of the entry by column. `asdict` would be slower, and rows are read and written often."""
    values = {name: getattr(row, name) for name in row.__dataclass_fields__}
    return _entry_values(values)


def _entry_values(values: dict[str, str | None]) -> dict[str, str | None]:
    for name in ADDED_LATER:
        if values.get(name) is None:
            values.pop(name, None)
    return values


def append_agent_row(batch: Batch, tenant_id: str, row: AgentRow) -> Entry:
    """Write a row and its chain entry together. A second dispatch of the same step is refused by the database."""
    table = TABLE_OF[type(row)]
    values = row_values(row)
    _require_short_names(table, values)
    entry = batch.append_for_row(
        NewEntry(tenant_id, KIND_OF[table], row.correlation_id, values, actor=values.get("user_id"))
    )
    try:
        columns = (getattr(row, name) for name in row.__dataclass_fields__)
        batch.insert(_INSERT[type(row)], (tenant_id, entry.seq, entry.created_at, *columns))
    except ConflictError:
        raise RefusedError(
            Reason.IDEMPOTENCY_CONFLICT,
            "this step was dispatched before with the same idempotency key",
            where=f"correlation {row.correlation_id}, step {row.step_id}",
            next_step="Read its outcome in the ledger. It does not run twice.",
        ) from None
    if isinstance(row, StepRow):
        batch.count(GOAL_EVENTS, row.event, row.reason_code if row.reason_code in USER_TEXT else "")
    return entry


def _require_short_names(table: str, values: dict[str, str | None]) -> None:
    """Refuse a value that is not a short, printable, non-empty text. Columns hold ids and names."""
    for name, value in values.items():
        if value is not None and not (0 < len(value) <= MAX_WORD and value.isprintable()):
            raise RefusedError(
                Reason.MALFORMED,
                f"{name} must have 1 to {MAX_WORD} printable characters",
                where=table,
                next_step="Record a reference or a digest, and store the text in another place.",
            )


class AgentRowsCheck:
    """Compares the three tables with one chain and reports every row that differs from its entry."""

    def __init__(self, connection: Connection, tenant_id: str, verdict: VerificationReport) -> None:
        self._tenant_id = tenant_id
        self._verdict = verdict
        self._streams = {table: _stream(connection, table, tenant_id) for table in KIND_OF}
        self._next: dict[str, Row | None] = {table: next(stream, None) for table, stream in self._streams.items()}

    def pass_entry(self, entry: Entry) -> None:
        table = TABLE_OF_KIND.get(entry.kind)
        if table is None:
            return
        row = self._advance(table, entry.seq)
        if row is None:
            self._report(RecordFault.ROW_MISSING, entry.seq, f"the row of this entry is gone from {table}")
        elif _as_payload(table, row) != entry.payload or row[1] != entry.created_at:
            self._report(RecordFault.ROW_EDITED, entry.seq, f"the row in {table} differs from its entry")

    def finish(self) -> None:
        for table in self._streams:
            self._advance(table, None)

    def _advance(self, table: str, seq: int | None) -> Row | None:
        """Skip rows up to `seq`, each of which has no entry; return the row of `seq` itself."""
        while (row := self._next[table]) is not None and (seq is None or row[0] <= seq):
            self._next[table] = next(self._streams[table], None)
            if row[0] == seq:
                return row
            self._report(RecordFault.ROW_WITHOUT_EVIDENCE, row[0], f"a row in {table} has no entry in the ledger")
        return None

    def _report(self, fault: RecordFault, seq: int, what: str) -> None:
        self._verdict.report(fault, self._tenant_id, seq, what)


def _stream(connection: Connection, table: str, tenant_id: str) -> Iterator[Row]:
    columns = ", ".join(("entry_seq", "created_at", *_FIELDS[table]))
    return connection.stream(
        f"SELECT {columns} FROM {table} WHERE tenant_id = ? ORDER BY entry_seq",
        (tenant_id,),
    )


def _as_payload(table: str, row: Row) -> str | None:
    """Return the payload of the entry for a row, or None for a row with text that Remit cannot have written."""
    try:
        return canonical_bytes(_entry_values(dict(zip(_FIELDS[table], row[2:], strict=True)))).decode()
    except RefusedError:
        return None
