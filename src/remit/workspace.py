"""A workspace: a folder with a remit.yaml, and its state directory with keys, store and ledger.

`Workspace.open(path)` is the Python API's front door. Each key is loaded when, and only when, something must be signed
with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from remit.authority.keys import load_keyring, load_signer, revoke_key, rotate_key
from remit.authority.signing import Keyring, PublicKey, Role, Signer
from remit.confine.names import require_bases
from remit.contracts.config import CONFIG_NAME, SystemConfig
from remit.doors.hooks import NO_HOOKS, PlanHooks
from remit.errors import Reason, Refused
from remit.ids import DEFAULT_TENANT, Clock, parse_time, system_clock
from remit.ledger.append import Batch, Ledger
from remit.ledger.entry import Event
from remit.ledger.heads import Anchors
from remit.ledger.verify import chain_owners, verify_store
from remit.opening import WorkspaceSettings, find_root, open_store, read_config, read_settings
from remit.state import StateDirectory, locate_state
from remit.store.connection import Store
from remit.turns import Turns

if TYPE_CHECKING:
    from remit.approval.approvals import Approvals
    from remit.approval.proposals import Proposals
    from remit.browsing import Browsing
    from remit.calls import Calls
    from remit.contracts.browser import ActionResult, Approval
    from remit.contracts.envelope import Envelope
    from remit.contracts.ledger import LedgerHead
    from remit.contracts.outcome import PlanOutcome, PlanRefusal, RollbackOutcome
    from remit.contracts.result import ExecutionResult
    from remit.contracts.status import StatusUpdate
    from remit.contracts.task import LeaseToken
    from remit.doors.hooks import TakenBack
    from remit.doors.plan_preview import PlanPreview
    from remit.effects.registry import Registry
    from remit.goals import Goals, Reply
    from remit.kernel.kernel import Kernel
    from remit.ledger.findings import Progress, Verdict
    from remit.people.people import People
    from remit.plans import Plans, Pruned
    from remit.promotion import Promotion
    from remit.recovery import Recovered
    from remit.road import Preview
    from remit.sandbox.fleet import Fleet
    from remit.tasks import Tasks
    from remit.tokens import Tokens

__all__ = ["Workspace", "WorkspaceSettings", "find_root", "open_store", "read_config", "read_settings"]

T = TypeVar("T")
DEFAULT_LEASE_LIFE: Final = timedelta(minutes=5)
KEYRING: Final = "keyring.json"
GOALS_AT_ONCE: Final = {"sqlite": (6, 1), "postgresql": (8, 4)}
"""In one process: how many have begun, and of these compute. A server is waited for more often than a file."""


class Workspace:
    """One open workspace. Close it, or use it as a context manager."""

    def __init__(
        self, root: Path, state: StateDirectory, settings: WorkspaceSettings, environ: Mapping[str, str], clock: Clock
    ) -> None:
        self.root = root
        self.state = state
        self.settings = settings
        self.clock = clock
        self.environ = environ

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
            raise Refused(
                Reason.STATE_UNSAFE,
                f"this state directory was made for {settings.root}",
                where=str(state.path),
                next_step="If an adoption was interrupted: remit init. Otherwise find out who put it there.",
            )
        read_config(root)  # refused here, not ignored until somebody asks for a setting
        return cls(root, state, settings, environ, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        if "browsing" in self.__dict__:
            self.browsing.close()
        if "fleet" in self.__dict__:
            self.fleet.close()
        if "ledger" in self.__dict__:
            self.ledger.close()
        if "store" in self.__dict__:
            self.store.close()

    @cached_property
    def config(self) -> SystemConfig:
        return read_config(self.root)

    @property
    def keyring(self) -> Keyring:
        """The public keys as they are now: a rotation or revocation by another process is noticed."""
        return self._current_keyring()

    @cached_property
    def _current_keyring(self) -> Callable[[], Keyring]:
        return _as_long_as_unchanged(self.state.keys / KEYRING, lambda: load_keyring(self.state.keys))

    @cached_property
    def store(self) -> Store:
        return open_store(self.state, self.settings, self.environ)

    @cached_property
    def anchors(self) -> Anchors:
        return Anchors(self.state.anchors)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.store, self._current_signer("audit"), self._current_keyring, self.anchors, self.clock)

    @cached_property
    def tasks(self) -> Tasks:
        from remit.tasks import TaskKeys, Tasks

        keys = TaskKeys(self._current_keyring, self._current_signer("executor"), self._current_signer("kernel"))
        return Tasks(self.state, self.config, self._bases, keys, lambda: self.ledger, self.fleet, self.clock)

    @cached_property
    def fleet(self) -> Fleet:
        """The sandboxes of this workspace. None is started before something is to run in it."""
        from remit.sandbox.fleet import Fleet

        return Fleet(self.config, self.state.hosts)

    @cached_property
    def plans(self) -> Plans:
        from remit.doors.plan_setting import PlanRules
        from remit.plans import PlanKeys, Plans

        keys = PlanKeys(self._current_keyring, self._current_signer("executor"), self._current_signer("protocol"))
        config = _as_long_as_unchanged(self.root / CONFIG_NAME, lambda: read_config(self.root))
        rules = PlanRules(lambda: str((self.root / config().root).resolve()), config, self.clock, self.environ)
        return Plans(self.state, rules, keys, lambda: self.ledger, self.fleet)

    @cached_property
    def approvals(self) -> Approvals:
        """Questions to a person about the browser's requests, and the answers."""
        from remit.approval.approvals import Approvals
        from remit.approval.bell import Bell

        return Approvals(lambda: self.ledger, Bell(self.state.bell), self.clock)

    @cached_property
    def tokens(self) -> Tokens:
        """Capability tokens for the browser, and the keys that they are believed by."""
        from remit.tokens import Tokens

        config = _as_long_as_unchanged(self.root / CONFIG_NAME, lambda: read_config(self.root))
        browser = (self.state.keys, lambda: config().browser)
        waiting = (lambda: self.approvals, lambda: self.proposals)
        return Tokens(*browser, lambda: self.ledger, waiting, self.clock)

    @cached_property
    def proposals(self) -> Proposals:
        """Plans that somebody proposed, and the answers."""
        from remit.approval.bell import Bell
        from remit.approval.proposals import Proposals

        return Proposals(lambda: self.ledger, Bell(self.state.bell), self.clock)

    @cached_property
    def people(self) -> People:
        """Who was invited, and who is logged in."""
        from remit.people.people import People

        return People(self.state.people, lambda: self.ledger, self.clock)

    @cached_property
    def browsing(self) -> Browsing:
        """The browser of this process. None is started before an action needs it."""
        from remit.browsing import Browsing

        config = _as_long_as_unchanged(self.root / CONFIG_NAME, lambda: read_config(self.root))
        return Browsing(
            self.state, config, lambda: self.tokens, lambda: self.approvals, lambda: self.ledger, self.clock
        )

    @cached_property
    def calls(self) -> Calls:
        """Functions of this program that agents call under a token (`remit.governed`)."""
        from remit.calls import CallKeys, Calls

        keys = CallKeys(self._current_keyring, self._current_signer("executor"))
        people = (lambda: self.tokens, lambda: self.approvals)
        return Calls(self.state, keys, *people, lambda: self.ledger, self.clock)

    @cached_property
    def goals(self) -> Goals:
        """What users want done, in their words: found in the catalogue, decided, confirmed, and dispatched once."""
        from remit.goal_browser import BrowserHand
        from remit.goal_hands import GoalHands
        from remit.goal_rules import WorkspaceRules
        from remit.goals import Goals

        config = _as_long_as_unchanged(self.root / CONFIG_NAME, lambda: read_config(self.root))
        rules = WorkspaceRules(self.root, config, self._current_keyring)
        doors = (lambda: self.browsing, lambda: self.tokens, lambda: self.ledger)
        browser = BrowserHand(*doors, self.state.hosts, self.clock)
        hands = GoalHands(lambda: self.tasks, lambda: self.plans, browser, lambda: self.ledger, self.state.hosts)
        turns = Turns(*GOALS_AT_ONCE[self.settings.store])
        return Goals(self.state, rules, hands, lambda: self.ledger, self._current_keyring, self.clock, turns)

    @cached_property
    def promotion(self) -> Promotion:
        """Which simulations each tenant has, and a person's way to promote and retire them."""
        from remit.agent.catalogue import load_definitions
        from remit.catalogue_checkup import check_queries_of
        from remit.promotion import Promotion

        config = _as_long_as_unchanged(self.root / CONFIG_NAME, lambda: read_config(self.root))
        return Promotion(
            lambda: load_definitions((self.root / config().root).resolve(), config()),
            lambda: config().tenants,
            lambda: self.ledger,
            lambda simulation: check_queries_of(simulation, config(), lambda: self.fleet),
        )

    def _bases(self) -> tuple[str, ...]:
        """Asked for by a task that names a path: an audit goes on without a folder that was removed."""
        try:
            return require_bases(self.config.base_directories, self.state.path)
        except Refused as problem:
            where = f"{self.root / CONFIG_NAME}, $.base_directories: {problem.where}"
            raise Refused(problem.reason, problem.what, where=where, next_step=problem.next_step) from None

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
        on_refusal: Callable[[Refused], None] = lambda _: None,
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
        self, manifest: bytes, lease: bytes, *, on_refusal: Callable[[Refused], None] = lambda _: None
    ) -> ExecutionResult | Preview:
        """The same road, stopped after the preview: nothing is claimed, recorded or done.

        A task that was done before gives its stored result; a refused one tells `on_refusal`.
        """
        return self.tasks.preview(manifest, lease, on_refusal=on_refusal)

    def recover(self, *, presumed_dead: Collection[str] = (), abandoned: Collection[str] = ()) -> list[Recovered[Any]]:
        """Finish or clear away what processes that died had begun, and record each outcome.

        Tasks, plans, rollbacks, browser actions with the requests that were held for them, calls of functions, and
        goals, in this order.
        What is left in progress by a living process is not touched and not listed. `presumed_dead` names tasks of
        processes that cannot be seen from here and that the caller knows to be dead; `abandoned`, tasks that cannot be
        settled and shall be closed as they are. A plan is named by its envelope's id, a rollback by its order's.
        """
        named = {"presumed_dead": presumed_dead, "abandoned": abandoned}
        return [
            *self.tasks.recover(**named),
            *self.plans.recover(**named),
            *self.plans.recover_rollbacks(**named),
            *self.browsing.recover(**named),
            *self.calls.recover(**named),
            *self.goals.recover(**named),
        ]

    def browse(
        self,
        action: bytes,
        token: str,
        *,
        on_refusal: Callable[[Refused], None] = lambda _: None,
        on_stored: Callable[[], None] = lambda: None,
        on_waiting: Callable[[Approval], None] = lambda _: None,
    ) -> ActionResult:
        """One browser action under a capability token, in this process's own browser. Sessions last until `close`.

        Whatever happens after parsing comes back as a result. A request that changes something is held until a person
        has answered, and this call waits for it: `on_waiting` is told what to answer (`approvals.decide`).
        `on_refusal` is told when nothing was claimed or done; `on_stored`, when it is the result of an earlier call.
        """
        from remit.doors.browser_flights import BrowseHooks

        return self.browsing.browse(action, token, BrowseHooks(on_refusal, on_stored, on_waiting))

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
        on_refusal: Callable[[Refused], None] = lambda _: None,
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

        Raises `Refused` for a plan that could never be applied. `on_status` hears how far its SQL is, which takes long.
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
    ) -> Envelope:
        """The protocol layer's side: sign an envelope for this plan on the files as they are now, and record it.

        What the plan needs beyond that is named: protected files, files that become executable, files whose content
        holds what was found in it, actions that cannot be undone. A plan of which something would fail is refused; one
        that goes on after an error is approved all the same with `even_if_it_fails`.
        """
        from remit.authority.envelope import DEFAULT_LIFE
        from remit.contracts.envelope import Approvals as Allowances

        approvals = Allowances(
            protected=tuple(protected),
            executable=tuple(executable),
            content=tuple(content),
            irreversible=tuple(irreversible),
        )
        return self.plans.approve(plan, approvals, life or DEFAULT_LIFE, actor, even_if_it_fails=even_if_it_fails)

    def apply(  # noqa: PLR0913 - what the caller wants to hear, by name
        self,
        envelope: bytes,
        *,
        on_refusal: Callable[[Refused], None] = NO_HOOKS.on_refusal,
        on_stored: Callable[[], None] = NO_HOOKS.on_stored,
        on_progress: Callable[[int, int], None] = NO_HOOKS.on_progress,
        on_status: Callable[[StatusUpdate], None] = NO_HOOKS.on_status,
        is_cancelled: Callable[[], bool] = NO_HOOKS.is_cancelled,
        on_taken_back: Callable[[TakenBack], None] = NO_HOOKS.on_taken_back,
        on_settled: Callable[[Sequence[Recovered[Any]]], None] = NO_HOOKS.on_settled,
    ) -> PlanOutcome | PlanRefusal:
        """Carry out an approved plan, once. A second call gives the stored outcome, and tells `on_stored`; and
        `on_taken_back` too, if what the plan did was taken back since.

        A refusal says that nothing was claimed or touched. Only where neither success nor failure could be recorded it
        raises: then the plan stays claimed, and the next call, or `recover`, goes on with it. `is_cancelled` is asked
        every few milliseconds; a yes has everything taken back. The first call settles what a crash had left, and
        tells `on_settled`.
        """
        hooks = PlanHooks(on_refusal, on_stored, on_progress, on_status, is_cancelled, on_taken_back, on_settled)
        return self.plans.apply(envelope, hooks)

    def cancel(self, envelope_id: str, *, actor: str | None = None) -> PlanOutcome | None:
        """Have a running plan taken back, or void an approval that was not used. The outcome, if the plan ever ran."""
        return self.plans.cancel(envelope_id, actor)

    def rollback(
        self,
        report: str,
        *,
        checkpoints: Collection[str] = (),
        force: bool = False,
        on_refusal: Callable[[Refused], None] = NO_HOOKS.on_refusal,
        on_stored: Callable[[], None] = NO_HOOKS.on_stored,
        on_settled: Callable[[Sequence[Recovered[Any]]], None] = NO_HOOKS.on_settled,
    ) -> RollbackOutcome:
        """Take back a plan that was applied: `last`, a report folder, or the id of a report or an envelope.

        All of it, or the named checkpoints. A file that was changed since is left, and so is everything else, unless
        `force` is given: then it is kept aside and restored. A second time there is nothing left to do.
        """
        hooks = PlanHooks(on_refusal=on_refusal, on_stored=on_stored, on_settled=on_settled)
        return self.plans.rollback(report, checkpoints=checkpoints, force=force, hooks=hooks)

    def prune(self, *, dry_run: bool = False) -> list[Pruned]:
        """Remove backups that nobody can need any more, and report folders of runs that never began."""
        return self.plans.prune(dry_run=dry_run)

    def verify_ledger(
        self,
        *,
        tenant_id: str | None = None,
        known_heads: tuple[LedgerHead, ...] = (),
        progress: Progress | None = None,
    ) -> Verdict:
        """Check every chain, head and table. `known_heads` are heads that were kept elsewhere."""
        return verify_store(
            self.store, self.keyring, self.anchors, tenant_id=tenant_id, known_heads=known_heads, progress=progress
        )

    def rotate_key(self, role: Role, *, revoke: bool = False) -> tuple[PublicKey, PublicKey]:
        """A new key for a role, recorded in the ledger. No writer signs with the old one once this returns.

        The intention is recorded first: if a crash strikes between the new keyring and its entry, the ledger shows why.
        """
        intended = {"role": role, "revoke": revoke}
        self.ledger.append(Event(DEFAULT_TENANT, "key.rotation_intended", role, intended))

        def work(batch: Batch) -> tuple[PublicKey, PublicKey]:
            now = _not_before_the_heads(batch) if role == "audit" else batch.clock()
            old, new = rotate_key(self.state.keys, role, lambda: now, revoke=revoke)
            known = {"role": role, "old_key_id": old.key_id, "new_key_id": new.key_id}
            # A new audit key signs a head for every chain, so that none is left to a key that nobody believes.
            tenants = list(chain_owners(batch.store)) if role == "audit" else []
            for tenant_id in {DEFAULT_TENANT, *tenants}:
                batch.append(Event(tenant_id, "key.revoked" if revoke else "key.rotated", new.key_id, known))
            return old, new

        return self.ledger.transact(work)

    def revoke_key(self, key_id: str) -> PublicKey:
        """Believe nothing that a retired key ever signed, and record it."""

        def work(batch: Batch) -> PublicKey:
            revoked = revoke_key(self.state.keys, key_id, batch.clock)
            known = {"role": revoked.role, "old_key_id": key_id}
            batch.append(Event(DEFAULT_TENANT, "key.revoked", key_id, known))
            return revoked

        return self.ledger.transact(work)

    def _current_signer(self, role: Role) -> Callable[[], Signer]:
        return _as_long_as_unchanged(self.state.keys / KEYRING, lambda: load_signer(self.state.keys, role))


def _not_before_the_heads(batch: Batch) -> datetime:
    """A time no earlier than what the old key already signed, whatever the clock says.

    The transaction holds the only write lock, so no other writer signs while the keys change.
    """
    newest = batch.store.one("SELECT max(signed_at) FROM ledger_heads")
    return max(batch.clock(), parse_time(newest[0])) if newest and newest[0] else batch.clock()


def _as_long_as_unchanged(file: Path, load: Callable[[], T]) -> Callable[[], T]:
    """Load once, and again whenever the file is another: a long-lived process notices a rotation of keys."""
    held: list[tuple[tuple[int, int, int, int], T]] = []
    path = str(file)

    def current() -> T:
        try:
            found = os.stat(path)
        except OSError:
            return load()  # which says it better
        # The change time too: whoever edits a file can set its other times back.
        stamp = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        if not held or held[0][0] != stamp:
            held[:] = [(stamp, load())]
        return held[0][1]

    return current
