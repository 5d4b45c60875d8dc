"""What the engine says when it fails, in words that hold nothing of anybody's rows.

Its messages about the text (a table that is not there) are passed on, if no row was looked at before. Those about
values quote them, and a statement can make a message of its own, so of these only the kind is told.
"""

import re
from typing import Final

import duckdb

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.effects.duckdb.denylist import PLAIN_ADVICE

_ABOUT_THE_TEXT: Final = (
    duckdb.ParserException,
    duckdb.SyntaxException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.NotImplementedException,
    duckdb.PermissionException,
)
_ABOUT_VALUES: Final[tuple[tuple[type[duckdb.Error], str], ...]] = (
    (duckdb.ConversionException, "a value cannot be converted to the type that is asked for"),
    (duckdb.OutOfRangeException, "a value is out of the range of its type"),
    (duckdb.TypeMismatchException, "a value is not of the type that is asked for"),
    (duckdb.InvalidInputException, "a function was given a value that it does not take"),
    (duckdb.ConstraintException, "a row breaks a constraint of its table"),
    (duckdb.TransactionException, "it cannot be done in the one transaction of the text"),
)
# Told of a constraint: its kind and its table, which are the beginning of the message. The values come after.
_CONSTRAINT: Final = re.compile(
    r"Constraint Error: ("
    r"NOT NULL constraint failed: [\w.]{1,120}"
    r'|CHECK constraint failed on table "[^"\n]{1,60}"'
    r"|PRIMARY KEY or UNIQUE constraint violation"
    r"|Violates foreign key constraint)"
)
_TOO_LARGE_A_VALUE: Final = (
    "Out of Range Error: Cannot create a string of size",
    "Invalid Input Error: Lists larger than",
)
_READ_ONLY: Final = "Invalid Input Error: Cannot execute statement of type"
# The second: of a path that does not begin with a slash.
_NAMES_A_FILE: Final = ("Permission Error: Cannot access file", "IO Error: Could not get working directory")
_LONGEST: Final = 300


def out_of_memory_error(what: str, memory_bytes: int) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.RESOURCE_EXHAUSTED,
        f"{what} needs more than the {memory_bytes:,} bytes of memory that it may use",
        where="the SQL text",
        next_step="Do it in smaller steps.",
    )


def statement_error(number: int, kind: str, problem: Exception, memory_bytes: int, *, has_read: bool) -> RemitError:
    """One statement did not succeed. Nothing of the text has taken effect: the copy is thrown away.

    `has_read`: it may have looked at rows already, so that any word of the engine's may come from one.
    """
    message = str(problem)
    if isinstance(problem, MemoryError | duckdb.OutOfMemoryException) or message.startswith(_TOO_LARGE_A_VALUE):
        return out_of_memory_error(f"statement {number} ({kind})", memory_bytes)
    if message.startswith(_NAMES_A_FILE):  # or a name that no table has, and that looks like one of a file
        return RefusedError(
            Reason.SQL_REFUSED,
            f"statement {number} ({kind}): it names a file, and no statement reaches one",
            where="the SQL text",
            next_step=PLAIN_ADVICE,
        )
    if isinstance(problem, duckdb.IOException | duckdb.HTTPException):
        return file_error(problem)
    return EnvironmentFailureError(
        Reason.SQL_FAILED,
        f"statement {number} ({kind}): {_describe(problem, message, has_read=has_read)}",
        where="the SQL text",
        next_step="Mend the statement. Nothing of this action was done.",
    )


def no_rows_error() -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.SQL_FAILED,
        "rows were expected, and the last statement that reads gave none",
        where="the SQL text",
        next_step="See why there are none, or leave out `expect_results`. Nothing of this action was done.",
    )


def file_error(problem: Exception, where: str = "the database") -> RemitError:
    """Opening, writing or closing it. The engine's words name paths of this machine, and who holds a lock."""
    message = str(problem)
    if "Could not set lock" in message or "Conflicting lock" in message:
        return EnvironmentFailureError(
            Reason.DATABASE_BUSY,
            "another program has the database open",
            where=where,
            next_step="Close it there, and try again.",
        )
    if "No space left" in message or "Disk quota" in message:
        return EnvironmentFailureError(
            Reason.DISK_FULL, "the disk is full", where=where, next_step="Make room, and try again."
        )
    what = "it is not a DuckDB database, or is damaged" if _is_not_one(message) else "the file could not be used"
    return EnvironmentFailureError(Reason.SQL_FAILED, what, where=where, next_step="See what is in the file.")


def _is_not_one(message: str) -> bool:
    return any(text in message for text in ("not a valid DuckDB database", "magic bytes", "Serialization", "checksum"))


def _describe(problem: Exception, message: str, *, has_read: bool) -> str:
    if not has_read and isinstance(problem, _ABOUT_THE_TEXT):
        return message.partition("\n")[0][:_LONGEST]
    if message.startswith(_READ_ONLY):
        return "it would change the database, though by its words it only reads: a macro or a view hides that"
    if (constraint := _CONSTRAINT.match(message)) is not None:
        return constraint[1]
    return next((text for kind, text in _ABOUT_VALUES if isinstance(problem, kind)), "the engine could not do it")
