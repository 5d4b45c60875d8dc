"""The file that `-o` names: all of the new content or all of the old, and nothing touched by what was refused."""

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
    """`output` is a path, or None for standard output, which `-` stands for too."""
    return click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False),
        callback=_parse_output,
        help="A file to write to; - or nothing: standard output.",
    )(command)


def required_output_option(command: F) -> F:
    return click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False),
        callback=_parse_output,
        required=True,
        help="The file; - for standard output.",
    )(command)


@contextlib.contextmanager
def open_output(path: Path | None, *, reserved: tuple[str, ...] = (), is_secret: bool = False) -> Iterator[IO[bytes]]:
    """A stream into `path`, or into standard output for None. Enter it before doing what the output will tell.

    Entering refuses what cannot be written: a folder that is missing or closed, remit.yaml, a file named in `reserved`.
    The file appears, whole and on disk, when the block ends well; when it does not, the old one is as it was.
    One that `is_secret` is its owner's alone from its first moment on: closed later, it could be open to others still.
    """
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    found = _inspect(path)
    if found is not None and not stat.S_ISREG(found.st_mode):  # a device or a pipe: there is nothing to keep
        with path.open("wb") as stream:
            yield stream
        return
    # A link is replaced, not followed: an agent in this folder could have laid one that leads to our keys.
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
        raise _refusal("this would overwrite the workspace's configuration", path, "Give the output another name.")
    for name in reserved:
        if os.path.exists(name) and os.path.exists(target) and os.path.samefile(name, target):
            raise _refusal("this would overwrite what is read from", path, "Give the output another name.")
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise _refusal("this file may not be changed", path, "Give the output another name, or allow it: chmod u+w")


def _no_folder_error(target: Path, problem: OSError) -> RefusedError:
    folder = target.parent
    if not folder.exists():
        return _refusal("there is no such folder to write into", folder, f"Make it first: mkdir -p '{folder}'")
    why = os.strerror(problem.errno) if problem.errno else type(problem).__name__
    return _refusal(f"no file can be made in this folder: {why}", folder, "Name a file in a folder of your own.")


def _refusal(what: str, where: Path, next_step: str) -> RefusedError:
    return RefusedError(Reason.MISUSE, f"{what}; nothing was done", where=str(where), next_step=next_step)
