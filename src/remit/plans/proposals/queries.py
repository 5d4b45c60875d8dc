"""Queries for proposals: find, list, read. They also close overdue proposals, and verify rows by signed entries."""

from collections.abc import Callable, Collection
from typing import Final

from remit.contracts.plans.proposal import StoredProposalState
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT, Clock
from remit.fs.change_signal import ChangeSignal
from remit.ledger.clock import ChainTimes
from remit.ledger.proof import require_covered
from remit.ledger.writer import Batch, Ledger
from remit.plans.proposals.admission import Deferral, PreviewStatus, find_deferral, read_preview_status
from remit.plans.proposals.errors import already_closed_error, not_approved_error, not_found_error, unverified_row_error
from remit.plans.proposals.evidence import ProposalVerifier
from remit.plans.proposals.previews import (
    FailedPreview,
    ListedEffect,
    StoredPreview,
    find_failed_preview,
    is_shown_in_turn,
    read_listed_effect,
    stored_preview,
)
from remit.plans.proposals.transitions import change_state, require_current, require_evidence, require_plan
from remit.plans.proposals.turns import Turn, parse_turn
from remit.store.connection import Connection
from remit.store.proposal_previews import computed_again_at, find_previewed_config
from remit.store.proposals import (
    ProposalRow,
    find_row,
    last_step_at,
    newest_rows,
    pending_rows,
    row_of_envelope,
    rows_beginning,
)

_SHORTEST_PREFIX: Final = 4
_MAX_EFFECTS: Final = 2_000


