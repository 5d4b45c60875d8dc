"""Database files among those of a plan: which they are, and what tells that a program has one open.

The bytes of a database are not all in its file as long as somebody works on it: the latest lie in a log beside it. To
replace the file then would mix two states. Loaded in the sandboxed process, which may not ask for locks: standard
library and few rooms.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.effects.plans.steps import PlanStep
from remit.fs.openat import exists

MARK: Final[Mapping[str, Any]] = {"database": True}
"""The operation of a step on a database: all that the sandboxed process is told of what was run on it."""

LOG: Final = ".wal"
_MAGIC: Final = b"DUCK"
_MAGIC_AT: Final = 8
_LONGEST_NAME: Final = 255


def is_marked(step: PlanStep) -> bool:
    """Whether the host says that the file of this step is a database."""
    return step.operation.get("database") is True


def is_database_file(descriptor: int) -> bool:
    """Whether the open file begins as a DuckDB database does. Raises OSError."""
    return os.pread(descriptor, len(_MAGIC), _MAGIC_AT) == _MAGIC


def require_no_log(folder: int, name: str, *, where: str) -> None:
    """Refuses a database that has a log beside it: there are changes that its file does not have yet."""
    log = name + LOG
    if len(os.fsencode(log)) <= _LONGEST_NAME and exists(folder, log):
        raise busy("its log (.wal) lies beside it: a program has it open, or did not close it", where)


def busy(what: str, where: str) -> RemitError:
    return EnvironmentFailureError(
        Reason.DATABASE_BUSY,
        f"this database is in use: {what}",
        where=where,
        next_step="Close the program that has it open. If none has: open it with DuckDB once, and close it.",
    )
