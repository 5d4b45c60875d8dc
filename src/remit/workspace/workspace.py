"""A workspace: a folder with a remit.yaml, and its state directory with keys, store and ledger.

`Workspace.open(path)` is the Python API's front door: what can be asked of it stands here, and who does it, in `rooms`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from remit.core.errors import Reason, RefusedError
from remit.core.ids import Clock, system_clock
from remit.crypto.signing import PublicKey, Role
from remit.fs.state_dir import locate_state
from remit.identity.person import PEOPLE, Person, agent_cannot_decide
from remit.ledger.clock_acceptance import accept_clock, require_server_agrees
from remit.ledger.key_events import revoke_and_record, rotate_and_record
from remit.ledger.verify.verifier import verify_store
from remit.plans.model.callbacks import NO_HOOKS, PlanHooks
from remit.workspace.container import WorkspaceServices
from remit.workspace.open import WorkspaceSettings, find_root, open_store, read_config, read_settings

if TYPE_CHECKING:
    from remit.contracts.browser.browser import ActionResult, Approval
    from remit.contracts.ledger import LedgerHead
    from remit.contracts.plans.envelope import Envelope
    from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal, RollbackOutcome
    from remit.contracts.plans.status import StatusUpdate
    from remit.contracts.tasks.result import ExecutionResult
    from remit.contracts.tasks.task import LeaseToken
    from remit.effects.registry import Registry
    from remit.execution.engine import Preview
    from remit.execution.recovery import Recovered
    from remit.goals.service import Reply
    from remit.ledger.entry import Entry
    from remit.ledger.findings import Progress, VerificationReport
    from remit.plans.model.callbacks import LaterRollback
    from remit.plans.preview.document import PlanPreview
    from remit.plans.service import Pruned
    from remit.tasks.kernel import Kernel

__all__ = ["Workspace", "WorkspaceSettings", "find_root", "open_store", "read_config", "read_settings"]

DEFAULT_LEASE_LIFE: Final = timedelta(minutes=5)


class Workspace(WorkspaceServices):
    """One open workspace. Close it, or use it as a context manager."""

    @classmethod
    def open(
        cls, path: Path | str = ".", *, environ: Mapping[str, str] | None = None, clock: Clock = system_clock
    ) -> Self:
        """The workspace that `path` lies in. Refuses when there is none, or its state is not safe to use."""
        environ = os.environ if environ is None else environ
        root = find_root(Path(path), environ)
        state = locate_state(root, environ)
        settings = read_settings(state)
        if settings.root != str(root):
            raise RefusedError(
                Reason.STATE_UNSAFE,
                f"this state directory was made for {settings.root}",
                where=str(state.path),
                next_step="If an adoption was interrupted: remit init. Otherwise find out who put it there.",
            )
        opened = cls(root, state, settings, environ, clock)
        _ = opened.initial_config  # refused here, not ignored until somebody asks for a setting
        return opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def registry(self) -> Registry:
        """What tasks can be asked for. Register an executor's capabilities before the first task."""
        return self.tasks.registry

    @property
    def kernel(self) -> Kernel:
        return self.tasks.kernel

    def issue_lease(self, manifest: bytes, *, life: timedelta = DEFAULT_LEASE_LIFE) -> LeaseToken:
        """The kernel's side: sign a lease for this manifest and record that it was issued."""
        return self.tasks.issue_lease(manifest, life)

    def execute_task(
        self,
        manifest: bytes,
        lease: bytes,
        *,
        on_refusal: Callable[[RefusedError], None] = lambda _: None,
        on_stored: Callable[[], None] = lambda: None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> ExecutionResult:
        """Run one leased task. Whatever happens after parsing comes back as a signed result.

        Only where neither success nor failure could be recorded (the disk of the ledger is full, what was begun could
        not be undone) it raises: then the task stays claimed, and the next call, or `recover`, goes on with it.
        `on_refusal` is told when the result says no, and nothing was claimed or done; `on_stored`, when it is the
        result of an earlier call; `on_progress`, how many of how many bytes are done. The first task of an opened
        workspace settles first what a crash had left.
        """
        return self.tasks.execute(manifest, lease, on_refusal=on_refusal, on_stored=on_stored, on_progress=on_progress)

    def preview_task(
        self, manifest: bytes, lease: bytes, *, on_refusal: Callable[[RefusedError], None] = lambda _: None
    ) -> ExecutionResult | Preview:
        """The same road, stopped after the preview: nothing is claimed, recorded or done.

        A task that was done before gives its stored result; a refused one tells `on_refusal`.
        """
        return self.tasks.preview(manifest, lease, on_refusal=on_refusal)

    def accept_clock(self, who: Person, *, shown: datetime | None = None) -> list[Entry]:
        """Record that a person accepts the clock: each chain that is ahead of it goes on from what it shows now.

        What is recorded as expired, refused, revoked or closed stays so. `shown` is what the clock showed when the
        person was asked; a clock that was set since then is not accepted. An agent cannot do this.
        """
        if who.id.partition(":")[0] not in PEOPLE:
            raise agent_cannot_decide("only a person accepts the clock")
        now = self.clock()
        if self.store.dialect == "postgresql":
            with self.store.reading() as connection:
                require_server_agrees(connection, now)
        return accept_clock(self.ledger, who.actor, who.signature, shown or now)

    def recover(self, *, presumed_dead: Collection[str] = (), abandoned: Collection[str] = ()) -> list[Recovered[Any]]:
        """Finish or clear away what processes that died had begun, and record each outcome.

        Tasks, plans, rollbacks, browser actions with the requests that were held for them, calls of functions, and
        goals, in this order.
        What is left in progress by a living process is not touched and not listed. `presumed_dead` names tasks of
        processes that cannot be seen from here and that the caller knows to be dead; `abandoned`, tasks that cannot be
        settled and shall be closed as they are. A plan is named by its envelope's id, a rollback by its order's.
        """
        named = {"presumed_dead": presumed_dead, "abandoned": abandoned}
        self.people.record_pending()
        return [
            *self.tasks.recover(**named),
            *self.plans.recover(**named),
            *self.plans.recover_rollbacks(**named),
            *self.browser_service.recover(**named),
            *self.calls.recover(**named),
            *self.goals.recover(**named),
        ]

    def browse(
        self,
        action: bytes,
        token: str,
        *,
        on_refusal: Callable[[RefusedError], None] = lambda _: None,
        on_stored: Callable[[], None] = lambda: None,
        on_waiting: Callable[[Approval], None] = lambda _: None,
    ) -> ActionResult:
        """One browser action under a capability token, in this process's own browser. Sessions last until `close`.

        Whatever happens after parsing comes back as a result. A request that changes something is held until a person
        has answered, and this call waits for it: `on_waiting` is told what to answer (`approvals.decide`).
        `on_refusal` is told when nothing was claimed or done; `on_stored`, when it is the result of an earlier call.
        """
        from remit.browser.inflight import BrowseHooks

        return self.browser_service.browse(action, token, BrowseHooks(on_refusal, on_stored, on_waiting))

    def ask(
        self,
        utterance: str,
        *,
        user: str,
        tenant: str,
        language: str = "en",
        correlation_id: str | None = None,
        reply_to: str | None = None,
    ) -> Reply:
        """From a user's words to at most one effect. `goals.answer` goes on where a goal waits for the user's yes.

        `reply_to` is the correlation of a goal that asked back, and the words are the answer. The same words again
        under the same `correlation_id` do nothing twice.
        """
        return self.goals.ask(
            utterance, user=user, tenant=tenant, language=language, correlation_id=correlation_id, reply_to=reply_to
        )

    def restore_task(
        self,
        result: bytes,
        *,
        on_refusal: Callable[[RefusedError], None] = lambda _: None,
        on_stored: Callable[[], None] = lambda: None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> ExecutionResult:
        """Take back what a task did, by its signed result: on the same road, under a lease of its own.

        A move is moved back, a deleted file restored from its snapshot, a reversible copy removed if nobody changed it.
        A second time gives the first time's result, and tells `on_stored`.
        """
        return self.tasks.restore(
            result, DEFAULT_LEASE_LIFE, on_refusal=on_refusal, on_stored=on_stored, on_progress=on_progress
        )

    def preview(self, plan: bytes, *, on_status: Callable[[StatusUpdate], None] = NO_HOOKS.on_status) -> PlanPreview:
        """What a plan would do to the files as they are; `document` of it is for people. Nothing is changed.

        Raises `RefusedError` for a plan that could never be applied. `on_status` hears how far its SQL is, which takes
        long.
        """
        return self.plans.preview(plan, PlanHooks(on_status=on_status))

    def approve(  # noqa: PLR0913 - what is allowed, each by its name
        self,
        plan: bytes,
        *,
        protected: Collection[str] = (),
        executable: Collection[str] = (),
        content: Collection[str] = (),
        irreversible: Collection[str] = (),
        even_if_it_fails: bool = False,
        life: timedelta | None = None,
        actor: str | None = None,
        as_seen: str | None = None,
    ) -> Envelope:
        """The protocol layer's side: sign an envelope for this plan on the files as they are now, and record it.

        What the plan needs beyond that is named: protected files, files that become executable, files whose content
        holds what was found in it, actions that cannot be undone. A plan of which something would fail is refused; one
        that goes on after an error is approved all the same with `even_if_it_fails`.

        `as_seen` is the digest of the preview that the approver saw. If the plan would do something else by now, the
        approval is refused and nothing is signed.
        """
        from remit.authority.envelope import DEFAULT_LIFE
        from remit.contracts.plans.envelope import Approvals as Allowances

        approvals = Allowances(
            protected=tuple(protected),
            executable=tuple(executable),
            content=tuple(content),
            irreversible=tuple(irreversible),
        )
        return self.plans.approve(
            plan, approvals, life or DEFAULT_LIFE, actor, even_if_it_fails=even_if_it_fails, as_seen=as_seen
        )

    def apply(  # noqa: PLR0913 - what the caller wants to hear, by name
        self,
        envelope: bytes,
        *,
        on_refusal: Callable[[RefusedError], None] = NO_HOOKS.on_refusal,
        on_stored: Callable[[], None] = NO_HOOKS.on_stored,
        on_progress: Callable[[int, int], None] = NO_HOOKS.on_progress,
        on_status: Callable[[StatusUpdate], None] = NO_HOOKS.on_status,
        is_cancelled: Callable[[], bool] = NO_HOOKS.is_cancelled,
        on_taken_back: Callable[[LaterRollback], None] = NO_HOOKS.on_taken_back,
        on_settled: Callable[[Sequence[Recovered[Any]]], None] = NO_HOOKS.on_settled,
        actor: str | None = None,
    ) -> PlanOutcome | PlanRefusal:
        """Carry out an approved plan, once. A second call gives the stored outcome, and tells `on_stored`; and
        `on_taken_back` too, if what the plan did was taken back since.

        A refusal says that nothing was claimed or touched. Only where neither success nor failure could be recorded it
        raises: then the plan stays claimed, and the next call, or `recover`, goes on with it. `is_cancelled` is asked
        every few milliseconds; a yes has everything taken back. The first call settles what a crash had left, and
        tells `on_settled`. `actor` is who asks: the intent names him.
        """
        hooks = PlanHooks(on_refusal, on_stored, on_progress, on_status, is_cancelled, on_taken_back, on_settled, actor)
        return self.plans.apply(envelope, hooks)

    def cancel(self, envelope_id: str, *, actor: str | None = None) -> PlanOutcome | None:
        """Have a running plan taken back, or void an approval that was not used. The outcome, if the plan ever ran."""
        return self.plans.cancel(envelope_id, actor)

    def rollback(  # noqa: PLR0913 - as above
        self,
        report: str,
        *,
        checkpoints: Collection[str] = (),
        force: bool = False,
        drift: str | None = None,
        on_refusal: Callable[[RefusedError], None] = NO_HOOKS.on_refusal,
        on_stored: Callable[[], None] = NO_HOOKS.on_stored,
        on_settled: Callable[[Sequence[Recovered[Any]]], None] = NO_HOOKS.on_settled,
        actor: str | None = None,
    ) -> RollbackOutcome:
        """Take back a plan that was applied: `last`, a report folder, or the id of a report or an envelope.

        All of it, or the named checkpoints. A file that was changed since is left, and so is everything else, unless
        `force` is given: then it is kept aside and restored; with `drift` only if the files are as they were when that
        digest of them was taken. A second time there is nothing left to do.
        """
        hooks = PlanHooks(on_refusal=on_refusal, on_stored=on_stored, on_settled=on_settled, actor=actor)
        return self.plans.rollback(report, checkpoints=checkpoints, force=force, drift=drift, hooks=hooks)

    def prune(self, *, dry_run: bool = False) -> list[Pruned]:
        """Remove backups that nobody can need any more, and report folders of runs that never began."""
        return self.plans.prune(dry_run=dry_run)

    def verify_ledger(
        self,
        *,
        tenant_id: str | None = None,
        known_heads: tuple[LedgerHead, ...] = (),
        progress: Progress | None = None,
    ) -> VerificationReport:
        """Check every chain, head and table. `known_heads` are heads that were kept elsewhere."""
        return verify_store(
            self.store, self.keyring, self.anchors, tenant_id=tenant_id, known_heads=known_heads, progress=progress
        )

    def rotate_key(self, role: Role, *, revoke: bool = False) -> tuple[PublicKey, PublicKey]:
        """A new key for a role, recorded in the ledger. No writer signs with the old one once this returns."""
        return rotate_and_record(self.ledger, self.state.keys, role, revoke=revoke)

    def revoke_key(self, key_id: str) -> PublicKey:
        """Believe nothing that a retired key ever signed, and record it."""
        return revoke_and_record(self.ledger, self.state.keys, key_id)
