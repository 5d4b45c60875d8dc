"""Landlock rules: a process can use only these folders, each with certain rights, until it ends.

The rights are those of `effects.registry.PathUse`. All other actions that the kernel's Landlock knows are handled, that
is, denied: directories, links, devices, execution, TCP, abstract sockets and signals to processes outside. Limits: the
rights of a folder apply to all files below it, and reading a file's size, owner or times is not governed. The sandboxed
process loads this module, so it uses the standard library only. The buffers are made once, before the fork.
"""

import ctypes
import os
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from remit.core.syscalls import number_of, prepared, require

WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
REMOVE_DIR: Final = 1 << 4
REMOVE_FILE: Final = 1 << 5
MAKE_DIR: Final = 1 << 7
MAKE_REG: Final = 1 << 8
REFER: Final = 1 << 13
TRUNCATE: Final = 1 << 14
_CHANGE_CONTENT: Final = WRITE_FILE | TRUNCATE

RIGHTS: Final[Mapping[str, int]] = {
    "read": READ_FILE,
    "take": READ_FILE | REMOVE_FILE | MAKE_REG | REFER,
    "make": READ_FILE | WRITE_FILE | MAKE_REG | REMOVE_FILE | REFER | TRUNCATE,
    "work": READ_FILE | WRITE_FILE | MAKE_REG | REMOVE_FILE | REFER | TRUNCATE | READ_DIR | MAKE_DIR | REMOVE_DIR,
}

LIBRARY: Final = READ_FILE | READ_DIR
"""The rights on a folder from which modules are loaded. The right to execute a file is never granted."""

# The number of file rights in each ABI: REFER came with 2, TRUNCATE with 3, IOCTL_DEV with 5.
_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15}
_FILE_RIGHTS_FROM_5: Final = 16
_BIND_AND_CONNECT_TCP: Final = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS: Final = 0b11
_VERSION: Final = 1
_PATH_BENEATH: Final = 1


_PATH_BENEATH_ATTR: Final = struct.Struct("=Qi")  # allowed_access, parent_fd; packed


def decide_rights(uses: Iterable[tuple[int, str]]) -> dict[int, int]:
    """Return the rights on each folder, by descriptor.

    The kernel refuses a rename that would give the moved file more rights than it had. It returns EXDEV, as for another
    filesystem. So if a file is moved from one folder to another, both get the same rights to content. In a folder to
    move from, any file may be removed already, so this adds little.
    """
    rights: dict[int, int] = {}
    kinds = set()
    for folder, use in uses:
        rights[folder] = rights.get(folder, 0) | RIGHTS[use]
        kinds.add(use)
    if {"take", "make"} <= kinds:
        return {folder: right | (_CHANGE_CONTENT if right & REFER else 0) for folder, right in rights.items()}
    return rights


def handled(abi: int) -> tuple[int, ...]:
    """Return `struct landlock_ruleset_attr` in 64-bit words, with the length that this ABI knows."""
    files = (1 << _FILE_RIGHTS.get(abi, _FILE_RIGHTS_FROM_5)) - 1
    if abi < 4:
        return (files,)
    return (files, _BIND_AND_CONNECT_TCP) if abi < 6 else (files, _BIND_AND_CONNECT_TCP, _ABSTRACT_SOCKETS_AND_SIGNALS)


class Landlock:
    """Landlock of this kernel. It is prepared once in the zygote, and used once in each child."""

    def __init__(self) -> None:
        self._numbers = [number_of(f"landlock_{name}") or 0 for name in ("create_ruleset", "add_rule", "restrict_self")]
        self._create = prepared(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ulong)
        self._add = prepared(ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_ulong)
        self._restrict = prepared(ctypes.c_long, ctypes.c_ulong)
        values = handled(require(self._create(self._numbers[0], None, 0, _VERSION), "landlock"))
        self._attributes = (ctypes.c_uint64 * len(values))(*values)
        self._size = ctypes.sizeof(self._attributes)
        self._rule = ctypes.create_string_buffer(_PATH_BENEATH_ATTR.size)
        self._rule_address = ctypes.addressof(self._rule)

    def build(self, rights: Mapping[int, int]) -> int:
        """Return a ruleset for these folders (open descriptors) with these rights. It has no effect yet."""
        create, add, _ = self._numbers
        ruleset = require(self._create(create, self._attributes, self._size, 0), "landlock_create_ruleset")
        for folder, right in rights.items():
            _PATH_BENEATH_ATTR.pack_into(self._rule, 0, right, folder)
            require(self._add(add, ruleset, _PATH_BENEATH, self._rule_address, 0), "landlock_add_rule")
        return ruleset

    def restrict(self, ruleset: int) -> None:
        """Restrict this process to the ruleset, and close the ruleset. This cannot be undone."""
        require(self._restrict(self._numbers[2], ruleset, 0), "landlock_restrict_self")
        os.close(ruleset)
