"""A workspace: a folder with a remit.yaml, and its state directory with keys, store and ledger.

`Workspace.open(path)` is the Python API's front door. Each key is loaded when, and only when, something must be signed
with it.
"""

import os
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import Field

from remit.authority.keys import load_keyring, load_signer, revoke_key, rotate_key
from remit.authority.signing import Keyring, PublicKey, Role, Signer
from remit.confine.names import require_bases
from remit.contracts.base import Contract, Timestamp, VersionOne
from remit.contracts.config import CONFIG_NAME, EnvironmentName, SystemConfig
from remit.contracts.ledger import LedgerHead
from remit.contracts.result import ExecutionResult
from remit.contracts.task import LeaseToken
from remit.doors.task import DEFAULT_TENANT
from remit.effects.registry import Registry
from remit.errors import EnvironmentFailed, Reason, Refused
from remit.ids import Clock, parse_time, system_clock
from remit.kernel.kernel import Kernel
from remit.ledger.append import Batch, Ledger
from remit.ledger.entry import Event
from remit.ledger.findings import Progress, Verdict
from remit.ledger.heads import Anchors
from remit.ledger.verify import chain_owners, verify_store
from remit.recovery import Recovered
from remit.road import Preview
from remit.state import StateDirectory, locate_state, require_private
from remit.store.connection import Store
from remit.store.sqlite import SqliteStore
from remit.tasks import TaskKeys, Tasks
from remit.untrusted import read_bounded
from remit.untrusted.yaml_text import parse_yaml

T = TypeVar("T")
DEFAULT_LEASE_LIFE: Final = timedelta(minutes=5)


class WorkspaceSettings(Contract):
    """`workspace.json` in the state directory: what `remit init` decided. Never a password, only where to find it."""

    version: VersionOne
    created_at: Timestamp
    root: Annotated[str, Field(min_length=1, max_length=4096, description="The folder it was made for.")]
    store: Literal["sqlite", "postgresql"]
    url_variable: EnvironmentName | None = None
    schema_name: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")] | None = None


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
        if "tasks" in self.__dict__:
            self.tasks.close()
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
        return _as_long_as_unchanged(self.state.keys, lambda: load_keyring(self.state.keys))

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
        keys = TaskKeys(self._current_keyring, self._current_signer("executor"), self._current_signer("kernel"))
        return Tasks(self.state, self.config, self._bases, keys, lambda: self.ledger, self.clock)

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

    def recover(
        self, *, presumed_dead: Collection[str] = (), abandoned: Collection[str] = ()
    ) -> list[Recovered[ExecutionResult]]:
        """Finish or clear away what processes that died had begun, and record each outcome.

        What is left in progress by a living process is not touched and not listed. `presumed_dead` names tasks of
        processes that cannot be seen from here and that the caller knows to be dead; `abandoned`, tasks that cannot be
        settled and shall be closed as they are.
        """
        return self.tasks.recover(presumed_dead=presumed_dead, abandoned=abandoned)

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
        return _as_long_as_unchanged(self.state.keys, lambda: load_signer(self.state.keys, role))


def find_root(start: Path, environ: Mapping[str, str]) -> Path:
    """The nearest folder, from `start` upwards, that holds a remit.yaml.

    A folder that has a state directory and no remit.yaml is not passed over: whoever removed the file would otherwise
    choose the workspace above it.
    """
    if not start.is_dir():
        raise Refused(
            Reason.STATE_MISSING, "there is no such folder", where=str(start), next_step="Give a folder that exists."
        )
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / CONFIG_NAME).is_file():
            return folder
        if _has_state(folder, environ):
            raise Refused(
                Reason.STATE_MISSING,
                f"this folder is a workspace, and its {CONFIG_NAME} is gone",
                where=str(folder),
                next_step="Restore the file, or make a plain one: remit init",
            )
    raise Refused(
        Reason.STATE_MISSING,
        f"there is no {CONFIG_NAME} here or in any folder above",
        where=str(start),
        next_step="Run `remit init` in the folder that agents shall work in.",
    )


