"""Runs the code of an effect once in the zygote, before any task, on a file that no program can change.

Each child shares the zygote's memory until it writes to it. CPython writes to code during the first runs: it looks up
types, counts, and replaces instructions by quicker ones. Code that ran before the fork is not written again. The
rehearsal changes nothing: its file is a kernel file about this process, its new name is its old one, and the calls that
rename and sync are replaced by calls that only read.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from remit.effects.tasks import file_steps as steps
from remit.effects.tasks.file_steps import DESTINATION, SOURCE
from remit.effects.tasks.files import MOVE
from remit.fs import openat as beneath

BASE: Final = "/proc"
NAME: Final = "statm"
EFFECT: Final = MOVE


def places() -> dict[str, Any]:
    """Return the paths of the rehearsal, in the format of an order."""
    place = {"base": BASE, "parents": [str(os.getpid())], "name": NAME}
    return {SOURCE: {**place, "use": "take"}, DESTINATION: {**place, "use": "make"}}


def before() -> dict[str, Any]:
    """Return the state of the file as the host would have recorded it."""
    folder = os.open(f"{BASE}/{os.getpid()}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return {SOURCE: beneath.inspect_file(folder, NAME).as_json()}
    finally:
        os.close(folder)


@contextmanager
def stub_system_calls() -> Iterator[None]:
    """Replace system calls, so that `EFFECT` succeeds for these paths and changes nothing. Needs a single thread."""
    stubs = ((beneath, "_renameat2", _harmless_call()), (steps, "exists", _check_and_deny), (os, "fsync", os.fstat))
    real = [getattr(module, name) for module, name, _ in stubs]
    for module, name, stub in stubs:
        setattr(module, name, stub)
    try:
        yield
    finally:
        for (module, name, _), one in zip(stubs, real, strict=True):
            setattr(module, name, one)


def _harmless_call() -> Any:
    """Return a harmless call that is like the real one for CPython: the same type, and the same types of arguments."""
    call: Any = ctypes.CDLL(None)["getppid"]
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, *(ctypes.c_long, ctypes.c_char_p) * 2, ctypes.c_ulong]
    return call


def _check_and_deny(folder: int, name: str) -> bool:
    beneath.exists(folder, name)
    return False
