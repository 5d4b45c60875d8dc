"""Rows of proposed plans: read, insert and move them. Some columns never change. The plan's text is read separately."""

from collections.abc import Collection
from typing import Final, NamedTuple

from remit.contracts.plans.proposal import StoredProposalState
from remit.core.canonical import digest
from remit.store.connection import Connection


class ProposalRow(NamedTuple):
    """One row, in column order, without the plan. The columns from `tenant_id` to `expires_at` never change."""

    tenant_id: str
    proposal_id: str
    plan_id: str
    plan_digest: str
    title: str
    risk: str
    proposed_by: str
    token_jti: str | None
    note: str | None
    created_at: str
    expires_at: str
    proposed_seq: int
    state: StoredProposalState
    decided_by: str | None
    decided_at: str | None
    reason: str | None
    envelope_id: str | None
    envelope: str | None
    """The signed document without the plan. The signature covers the plan by its digest."""
    entry_seq: int

    @property
    def bound_digest(self) -> str:
        """The digest of the proposal as it was made.

        The ledger's entries carry it, so that a changed row is noticed.
        """
        return digest(dict(zip(_BOUND, self, strict=False)))


KIND_OF: Final[dict[StoredProposalState, str]] = {
    "PENDING": "proposal.made",
    "APPROVED": "proposal.approved",
    "DENIED": "proposal.denied",
    "EXPIRED": "proposal.expired",
    "VOID": "proposal.voided",
}
"""The kind of ledger entry for each state."""
PLAN_DISCARDED: Final[frozenset[StoredProposalState]] = frozenset({"EXPIRED", "VOID"})
"""States in which the text of a plan is deleted.

A denied plan keeps its text, because a person answers for the denial.
"""
_TRANSITIONS: Final[dict[StoredProposalState, tuple[tuple[StoredProposalState, ...], ...]]] = {
    "PENDING": ((),),
    "APPROVED": (("APPROVED",),),
    "DENIED": (("DENIED",),),
    "EXPIRED": (("EXPIRED",),),
    "VOID": (("VOID",), ("APPROVED", "VOID")),
}
"""The possible states between the proposal and each state."""
_BOUND: Final = ProposalRow._fields[: ProposalRow._fields.index("proposed_seq")]
"""The columns of the proposal itself. They never change."""
_COLUMNS: Final = ", ".join(ProposalRow._fields)
_INSERT: Final = f"""INSERT INTO plan_proposals ({_COLUMNS}, plan)
  VALUES ({", ".join("?" * (len(ProposalRow._fields) + 1))})"""
_FIND: Final = f"SELECT {_COLUMNS} FROM plan_proposals WHERE tenant_id = ? AND proposal_id = ?"
_OF_ENVELOPE: Final = f"SELECT {_COLUMNS} FROM plan_proposals WHERE tenant_id = ? AND envelope_id = ?"
_PLAN: Final = "SELECT plan FROM plan_proposals WHERE tenant_id = ? AND proposal_id = ?"
_BEGINS: Final = f"""SELECT {_COLUMNS} FROM plan_proposals
  WHERE tenant_id = ? AND proposal_id >= ? AND proposal_id < ?
  ORDER BY state = 'PENDING' DESC, created_at DESC, proposal_id DESC LIMIT 10"""
_OF_TOKEN: Final = f"""SELECT {_COLUMNS} FROM plan_proposals
  WHERE tenant_id = ? AND token_jti = ? AND state IN ('PENDING', 'APPROVED') ORDER BY created_at, proposal_id"""
_PENDING: Final = f"""SELECT {_COLUMNS} FROM plan_proposals
  WHERE tenant_id = ? AND state = 'PENDING' ORDER BY created_at, proposal_id"""
_NEWEST: Final = f"""SELECT {_COLUMNS} FROM plan_proposals WHERE tenant_id = ? AND {{by}}
  (created_at < ? OR (created_at = ? AND proposal_id < ?)) {{states}}
  ORDER BY created_at DESC, proposal_id DESC LIMIT ?"""
_MOVE: Final = """UPDATE plan_proposals SET state = ?, decided_by = ?, decided_at = ?, reason = ?, envelope_id = ?,
    envelope = ?, entry_seq = ?, plan = CASE WHEN ? = 1 THEN NULL ELSE plan END
  WHERE tenant_id = ? AND proposal_id = ? AND state = ?"""
