"""The folder of a run below `agent_outputs/reports`: its papers, and the backups that lead back.

Everything is opened beneath the root and without a link: an `agent_outputs` that somebody planted as a link is refused.
What is written by `write` is durable when it returns, and so is the folder it stands in. Limit: the folder lies in the
project, where others can write too; what Remit itself relies on is in its ledger, by its hash.
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
from remit.fs.atomic_write import write_all, write_together
from remit.fs.openat import already_exists, failure, make_folder, open_base, open_file, open_folder

OUTPUTS: Final = "agent_outputs"
REPORTS: Final = (OUTPUTS, "reports")
BACKUPS: Final = "backups"

EXECUTION_REPORT: Final = "execution_report.json"
CHANGE_LOG: Final = "change_log.json"
MANIFEST: Final = "rollback_manifest.json"
STATUS: Final = "status.json"
REPORT_MODE: Final = 0o600
"""Diffs quote files that may be closed to others, so the papers are closed too."""
SCRIPT: Final = "rollback.py"
DRIFTED: Final = ".drifted-"
"""In the name of a file that a forced rollback put aside."""

MAX_REPORT_BYTES: Final = 64 << 20
_HALF_WRITTEN: Final = re.compile(r"\.[a-z_]+\.(?:json|py)\.[0-9a-f]{16}\.tmp")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_TASK: Final = 100
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def folder_name(at: datetime, envelope_id: str) -> str:
    """`{timestamp}_{task}`: sorts by time; two ids never share a name, whatever characters they have."""
    task = _UNSAFE.sub("-", envelope_id)[:_LONGEST_TASK]
    if task != envelope_id:
        task += "-" + hashlib.sha256(envelope_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%S.%f}Z_{task}"


def render_report_file(report: Contract) -> bytes:
    """As people read it. Its digest is of the canonical form, never of these bytes."""
    return render_tree(report.tree())


def render_tree(tree: Mapping[str, Any]) -> bytes:
    """A line for each field, and for each item of a list. (An indent throughout costs ten times as much to write.)"""
    fields = ",\n  ".join(f"{json.dumps(name)}: {_render_field(value)}" for name, value in tree.items())
    return f"{{\n  {fields}\n}}\n".encode()


def _render_field(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    items = ",\n    ".join(json.dumps(item, ensure_ascii=False) for item in value)
    return f"[\n    {items}\n  ]"


def make_folders(root: str, parents: Sequence[str]) -> tuple[int, list[int]]:
    """The folder beneath the root, made where it is missing; and the folders in which a new one awaits its sync.

    The caller closes all of these descriptors. The first one gets a `.gitignore` when it is made.
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
    """The names of the report folders, newest first. Unfinished and pruned ones begin with a dot and are not listed."""
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
    """One run's folder, held open: what its name stands for later does not matter. A context manager."""

    def __init__(self, name: str, reports: int, folder: int, unsynced: list[int]) -> None:
        self.name = name
        self._reports = reports
        self._folder = folder
        self._backups: int | None = None
        self._unsynced = unsynced

    @classmethod
    def make(cls, root: str, name: str) -> Self:
        """A new, empty folder with room for backups. Durable after the first `write`."""
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
            # Closed to others: a backup of a file stays as open as its folder was, and no more.
            os.mkdir(BACKUPS, 0o700, dir_fd=folder)
        except OSError as problem:
            made.discard()
            made.close()
            raise failure(problem, made.location(BACKUPS), "could not be made") from None
        reach("backup.folder_made")
        return made

    @classmethod
    def open(cls, root: str, name: str) -> Self:
        """The folder of an earlier run."""
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
                "the report folder of this run is gone",
                where=where,
                next_step="Restore it from a backup of the project; it holds what is needed to go back.",
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
        """Relative to the root."""
        return "/".join((*REPORTS, self.name))

    @property
    def descriptor(self) -> int:
        return self._folder

    @property
    def backups(self) -> int:
        """A descriptor of the folder with the backups, closed with this one."""
        if self._backups is None:
            try:
                self._backups = open_folder(self._folder, (BACKUPS,), where=self.location(BACKUPS))
            except RefusedError as problem:
                if problem.reason is not Reason.FILE_MISSING:
                    raise
                raise RefusedError(
                    Reason.BACKUP_MISSING,
                    "the backups of this run are gone",
                    where=self.location(BACKUPS),
                    next_step="Restore them from a backup of the project. Nothing was changed.",
                ) from None
        return self._backups

    def location(self, name: str) -> str:
        """Relative to the root, as the papers name it."""
        return f"{self.path}/{name}"

    def write(self, files: Mapping[str, bytes]) -> None:
        """All of them, durably; each is whole at every moment. EnvironmentFailureError if they cannot be written."""
        try:
            write_together(self._folder, files, mode=REPORT_MODE)
        except EnvironmentFailureError as problem:  # which knows only the name of the file
            where = self.location(problem.where)
            raise EnvironmentFailureError(
                problem.reason, problem.what, where=where, next_step=problem.next_step
            ) from None
        try:
            while self._unsynced:
                os.fsync(self._unsynced[-1])
                os.close(self._unsynced.pop())
        except OSError as problem:
            raise failure(problem, self.path, "could not be written to the disk for good") from None

    def read(self, name: str) -> bytes | None:
        """What stands there now, or None. For comparing only: whoever can write to the project can change it."""
        try:
            descriptor = open_file(self._folder, name, where=self.location(name))
        except RefusedError as problem:
            if problem.reason is Reason.FILE_MISSING:
                return None
            raise
        with open(descriptor, "rb") as file:
            return file.read(MAX_REPORT_BYTES)

    def discard(self) -> None:
        """Remove what was made for a run that never began. What cannot be removed now, `remit prune` will find."""
        with contextlib.suppress(OSError):
            remove_files(self._folder)
            os.rmdir(self.name, dir_fd=self._reports)

    def clear_half_written(self) -> None:
        """Remove what a killed process left of papers that it was writing. Only where surely nobody writes any more."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folder):
                if _HALF_WRITTEN.fullmatch(name):
                    os.unlink(name, dir_fd=self._folder)

    def close(self) -> None:
        backups = [] if self._backups is None else [self._backups]
        _close([*backups, *self._unsynced, self._folder, self._reports])
        self._backups = None
        self._unsynced = []
        self._folder = self._reports = -1


def remove_files(folder: int) -> int:
    """Remove the files in a folder and in the folders right below it, and those; the bytes that they had.

    Links are removed, never followed. Raises OSError where something is nested deeper: Remit makes no such folder.
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
    """Papers and backups are not the project's own. A convenience: that it cannot be written stops nothing."""
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
