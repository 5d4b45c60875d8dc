"""Captures the output of a program in a log file of the host: print, logging, tracebacks and output of its libraries.

The host holds the file, so the output exists however the program ends. The file is kept short: when it grows too large,
only its end stays. Output that bypasses Python and goes to the descriptors is not shortened. It is part of the bytes
that the process may write.
"""

import io
import logging
import os
import sys
import threading
from typing import Final

MOST: Final = 1 << 20
KEPT: Final = 256 << 10

_OUT, _ERR = 1, 2


class CapturedOutput(io.RawIOBase):
    """The raw stream below a standard stream. Both standard streams share one file and one offset."""

    _turn: Final = threading.Lock()

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: "io.ReadableBuffer") -> int:  # type: ignore[name-defined]
        view = memoryview(data).cast("B")[-MOST:]
        with self._turn:
            if os.lseek(self._descriptor, 0, os.SEEK_CUR) + len(view) > MOST:
                self._truncate()
            left = view
            while left:
                left = left[os.write(self._descriptor, left) :]
        return memoryview(data).nbytes

    def _truncate(self) -> None:
        end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        tail = os.pread(self._descriptor, KEPT, max(end - KEPT, 0))
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, tail)


def redirect_output(log: int) -> None:
    """Send all further output to this descriptor."""
    for number, name in ((_OUT, "stdout"), (_ERR, "stderr")):
        os.dup2(log, number, inheritable=False)
        stream = io.TextIOWrapper(
            io.BufferedWriter(CapturedOutput(number)), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", force=True)


def flush() -> None:
    """Flush the standard streams. A program may have replaced them by any object."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 - a stream of the program may fail in any way
            continue