def _has_state(folder: Path, environ: Mapping[str, str]) -> bool:
    try:
        return locate_state(folder, environ).settings.exists()
    except (Refused, OSError):
        return False


def read_config(root: Path) -> SystemConfig:
    """The workspace's remit.yaml. Its root may narrow the workspace, never leave it: the state lies outside."""
    path = root / CONFIG_NAME
    with path.open("rb") as stream:
        raw = read_bounded(stream, SystemConfig.bounds, source=str(path))
    config = SystemConfig.from_tree(parse_yaml(raw, SystemConfig.bounds, source=str(path)), source=str(path))
    if not (root / config.root).resolve().is_relative_to(root):
        raise Refused(
            Reason.STATE_UNSAFE,
            "the root lies outside the folder of remit.yaml",
            where=f"{path}, $.root",
            next_step="Put a remit.yaml into the folder that agents shall work in, with `root: .`",
        )
    return config


def read_settings(state: StateDirectory) -> WorkspaceSettings:
    """What `remit init` decided, from the state directory."""
    if not state.path.exists():
        raise EnvironmentFailed(
            Reason.STATE_MISSING,
            "this workspace has no state directory: no keys and no ledger",
            where=str(state.path),
            next_step=(
                "New here: remit init. Moved or renamed: remit init --adopt OLD_STATE_DIRECTORY. Lost: restore a backup"
                " first, for `remit init` starts an empty ledger. And check REMIT_STATE and HOME."
            ),
        )
    require_private(state.path, what="the state directory of this workspace")
    if not state.settings.exists():
        raise EnvironmentFailed(
            Reason.STATE_MISSING,
            "this workspace was never finished",
            where=str(state.settings),
            next_step="Run `remit init` in the workspace: it completes what is missing.",
        )
    require_private(state.settings, what="the file of the workspace's settings")
    with state.settings.open("rb") as stream:
        raw = read_bounded(stream, WorkspaceSettings.bounds, source=str(state.settings))
    return WorkspaceSettings.parse(raw, source=str(state.settings))


def open_store(state: StateDirectory, settings: WorkspaceSettings, environ: Mapping[str, str]) -> Store:
    if settings.store == "sqlite":
        return SqliteStore(state.database)
    variable = settings.url_variable or ""
    url = environ.get(variable, "")
    if not url:
        raise EnvironmentFailed(
            Reason.STORE_UNAVAILABLE,
            f"this workspace keeps its ledger in PostgreSQL, and the variable {variable} that names it is not set",
            where=str(state.settings),
            next_step=f"Set it, for example: export {variable}=postgresql://user@host/database",
        )
    try:
        # The driver is an extra, and loading it takes longer than most commands.
        from remit.store.postgresql import PostgresStore  # noqa: PLC0415 - see above
    except ImportError:
        raise EnvironmentFailed(
            Reason.STORE_UNAVAILABLE,
            "the PostgreSQL driver is not installed",
            next_step="Install it with: pip install 'remit[postgres]'",
        ) from None
    return PostgresStore(url, settings.schema_name or "")


def _not_before_the_heads(batch: Batch) -> datetime:
    """A time no earlier than what the old key already signed, whatever the clock says.

    The transaction holds the only write lock, so no other writer signs while the keys change.
    """
    newest = batch.store.one("SELECT max(signed_at) FROM ledger_heads")
    return max(batch.clock(), parse_time(newest[0])) if newest and newest[0] else batch.clock()


def _as_long_as_unchanged(folder: Path, load: Callable[[], T]) -> Callable[[], T]:
    """Load once, and again whenever the keyring file is another: a long-lived process notices a rotation."""
    held: list[tuple[tuple[int, int, int], T]] = []
    path = str(folder / "keyring.json")

    def current() -> T:
        found = os.stat(path)
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if not held or held[0][0] != stamp:
            held[:] = [(stamp, load())]
        return held[0][1]

    return current
