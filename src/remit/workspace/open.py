"""Finds a workspace and reads its root, its configuration, its settings and its store."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from remit.contracts.base import Contract, Timestamp, VersionOne
from remit.contracts.config.config import CONFIG_NAME, EnvironmentName, SystemConfig
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.execution.protected_paths import is_own_folder
from remit.fs.state_dir import StateDirectory, locate_state, require_private
from remit.parsing import read_bounded
from remit.parsing.yaml import parse_yaml
from remit.store.connection import Store
from remit.store.sqlite import SqliteStore

T = TypeVar("T")


class WorkspaceSettings(Contract):
    """`workspace.json` in the state directory: the decisions of `remit init`.

    It never holds a password, only the name of the variable that does.
    """

    version: VersionOne
    created_at: Timestamp
    root: Annotated[str, Field(min_length=1, max_length=4096, description="The folder it was made for.")]
    store: Literal["sqlite", "postgresql"]
    url_variable: EnvironmentName | None = None
    schema_name: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")] | None = None


def find_root(start: Path, environ: Mapping[str, str]) -> Path:
    """Return the nearest folder, from `start` upwards, that holds a remit.yaml.

    Refuses a folder that has a state directory and no remit.yaml. Otherwise a process could choose the workspace above
    it by removing the file.
    """
    if not start.is_dir():
        raise RefusedError(
            Reason.STATE_MISSING, "there is no such folder", where=str(start), next_step="Give a folder that exists."
        )
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / CONFIG_NAME).is_file():
            return folder
        if _has_state(folder, environ):
            raise RefusedError(
                Reason.STATE_MISSING,
                f"this folder is a workspace, but its {CONFIG_NAME} is missing",
                where=str(folder),
                next_step="Restore the file, or make a new one: remit init",
            )
    raise RefusedError(
        Reason.STATE_MISSING,
        f"there is no {CONFIG_NAME} here or in any folder above",
        where=str(start),
        next_step="Run `remit init` in the folder where agents should work.",
    )


def _has_state(folder: Path, environ: Mapping[str, str]) -> bool:
    try:
        return locate_state(folder, environ).settings.exists()
    except (RefusedError, OSError):
        return False


def read_config(root: Path) -> SystemConfig:
    """Read the remit.yaml of a workspace. Its `root` must lie inside the workspace, because the state lies outside."""
    path = root / CONFIG_NAME
    if not path.is_file():  # opening a FIFO would block until it has a writer
        raise EnvironmentFailureError(
            Reason.STATE_MISSING,
            "remit.yaml is missing, or is not a regular file",
            where=str(path),
            next_step="Put the file back, or run `remit init` again.",
        )
    try:
        with path.open("rb") as stream:
            raw = read_bounded(stream, SystemConfig.bounds, source=str(path))
        config = SystemConfig.from_tree(parse_yaml(raw, SystemConfig.bounds, source=str(path)), source=str(path))
    except RefusedError as problem:  # its reason describes documents that a caller sends
        raise RefusedError(
            Reason.CONFIG_INVALID, problem.what, where=problem.where, next_step=problem.next_step
        ) from problem
    narrowed_root = (root / config.root).resolve()
    if not narrowed_root.is_relative_to(root):
        raise RefusedError(
            Reason.STATE_UNSAFE,
            "the root is outside the folder of remit.yaml",
            where=f"{path}, $.root",
            next_step="Put a remit.yaml into the folder where agents should work, with `root: .`",
        )
    if is_own_folder(narrowed_root.relative_to(root).parts):
        raise RefusedError(
            Reason.STATE_UNSAFE,
            "the root is a folder where Remit keeps reports and backups, which no plan may touch",
            where=f"{path}, $.root",
            next_step="Set it to the folder with the files of the project, or to `.`",
        )
    return config


def read_settings(state: StateDirectory) -> WorkspaceSettings:
    """Read the settings of a workspace from its state directory."""
    if not state.path.exists():
        raise EnvironmentFailureError(
            Reason.STATE_MISSING,
            "this workspace has no state directory: no keys and no ledger",
            where=str(state.path),
            next_step=(
                "If the workspace was made with REMIT_STATE, set it to the same folder here. An MCP client may not pass"
                " it on: set it under `env` of the client. Also check XDG_STATE_HOME and HOME. New here: remit init."
                " Moved or renamed: remit init --adopt OLD_STATE_DIRECTORY. Lost: restore a backup first, because"
                " `remit init` starts an empty ledger."
            ),
        )
    require_private(state.path, what="the state directory of this workspace")
    if not state.settings.exists():
        raise EnvironmentFailureError(
            Reason.STATE_MISSING,
            "the creation of this workspace was not finished",
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
        raise EnvironmentFailureError(
            Reason.STORE_UNAVAILABLE,
            f"this workspace keeps its ledger in PostgreSQL, but the variable {variable} with its address is not set",
            where=str(state.settings),
            next_step=f"Set it, for example: export {variable}=postgresql://user@host/database",
        )
    try:
        # The driver is an extra, and loading it takes longer than most commands run.
        from remit.store.postgresql import PostgresStore  # noqa: PLC0415 - see above
    except ImportError:
        raise EnvironmentFailureError(
            Reason.STORE_UNAVAILABLE,
            "the PostgreSQL driver is not installed",
            next_step="Install it with: pip install 'remit[postgres]'",
        ) from None
    return PostgresStore(url, settings.schema_name or "")


def cached_by_mtime(file: Path, load: Callable[[], T]) -> Callable[[], T]:
    """Load once, and again whenever the file changes, so that a long-lived process uses new keys and settings."""
    cached: list[tuple[tuple[int, int, int, int], T]] = []
    path = str(file)

    def current() -> T:
        try:
            found = os.stat(path)
        except OSError:
            return load()  # its error says more
        # The change time too, because a process that edits a file can set its other times back.
        stamp = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        if not cached or cached[0][0] != stamp:
            cached[:] = [(stamp, load())]
        return cached[0][1]

    return current
