"""Loads system libraries before the sandbox closes, because a program may not open the system's folders afterwards.

These are modules of the standard library that need a system library, and libraries that wheels expect on every system.
Libraries that are not installed are skipped. A program that needs one gets an error from Python.
"""

import contextlib
import ctypes
import importlib
from typing import Final

_MODULES: Final = ("_bz2", "_ctypes", "_decimal", "_hashlib", "_lzma", "_sqlite3", "_ssl", "_uuid", "zlib")
_LIBRARIES: Final = (
    *("libgcc_s.so.1", "libstdc++.so.6", "libm.so.6", "libz.so.1"),
    *("libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"),
)


def preload() -> None:
    """Load the libraries in the process from which the others are forked. They stay loaded."""
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in _LIBRARIES:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name)