_STEPS: Final = f"""SELECT seq, kind FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ?
  AND kind IN ({", ".join(f"'{kind}'" for kind in KIND_OF.values())}) ORDER BY seq"""
_ENTRY_TIME: Final = "SELECT created_at FROM ledger_entries WHERE tenant_id = ? AND seq = ?"
NEWEST_FIRST_START: Final = ("9999", "g")
"""Later than every proposal, so a list of the newest begins here."""


def insert_row(connection: Connection, row: ProposalRow, plan: str) -> None:
    connection.execute(_INSERT, (*row, plan))


def find_row(connection: Connection, tenant_id: str, proposal_id: str) -> ProposalRow | None:
    row = connection.one(_FIND, (tenant_id, proposal_id))
    return ProposalRow(*row) if row else None


def row_of_envelope(connection: Connection, tenant_id: str, envelope_id: str) -> ProposalRow | None:
    row = connection.one(_OF_ENVELOPE, (tenant_id, envelope_id))
    return ProposalRow(*row) if row else None


def read_plan(connection: Connection, row: ProposalRow) -> str | None:
    """Return the stored text. The caller compares its digest."""
    found = connection.one(_PLAN, (row.tenant_id, row.proposal_id))
    return found[0] if found else None


def rows_beginning(connection: Connection, tenant_id: str, prefix: str) -> list[ProposalRow]:
    """Return at most ten rows: pending ones first, then the newest."""
    return [ProposalRow(*row) for row in connection.rows(_BEGINS, (tenant_id, prefix, prefix + "g"))]


def open_rows_of_token(connection: Connection, tenant_id: str, token_jti: str) -> list[ProposalRow]:
    """Return pending and approved proposals of a token, the oldest first. An approved one may have been used."""
    return [ProposalRow(*row) for row in connection.rows(_OF_TOKEN, (tenant_id, token_jti))]


def pending_rows(connection: Connection, tenant_id: str) -> list[ProposalRow]:
    """Return the pending rows, the oldest first."""
    return [ProposalRow(*row) for row in connection.rows(_PENDING, (tenant_id,))]


def newest_rows(
    connection: Connection,
    tenant_id: str,
    *,
    proposed_by: str | None,
    states: Collection[StoredProposalState],
    before: tuple[str, str],
    most: int,
) -> list[ProposalRow]:
    """Return the rows before a place in the list, which is a time and an id. Of one proposer, or of all."""
    by = "proposed_by = ? AND" if proposed_by is not None else ""
    marks = ", ".join("?" * len(states))
    query = _NEWEST.format(by=by, states=f"AND state IN ({marks})" if states else "")
    proposer = () if proposed_by is None else (proposed_by,)
    at, proposal_id = before
    values = (tenant_id, *proposer, at, at, proposal_id, *sorted(states), most)
    return [ProposalRow(*row) for row in connection.rows(query, values)]


def move_row(connection: Connection, old: ProposalRow, new: ProposalRow) -> bool:
    """Change the row if it still has the state in which it was read. Return False if another process was faster."""
    changed = (new.state, new.decided_by, new.decided_at, new.reason, new.envelope_id, new.envelope, new.entry_seq)
    discards_plan = int(new.state in PLAN_DISCARDED)
    return connection.execute(_MOVE, (*changed, discards_plan, old.tenant_id, old.proposal_id, old.state)) == 1


def steps_recorded(connection: Connection, tenant_id: str, proposal_id: str) -> tuple[tuple[int, str], ...]:
    """Return place and kind of every step in the ledger. The ledger is a second source, independent of the row."""
    return tuple((row[0], row[1]) for row in connection.rows(_STEPS, (tenant_id, proposal_id)))


def matches_recorded_steps(row: ProposalRow, steps: Collection[tuple[int, str]]) -> bool:
    """Return whether these steps lead to the row's state, from its first recorded place to its last."""
    seqs, kinds = [seq for seq, _ in steps], [kind for _, kind in steps]
    expected = ([KIND_OF["PENDING"], *(KIND_OF[state] for state in path)] for path in _TRANSITIONS.get(row.state, ()))
    return kinds in expected and (seqs[0], seqs[-1]) == (row.proposed_seq, row.entry_seq)


def last_step_at(connection: Connection, row: ProposalRow) -> str:
    """Return the time of the ledger entry of its last step."""
    found = connection.one(_ENTRY_TIME, (row.tenant_id, row.entry_seq))
    return str(found[0]) if found else row.created_at
