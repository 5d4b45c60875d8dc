"""Folders with a default ACL, made without the tools for it."""

import errno
import os
import struct
from pathlib import Path
from typing import Final

import pytest

DEFAULT_ACL: Final = "system.posix_acl_default"
ACCESS_ACL: Final = "system.posix_acl_access"
SOMEBODY: Final = 12345

_VERSION: Final = 2
_NO_ID: Final = 0xFFFFFFFF
_OWNER, _USER, _GROUP, _MASK, _OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20
_ENTRIES: Final = (
    (_OWNER, 7, _NO_ID),
    (_USER, 7, SOMEBODY),
    (_GROUP, 7, _NO_ID),
    (_MASK, 7, _NO_ID),
    (_OTHERS, 0, _NO_ID),
)


def give_default_acl(folder: Path) -> None:
    """What is made in the folder from now on may be read and written by somebody, and by no others."""
    value = struct.pack("<I", _VERSION) + b"".join(struct.pack("<HHI", *entry) for entry in _ENTRIES)
    try:
        os.setxattr(folder, DEFAULT_ACL, value)
    except OSError as problem:
        if problem.errno != errno.ENOTSUP:
            raise
        pytest.skip("this filesystem has no ACLs")
