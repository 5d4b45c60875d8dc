"""The output file of `-o`. It has all of the new content or all of the old, and a refusal leaves it unchanged."""

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import click

from remit.core.errors import Reason, RefusedError
from remit.fs.atomic_write import disk_failure, sync_directory

F = TypeVar("F", bound=Callable[..., Any])
CONFIG_NAME: Final = "remit.yaml"
_OPEN: Final = 0o666
_PRIVATE: Final = 0o600


def output_option(command: F) -> F:
    """Add `-o`. The command gets a path, or None for standard output, which `-` means too."""
    return click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False),
        callback=_parse_output,
        help="The file to write to. Without it, or with -, the output goes to standard output.",
    )(command)


def required_output_option(command: F) -> F:
    return click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False),
        callback=_parse_output,
        required=True,
        help="The file to write to, or - for standard output.",
    )(command)


@contextlib.contextmanager
def open_output(path: Path | None, *, reserved: tuple[str, ...] = (), is_secret: bool = False) -> Iterator[IO[bytes]]:
    """Open a stream into `path`, or into standard output for None. Enter it before the work whose result it takes.

    Refuses a path that cannot be written: a folder that is missing or not writable, remit.yaml, a file in `reserved`.
    If the block ends without an error, the complete file is on disk. Otherwise the old file is unchanged. With
    `is_secret`, only the owner can open the file from its creation on. If its mode were set later, another process
    could already have opened it.
    """
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    found = _inspect(path)
    if found is not None and not stat.S_ISREG(found.st_mode):  # a device or a pipe has no old content to keep
        with path.open("wb") as stream:
            yield stream
        return
    # A link is replaced and not followed, because an agent in this folder could have made a link to our keys.
    target = path.absolute()
    _refuse_reserved(path, target, reserved)
    mode = stat.S_IMODE(found.st_mode) if found is not None and not path.is_symlink() else None
    with _replace_on_success(target, None if is_secret else mode, _PRIVATE if is_secret else _OPEN) as stream:
        yield stream


@contextlib.contextmanager
def _replace_on_success(target: Path, mode: int | None, made_with: int) -> Iterator[IO[bytes]]:
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, made_with)
    except OSError as problem:
        raise _no_folder_error(target, problem) from None
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if mode is not None:
                os.fchmod(descriptor, mode)
            yield stream
            stream.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)
        sync_directory(target.parent)
    except OSError as problem:
        if problem.errno in {errno.ENOSPC, errno.EDQUOT} and problem.filename is None:
            raise disk_failure(problem, target) from problem
        raise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _parse_output(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Path | None:
    return None if value in {None, "-"} else Path(value or "")


def _inspect(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _no_folder_error(path.absolute(), problem) from None


def _refuse_reserved(path: Path, target: Path, reserved: tuple[str, ...]) -> None:
    if target.name == CONFIG_NAME:
        raise _refusal("this would overwrite the configuration of the workspace", path, "Give the output another name.")
    for name in reserved:
        if os.path.exists(name) and os.path.exists(target) and os.path.samefile(name, target):
            raise _refusal("this would overwrite the input file", path, "Give the output another name.")
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise _refusal("this file is read-only", path, "Give the output another name, or make it writable: chmod u+w")


def _no_folder_error(target: Path, problem: OSError) -> RefusedError:
    folder = target.parent
    if not folder.exists():
        return _refusal("the folder of the output does not exist", folder, f"Make the folder: mkdir -p '{folder}'")
    why = os.strerror(problem.errno) if problem.errno else type(problem).__name__
    return _refusal(f"the output cannot be made in this folder: {why}", folder, "Name a file in another folder.")


def _refusal(what: str, where: Path, next_step: str) -> RefusedError:
    return RefusedError(Reason.ARGUMENT_INVALID, f"{what}; nothing was done", where=str(where), next_step=next_step)
