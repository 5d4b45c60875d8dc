"""The service container of one workspace: its store, its ledger, its keys, and the services that use them.

Each service is imported and built when it is first used. Each key is loaded only when a document must be signed with
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from remit.contracts.config.config import CONFIG_NAME, SystemConfig
from remit.core.concurrency import ConcurrencyLimiter
from remit.core.errors import RefusedError
from remit.core.ids import Clock
from remit.crypto.keyring import load_keyring, load_signer
from remit.crypto.signing import Keyring, Role, Signer
from remit.fs.paths import require_bases
from remit.fs.state_dir import StateDirectory
from remit.ledger.clock_watch import ClockWatch
from remit.ledger.heads import Anchors
from remit.ledger.writer import Ledger
from remit.store.connection import Store
from remit.workspace.open import WorkspaceSettings, cached_by_mtime, open_store, read_config

if TYPE_CHECKING:
    from remit.approvals.service import ApprovalService
    from remit.browser.service import BrowserActions
    from remit.calls.service import Calls
    from remit.execution.refusals import Refusals
    from remit.goals.promotion import PromotionService
    from remit.goals.service import GoalService
    from remit.identity.people import People
    from remit.identity.tokens import Tokens
    from remit.plans.proposals.service import Proposals
    from remit.plans.service import Plans
    from remit.sandbox.manager import Fleet
    from remit.tasks.service import Tasks

KEYRING: Final = "keyring.json"
GOAL_CONCURRENCY: Final = {"sqlite": (6, 1), "postgresql": (8, 4)}
"""The number of goals in one process that may be in progress, and that may compute at the same time, by store."""
READ_AT_OPENING: Final = ("base_directories", "limits", "sandbox", "timeouts", "web")
"""The settings that are read at the time of opening. A later change applies to workspaces that are opened after it."""


class WorkspaceServices:
    """The lazily built services of one workspace.

    Attributes:
        root: The folder of the workspace, with its remit.yaml.
        state: The state directory, with keys, ledger and records.
        settings: The decisions of `remit init`.
        clock: The source of the time.
        environ: The environment variables.
    """

    def __init__(
        self, root: Path, state: StateDirectory, settings: WorkspaceSettings, environ: Mapping[str, str], clock: Clock
    ) -> None:
        self.root = root
        self.state = state
        self.settings = settings
        self.clock = clock
        self.environ = environ
        self._position_key = ("", b"")  # the id of the audit key, and what was derived from it

    def close(self) -> None:
        """Close the browser, the sandboxes, the ledger and the store, as far as they were used.

        A `with` block calls this at its end.
        """
        if "browser_service" in self.__dict__:
            self.browser_service.close()
        if "sandboxes" in self.__dict__:
            self.sandboxes.close()
        if "ledger" in self.__dict__:
            self.ledger.close()
        if "store" in self.__dict__:
            self.store.close()

    @property
    def config(self) -> SystemConfig:
        """The current configuration. It is read again when remit.yaml changes.

        Raises:
            RemitError: remit.yaml cannot be read, or is not valid.
        """
        return self._config()

    @cached_property
    def initial_config(self) -> SystemConfig:
        """The configuration at the time of opening. It provides the settings that `READ_AT_OPENING` names."""
        return self.config

    @cached_property
    def _config(self) -> Callable[[], SystemConfig]:
        return cached_by_mtime(self.root / CONFIG_NAME, lambda: read_config(self.root))

    @property
    def keyring(self) -> Keyring:
        """The current public keys. They are read again after a rotation or revocation by another process."""
        return self._current_keyring()

    @cached_property
    def _current_keyring(self) -> Callable[[], Keyring]:
        return cached_by_mtime(self.state.keys / KEYRING, lambda: load_keyring(self.state.keys))

    @cached_property
    def store(self) -> Store:
        """The database of the ledger, on SQLite or PostgreSQL."""
        return open_store(self.state, self.settings, self.environ)

    @cached_property
    def anchors(self) -> Anchors:
        """The newest signed heads, kept in files outside of the database."""
        return Anchors(self.state.anchors)

    @cached_property
    def ledger(self) -> Ledger:
        """The append-only, signed record of all requests."""
        watch = ClockWatch.of(self.clock, self.state.clock)
        return Ledger(self.store, self._current_signer("audit"), self._current_keyring, self.anchors, self.clock, watch)

    def position_key(self) -> bytes:
        """Derive the key that seals the positions of agents in the event stream. A rotation changes it.

        An Ed25519 signature is deterministic, so every process with the audit key derives the same 32 bytes, and no
        other process can.
        """
        signer = self._current_signer("audit")()
        if self._position_key[0] != signer.key_id:  # derived once, because each event of each agent needs it
            self._position_key = signer.key_id, sha256(signer.sign("event-position", b"").encode()).digest()
        return self._position_key[1]

    @cached_property
    def tasks(self) -> Tasks:
        """Runs and recovers tasks under leases."""
        from remit.tasks.service import TaskKeys, Tasks

        keys = TaskKeys(self._current_keyring, self._current_signer("executor"), self._current_signer("kernel"))
        return Tasks(
            self.state, self.initial_config, self._bases, keys, lambda: self.ledger, self.sandboxes, self.clock
        )

    @cached_property
    def sandboxes(self) -> Fleet:
        """The sandboxes of this workspace. Each is started when it is first needed."""
        from remit.sandbox.manager import Fleet

        return Fleet(self.initial_config, self.state.hosts)

    @cached_property
    def plans(self) -> Plans:
        """Previews, approves, applies and rolls back plans."""
        from remit.plans.apply.environment import PlanRules
        from remit.plans.service import PlanKeys, Plans

        keys = PlanKeys(self._current_keyring, self._current_signer("executor"), self._current_signer("protocol"))
        rules = PlanRules(lambda: str((self.root / self.config.root).resolve()), self._config, self.clock, self.environ)
        return Plans(self.state, rules, keys, lambda: self.ledger, self.sandboxes)

    @cached_property
    def refusals(self) -> Refusals:
        """Records the refusals of requests that the execution engine does not run."""
        from remit.execution.refusals import Refusals

        return Refusals(lambda: self.ledger)

    @cached_property
    def approvals(self) -> ApprovalService:
        """The approval requests of the browser and of governed functions, and their decisions."""
        from remit.approvals.service import ApprovalService
        from remit.fs.change_signal import ChangeSignal

        return ApprovalService(lambda: self.ledger, ChangeSignal(self.state.change_signal_file), self.clock)

    @cached_property
    def tokens(self) -> Tokens:
        """Issues, verifies and revokes capability tokens."""
        from remit.identity.tokens import Tokens

        browser = (self.state.keys, lambda: self.config.browser)
        token_dependents = (lambda: self.approvals, lambda: self.proposals)
        return Tokens(*browser, lambda: self.ledger, token_dependents, self.clock)

    @cached_property
    def proposals(self) -> Proposals:
        """Plans that agents and people proposed, and the decisions about them."""
        from remit.fs.change_signal import ChangeSignal
        from remit.plans.proposals.service import Proposals

        return Proposals(lambda: self.ledger, ChangeSignal(self.state.change_signal_file), self.clock)

    @cached_property
    def people(self) -> People:
        """The people of this workspace: invitations, roles and sessions."""
        from remit.identity.people import People

        return People(self.state.people, lambda: self.ledger, self.clock)

    @cached_property
    def browser_service(self) -> BrowserActions:
        """The browser of this process. It is started when an action first needs it."""
        from remit.browser.service import BrowserActions

        return BrowserActions(
            self.state, self._config, lambda: self.tokens, lambda: self.approvals, lambda: self.ledger, self.clock
        )

    @cached_property
    def calls(self) -> Calls:
        """The governed functions of this program (`@governed`), which agents call with a token."""
        from remit.calls.service import CallKeys, Calls

        keys = CallKeys(self._current_keyring, self._current_signer("executor"))
        people = (lambda: self.tokens, lambda: self.approvals)
        return Calls(self.state, keys, *people, lambda: self.ledger, self.clock)

    @cached_property
    def goals(self) -> GoalService:
        """The goals of users in their own words: found in the catalogue, decided, confirmed, and dispatched once."""
        from remit.goals.actions.browser import BrowserActionRunner
        from remit.goals.actions.runner import GoalActionRunner
        from remit.goals.rules_loader import WorkspaceRules
        from remit.goals.service import GoalService

        rules = WorkspaceRules(self.root, self._config, self._current_keyring)
        operations = (lambda: self.browser_service, lambda: self.tokens, lambda: self.ledger)
        browser = BrowserActionRunner(*operations, self.state.hosts, self.clock)
        runner = GoalActionRunner(
            lambda: self.tasks, lambda: self.plans, browser, lambda: self.ledger, self.state.hosts, self._config
        )
        limiter = ConcurrencyLimiter(*GOAL_CONCURRENCY[self.settings.store])
        return GoalService(self.state, rules, runner, lambda: self.ledger, self._current_keyring, self.clock, limiter)

    @cached_property
    def promotion(self) -> PromotionService:
        """The simulations of each tenant. People promote and retire them here."""
        from remit.goals.catalogue.catalogue import load_definitions
        from remit.goals.catalogue.deep_check import check_queries_of
        from remit.goals.promotion import PromotionService

        return PromotionService(
            lambda: load_definitions((self.root / self.config.root).resolve(), self.config),
            lambda: self.config.tenants,
            lambda: self.ledger,
            lambda simulation: check_queries_of(simulation, self.config, lambda: self.sandboxes),
        )

    def _bases(self) -> tuple[str, ...]:
        """The allowed folders. Read only for a task that names a path, so an audit works after a folder was removed."""
        try:
            return require_bases(self.initial_config.base_directories, self.state.path)
        except RefusedError as problem:
            where = f"{self.root / CONFIG_NAME}, $.base_directories: {problem.where}"
            raise RefusedError(problem.reason, problem.what, where=where, next_step=problem.next_step) from None

    def _current_signer(self, role: Role) -> Callable[[], Signer]:
        return cached_by_mtime(self.state.keys / KEYRING, lambda: load_signer(self.state.keys, role))
