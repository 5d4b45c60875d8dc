"""A workspace: a folder with a remit.yaml, and its state directory with keys, store and ledger.

The Python API starts with `Workspace.open(path)`. The methods here delegate to the services in `container`.
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
from remit.identity.person import PEOPLE, Person, account_name, agent_cannot_decide
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
    from remit.plans.preview.planned_effect import RecordedPreview
    from remit.plans.service import Pruned
    from remit.tasks.kernel import Kernel

__all__ = ["Workspace", "WorkspaceSettings", "find_root", "open_store", "read_config", "read_settings"]

DEFAULT_LEASE_LIFE: Final = timedelta(minutes=5)


class Workspace(WorkspaceServices):
    """One open workspace. Close it, or use it in a `with` block.

    Manifest, lease, plan, envelope and result are bytes, which Remit parses itself.
    """

    @classmethod
    def open(
        cls, path: Path | str = ".", *, environ: Mapping[str, str] | None = None, clock: Clock = system_clock
    ) -> Self:
        """Open the workspace that contains a path.

        Args:
            path: A folder of the workspace.
            environ: The environment variables; `os.environ` if omitted.
            clock: The source of the time.

        Returns:
            The open workspace.

        Raises:
            RefusedError: The path is in no workspace, or the state directory is not safe to use.
            EnvironmentFailureError: The state directory or a part of it is missing.
        """
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
        _ = opened.initial_config  # an invalid remit.yaml is refused here, not when a setting is first used
        return opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def registry(self) -> Registry:
        """The capabilities that tasks can use. Register those of an executor before the first task."""
        return self.tasks.registry

    @property
    def kernel(self) -> Kernel:
        """Grants leases, and accepts results that the registered executor signed."""
        return self.tasks.kernel

    def issue_lease(self, manifest: bytes, *, life: timedelta = DEFAULT_LEASE_LIFE) -> LeaseToken:
        """Sign a lease for a task as the kernel, and record it.

        Args:
            manifest: The task manifest.
            life: How long the lease is valid, at most an hour.

        Returns:
            The lease. Pass `lease.canonical()` to `execute_task`.

        Raises:
            RefusedError: The manifest cannot be parsed, or its capability is not registered.
        """
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
        """Run a leased task once. A second call with the same manifest returns the same result.

        The first task of an opened workspace recovers interrupted tasks first.

        Args:
            manifest: The task manifest.
            lease: The lease for exactly this manifest.
            on_refusal: Called with the refusal if the task was refused. Nothing was claimed or changed.
            on_stored: Called if the result is that of an earlier call.
            on_progress: Called with the number of bytes done and of all bytes.

        Returns:
            The signed result. A refusal or a failure has the status `FAILURE`.

        Raises:
            RefusedError: The manifest cannot be parsed.
            EnvironmentFailureError: Neither success nor failure could be recorded, for example because the disk is
                full. If it had started, the task stays claimed; the next call or `recover` continues it.
        """
        return self.tasks.execute(manifest, lease, on_refusal=on_refusal, on_stored=on_stored, on_progress=on_progress)

    def preview_task(
        self, manifest: bytes, lease: bytes, *, on_refusal: Callable[[RefusedError], None] = lambda _: None
    ) -> ExecutionResult | Preview:
        """Check a task and preview its effect, without claiming, recording or changing anything.

        Args:
            manifest: The task manifest.
            lease: The lease for exactly this manifest.
            on_refusal: Called with the refusal before it is raised, unless the manifest cannot be parsed.

        Returns:
            A `Preview` with `summary` and `digest`. For a task that was run before, its stored result.

        Raises:
            RefusedError: The manifest cannot be parsed, or the task would be refused.
            EnvironmentFailureError: The store or the disk failed.
        """
        return self.tasks.preview(manifest, lease, on_refusal=on_refusal)

    def accept_clock(self, who: Person, *, shown: datetime | None = None) -> list[Entry]:
        """Record that a person accepts the clock. Each chain that is ahead of the clock continues from its time.

        Records of expiry, refusal, revocation and closure stay valid.

        Args:
            who: The person. An agent cannot accept the clock.
            shown: The time that the person saw. A clock that was set since then is not accepted.

        Returns:
            The new ledger entries, one for each chain that was ahead.

        Raises:
            RefusedError: The caller is an agent, or the clock was set after `shown`.
        """
        if who.id.partition(":")[0] not in PEOPLE:
            raise agent_cannot_decide("only a person accepts the clock")
        now = self.clock()
        if self.store.dialect == "postgresql":
            with self.store.reading() as connection:
                require_server_agrees(connection, now)
        return accept_clock(self.ledger, who.actor, who.signature, shown or now)

    def recover(self, *, presumed_dead: Collection[str] = (), abandoned: Collection[str] = ()) -> list[Recovered[Any]]:
        """Finish or undo the interrupted requests of dead processes, and record each outcome.

        Recovers tasks, plans, rollbacks, browser actions with their held requests, function calls and goals, in this
        order. Work of a live process is not touched and not listed. The key of a task is its task id, that of a plan
        its envelope id, and that of a rollback its order id.

        Args:
            presumed_dead: Keys of requests whose process the caller knows to be dead, where this machine cannot check
                it.
            abandoned: Keys of requests to close although they cannot be recovered. Their outcome is unknown.

        Returns:
            A `Recovered` for each request, with `key` and `began_at`. It has `outcome` and `took_effect`, or the
            `problem` that prevents recovery. `unknown` is True for an abandoned request.
        """
        named = {"presumed_dead": presumed_dead, "abandoned": abandoned}
        self.people.record_pending()
        self.refusals.state_ended()
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
        """Carry out one browser action with a capability token, in the browser of this process.

        A request that changes something on the site is held until a person approves or denies it. The call waits for
        that. Browser sessions last until `close`.

        Args:
            action: The browser action.
            token: The capability token.
            on_refusal: Called with the refusal if the action was refused. Nothing was claimed or changed.
            on_stored: Called if the result is that of an earlier call.
            on_waiting: Called with each approval request that the action waits for.

        Returns:
            The result of the action, or its refusal or failure.

        Raises:
            RefusedError: The action cannot be parsed.
            EnvironmentFailureError: Neither success nor failure could be recorded.
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
        """Decide a user's request in plain words, and carry out at most one action for it.

        `goals.answer` continues a goal that waits for the user's confirmation.

        Args:
            utterance: The words of the user.
            user: The user.
            tenant: The tenant of the user.
            language: The language tag of the words.
            correlation_id: The id of the goal. The same words again under the same id have no second effect. A new id
                is made if omitted.
            reply_to: The id of a goal that asked a clarifying question, if these words answer it.

        Returns:
            A `Reply` with `goal` and `outcome`.

        Raises:
            RefusedError: The request is malformed, or `reply_to` names no goal that asked a question.
            EnvironmentFailureError: The store or the disk failed.
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
        """Undo a task that succeeded, as a new task with its own lease.

        Moves a moved file to its old place, restores a deleted file from its snapshot, and removes a reversible copy
        that was not changed since. A second call returns the same result.

        Args:
            result: The signed result of the task.
            on_refusal: Called with the refusal if the restore was refused. Nothing was claimed or changed.
            on_stored: Called if the result is that of an earlier call.
            on_progress: Called with the number of bytes done and of all bytes.

        Returns:
            The signed result of the restoring task.

        Raises:
            RefusedError: The result cannot be parsed or verified, or the task cannot be undone.
            EnvironmentFailureError: Neither success nor failure could be recorded.
        """
        return self.tasks.restore(
            result, DEFAULT_LEASE_LIFE, on_refusal=on_refusal, on_stored=on_stored, on_progress=on_progress
        )

    def preview(
        self,
        plan: bytes,
        *,
        on_status: Callable[[StatusUpdate], None] = NO_HOOKS.on_status,
        actor: str | None = None,
        fresh: bool = False,
    ) -> RecordedPreview:
        """Preview the effect of a plan on the files as they are now. Changes no file.

        The preview is computed once, stored under its digest, and recorded. A later call returns the stored preview,
        unless an input changed since or the preview expired. A preview with rows of a database server, or with a
        problem, is computed each time.

        Args:
            plan: The plan.
            on_status: Called with the progress of SQL statements and pipelines.
            actor: The caller, for the ledger. The files that the preview keeps count against their quota.
            fresh: Compute the preview, although the stored one is still valid.

        Returns:
            A preview with `summary`, `digest`, and `document` for people and programs.

        Raises:
            RefusedError: The plan cannot be applied.
            EnvironmentFailureError: The machine could not compute the preview.
        """
        from remit.execution.refusals import about_plan_text

        with self.refusals.recording("preview", account_name, about_plan_text(plan)):
            return self.plans.preview(plan, PlanHooks(on_status=on_status, actor=actor), fresh=fresh)

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
        """Approve a plan: sign an envelope for its effect on the files as they are now, and record it.

        Args:
            plan: The plan.
            protected: Protected files that the plan may change.
            executable: Files that the plan may make executable.
            content: Files that the plan may write although a finding about their content needs an approval.
            irreversible: Ids of actions that cannot be undone and are approved.
            even_if_it_fails: Approve a plan with failing actions, unless the plan would stop there.
            life: How long the envelope is valid: an hour if omitted, a week at most.
            actor: The approver, for the ledger.
            as_seen: The `digest` of the preview that the approver saw. That stored preview is approved. If one of its
                inputs changed since, the plan is refused and nothing is signed.

        Returns:
            The envelope. Pass `envelope.canonical()` to `apply`.

        Raises:
            RefusedError: An action of the plan would fail, an approval that the plan needs is missing or not needed, or
                `approvals.allow_own` is false: then the plan is proposed, and another person approves it.
            EnvironmentFailureError: The machine, the store or the disk failed.
        """
        from remit.authority.envelope import DEFAULT_LIFE
        from remit.contracts.plans.envelope import Approvals as Allowances
        from remit.execution.refusals import about_plan_text
        from remit.identity.own_requests import require_own_plans_allowed

        require_own_plans_allowed(self.config)
        approvals = Allowances(
            protected=tuple(protected),
            executable=tuple(executable),
            content=tuple(content),
            irreversible=tuple(irreversible),
        )
        with self.refusals.recording("approve", actor or account_name, about_plan_text(plan)):
            return self.plans.approve(
                plan, approvals, life or DEFAULT_LIFE, actor, even_if_it_fails=even_if_it_fails, as_seen=as_seen
            )

    def apply(  # noqa: PLR0913 - one callback for each event
        self,
        envelope: bytes | Envelope,
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
        """Apply an approved plan once. A second call returns the stored outcome.

        The first call in an opened workspace recovers interrupted plans first.

        Args:
            envelope: The signed envelope, as bytes or as `approve` returned it.
            on_refusal: Called with the refusal if the plan was refused. Nothing was claimed or changed.
            on_stored: Called if the outcome is that of an earlier call.
            on_progress: Called with the number of actions done and of all actions.
            on_status: Called with a `StatusUpdate` for each phase.
            is_cancelled: Called every few milliseconds. If it returns True, the plan is cancelled and undone.
            on_taken_back: Called after `on_stored` if the plan was rolled back since.
            on_settled: Called first, with the plans that were recovered or could not be.
            actor: The caller, whom the intent names.

        Returns:
            The outcome; or a refusal, if nothing was claimed or changed.

        Raises:
            EnvironmentFailureError: Neither success nor failure could be recorded. If it had started, the plan stays
                claimed; the next call or `recover` continues it.
        """
        hooks = PlanHooks(on_refusal, on_stored, on_progress, on_status, is_cancelled, on_taken_back, on_settled, actor)
        return self.plans.apply(envelope, hooks)

    def cancel(self, envelope_id: str, *, actor: str | None = None) -> PlanOutcome | None:
        """Cancel a running plan and undo it, or invalidate an unused envelope.

        Args:
            envelope_id: The id of the envelope.
            actor: The caller, for the ledger.

        Returns:
            The outcome of the plan. None for an envelope that was not used; it is void from then on.

        Raises:
            RefusedError: There is no such envelope.
            EnvironmentFailureError: The plan did not end in time, or the store failed.
        """
        from remit.execution.refusals import about_name

        with self.refusals.recording("cancel", actor or account_name, about_name(envelope_id)):
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
        """Roll back an applied plan, fully or in part. A second call has nothing left to restore.

        Args:
            report: `last`, a report folder, a report id or an envelope id.
            checkpoints: The checkpoints to roll back, by their ids or by their paths in the plan; all if omitted.
            force: Restore also files that changed since, and keep their current versions as backups. Without it, one
                changed file prevents the whole rollback.
            drift: The digest of the changes that the caller saw. With `force`, the rollback is refused if the files
                have changed again.
            on_refusal: Called with the refusal if the rollback was refused. Nothing was claimed or changed.
            on_stored: Called if the outcome is that of an earlier call.
            on_settled: Called first, with the plans that were recovered or could not be.
            actor: The caller, whom the intent names.

        Returns:
            The signed outcome. Its status tells a refusal or a failure.

        Raises:
            RefusedError: There is no such run, or it cannot be verified.
            EnvironmentFailureError: Neither success nor failure could be recorded.
        """
        from remit.execution.refusals import about_name

        hooks = PlanHooks(on_refusal=on_refusal, on_stored=on_stored, on_settled=on_settled, actor=actor)
        with self.refusals.recording("rollback", actor or account_name, about_name(report)):
            return self.plans.rollback(report, checkpoints=checkpoints, force=force, drift=drift, hooks=hooks)

    def prune(self, *, dry_run: bool = False) -> list[Pruned]:
        """Delete the backups of rolled-back plans and those past their retention, and report folders of unstarted runs.

        Args:
            dry_run: Delete nothing.

        Returns:
            The deleted files, or with `dry_run` those that would be deleted.
        """
        if not dry_run:
            self.proposals.forget_closed_previews()
        return self.plans.prune(dry_run=dry_run)

    def verify_ledger(
        self,
        *,
        tenant_id: str | None = None,
        known_heads: tuple[LedgerHead, ...] = (),
        progress: Progress | None = None,
    ) -> VerificationReport:
        """Verify every chain, head and table of the ledger.

        Args:
            tenant_id: Verify only this tenant.
            known_heads: Heads that were stored outside of the workspace. They reveal a truncated chain.
            progress: Called with the progress.

        Returns:
            A report with `holds`, and `findings` that name each fault.

        Raises:
            EnvironmentFailureError: The store cannot be read.
        """
        return verify_store(
            self.store, self.keyring, self.anchors, tenant_id=tenant_id, known_heads=known_heads, progress=progress
        )

    def rotate_key(self, role: Role, *, revoke: bool = False, actor: str | None = None) -> tuple[PublicKey, PublicKey]:
        """Make a new key for a role, and record it. No writer signs with the old key after this returns.

        Args:
            role: The role of the key.
            revoke: Also revoke the old key, so that no earlier signature of it is accepted.
            actor: The actor of the ledger entries.

        Returns:
            The old and the new public key.

        Raises:
            EnvironmentFailureError: The keys or the store cannot be written.
        """
        return rotate_and_record(self.ledger, self.state.keys, role, revoke=revoke, actor=actor)

    def revoke_key(self, key_id: str, *, actor: str | None = None) -> PublicKey:
        """Revoke a retired key, and record it. No signature of this key is accepted any more.

        Args:
            key_id: The id of the key.
            actor: The actor of the ledger entry.

        Returns:
            The revoked public key.

        Raises:
            RefusedError: The key is unknown, or still in use.
        """
        return revoke_and_record(self.ledger, self.state.keys, key_id, actor=actor)
