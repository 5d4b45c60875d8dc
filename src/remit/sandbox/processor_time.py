"""Adds up the processor time of a computation: of its own thread, and of the sandboxed processes that it runs.

Processor time hardly depends on what else the machine does, unlike the time on a clock.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class ProcessorTime:
    """The seconds of one computation. They are infinite if a limit ended one of its processes."""

    seconds: float = 0.0


_MEASURED: Final[ContextVar[ProcessorTime | None]] = ContextVar("processor_time", default=None)
_OF_PROCESS: Final = 2
"""The kernel's number of the clock that counts the time of all threads of a process."""


@contextmanager
def measure_processor_time() -> Iterator[ProcessorTime]:
    """Yield the processor time of the block. It is complete after the block."""
    used, began = ProcessorTime(), time.thread_time()
    token = _MEASURED.set(used)
    try:
        yield used
    finally:
        _MEASURED.reset(token)
        used.seconds += time.thread_time() - began


def charge_process(pid: int, *, is_alive: bool) -> None:
    """Add the time of a process to the computation that runs it. `is_alive`: it ended its work and was not killed.

    The process must not be reaped yet. One whose time is not known counts as endless: when a limit on the clock ends a
    process depends on the load.
    """
    measured = _MEASURED.get()
    if measured is None:
        return
    try:
        measured.seconds += time.clock_gettime((~pid << 3) | _OF_PROCESS) if is_alive else math.inf
    except OSError:
        measured.seconds = math.inf
