"""The Linux capabilities that a sandboxed process keeps if it runs as root. For an ordinary user this does nothing.

Landlock and seccomp confine root like any other user. This is the third layer of the confinement. The sandboxed process
loads this module, so it uses the standard library only.
"""

import ctypes
from typing import Final

from remit.core.syscalls import number_of, prctl, prepared, require

CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID = (1 << place for place in range(5))
ON_FILES: Final = CHOWN | DAC_OVERRIDE | DAC_READ_SEARCH | FOWNER | FSETID
"""The capabilities for files of other users. None of them mounts, traces, kills or opens raw sockets."""

WITHOUT_MAKING_PROGRAMS: Final = ON_FILES & ~(CHOWN | FSETID)
"""The same without CHOWN and FSETID. Without FSETID, the kernel clears the set-user-id bit of a written file."""

_PR_SET_NO_NEW_PRIVS: Final = 38
_VERSION: Final = 0x20080522


class Privileges:
    """A set of capabilities to keep. Prepared once, in the zygote."""

    def __init__(self, wanted: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._header = (ctypes.c_uint32 * 2)(_VERSION, 0)
        held = (ctypes.c_uint32 * 6)()  # twice: effective, permitted, inheritable
        require(libc.capget(self._header, held), "capget")
        retained = held[1] & wanted
        self._empty_sets = not (held[1] or held[4])
        self._data = (ctypes.c_uint32 * 6)(retained, retained, 0, 0, 0, 0)
        self._call = prepared(ctypes.c_void_p, ctypes.c_void_p)
        self._number = number_of("capset") or 0

    def drop_all_others(self) -> None:
        """Drop all other capabilities permanently."""
        if not self._empty_sets:
            require(self._call(self._number, self._header, self._data), "capset")


def promise_no_new_privileges() -> None:
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
