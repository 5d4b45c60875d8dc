"""Small programs under the crash-point engine, each in a process of its own; what was seen is printed as JSON.

python -m tests.crash.tasks.engine_cases CASE FOLDER
"""

import contextlib
import ctypes
import errno
import json
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.support.crash_injection import (
    PROCEED,
    Acknowledge,
    Action,
    Decide,
    Fail,
    InjectedRun,
    Kill,
    Pretend,
    Shorten,
    run_watched,
)

LONG: Final = 300.0
LONG_CLOSED: Final = 999
_libc: Final = ctypes.CDLL(None, use_errno=True)


def at(number: int, action: Action) -> Decide:
    return lambda point, _: action if point.number == number else PROCEED


def told(ended: InjectedRun, folder: Path, **more: Any) -> dict[str, Any]:
    calls = [[point.call, *(os.path.relpath(path, folder) for path in point.paths)] for point in ended.points]
    files = {entry.name: entry.read_text() for entry in sorted(folder.iterdir()) if entry.is_file()}
    words = list(ended.acknowledged)
    return {
        "calls": calls,
        "stopped": len(ended.stopped),
        "code": ended.exit_code,
        "words": words,
        "files": files,
        **more,
    }


def family(folder: Path) -> Callable[[Acknowledge], None]:
    """A program, a child in a session of its own, a grandchild that lost its parent: each changes something."""

    def work(acknowledge: Acknowledge) -> None:
        acknowledge(str(os.getpid()))
        (folder / "one").write_text("1")
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.setsid()
            acknowledge(str(os.getpid()))
            os.rename(folder / "one", folder / "two")
            if os.fork() == 0:
                acknowledge(str(os.getpid()))
                os.mkdir(folder / "three")
                os.write(writing, b".")
            os._exit(0)
        os.close(writing)
        os.read(reading, 1)
        os.read(reading, 1)  # its end
        os.rmdir(folder / "three")

    return work


def in_one_order(folder: Path) -> dict[str, Any]:
    ended = run_watched(family(folder), [str(folder)])
    return told(ended, folder, lingering=ended.lingering)


def killed_everywhere(folder: Path) -> list[dict[str, Any]]:
    seen = []
    for number in range(1, 7):
        for left in folder.iterdir():
            left.rmdir() if left.is_dir() else left.unlink()
        ended = run_watched(family(folder), [str(folder)], at(number, Kill()))
        alive = [pid for pid in ended.acknowledged if os.path.exists(f"/proc/{pid}")]
        seen.append(told(ended, folder, alive=alive, folders=[p.name for p in folder.iterdir() if p.is_dir()]))
    return seen


def outliving(folder: Path) -> dict[str, Any]:
    def work(acknowledge: Acknowledge) -> None:
        if os.fork() == 0:
            os.setsid()
            acknowledge(str(os.getpid()))
            time.sleep(LONG)

    ended = run_watched(work, [str(folder)], patience=0.3)
    return {"lingering": len(ended.lingering), "alive": [p for p in ended.acknowledged if os.path.exists(f"/proc/{p}")]}


def hanging(folder: Path) -> str:
    try:
        run_watched(lambda _: time.sleep(LONG), [str(folder)], longest=0.5)
    except TimeoutError as problem:
        return str(problem)
    return ""


def answered(folder: Path) -> dict[str, Any]:
    """A call that fails, one that is pretended, and what the caller is told."""

    def work(acknowledge: Acknowledge) -> None:
        for number in range(3):
            try:
                os.mkdir(folder / f"folder-{number}")
                acknowledge("made")
            except OSError as problem:
                acknowledge(errno.errorcode[problem.errno or 0])

    actions: dict[int, Action] = {1: Fail(errno.EIO), 2: Pretend()}
    ended = run_watched(work, [str(folder)], lambda point, _: actions.get(point.number, PROCEED))
    return told(ended, folder, folders=[entry.name for entry in folder.iterdir()])


def halved(folder: Path) -> dict[str, Any]:
    """Every kind of write, cut in two; the second one goes on where the first one ended."""

    def work(acknowledge: Acknowledge) -> None:
        file = os.open(folder / "written", os.O_RDWR | os.O_CREAT)
        acknowledge(str(os.write(file, b"abcd")))
        acknowledge(str(os.write(file, b"cd")))
        acknowledge(str(os.pwrite(file, b"efgh", 4)))
        acknowledge(str(os.writev(file, [b"E", b"FG", b"H"])))
        copy = os.open(folder / "copied", os.O_WRONLY | os.O_CREAT)
        acknowledge(str(os.copy_file_range(file, copy, 6, 0, 1)))
        os.lseek(file, 0, os.SEEK_SET)
        acknowledge(str(os.copy_file_range(file, copy, 6)))

    wholes = {3}  # the open, and what completes the first
    ended = run_watched(
        work,
        [str(folder)],
        lambda point, _: PROCEED if point.number in wholes or point.call == "openat" else Shorten(),
    )
    return told(ended, folder)


def refused_by_itself(folder: Path) -> dict[str, Any]:
    """A process that forbids itself to make folders is refused by its own filter; we never hear of it."""

    def work(acknowledge: Acknowledge) -> None:
        lines = [(0x20, 0, 0, 0), (0x15, 1, 0, 83), (0x15, 0, 1, 34 if os.uname().machine == "aarch64" else 258)]
        lines += [(0x06, 0, 0, 0x00050000 | errno.EPERM), (0x06, 0, 0, 0x7FFF0000)]
        program = b"".join(struct.pack("=HBBI", *line) for line in lines)
        buffer = ctypes.create_string_buffer(program, len(program))
        if _libc.prctl(22, 2, struct.pack("@HP", len(lines), ctypes.addressof(buffer)), 0, 0):
            raise OSError(ctypes.get_errno(), "seccomp")
        (folder / "file").write_text("allowed")
        with contextlib.suppress(OSError):
            os.write(LONG_CLOSED, b".")
        try:
            os.mkdir(folder / "folder")
        except PermissionError:
            acknowledge("refused")

    return told(run_watched(work, [str(folder)]), folder)


CASES: Final[dict[str, Callable[[Path], Any]]] = {
    case.__name__: case
    for case in (in_one_order, killed_everywhere, outliving, hanging, answered, halved, refused_by_itself)
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(CASES[sys.argv[1]](Path(sys.argv[2]))) + "\n")
