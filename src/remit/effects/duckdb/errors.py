"""Translates errors of the engine into messages that contain no values of rows.

The engine's messages about the text, such as a missing table, are passed on if the statement has read no row yet. Its
other messages may quote values, and a statement can raise an error with a message of its own. Of these only the kind of
the error is passed on.
"""

import re
from typing import Final

import duckdb

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.effects.duckdb.denylist import FILE_ADVICE

_ABOUT_THE_TEXT: Final = (
    duckdb.ParserException,
    duckdb.SyntaxException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.NotImplementedException,
    duckdb.PermissionException,
)
_ABOUT_VALUES: Final[tuple[tuple[type[duckdb.Error], str], ...]] = (
    (duckdb.ConversionException, "a value cannot be converted to the required type"),
    (duckdb.OutOfRangeException, "a value is out of the range of its type"),
    (duckdb.TypeMismatchException, "a value does not have the required type"),
    (duckdb.InvalidInputException, "a function received a value that it does not accept"),
    (duckdb.ConstraintException, "a row violates a constraint of its table"),
    (duckdb.TransactionException, "it is not possible in the one transaction of the text"),
)
# The beginning of a message about a constraint: its kind, its table and its column. The rest of the message has values.
_CONSTRAINT: Final = re.compile(
    r"Constraint Error: ("
    r'NOT NULL constraint failed: [\w.]{1,120}(?:"[^"\n]{1,60}")?'
    r'|CHECK constraint failed on table "[^"\n]{1,60}"'
    r"|PRIMARY KEY or UNIQUE constraint violation"
    r"|Violates foreign key constraint)"
)
# The message has `column: value` of the first column. The text before the colon belongs to the name.
_FOREIGN_KEY: Final = re.compile(
    r'Constraint Error: Violates foreign key constraint because key "(?P<column>[\w ]{1,60}): .* '
    r"(?P<why>does not exist in the referenced table|is still referenced by a foreign key in a different table)",
    re.DOTALL,
)
_TOO_LARGE_A_VALUE: Final = (
    "Out of Range Error: Cannot create a string of size",
    "Invalid Input Error: Lists larger than",
)
_READ_ONLY: Final = "Invalid Input Error: Cannot execute statement of type"
# The second is the message for a path without a leading slash.
_NAMES_A_FILE: Final = ("Permission Error: Cannot access file", "IO Error: Could not get working directory")
_LONGEST: Final = 300


def out_of_memory_error(what: str, memory_bytes: int) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.RESOURCE_EXHAUSTED,
        f"{what} needs more than the {memory_bytes:,} bytes of memory that it may use",
        where="the SQL text",
        next_step="Split the work into smaller steps.",
    )


def statement_error(number: int, kind: str, problem: Exception, memory_bytes: int, *, has_read: bool) -> RemitError:
    """Return the error for a statement that failed. The text has no effect, because the copy is discarded.

    `has_read`: the statement may have read rows, so any word of the engine's message may come from one.
    """
    message = str(problem)
    if isinstance(problem, MemoryError | duckdb.OutOfMemoryException) or message.startswith(_TOO_LARGE_A_VALUE):
        return out_of_memory_error(f"statement {number} ({kind})", memory_bytes)
    if message.startswith(_NAMES_A_FILE):  # or the name of a missing table that looks like the name of a file
        return RefusedError(
            Reason.SQL_REFUSED,
            f"statement {number} ({kind}): it names a file, and no statement may use files",
            where="the SQL text",
            next_step=FILE_ADVICE,
        )
    if isinstance(problem, duckdb.IOException | duckdb.HTTPException):
        return file_error(problem)
    return EnvironmentFailureError(
        Reason.SQL_FAILED,
        f"statement {number} ({kind}): {_describe(problem, message, has_read=has_read)}",
        where="the SQL text",
        next_step="Fix the statement. This action changed nothing.",
    )


def no_rows_error() -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.SQL_FAILED,
        "rows were expected, but the last statement that reads returned none",
        where="the SQL text",
        next_step="Find out why there are none, or leave out `expect_results`. This action changed nothing.",
    )


def file_error(problem: Exception, where: str = "the database") -> RemitError:
    """Return the error for a failure to open, write or close a file.

    The engine's message is not passed on: it has paths of this machine, and the process that holds a lock.
    """
    message = str(problem)
    if "Could not set lock" in message or "Conflicting lock" in message:
        return EnvironmentFailureError(
            Reason.DATABASE_BUSY,
            "another program has the database open",
            where=where,
            next_step="Close it in that program, and try again.",
        )
    if "No space left" in message or "Disk quota" in message:
        return EnvironmentFailureError(
            Reason.DISK_FULL, "the disk is full", where=where, next_step="Free some space, and try again."
        )
    what = "it is not a DuckDB database, or is damaged" if _is_not_one(message) else "the file could not be used"
    return EnvironmentFailureError(Reason.SQL_FAILED, what, where=where, next_step="Check what the file contains.")


def _is_not_one(message: str) -> bool:
    return any(text in message for text in ("not a valid DuckDB database", "magic bytes", "Serialization", "checksum"))


def _describe(problem: Exception, message: str, *, has_read: bool) -> str:
    if not has_read and isinstance(problem, _ABOUT_THE_TEXT):
        return message.partition("\n")[0][:_LONGEST]
    if message.startswith(_READ_ONLY):
        return "its text only reads, but a macro or a view that it uses would change the database"
    if (key := _FOREIGN_KEY.match(message)) is not None:
        return f"Violates foreign key constraint: a value of the key column {key['column']} {key['why']}"
    if (constraint := _CONSTRAINT.match(message)) is not None:
        return constraint[1]
    return next((text for kind, text in _ABOUT_VALUES if isinstance(problem, kind)), "the engine could not do it")
