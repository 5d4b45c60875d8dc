"""Sealed files in memory, for bytes that are too large for an order. No process can change them.

The child reads them with `effects.context.read_given`. Several children may have the same file at a time.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from remit.core.errors import EnvironmentFailureError, Reason

_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


@contextmanager
def sealed(name: str, content: bytes) -> Iterator[int]:
    """Yield a descriptor that can be sent with an order. It is closed at the end; children have their own copies."""
    try:
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as problem:
        raise _no_memory(problem) from problem
    try:
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(descriptor, left) :]
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        except OSError as problem:
            raise _no_memory(problem) from problem
        yield descriptor
    finally:
        os.close(descriptor)


def _no_memory(problem: OSError) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.SANDBOX_UNAVAILABLE,
        f"the input of the sandboxed process could not be put into memory: {problem.strerror}",
        next_step="Run fewer requests at once, or raise the limits on memory and open files (ulimit -v, ulimit -n).",
    )