class ProposalQueries:
    """The proposed plans of one workspace. Safe to use from several threads and processes at once."""

    def __init__(
        self, ledger: Callable[[], Ledger], change_signal: ChangeSignal, clock: Clock, tenant_id: str = DEFAULT_TENANT
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._tenant_id = tenant_id
        self.change_signal = change_signal
        self._verifier = ProposalVerifier()
        self._effects: dict[tuple[str, int], ListedEffect] = {}
        """What lists show, by proposal and entry, since entries never change."""

    def find(self, proposal_id: str) -> ProposalRow | None:
        """Return the proposal with this whole id. Refuses a row that differs from its signed entries."""
        if not _is_name(proposal_id):
            return None
        self.expire_due()
        with self._ledger().store.reading_pooled() as connection:
            row = find_row(connection, self._tenant_id, proposal_id)
            return self._require_verified(connection, row) if row is not None else None

    def find_by_name(self, name: str) -> ProposalRow:
        """Return the proposal with this id, or the only one whose id begins like this. For people."""
        if not _is_name(name):
            raise not_found_error(name)
        self.expire_due()
        with self._ledger().store.reading_pooled() as connection:
            if (found := find_row(connection, self._tenant_id, name)) is not None:
                return self._require_verified(connection, found)
            rows = rows_beginning(connection, self._tenant_id, name) if len(name) >= _SHORTEST_PREFIX else []
        if not rows:
            raise not_found_error(name)
        if len(rows) > 1:
            raise RefusedError(
                Reason.MALFORMED,
                "more than one proposal begins like this",
                where=f"proposal {name}",
                next_step=f"Give the whole id: {', '.join(row.proposal_id for row in rows[:4])}.",
            )
        with self._ledger().store.reading_pooled() as connection:
            return self._require_verified(connection, rows[0])

    def find_by_envelope(self, envelope_id: str) -> ProposalRow | None:
        """Return the proposal that the envelope was signed for. Refuses a row that differs from its signed entries."""
        if not _is_name(envelope_id):
            return None
        with self._ledger().store.reading_pooled() as connection:
            row = row_of_envelope(connection, self._tenant_id, envelope_id)
            return self._require_verified(connection, row) if row is not None else None

    def is_verified(self, row: ProposalRow) -> bool:
        """Whether this row of a list agrees with its signed entries."""
        with self._ledger().store.reading_pooled() as connection:
            return self._verifier.is_verified(connection, self._ledger().keyring, row)

    def pending(self) -> list[ProposalRow]:
        """Return the pending proposals, the newest first. Call `is_verified` before you show one."""
        self.expire_due()
        with self._ledger().store.reading_pooled() as connection:
            return pending_rows(connection, self._tenant_id)[::-1]

    def newest(
        self, *, proposed_by: str | None, states: Collection[StoredProposalState], before: tuple[str, str], most: int
    ) -> list[ProposalRow]:
        """Return the newest proposals in these states. Call `is_verified` before you show one."""
        self.expire_due()
        with self._ledger().store.reading() as connection:
            return newest_rows(
                connection, self._tenant_id, proposed_by=proposed_by, states=states, before=before, most=most
            )

    def plan_of(self, row: ProposalRow) -> bytes:
        """Return the text of the proposed plan, verified against the ledger. Refuses a proposal whose text is gone."""
        with self._ledger().store.reading_pooled() as connection:
            if row.state in {"EXPIRED", "VOID"}:
                raise already_closed_error(row, last_step_at(connection, row))
            require_evidence(connection, self._ledger().keyring, row, row.proposed_seq, "PENDING")
            return require_plan(connection, row).encode()

    def preview_of(self, row: ProposalRow) -> StoredPreview | None:
        """Return the stored preview, verified against the ledger, or None if none is stored. Computes nothing.

        Refuses a proposal whose text is gone, and a document that differs from the recorded one.
        """
        with self._ledger().store.reading_pooled() as connection:
            if row.state in {"EXPIRED", "VOID"}:
                raise already_closed_error(row, last_step_at(connection, row))
            require_evidence(connection, self._ledger().keyring, row, row.proposed_seq, "PENDING")
            return stored_preview(connection, self._ledger().keyring, row)

    def failed_preview_of(self, row: ProposalRow) -> FailedPreview | None:
        """Return why the preview could not be computed, if that is recorded and no preview is stored."""
        with self._ledger().store.reading_pooled() as connection:
            return find_failed_preview(connection, self._ledger().keyring, row)

    def preview_status_of(self, row: ProposalRow, is_computing: Callable[[], bool]) -> PreviewStatus:
        """Return whether the preview of a pending proposal is stored. For display only; computes nothing."""
        with self._ledger().store.reading_pooled() as connection:
            return read_preview_status(connection, row, is_computing)

    def deferral_of(self, row: ProposalRow) -> Deferral | None:
        """Return why the preview was left to a person, or None if it was not."""
        with self._ledger().store.reading_pooled() as connection:
            return find_deferral(connection, row)

    def listed_effect_of(self, row: ProposalRow) -> ListedEffect:
        """Return title and risk for people, from the newest preview, or from the proposal if there is none.

        An agent's proposal has a title from the text of its plan until its preview is computed.
        """
        with self._ledger().store.reading_pooled() as connection:
            seq = computed_again_at(connection, row.tenant_id, row.proposal_id)
            if seq is None:
                return ListedEffect(row.title, row.risk)
            key = (row.proposal_id, seq)
            if key not in self._effects:
                try:
                    found = read_listed_effect(connection, self._ledger().keyring, row, seq)
                except (
                    EnvironmentFailureError,
                    ValueError,
                ):  # the entry was altered: `preview_of` refuses it, and `ledger verify` names it
                    found = None
                if len(self._effects) >= _MAX_EFFECTS:
                    self._effects.clear()
                self._effects[key] = found or ListedEffect(row.title, row.risk)
            return self._effects[key]

    def previewed_config_of(self, row: ProposalRow) -> str | None:
        """Return the digest of the configuration that the stored preview was computed with, if known. For display."""
        with self._ledger().store.reading_pooled() as connection:
            return find_previewed_config(connection, row.tenant_id, row.proposal_id)

    def envelope_of(self, row: ProposalRow) -> bytes:
        """Return the whole signed envelope, as the operation takes it. Refuses a proposal that is not approved now."""
        with self._ledger().store.reading_pooled() as connection:
            if row.state != "APPROVED" or row.envelope is None:
                raise not_approved_error(row, last_step_at(connection, row))
            keyring = self._ledger().keyring
            require_evidence(connection, keyring, row, row.proposed_seq, "PENDING")
            require_evidence(connection, keyring, row, row.entry_seq, "APPROVED")
            require_current(connection, row)
            plan = require_plan(connection, row)
        return f'{row.envelope[:-1]},"plan":{plan}}}'.encode()

    def turn_of(self, row: ProposalRow) -> Turn | None:
        """Return the turn in which the preview is computed, if its agent may be shown it, from the signed entry."""
        with self._ledger().store.reading_pooled() as connection:
            entry = require_covered(connection, self._ledger().keyring, row.tenant_id, row.proposed_seq)
        return parse_turn(entry.payload)

    def preview_in_turn_of(self, row: ProposalRow) -> StoredPreview | None:
        """Return the stored preview if its turn has ended, by the clock of the ledger, and it was computed in it.

        Until then, and without a turn, no stored preview is read.
        """
        turn = self.turn_of(row)
        if turn is None:
            return None
        with self._ledger().store.reading_pooled() as connection:
            now = ChainTimes.of(connection, self._tenant_id, self._clock()).now
            if now < turn.ends_at or not is_shown_in_turn(connection, self._ledger().keyring, row):
                return None
        stored = self.preview_of(row)
        return stored if stored is not None and stored.in_turn else None

    def expire_due(self) -> None:
        """Close the proposals that were not decided in time. Writes only if there is one."""
        with self._ledger().store.reading_pooled() as connection:
            rows = pending_rows(connection, self._tenant_id)
            if not rows:
                return
            times = ChainTimes.of(connection, self._tenant_id, self._clock())
        if not any(times.is_over(row.created_at, row.expires_at) for row in rows):
            return
        self._ledger().transact(self._close_overdue)
        self.change_signal.notify()

    def _require_verified(self, connection: Connection, row: ProposalRow) -> ProposalRow:
        if not self._verifier.is_verified(connection, self._ledger().keyring, row):
            raise unverified_row_error(row)
        return row

    def _close_overdue(self, batch: Batch) -> None:
        times = batch.times_in(self._tenant_id)
        for row in pending_rows(batch.store, self._tenant_id):
            if times.is_over(row.created_at, row.expires_at):
                change_state(batch, row, "EXPIRED", None)


def _is_name(text: str) -> bool:
    """Whether the text can be an id. PostgreSQL does not accept every text: it refuses a NUL."""
    return 0 < len(text) <= 200 and text.isprintable()
