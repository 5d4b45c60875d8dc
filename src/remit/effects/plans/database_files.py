"""Recognises the database files of a plan, and whether a program has one open.

While a program uses a database, its file does not contain all of its bytes. The latest are in a log beside it. To
replace the file then would mix two states. This module is loaded in the sandboxed process, which may not ask for locks.
It needs the standard library and few other modules.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.effects.plans.steps import PlanStep
from remit.fs.openat import exists

MARK: Final[Mapping[str, Any]] = {"database": True}
"""The operation of a step on a database. The sandboxed process learns no more about the statements that ran on it."""

LOG: Final = ".wal"
_MAGIC: Final = b"DUCK"
_MAGIC_AT: Final = 8
_LONGEST_NAME: Final = 255


def is_marked(step: PlanStep) -> bool:
    """Whether the host marked the file of this step as a database."""
    return step.operation.get("database") is True


def is_database_file(descriptor: int) -> bool:
    """Whether the open file begins like a DuckDB database. Raises OSError."""
    return os.pread(descriptor, len(_MAGIC), _MAGIC_AT) == _MAGIC


def require_no_log(folder: int, name: str, *, where: str) -> None:
    """Raise if the database has a log beside it, because the log has changes that the file does not have yet."""
    log = name + LOG
    if len(os.fsencode(log)) <= _LONGEST_NAME and exists(folder, log):
        raise busy("its log (.wal) exists, so a program has it open or did not close it", where)


def busy(what: str, where: str) -> RemitError:
    return EnvironmentFailureError(
        Reason.DATABASE_BUSY,
        f"this database is in use: {what}",
        where=where,
        next_step="Close the program that has it open. If there is none, open it with DuckDB once, and close it.",
    )
