"""The report folder of a run below `agent_outputs/reports`. It holds the reports and the backups.

Everything is opened beneath the root and without following a link, so a planted link `agent_outputs` is refused. Data
that `write` writes is durable when it returns, and so is the folder. Limit: the folder is in the project, where others
can write too. Data that Remit itself relies on is in its ledger, by its hash.
"""

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

from remit.contracts.base import Contract
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import reach
from remit.fs.atomic_write import write_all
from remit.fs.openat import already_exists, failure, make_folder, open_base, open_file, open_folder
from remit.fs.overlapped import write_together

OUTPUTS: Final = "agent_outputs"
REPORTS: Final = (OUTPUTS, "reports")
BACKUPS: Final = "backups"

EXECUTION_REPORT: Final = "execution_report.json"
CHANGE_LOG: Final = "change_log.json"
MANIFEST: Final = "rollback_manifest.json"
STATUS: Final = "status.json"
REPORT_MODE: Final = 0o600
"""Diffs quote files that others may not read, so the reports are private too."""
SCRIPT: Final = "rollback.py"
DRIFTED: Final = ".drifted-"
"""A part of the name of a copy that a forced rollback made of a changed file."""

MAX_REPORT_BYTES: Final = 64 << 20
_HALF_WRITTEN: Final = re.compile(r"\.[a-z_]+\.(?:json|py)\.[0-9a-f]{16}\.tmp")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_TASK: Final = 100
_encode: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def folder_name(at: datetime, envelope_id: str) -> str:
    """Return `{timestamp}_{task}`. It sorts by time, and two ids never share a name, whatever characters they have."""
    task = _UNSAFE.sub("-", envelope_id)[:_LONGEST_TASK]
    if task != envelope_id:
        task += "-" + hashlib.sha256(envelope_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%S.%f}Z_{task}"


def render_report_file(report: Contract) -> bytes:
    """Render a report for people. Its digest is computed from the canonical form, not from these bytes."""
    return render_tree(report.tree())


def render_tree(tree: Mapping[str, Any]) -> bytes:
    """Render one line for each field and each list item. Indenting every level takes ten times as long."""
    fields = ",\n  ".join(f"{_encode(name)}: {_render_field(value)}" for name, value in tree.items())
    return f"{{\n  {fields}\n}}\n".encode()


