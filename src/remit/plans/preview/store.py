"""The stored previews of a workspace. A preview is computed once, and found by its digest from then on.

The row and its ledger entry are written in one transaction, after the outputs are durable. Nothing here computes a
preview or executes a part of one, so a view that imports this module cannot.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Final, NamedTuple

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import Plan
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.core.canonical import digest_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import reach
from remit.core.ids import DEFAULT_TENANT, Clock, parse_time, render_time
from remit.crypto.signing import Keyring
from remit.fs.state_dir import StateDirectory
from remit.ledger.entry import NewEntry
from remit.ledger.proof import require_covered
from remit.ledger.writer import Batch, Ledger
from remit.plans.preview.document import PlanPreview
from remit.plans.preview.kept_outputs import KeptOutputs
from remit.plans.preview.planned_effect import PlannedEffect, parse_planned, render_planned
from remit.store.connection import Connection
from remit.store.plan_previews import (
    KIND,
    PlanPreviewRow,
    applicable_digests,
    delete_preview,
    end_reference,
    find_plan_preview,
    is_applicable,
    kept_bytes,
    previews_of_plan,
    read_texts,
    recorded_of,
    refer_to_preview,
    release_preview,
    store_plan_preview,
    unreferenced_previews,
)

_TENANT: Final = DEFAULT_TENANT
_ISSUED: Final = """SELECT payload FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? AND kind = 'envelope.issued' LIMIT 1"""
_MOST_CLEARED: Final = 20
"""How many expired previews one stored preview clears away, so that the table does not grow without bound."""


@dataclass(frozen=True)
class StoredPlanPreview:
    """A stored preview that the ledger proves. The texts are parsed when they are first needed."""

    row: PlanPreviewRow
    document_text: str
    prepared_text: str | None
    """None if its outputs were removed: it can be read, and not applied."""

    @property
    def digest(self) -> str:
        return self.row.preview_digest

    @cached_property
    def document(self) -> PlanPreviewDocument:
        return PlanPreviewDocument.from_tree(json.loads(self.document_text), source="the stored preview")

    def planned(self, plan: Plan, config: SystemConfig, root: str) -> PlannedEffect:
        """Return the effect, with the operations of the plan. The plan must be the one of this preview."""
        return parse_planned(self.prepared_text or "", plan, config, root)


class PrunedPreview(NamedTuple):
    """A preview whose outputs or document were removed, or would be removed in a dry run."""

    preview_digest: str
    size: int
    why: str


class PreviewStore:
    """Stores, finds, keeps and removes the previews of one workspace. Safe to use from several threads."""

    def __init__(
        self,
        ledger: Callable[[], Ledger],
        keyring: Callable[[], Keyring],
        state: StateDirectory,
        config: Callable[[], SystemConfig],
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._keyring = keyring
        self._config = config
        self._clock = clock
        self.outputs = KeptOutputs(state.prepared, state.work, self._is_kept)

    # --- storing ------------------------------------------------------------------------------------------------------

    @contextmanager
    def keeping(
        self, preview: PlanPreview, actor: str | None, *, outputs: bool = True
    ) -> Iterator[Callable[[Batch], None]]:
        """Make the outputs durable, and yield the work that records the preview. The caller commits it in the block.

        Without `outputs`, the preview can be read, and must be computed again before it is approved.
        """
        document, prepared = preview.document.canonical().decode(), render_planned(preview)
        draft = PlanPreviewRow(
            _TENANT,
            preview.digest,
            preview.plan.plan_id,
            preview.plan_digest,
            preview.config_digest,
            str(actor or ""),
            digest_bytes(document.encode()),
            digest_bytes(prepared.encode()),
            preview.output_bytes if outputs else 0,
            preview.at,
            preview.expires_at,
            kept_until="",
            proposed_until="",
            entry_seq=0,
        )
        evicted: list[str] = []

        def record(batch: Batch) -> None:
            evicted[:] = self._free_space(batch, draft)
            entry = batch.append(NewEntry(_TENANT, KIND, draft.preview_digest, recorded_of(draft), actor=actor))
            row = draft._replace(entry_seq=entry.seq)
            store_plan_preview(batch.store, row, document, prepared if outputs or not preview.outputs else None)
            reach("preview.recorded")

        with self.outputs.keep(preview.digest, preview.prepared.descriptors if outputs else {}):
            yield record
            reach("preview.stored")
        for digest in evicted:
            self.outputs.remove(digest)

    def save(self, preview: PlanPreview, actor: str | None, *, readable_if_full: bool = False) -> None:
        """Store a preview with its outputs, in a transaction of its own.

        With `readable_if_full`, a preview that exceeds the quota is stored without its outputs. An agent may read its
        preview, so the size of outputs that it may not see must not decide whether there is one.
        """
        try:
            with self.keeping(preview, actor) as record:
                self._ledger().transact(record)
        except RefusedError as problem:
            if not readable_if_full or problem.reason is not Reason.RESOURCE_EXHAUSTED:
                raise
            with self.keeping(preview, actor, outputs=False) as record:
                self._ledger().transact(record)

    def refer(self, batch: Batch, preview_digest: str, until: str) -> None:
        """Keep a preview until an approval of it expires. Refuses one that was removed meanwhile."""
        if not refer_to_preview(batch.store, _TENANT, preview_digest, until):
            raise preview_gone_error(preview_digest)
        reach("preview.referred")

    # --- finding ------------------------------------------------------------------------------------------------------

    def find(self, preview_digest: str) -> StoredPlanPreview | None:
        """Return the stored preview with this digest. Refuses one that differs from its signed entry."""
        with self._ledger().store.reading_pooled() as connection:
            row = find_plan_preview(connection, _TENANT, preview_digest)
            return None if row is None else self._verified(connection, row)

    def of_plan(self, plan_digest: str, config_digest: str) -> Iterator[StoredPlanPreview]:
        """Yield the previews of a plan that can still be approved, the newest first."""
        now = render_time(self._clock())
        with self._ledger().store.reading_pooled() as connection:
            rows = previews_of_plan(connection, _TENANT, plan_digest, config_digest)
            found = [self._verified(connection, row) for row in rows if now < _usable_until(row)]
        yield from found

    def _verified(self, connection: Connection, row: PlanPreviewRow) -> StoredPlanPreview:
        document, prepared = read_texts(connection, _TENANT, row.preview_digest) or ("", None)
        try:
            entry = require_covered(connection, self._keyring, _TENANT, row.entry_seq)
            is_recorded = (
                entry.kind == KIND
                and entry.correlation_id == row.preview_digest
                and json.loads(entry.payload) == recorded_of(row._replace(output_bytes=_bytes_of(entry.payload)))
                and digest_bytes(document.encode()) == row.document_digest
                and (prepared is None or digest_bytes(prepared.encode()) == row.prepared_digest)
            )
        except (EnvironmentFailureError, ValueError, TypeError, KeyError, AttributeError):  # types can be altered
            is_recorded = False
        if not is_recorded:
            raise EnvironmentFailureError(
                Reason.EVIDENCE_INVALID,
                "this stored preview differs from the one that the ledger recorded; nothing was done",
                where=f"preview {row.preview_digest}",
                next_step="Keep the database as it is and run `remit ledger verify`.",
            )
        return StoredPlanPreview(row, document, prepared)

    # --- removing -----------------------------------------------------------------------------------------------------

    def release(self, preview_digest: str) -> None:
        """Remove the outputs of a preview that was applied. Its document stays."""
        self._ledger().transact(lambda batch: release_preview(batch.store, _TENANT, preview_digest))
        reach("preview.released")
        self.outputs.remove(preview_digest)

    def _is_kept(self, preview_digest: str) -> bool:
        with self._ledger().store.reading() as connection:
            return is_applicable(connection, _TENANT, preview_digest)

    def end_reference_of(self, batch: Batch, envelope_id: str) -> None:
        """Record that this approval was cancelled, so that it does not refer to its preview any more."""
        found = batch.store.one(_ISSUED, (_TENANT, envelope_id))
        digest = json.loads(found[0]).get("preview_digest") if found else None
        if digest is not None:
            self.end_reference(batch, digest)

    def end_reference(self, batch: Batch, preview_digest: str) -> None:
        """Record that the approval of a preview is used, so that nothing refers to it any more."""
        end_reference(batch.store, _TENANT, preview_digest, render_time(batch.time_in(_TENANT)))

    def prune(self, *, dry_run: bool = False) -> list[PrunedPreview]:
        """Remove the outputs of expired previews, and those that a crash left behind. Never those of an approval.

        The document of a preview that was approved or proposed stays as long as its run can be rolled back.
        """
        now = self._clock()
        pruned: list[PrunedPreview] = []

        def work(batch: Batch) -> None:
            pruned[:] = self._prune_rows(batch.store, render_time(now), dry_run=dry_run)

        if dry_run:
            with self._ledger().store.reading() as connection:
                pruned[:] = self._prune_rows(connection, render_time(now), dry_run=True)
        else:
            self._ledger().transact(work)
            reach("preview.rows_pruned")
        with self._ledger().store.reading() as connection:
            needed = applicable_digests(connection, _TENANT) - {one.preview_digest for one in pruned if dry_run}
        known = {one.preview_digest for one in pruned}
        for digest, size in self.outputs.remove_orphans(needed, dry_run=dry_run):
            if digest not in known:
                pruned.append(PrunedPreview(digest, size, "left behind by a process that ended"))
        return pruned

    def _prune_rows(self, connection: Connection, now: str, *, dry_run: bool) -> list[PrunedPreview]:
        """Remove rows, and return those with outputs. A used approval needs its outputs no more."""
        pruned = []
        days = self._config().retention.rollback_days
        for row in unreferenced_previews(connection, _TENANT, now):
            was_used = bool(row.kept_until or row.proposed_until)
            if not was_used and row.expires_at > now:
                continue
            is_over = days is not None and render_time(parse_time(row.computed_at) + timedelta(days=days)) <= now
            if row.output_bytes:
                why = "no approval and no pending proposal needs it" if was_used else "expired, and not approved"
                pruned.append(PrunedPreview(row.preview_digest, row.output_bytes, why))
            if dry_run:
                continue
            if is_over or not was_used:
                delete_preview(connection, _TENANT, row.preview_digest, now)
            elif row.output_bytes:
                release_preview(connection, _TENANT, row.preview_digest)
        return pruned

    def _free_space(self, batch: Batch, draft: PlanPreviewRow) -> list[str]:
        """Clear away expired previews, and further ones that nothing refers to if their space is needed.

        Refuses the new preview if the outputs that proposals and approvals refer to leave too little space.
        Returns the previews whose outputs the caller must remove after the transaction.
        """
        now, limits = render_time(batch.time_in(_TENANT)), self._config().limits
        evicted: list[str] = []
        unreferenced = unreferenced_previews(batch.store, _TENANT, now)
        for row in [
            row for row in unreferenced if row.expires_at <= now and not (row.kept_until or row.proposed_until)
        ][:_MOST_CLEARED]:
            delete_preview(batch.store, _TENANT, row.preview_digest, now)
            evicted.append(row.preview_digest)
        if not draft.output_bytes:
            return evicted
        kept = kept_bytes(batch.store, draft)
        total, of_owner = kept.total + draft.output_bytes, kept.of_owner + draft.output_bytes
        for row in unreferenced:
            if total <= limits.max_prepared_bytes and of_owner <= limits.max_prepared_bytes_per_agent:
                break
            if not row.output_bytes or row.preview_digest in {draft.preview_digest, *evicted}:
                continue
            if total <= limits.max_prepared_bytes and row.owner != draft.owner:
                continue
            release_preview(batch.store, _TENANT, row.preview_digest)
            evicted.append(row.preview_digest)
            total -= row.output_bytes
            of_owner -= row.output_bytes if row.owner == draft.owner else 0
        if total > limits.max_prepared_bytes:
            raise _quota_error(total, limits.max_prepared_bytes, "max_prepared_bytes")
        if of_owner > limits.max_prepared_bytes_per_agent:
            raise _quota_error(of_owner, limits.max_prepared_bytes_per_agent, "max_prepared_bytes_per_agent")
        return evicted


def _usable_until(row: PlanPreviewRow) -> str:
    return max(row.expires_at, row.kept_until, row.proposed_until)


def preview_gone_error(preview_digest: str) -> RefusedError:
    return RefusedError(
        Reason.STATE_MISSING,
        "this preview is not stored any more, because it expired; nothing was approved and nothing was changed",
        where=f"preview {preview_digest}",
        next_step="Preview the plan again with `remit preview`, and approve it again.",
    )


def _bytes_of(payload: str) -> int:
    """Return the size of the outputs as the entry has it. The row has 0 after they were removed."""
    size = json.loads(payload)["output_bytes"]
    return size if isinstance(size, int) else -1


def _quota_error(size: int, most: int, limit: str) -> RefusedError:
    return RefusedError(
        Reason.RESOURCE_EXHAUSTED,
        f"the files that previews made would have {size:,} bytes together, and {most:,} may be kept; the preview is not"
        " stored",
        where=f"limits.{limit}",
        next_step="Decide or withdraw pending plans, apply or cancel approved ones, and run `remit prune`. Or raise"
        f" limits.{limit} in remit.yaml.",
    )
