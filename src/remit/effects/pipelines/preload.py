"""What a program would find in folders of the system, loaded before the walls close: it may open none of these.

Modules of the standard library that stand on a library of the system, and the libraries that wheels count on being
there. What is not installed is left out, and a program that needs it is told by Python.
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
    """In the process that the others are forked from. They stay loaded."""
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in _LIBRARIES:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name)
