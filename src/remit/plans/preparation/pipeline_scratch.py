"""The folder that a pipeline works in: a small project root, with copies of what it reads and of what it may change.

The host fills it before it starts the process. It reads beneath the root and follows no link. The approval binds what
was copied: a file by its hash, a folder by one hash over the names and hashes of its files. When the process has ended,
the host takes only the files that the pipeline may write.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.preview import PreviewedRemark
from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.effects.file_copy import copy_content, sha256_of
from remit.effects.plans.database_files import is_database_file, require_no_log
from remit.effects.plans.files import mismatch, missing, require_ordinary, too_large
from remit.effects.plans.steps import State
from remit.execution.protected_paths import is_forbidden, protecting_group
from remit.fs import openat as beneath
from remit.fs.atomic_write import disk_failure
from remit.fs.paths import Located, locate_below, plain_spelling
from remit.plans.engines.database_files import (
    OpenCopy,
    backup_too_large_error,
    clone,
    closing,
    new_file,
    require_idle_in,
    require_unlocked,
)
from remit.plans.engines.input_files import folder_is_missing
from remit.plans.engines.pipeline import clear_scratch
from remit.plans.model.folders import opened
from remit.plans.policy.pipelines import database_files
from remit.plans.preparation.database_versions import PreparationContext
from remit.plans.preparation.prepared import FolderInput

MAX_FILES: Final = 2_000
MAX_DEPTH: Final = 32
MAX_NAMED: Final = 5
"""The most files that an error or a remark names."""
_EXCLUDED: Final = frozenset({"__pycache__"})
"""Folders that are never copied. Python derives their files from the code, and may write them again at any time."""


def folder_digest(
    root: str, path: str, config: SystemConfig, scope: FolderInput, digest_of: Callable[[int], str]
) -> str:
    """Return the digest by which an approval binds a folder that a pipeline reads. Only opens and hashes files.

    For a folder in which the plan itself leaves files, the approval does not bind those files.
    """
    parts = tuple(path.split("/"))
    bound_separately = {*database_files(config), *scope.made}
    hashes: list[list[str]] = []
    with opened(root, parts, where=path) as folder:
        files = _files_below(folder, parts, scope.without, lambda each: bool(_exclusion_reason(each, config)))
        for name, inside in files:
            if len(hashes) >= MAX_FILES:
                raise _path_refused_error(f"the folder has more than {MAX_FILES:,} files", path)
            if name not in bound_separately:
                place = locate_below(root, name)
                with closing(beneath.open_file(inside, place.name, where=name)) as file:
                    hashes.append([name, digest_of(file)])
    return digest_bytes(canonical_bytes(sorted(hashes)))


def find_modified_files(root: str, path: str, config: SystemConfig, since: float) -> list[str]:
    """Return the files of a folder whose time of modification is not before `since`, to name them to people.

    A program can set that time, so an empty list does not mean that the folder is unchanged.
    """
    parts = tuple(path.split("/"))
    try:
        with opened(root, parts, where=path) as folder:
            return [
                name
                for name, inside in _files_below(
                    folder, parts, frozenset(), lambda each: bool(_exclusion_reason(each, config))
                )
                if os.stat(name.rpartition("/")[2], dir_fd=inside, follow_symlinks=False).st_mtime >= since
            ][:MAX_NAMED]
    except (RemitError, OSError):
        return []


def describe_changed_folder(root: str, path: str, config: SystemConfig, when: str, since: float) -> str:
    """Return how a folder differs from its state at an earlier time, with the files that were modified since."""
    files = find_modified_files(root, path, config, since)
    return f"a file in this folder was changed since {when}" + (f": {', '.join(files)}" if files else "")


def _files_below(
    folder: int, parts: tuple[str, ...], without: frozenset[str], is_excluded: Callable[[str], bool]
) -> Iterator[tuple[str, int]]:
    """Yield the path of every file and its open folder, which is valid until the next item. Refuses links."""
    path = "/".join(parts)
    for name in sorted(os.listdir(folder)):
        where = f"{path}/{name}"
        if name in without or name in _EXCLUDED or is_excluded(where):
            continue
        if not where.isprintable():
            raise _path_refused_error(f"a name in the folder {path} is not printable", path)
        found = beneath.peek(folder, name, where=where)
        if found is None:
            raise mismatch("another process changed the folder while it was being copied", path)
        if stat.S_ISLNK(found.mode):
            raise _path_refused_error("this is a symbolic link, and a pipeline gets none", where)
        if not stat.S_ISDIR(found.mode):
            yield where, folder
            continue
        if len(parts) >= MAX_DEPTH:
            raise _path_refused_error(f"more than {MAX_DEPTH} folders are inside each other", where)
        with closing(beneath.open_folder(folder, (name,), where=where)) as below:
            yield from _files_below(below, (*parts, name), frozenset(), is_excluded)


def _exclusion_reason(path: str, config: SystemConfig) -> str:
    """Return why a path is not copied with its folder, or an empty text. A protected file must be named itself."""
    if why := is_forbidden(path, config):
        return why
    return "it is protected, and the pipeline names only its folder" if protecting_group(path, config) else ""


class PipelineOutput(NamedTuple):
    """An open file that a pipeline left."""

    file: OpenCopy
    is_database: bool


class PipelineScratch:
    """The work folder of one pipeline. Files are named by their paths below the root, in normal spelling."""

    def __init__(self, context: PreparationContext, path: Path) -> None:
        self.path = path
        self._context, self._config, self._root = context, context.config, context.root
        self._databases = database_files(context.config)
        self._added: set[str] = set()
        self._bytes = 0

    # --- filling it

    def add(self, path: str, *, without: frozenset[str] = frozenset()) -> None:
        """Add a file or a folder that the pipeline reads. `without` are names directly below it to leave out."""
        place = locate_below(self._root, path)
        if path in self._databases or path in self._context.outputs:
            self._add_file(path)
            return
        with opened(place.base, place.parents, where=path) as folder:
            found = beneath.peek(folder, place.name, where=path)
        if found is None:
            raise missing(path, "a pipeline reads this file or folder, and it does not exist")
        if stat.S_ISDIR(found.mode):
            self._add_folder(path, without)
        else:
            self._context.bind(path, self._copy(place).sha256)

    def add_written(self, path: str) -> State | None:
        """Add a file that the pipeline may change, in its version at this point of the plan. None if there is none."""
        if path in self._context.outputs:
            return self._add_file(path)
        if self._is_database(path):
            return self._add_database(path)
        place = locate_below(self._root, path)
        if folder_is_missing(place):
            self._prepare_path(path)
            return None
        with opened(place.base, place.parents, where=path) as folder:
            if not beneath.exists(folder, place.name):
                self._prepare_path(path)
                return None
        return self._copy(place, writes=True)

    def _is_database(self, path: str) -> bool:
        return path in self._databases

    def _add_file(self, path: str) -> State | None:
        if self._is_database(path):
            return self._add_database(path)
        source_file = self._context.outputs[path]
        if path not in self._added:
            clone(source_file.descriptor, self._prepare_path(path), self._require_not_cancelled)
        return source_file.state

    def _add_database(self, path: str) -> State | None:
        working_copy = self._context.working_copy(path)
        if path not in self._added:
            target = self._prepare_path(path)
            working_copy.ensure_file(self._require_not_cancelled)
            if working_copy.state is not None:
                with closing(os.open(working_copy.path, os.O_RDONLY | os.O_CLOEXEC)) as source:
                    clone(source, target, self._require_not_cancelled)
        return working_copy.state

    def _add_folder(self, path: str, without: frozenset[str]) -> None:
        parts = tuple(path.split("/"))
        hashes: list[list[str]] = []
        with opened(self._root, parts, where=path) as folder:
            for name, inside in _files_below(folder, parts, without, self._is_excluded):
                if name in self._databases:
                    self._add_database(name)  # bound separately
                elif name not in self._context.outputs:  # a file that the plan makes is bound by its inputs
                    hashes.append([name, self._copy_in(inside, locate_below(self._root, name)).sha256])
        for name in self._context.outputs:
            if name.startswith(f"{path}/"):
                self._add_file(name)
        self._context.prepared.folder_inputs[path] = FolderInput(without, frozenset(self._context.outputs))
        self._context.bind(path, digest_bytes(canonical_bytes(sorted(hashes))))

    def _is_excluded(self, path: str) -> bool:
        """Whether a file or a whole folder is left out. If so, add a remark about it."""
        why = _exclusion_reason(path, self._config)
        if why:
            remark = PreviewedRemark(path=path, what=f"not copied for the pipeline: {why}")
            self._context.prepared.remarks.append(remark)
        return bool(why)

    def _copy(self, place: Located, *, writes: bool = False) -> State:
        with opened(place.base, place.parents, where=place.below) as folder:
            return self._copy_in(folder, place, writes=writes)

    def _copy_in(self, folder: int, place: Located, *, writes: bool = False) -> State:
        """Copy a file in one consistent state. Refuses a database that another process uses."""
        where = place.below
        with closing(beneath.open_file(folder, place.name, where=where)) as source:
            identity = beneath.identify(source)
            is_database = is_database_file(source)
            self._require_size(identity.size, where, is_database=is_database)
            if is_database:
                require_idle_in(folder, place, writes=False)
            if writes:
                require_ordinary(identity, where=where)
            self._count(identity.size, where)
            digest = self._write(where, source, identity.size)
            if is_database:
                require_no_log(folder, place.name, where=where)
                require_unlocked(source, where, writes=False)
            if beneath.identify(source) != identity:
                raise mismatch("another process changed the file while it was being copied", where)
        return State(digest, identity.size, identity.mode & 0o777)

    def _write(self, path: str, source: int, size: int) -> str:
        if path in self._added:  # both read and written, or in two folders
            return sha256_of(source)
        target = self._prepare_path(path)
        with new_file(target) as copy:
            try:
                copy_content(source, copy, size, lambda _done, _total: self._require_not_cancelled())
                return sha256_of(copy)
            except OSError as problem:
                raise disk_failure(problem, target) from problem

    def _prepare_path(self, path: str) -> Path:
        """Return the path of the copy, and make the folders above it."""
        self._added.add(path)
        target = self.path / path
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise disk_failure(problem, target) from problem
        return target

    def _require_size(self, size: int, where: str, *, is_database: bool) -> None:
        limits = self._config.limits
        if is_database and size > limits.max_backup_bytes:
            raise backup_too_large_error(size, limits.max_backup_bytes, where)
        if not is_database and size > limits.max_file_bytes:
            raise too_large(size, limits.max_file_bytes, where)

    def _count(self, size: int, where: str) -> None:
        self._require_not_cancelled()
        self._bytes += size
        most = self._config.limits.max_backup_bytes
        if len(self._added) >= MAX_FILES or self._bytes > most:
            raise RefusedError(
                Reason.LIMIT_EXCEEDED,
                f"a pipeline gets at most {MAX_FILES:,} files, with {most:,} bytes together",
                where=where,
                next_step="Name fewer files in its `reads`, or raise limits.max_backup_bytes in remit.yaml.",
            )

    def _require_not_cancelled(self) -> None:
        self._context.engine.require_not_cancelled()

    # --- taking from it

    def collect_output(self, path: str, mode: int) -> PipelineOutput:
        """Open and hash the file that the pipeline left here. PIPELINE_FAILED for anything but a plain file."""
        place = Located(str(self.path), *_split(path))
        try:
            with opened(place.base, place.parents, where=path) as folder, ExitStack() as undo:
                descriptor = beneath.open_file(folder, place.name, where=path)
                undo.callback(os.close, descriptor)
                is_database = is_database_file(descriptor)
                if is_database:
                    require_no_log(folder, place.name, where=path)
                size = os.fstat(descriptor).st_size
                self._require_size(size, path, is_database=is_database)
                output = PipelineOutput(OpenCopy(descriptor, State(sha256_of(descriptor), size, mode)), is_database)
                undo.pop_all()
                return output
        except RemitError as problem:
            raise _output_error(problem, path) from None
        except OSError as problem:
            raise _output_error(beneath.failure(problem, path, "could not be read"), path) from None

    def list_discarded(self, kept: Collection[str]) -> list[str]:
        """Return new files that the pipeline left beside those in `kept`. They are discarded with the folder."""
        found: list[str] = []
        for parent, folders, names in os.walk(self.path):
            folders[:] = sorted(name for name in folders if name not in _EXCLUDED)
            below = os.path.relpath(parent, self.path)
            paths = (name if below == os.curdir else f"{below}/{name}" for name in sorted(names))
            found += [path for path in paths if path not in self._added and path not in kept and path.isprintable()]
            if len(found) >= MAX_NAMED:
                break
        return found[:MAX_NAMED]

    def clear(self) -> None:
        """Remove the folder with everything in it. The collected files stay open and can be read."""
        clear_scratch(self.path)


def _split(path: str) -> tuple[tuple[str, ...], str]:
    *parents, name = plain_spelling(path).split("/")
    return tuple(parents), name


def _path_refused_error(what: str, where: str) -> RefusedError:
    return RefusedError(Reason.PATH_REFUSED, what, where=where, next_step="Move it away, or name other `reads`.")


def _output_error(problem: RemitError, path: str) -> RemitError:
    """Return the error for an output that is not the plain file that the pipeline must leave."""
    if problem.reason is Reason.LIMIT_EXCEEDED or problem.reason is Reason.DISK_FULL:
        return problem
    if problem.reason is Reason.FILE_MISSING:
        what = "the pipeline succeeded and did not write this file, which is in its `writes`"
    elif problem.reason is Reason.DATABASE_BUSY:
        what = "the pipeline did not close this database: some of its changes are still in a log beside it"
    else:
        what = f"the output of the pipeline under this name cannot be used: {problem.what}"
    return EnvironmentFailureError(
        Reason.PIPELINE_FAILED,
        what,
        where=path,
        next_step="Let its last step leave a plain, closed file there, or remove the name from `writes`.",
    )
