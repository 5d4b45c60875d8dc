"""The code of an effect, run in the zygote on a file that nobody can change, before there is any task.

Each child shares the zygote's memory until it writes to it, and CPython writes to code that runs the first times: it
looks up types, counts, and puts quicker instructions in place. What has settled before the fork is not written again.
Nothing is touched: the file is the kernel's own account of this process, its new name is its old one, and the calls
that rename and sync are exchanged for calls that only ask.
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
    """Where an order for a rehearsal sends the effect, as it is written in orders."""
    place = {"base": BASE, "parents": [str(os.getpid())], "name": NAME}
    return {SOURCE: {**place, "use": "take"}, DESTINATION: {**place, "use": "make"}}


def before() -> dict[str, Any]:
    """What the host would have seen there."""
    folder = os.open(f"{BASE}/{os.getpid()}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return {SOURCE: beneath.inspect_file(folder, NAME).as_json()}
    finally:
        os.close(folder)


@contextmanager
def stub_system_calls() -> Iterator[None]:
    """Until it is over, `EFFECT` succeeds for these places, and has done nothing. Only where there is one thread."""
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
    """Like a system call in all that CPython sees of it: the same kind of object, with arguments of the same types."""
    call: Any = ctypes.CDLL(None)["getppid"]
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, *(ctypes.c_long, ctypes.c_char_p) * 2, ctypes.c_ulong]
    return call


def _check_and_deny(folder: int, name: str) -> bool:
    beneath.exists(folder, name)
    return False