def _render_field(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return _encode(value)
    items = ",\n    ".join(map(_encode, value))
    return f"[\n    {items}\n  ]"


def make_folders(root: str, parents: Sequence[str]) -> tuple[int, list[int]]:
    """Open the folder beneath the root, and make it if it is missing.

    Returns it and the folders that hold a new entry and need a sync. The caller closes all descriptors. A new first
    folder gets a `.gitignore`.
    """
    base = open_base(root)
    try:
        current = open_folder(base, (), where=root)
    finally:
        os.close(base)
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(lambda: os.close(current))
        unsynced: list[int] = []
        on_failure.callback(_close, unsynced)
        for depth, name in enumerate(parents):
            where = "/".join(parents[: depth + 1])
            made = make_folder(current, name, where=where)
            inner = open_folder(current, (name,), where=where)
            if made:
                unsynced.append(current)
            else:
                os.close(current)
            current = inner
            if made and depth == 0:
                _ignore_in_git(current)
        on_failure.pop_all()
    return current, unsynced


def list_reports(root: str) -> list[str]:
    """Return the names of the report folders, newest first. Names with a dot are incomplete or pruned, and not
    listed.
    """
    try:
        folder = _open_below(root, REPORTS)
    except RefusedError as problem:
        if problem.reason is Reason.FILE_MISSING:
            return []
        raise
    try:
        return sorted((name for name in os.listdir(folder) if not name.startswith(".")), reverse=True)
    finally:
        os.close(folder)


class ReportFolder:
    """The folder of one run, held open, so a later change of its name has no effect. A context manager."""

    def __init__(self, name: str, reports: int, folder: int, unsynced: list[int]) -> None:
        self.name = name
        self._reports = reports
        self._folder = folder
        self._backups: int | None = None
        self._unsynced = unsynced
        self._unsynced_files: list[int] = []

    @classmethod
    def make(cls, root: str, name: str) -> Self:
        """Make a new folder with an empty folder for backups. It is durable after the first `write`."""
        reports, unsynced = make_folders(root, REPORTS)
        where = "/".join((*REPORTS, name))
        try:
            _make_new(reports, name, where)
            folder = open_folder(reports, (name,), where=where)
        except BaseException:
            _close([reports, *unsynced])
            raise
        made = cls(name, reports, folder, [*unsynced, os.dup(reports)])
        try:
            # Private: access to a backup must not be wider than access to the original.
            os.mkdir(BACKUPS, 0o700, dir_fd=folder)
        except OSError as problem:
            made.discard()
            made.close()
            raise failure(problem, made.location(BACKUPS), "could not be made") from None
        reach("backup.folder_made")
        return made

    @classmethod
    def open(cls, root: str, name: str) -> Self:
        """Open the folder of an earlier run."""
        where = "/".join((*REPORTS, name))
        try:
            reports = _open_below(root, REPORTS)
            try:
                folder = open_folder(reports, (name,), where=where)
            except BaseException:
                os.close(reports)
                raise
        except RefusedError as problem:
            if problem.reason is not Reason.FILE_MISSING:
                raise
            raise EnvironmentFailureError(
                Reason.STATE_MISSING,
                "the report folder of this run is missing",
                where=where,
                next_step="Restore it from a backup of the project; it holds the rollback data.",
            ) from None
        return cls(name, reports, folder, [])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The path relative to the root."""
        return "/".join((*REPORTS, self.name))

    @property
    def descriptor(self) -> int:
        return self._folder

    @property
    def backups(self) -> int:
        """A descriptor of the folder with the backups. It is closed with this object."""
        if self._backups is None:
            try:
                self._backups = open_folder(self._folder, (BACKUPS,), where=self.location(BACKUPS))
            except RefusedError as problem:
                if problem.reason is not Reason.FILE_MISSING:
                    raise
                raise RefusedError(
                    Reason.BACKUP_MISSING,
                    "the backups of this run are missing",
                    where=self.location(BACKUPS),
                    next_step="Restore them from a backup of the project. Nothing was changed.",
                ) from None
        return self._backups

    def location(self, name: str) -> str:
        """Return the path of an entry relative to the root, as reports name it."""
        return f"{self.path}/{name}"

    def sync_later(self, files: Sequence[int]) -> None:
        """Take over new files of the backup folder. The next `write` makes them durable, with its own files."""
        self._unsynced_files.extend(files)

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write all files durably. Each is always complete. Raises `EnvironmentFailureError` if they cannot be
        written.
        """
        kept = self._unsynced_files
        folders = [*self._unsynced, *([self.backups] if kept else [])]
        try:
            write_together(self._folder, files, mode=REPORT_MODE, more=kept, folders=folders)
        except EnvironmentFailureError as problem:  # it only has the name of the file
            where = self.location(problem.where)
            raise EnvironmentFailureError(
                problem.reason, problem.what, where=where, next_step=problem.next_step
            ) from None
        _close([*self._unsynced, *kept])
        self._unsynced, self._unsynced_files = [], []

    def read(self, name: str) -> bytes | None:
        """Return the current content of a file, or None. Use it only to compare: other programs can change the file."""
        try:
            descriptor = open_file(self._folder, name, where=self.location(name))
        except RefusedError as problem:
            if problem.reason is Reason.FILE_MISSING:
                return None
            raise
        with open(descriptor, "rb") as file:
            return file.read(MAX_REPORT_BYTES)

    def discard(self) -> None:
        """Remove the folder of a run that never started. `remit prune` finds what cannot be removed now."""
        with contextlib.suppress(OSError):
            remove_files(self._folder)
            os.rmdir(self.name, dir_fd=self._reports)

    def clear_half_written(self) -> None:
        """Remove partly written reports of a killed process. Call it only when no process can be writing."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folder):
                if _HALF_WRITTEN.fullmatch(name):
                    os.unlink(name, dir_fd=self._folder)

    def close(self) -> None:
        backups = [] if self._backups is None else [self._backups]
        _close([*backups, *self._unsynced, *self._unsynced_files, self._folder, self._reports])
        self._backups = None
        self._unsynced, self._unsynced_files = [], []
        self._folder = self._reports = -1


def remove_files(folder: int) -> int:
    """Remove the files in a folder, its direct subfolders and their files. Return the number of freed bytes.

    Links are removed and not followed. Raises OSError if a folder is nested deeper, which Remit never makes.
    """
    freed = 0
    for name in os.listdir(folder):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=folder)
            freed += found.st_size
            continue
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            for file in os.listdir(inner):
                freed += os.stat(file, dir_fd=inner, follow_symlinks=False).st_size
                os.unlink(file, dir_fd=inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)
    return freed


def _make_new(folder: int, name: str, where: str) -> None:
    if not make_folder(folder, name, where=where):
        raise already_exists(where)


def _open_below(root: str, parents: Sequence[str]) -> int:
    base = open_base(root)
    try:
        return open_folder(base, parents, where="/".join(parents))
    finally:
        os.close(base)


def _ignore_in_git(folder: int) -> None:
    """Exclude reports and backups from Git. This is a convenience, so a failure is ignored."""
    with contextlib.suppress(OSError):
        descriptor = os.open(".gitignore", _NEW_FILE, 0o644, dir_fd=folder)
        try:
            write_all(descriptor, b"*\n")
        finally:
            os.close(descriptor)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)
