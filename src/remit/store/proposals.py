"""Rows about proposed plans: in and out, and what of a row never changes. The plan's own text is read by itself."""

from collections.abc import Collection
from typing import Final, NamedTuple

from remit.contracts.plans.proposal import StoredProposalState
from remit.core.canonical import digest
from remit.store.connection import Connection


class ProposalRow(NamedTuple):
    """In column order, less the plan. From `tenant_id` to `expires_at` it never changes."""

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
    """What was signed, less the plan, which the signature covers by its digest."""
    entry_seq: int

    @property
    def bound_digest(self) -> str:
        """Of all that was proposed. The ledger's entries carry it, so that a row which was changed is noticed."""
        return digest(dict(zip(_BOUND, self, strict=False)))


KIND_OF: Final[dict[StoredProposalState, str]] = {
    "PENDING": "proposal.made",
    "APPROVED": "proposal.approved",
    "DENIED": "proposal.denied",
    "EXPIRED": "proposal.expired",
    "VOID": "proposal.voided",
}
"""Which entry of the ledger each step has."""
PLAN_DISCARDED: Final[frozenset[StoredProposalState]] = frozenset({"EXPIRED", "VOID"})
"""States in which the text of a plan is of no use to anybody. One that was denied is kept: somebody answers for it."""
_TRANSITIONS: Final[dict[StoredProposalState, tuple[tuple[StoredProposalState, ...], ...]]] = {
    "PENDING": ((),),
    "APPROVED": (("APPROVED",),),
    "DENIED": (("DENIED",),),
    "EXPIRED": (("EXPIRED",),),
    "VOID": (("VOID",), ("APPROVED", "VOID")),
}
"""How each state is come by, after it was proposed."""
_BOUND: Final = ProposalRow._fields[: ProposalRow._fields.index("proposed_seq")]
"""What was proposed: it never changes."""
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
"""Later than every proposal: where a list of the newest begins."""


def insert_row(connection: Connection, row: ProposalRow, plan: str) -> None:
    connection.execute(_INSERT, (*row, plan))


def find_row(connection: Connection, tenant_id: str, proposal_id: str) -> ProposalRow | None:
    row = connection.one(_FIND, (tenant_id, proposal_id))
    return ProposalRow(*row) if row else None


def row_of_envelope(connection: Connection, tenant_id: str, envelope_id: str) -> ProposalRow | None:
    row = connection.one(_OF_ENVELOPE, (tenant_id, envelope_id))
    return ProposalRow(*row) if row else None


def read_plan(connection: Connection, row: ProposalRow) -> str | None:
    """The text as it lies there. Whoever uses it compares its digest."""
    found = connection.one(_PLAN, (row.tenant_id, row.proposal_id))
    return found[0] if found else None


def rows_beginning(connection: Connection, tenant_id: str, prefix: str) -> list[ProposalRow]:
    """At most ten: those that wait first, then the newest."""
    return [ProposalRow(*row) for row in connection.rows(_BEGINS, (tenant_id, prefix, prefix + "g"))]


def open_rows_of_token(connection: Connection, tenant_id: str, token_jti: str) -> list[ProposalRow]:
    """Those that wait, and those that were approved, used or not; the oldest first."""
    return [ProposalRow(*row) for row in connection.rows(_OF_TOKEN, (tenant_id, token_jti))]


def pending_rows(connection: Connection, tenant_id: str) -> list[ProposalRow]:
    """The oldest first."""
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
    """Those before a place in the list, which is a time and an id; of one proposer, or of all."""
    by = "proposed_by = ? AND" if proposed_by is not None else ""
    marks = ", ".join("?" * len(states))
    query = _NEWEST.format(by=by, states=f"AND state IN ({marks})" if states else "")
    proposer = () if proposed_by is None else (proposed_by,)
    at, proposal_id = before
    values = (tenant_id, *proposer, at, at, proposal_id, *sorted(states), most)
    return [ProposalRow(*row) for row in connection.rows(query, values)]


def move_row(connection: Connection, old: ProposalRow, new: ProposalRow) -> bool:
    """From the state it was read in; False if somebody else was faster."""
    changed = (new.state, new.decided_by, new.decided_at, new.reason, new.envelope_id, new.envelope, new.entry_seq)
    discards_plan = int(new.state in PLAN_DISCARDED)
    return connection.execute(_MOVE, (*changed, discards_plan, old.tenant_id, old.proposal_id, old.state)) == 1


def steps_recorded(connection: Connection, tenant_id: str, proposal_id: str) -> tuple[tuple[int, str], ...]:
    """Every step that the ledger knows of, whatever the row says: the second witness. Place and kind of each."""
    return tuple((row[0], row[1]) for row in connection.rows(_STEPS, (tenant_id, proposal_id)))


def matches_recorded_steps(row: ProposalRow, steps: Collection[tuple[int, str]]) -> bool:
    """Whether these are the steps that lead to the state of the row, from the place it names to the place it names."""
    seqs, kinds = [seq for seq, _ in steps], [kind for _, kind in steps]
    expected = ([KIND_OF["PENDING"], *(KIND_OF[state] for state in path)] for path in _TRANSITIONS.get(row.state, ()))
    return kinds in expected and (seqs[0], seqs[-1]) == (row.proposed_seq, row.entry_seq)


def last_step_at(connection: Connection, row: ProposalRow) -> str:
    """When the entry of its last step was recorded."""
    found = connection.one(_ENTRY_TIME, (row.tenant_id, row.entry_seq))
    return str(found[0]) if found else row.created_at
