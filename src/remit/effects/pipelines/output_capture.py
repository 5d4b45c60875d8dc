"""Where a program's words go: print, logging, tracebacks and what its libraries write, to a file that the host reads.

The host holds the file, so the words are there however the program ends. It is kept short: when it has grown, only the
end of it is left. What goes past Python to the descriptors is not shortened; it counts as written.
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
    """The raw end of a standard stream. Both streams share one file, and one place in it."""

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
    """From here on everything that is said goes to this descriptor."""
    for number, name in ((_OUT, "stdout"), (_ERR, "stderr")):
        os.dup2(log, number, inheritable=False)
        stream = io.TextIOWrapper(
            io.BufferedWriter(CapturedOutput(number)), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", force=True)


def flush() -> None:
    """What is not said yet. A program may have put anything in the place of its streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 - its words are its own affair
            continue
