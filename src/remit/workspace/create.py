"""Creates a workspace, and connects a moved workspace with its state directory.

All checks come before the first write, so a refusal changes nothing. A second run completes a workspace that a crash
left incomplete. It never makes new keys for a ledger that has entries, because the same history would continue under
other signatures.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from remit.contracts.config.config import CONFIG_NAME
from remit.contracts.ledger import LedgerHead
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.faultpoints import reach
from remit.core.ids import DEFAULT_TENANT, Clock, render_time, system_clock
from remit.crypto.keyring import create_keys, load_keyring
from remit.fs.atomic_write import make_private_directory, sync_directory, write_durably
from remit.fs.state_dir import StateDirectory, locate_state, require_private, workspace_id
from remit.ledger.entry import NewEntry
from remit.ledger.heads import HEAD_FIELDS, verify_head
from remit.ledger.writer import Batch
from remit.store.connection import Store
from remit.store.migrations_runner import migrate
from remit.store.sqlite import SqliteStore
from remit.workspace.open import WorkspaceSettings, open_store, read_config, read_settings
from remit.workspace.workspace import Workspace

CONFIG_TEMPLATE: Final = """\
# What Remit may do in this folder. Every setting: remit schema system-config
version: 1
root: .
"""
_NEWEST_HEAD: Final = f"SELECT {', '.join(HEAD_FIELDS)} FROM ledger_heads ORDER BY signed_at DESC LIMIT 1"  # noqa: S608 - our own names


def initialise(
    directory: Path | str,
    environ: Mapping[str, str] | None = None,
    clock: Clock = system_clock,
    *,
    url_variable: str | None = None,
    new: bool = False,
) -> tuple[Workspace, bool]:
    """Create a workspace, or complete one that a crash left incomplete, as `remit init` does.

    Args:
        directory: The folder where agents work.
        environ: The environment variables; `os.environ` if omitted.
        clock: The source of the time.
        url_variable: The name of the variable with the address of a PostgreSQL database, for a ledger on a server.
        new: Create a workspace even if the state directory of a removed folder could belong to this one.

    Returns:
        The open `Workspace`, and whether it is new.

    Raises:
        RefusedError: The folder or its state is not safe to use. Nothing was changed.
        EnvironmentFailureError: A part of an existing state is missing, or the store cannot be used.
    """
    environ = os.environ if environ is None else environ
    directory = _existing_folder(Path(directory))
    state = locate_state(directory, environ)
    fresh = not state.settings.exists()
    settings = _new_settings(directory, url_variable, clock) if fresh else read_settings(state)
    if url_variable and settings.url_variable != url_variable:
        raise RefusedError(
            Reason.STATE_UNSAFE,
            f"this workspace already keeps its ledger in {settings.store}",
            where=str(state.settings),
            next_step="A ledger cannot be moved to another database. Create a workspace in another folder.",
        )
    if (directory / CONFIG_NAME).exists():
        read_config(directory)
        if fresh and not new:
            _require_not_moved(state)
    store = open_store(state, settings, environ)
    _require_nothing_lost(state, settings, store)
    make_private_directory(state.path)
    require_private(state.path, what="the state directory")
    create_keys(state.keys, clock)
    if settings.store == "sqlite":
        SqliteStore.create(state.database)
    migrate(store, clock)
    if fresh:
        write_durably(state.settings, settings.canonical() + b"\n")
    if not (directory / CONFIG_NAME).exists():
        write_durably(directory / CONFIG_NAME, CONFIG_TEMPLATE.encode(), mode=0o644, replace=False)
    store.close()
    workspace = Workspace(directory, state, settings, environ, clock)
    workspace.ledger.transact(lambda batch: _record_creation(batch, workspace))
    _record_move(workspace)  # writes only if a crash interrupted an adoption
    return workspace, fresh


def adopt(directory: Path, old: Path, environ: Mapping[str, str], clock: Clock) -> Workspace:
    """Connect the state directory of a moved workspace with its present folder, and record the move."""
    directory = _existing_folder(directory)
    read_config(directory)
    state, previous = locate_state(directory, environ), StateDirectory(old.absolute())
    if not state.path.exists():
        settings = read_settings(previous)
        if previous.path.parent.resolve() != state.path.parent:
            raise RefusedError(
                Reason.STATE_UNSAFE,
                "this state directory is not beside the other state directories of this account",
                where=str(previous.path),
                next_step=f"Copy it to {state.path.parent} first, with its permissions, or set REMIT_STATE.",
            )
        if (Path(settings.root) / CONFIG_NAME).exists():
            raise RefusedError(
                Reason.STATE_UNSAFE,
                "this state directory belongs to a workspace that still exists",
                where=settings.root,
                next_step="A copy of a workspace needs its own state directory: remit init --new",
            )
        os.rename(previous.path, state.path)
        sync_directory(state.path.parent)
        reach("adopt.renamed")
    workspace = Workspace(directory, state, read_settings(state), environ, clock)
    _record_move(workspace)
    return workspace


def _existing_folder(directory: Path) -> Path:
    directory = directory.resolve()
    if not directory.is_dir() or not os.access(directory, os.W_OK):
        raise RefusedError(
            Reason.STATE_UNSAFE,
            "this is not a folder that you can write to",
            where=str(directory),
            next_step="Make it first, or choose another.",
        )
    config = directory / CONFIG_NAME
    if config.exists() and not config.is_file():
        raise RefusedError(
            Reason.STATE_UNSAFE, f"{CONFIG_NAME} is not a file", where=str(config), next_step="Rename it."
        )
    return directory


def _new_settings(directory: Path, url_variable: str | None, clock: Clock) -> WorkspaceSettings:
    return WorkspaceSettings.from_tree(
        {
            "version": 1,
            "created_at": render_time(clock()),
            "root": str(directory),
            "store": "postgresql" if url_variable else "sqlite",
            "url_variable": url_variable,
            "schema_name": "remit_" + workspace_id(directory).replace("-", "_") if url_variable else None,
        },
        source="remit init",
    )


def _require_not_moved(state: StateDirectory) -> None:
    """Refuse a remit.yaml without a state if there is a state without its folder: probably they belong together."""
    for settings_file in sorted(state.path.parent.glob("*/workspace.json")):
        try:
            settings = read_settings(StateDirectory(settings_file.parent))
        except RemitError:
            continue
        bound = settings_file.parent.name == workspace_id(Path(settings.root))
        if bound and not Path(settings.root).exists():
            raise RefusedError(
                Reason.STATE_UNSAFE,
                f"this folder has a remit.yaml, and {settings.root}, which has a state directory, is missing",
                where=str(settings_file.parent),
                next_step=f"If it was moved here: remit init --adopt '{settings_file.parent}'. Otherwise: --new",
            )


def _require_nothing_lost(state: StateDirectory, settings: WorkspaceSettings, store: Store) -> None:
    """Refuse if a part of the state is missing. It must be restored from a backup, not replaced by an empty one."""
    known = (state.keys / "keyring.json").exists()
    if settings.store == "sqlite" and not state.database.exists():
        if state.anchors.is_dir() and any(state.anchors.iterdir()):
            raise _lost_error("the ledger's database is missing, although its anchors exist", state.database)
        return
    head = _newest_head(store)
    if head is None:
        return
    if not known:
        raise _lost_error("the ledger has entries, but the keys that signed them are missing", state.keys)
    try:
        verify_head(head, load_keyring(state.keys))
    except RefusedError:
        raise _lost_error("the ledger was signed with other keys than those in the state", state.keys) from None


def _lost_error(what: str, where: Path) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.STATE_MISSING,
        what,
        where=str(where),
        next_step="Restore it from a backup (with PostgreSQL: copy the keys from the machine that made this ledger).",
    )


def _newest_head(store: Store) -> LedgerHead | None:
    with store.reading() as connection:
        if not connection.has_table("ledger_heads"):
            return None
        row = connection.one(_NEWEST_HEAD)
    return LedgerHead.from_tree(dict(zip(HEAD_FIELDS, row, strict=True))) if row else None


def _record_move(workspace: Workspace) -> None:
    """Record a move. The entry comes before the settings, so a crash between them can repeat it, but never lose it."""
    settings, now_at = workspace.settings, str(workspace.root)
    if settings.root != now_at:
        move = {"from": settings.root, "to": now_at}
        workspace.ledger.append(NewEntry(DEFAULT_TENANT, "workspace.moved", workspace_id(workspace.root), move))
        settings = settings.model_copy(update={"root": now_at})
        write_durably(workspace.state.settings, settings.canonical() + b"\n")


def _record_creation(batch: Batch, workspace: Workspace) -> None:
    """Write the first entry, which names the first keys, unless an earlier process has written it."""
    if batch.store.one("SELECT 1 FROM ledger_entries LIMIT 1") is None:
        keys = {key.role: key.key_id for key in workspace.keyring}
        batch.append(NewEntry(DEFAULT_TENANT, "workspace.created", workspace_id(workspace.root), {"keys": keys}))
