"""Translates errors of the server into messages that contain no values of rows.

The server's messages about a text that has not run yet, such as a missing table, are passed on without quoted strings.
All other messages may quote values, and a function can raise an error with a message of its own. Of these only the kind
is passed on, by the SQLSTATE, and for a constraint also its name.
"""

import re
from typing import Final

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.effects.postgres.libpq import NotConnectedError, ServerError

THE_TEXT: Final = "the SQL text"
THE_SERVER: Final = "the server"
THE_TIME: Final = "the time"
"""The `where` of a failure that the host reports as TIMED_OUT. Only the host may decide that the time is over."""
THE_HOLD: Final = "the time of a preview"
"""The `where` of a preview that has blocked other sessions for too long. The host reports it as well."""

_LOST: Final = ("08", "57P")
_BUSY: Final = {
    "55P03": "another session holds a lock that it needs",
    "40P01": "it and another session waited for each other's locks (a deadlock)",
    "40001": "another session changed the same rows at the same time",
}
_WHEN_FREE: Final = (
    "Try again when that session has ended its transaction. Nothing was changed, and an approval stays valid."
)
_EXISTS: Final = "an object with this name already exists"
_MISSING: Final = "an object that it names does not exist"
_NO_RIGHT: Final = "42501"
_RIGHTS: Final = {
    "CREATE": "GRANT CREATE ON SCHEMA ... TO the role. Only the owner of a table can create an index on it",
    **dict.fromkeys(("ALTER", "DROP"), "ALTER ... OWNER TO the role. The role must own the object that it changes"),
}
"""The missing right, by the kind of the statement. A function could have written the server's message."""
_ABOUT_VALUES: Final = {
    "23502": "a column that must have a value received none",
    "23503": "a row would refer to a missing row, or another row still refers to it",
    "23505": "a row would have the same key as another row",
    "23514": "a row violates a check constraint of its table",
    "23P01": "a row conflicts with another row",
    "23": "a row violates a constraint of its table",
    "22": "a value does not have the required type, or is out of range",
    "21": "a query that must return one row returned several",
    "42501": "the role does not have the right to do this",
    "42P07": _EXISTS,
    "42P06": _EXISTS,
    "42710": _EXISTS,
    "42701": _EXISTS,
    "42P01": _MISSING,
    "42703": _MISSING,
    "42704": _MISSING,
    "3F000": _MISSING,
    "2BP01": "other objects in the database depend on it",
    "0A": "the server does not support this",
    "25006": "it would change the database, and the transaction is read-only",
    "54": "it exceeds a limit of the server",
    "P0": "a function of the database raised an error",
    "25": "it is not possible in the one transaction of the plan",
}
_QUOTED: Final = re.compile(r"'[^']*'?|\"(?P<name>[^\"]*)\"?|\$(\w*)\$.*?(\$\2\$|$)|\d{5,}", re.DOTALL)
_LONGEST: Final = 300
_A_NAME: Final = re.compile(r"[A-Za-z_][\w.]{0,62}")

_REACH_IT: Final = "Check that the server runs, and check the host and the port in the URL of the connection."
_NOT_CONNECTED: Final = (
    (
        r"password authentication failed|no password supplied|authentication",
        "it rejected the user or the password",
        "Check the user and the password in the URL of the connection.",
    ),
    (
        r'database "[^"]*" does not exist',
        "it has no such database",
        "Check the name of the database in the URL of the connection.",
    ),
    (
        r'role "[^"]*" does not exist',
        "it does not know the user",
        "Check the user in the URL of the connection, or create the role on the server.",
    ),
    (
        r"no pg_hba.conf entry",
        "it does not let this user connect from this machine",
        "Allow the user, the database and this machine in pg_hba.conf of the server.",
    ),
    (
        r"certificate|SSL|ssl",
        "the required secure connection is not possible",
        "Check sslmode and the certificates in the URL of the connection, and whether the server offers TLS.",
    ),
    (r"Connection refused|No such file or directory", "no server answers at this address", _REACH_IT),
    (r"timeout|timed out", "it did not answer in time", _REACH_IT),
    (
        r"too many clients|remaining connection slots",
        "it has reached its maximum number of connections",
        "Try again when other clients have disconnected, or raise max_connections of the server.",
    ),
    (r"starting up|shutting down", "it is starting up or shutting down", "Try again when the server runs."),
)
"""What the server's message matches, what is wrong, and the next step."""


def not_connected_error(problem: NotConnectedError) -> RemitError:
    """Return the error for a failed connection. The server's message names hosts and users, so it is not passed on."""
    message = str(problem)
    what, next_step = next(
        ((what, advice) for pattern, what, advice in _NOT_CONNECTED if re.search(pattern, message)),
        ("it cannot be reached", _REACH_IT),
    )
    return EnvironmentFailureError(
        Reason.DATABASE_UNREACHABLE,
        f"there is no connection to the database server: {what}",
        where=THE_SERVER,
        next_step=f"{next_step} Nothing was changed.",
    )


def statement_error(number: int, kind: str, problem: ServerError, seconds: float) -> RemitError:
    """Return the error for a statement that failed. The action has changed nothing."""
    advice = "Fix the statement."
    if problem.state == _NO_RIGHT:
        granted = _RIGHTS.get(kind, f"GRANT {kind.partition('_')[0]} ON what it names TO the role")
        advice = f"Ask the owner of the database for the right: {granted}."
    elif _ABOUT_VALUES.get(problem.state) == _EXISTS:
        advice = "Use another name, or create it with IF NOT EXISTS."
    return _failed(f"statement {number} ({kind}): ", problem, seconds, f"{advice} This action changed nothing.")


def is_busy(problem: Exception) -> bool:
    """Return whether another session blocked it. Then the same work may succeed later."""
    if isinstance(problem, ServerError):
        return problem.state in _BUSY
    return isinstance(problem, EnvironmentFailureError) and problem.reason is Reason.DATABASE_BUSY


def step_error(what: str, problem: ServerError, seconds: float) -> RemitError:
    """Return the error for a query of Remit itself that failed, such as a query of the catalog."""
    return _failed(f"{what}: ", problem, seconds, "Nothing was changed.")


def _failed(what: str, problem: ServerError, seconds: float, next_step: str) -> RemitError:
    state = problem.state
    if state in _BUSY:
        return EnvironmentFailureError(
            Reason.DATABASE_BUSY, f"{what}{_BUSY[state]}", where=THE_SERVER, next_step=_WHEN_FREE
        )
    if state == "57014":
        return timed_out_error(seconds)
    if state.startswith(_LOST):
        return connection_lost_error()
    if state.startswith("53"):
        return EnvironmentFailureError(
            Reason.RESOURCE_EXHAUSTED,
            f"{what}the server does not have enough memory, disk space or connections for it",
            where=THE_TEXT,
            next_step="Split the work into smaller steps, or give the server more of these.",
        )
    if state == "25006":
        return RefusedError(
            Reason.SQL_REFUSED, f"{what}{_ABOUT_VALUES[state]}", where=THE_TEXT, next_step="Leave it out."
        )
    return EnvironmentFailureError(
        Reason.SQL_FAILED, f"{what}{_describe(problem)}", where=THE_TEXT, next_step=next_step
    )


def lock_held_error(what: str, seconds: float) -> RemitError:
    """Return the error for a lock that was not free in time. `what`: the table, if it is known."""
    return EnvironmentFailureError(
        Reason.DATABASE_BUSY,
        f"another session holds a lock on {what}, and did not release it within {seconds:g} seconds",
        where=THE_SERVER,
        next_step=_WHEN_FREE,
    )


def held_too_long_error(seconds: float) -> RemitError:
    """Return the error for a preview that has blocked other sessions for the maximum time."""
    return EnvironmentFailureError(
        Reason.RESOURCE_EXHAUSTED,
        f"it blocked tables for other sessions for {seconds:g} seconds",
        where=THE_HOLD,
    )


def timed_out_error(seconds: float) -> RemitError:
    return EnvironmentFailureError(
        Reason.RESOURCE_EXHAUSTED, f"its SQL took longer than {seconds:g} seconds", where=THE_TIME
    )


def connection_lost_error() -> RemitError:
    return EnvironmentFailureError(
        Reason.DATABASE_UNREACHABLE,
        "the connection to the database server was lost",
        where=THE_SERVER,
        next_step="Try again. The server rolls back everything that was not committed.",
    )


def no_rows_error() -> RemitError:
    return EnvironmentFailureError(
        Reason.SQL_FAILED,
        "rows were expected, but the last statement that reads returned none",
        where=THE_TEXT,
        next_step="Find out why there are none, or leave out `expect_results`. This action changed nothing.",
    )


def _describe(problem: ServerError) -> str:
    state = problem.state
    if problem.of_the_text and state.startswith("42"):
        return _QUOTED.sub(_without_values, problem.fields["message"].partition("\n")[0][:_LONGEST])
    text = next(
        (_ABOUT_VALUES[known] for known in (state, state[:2]) if known in _ABOUT_VALUES), "the server failed to run it"
    )
    constraint = problem.fields.get("constraint", "") if state.startswith("23") else ""
    table = problem.fields.get("table", "") if state.startswith("23") else ""
    column = problem.fields.get("column", "") if state.startswith("23") else ""
    named = [
        f"{what} {name}"
        for what, name in (("constraint", constraint), ("column", column), ("table", table))
        if _A_NAME.fullmatch(name)
    ]
    return f"{text} ({', '.join(named)}; SQLSTATE {state})" if named else f"{text} (SQLSTATE {state or 'unknown'})"


def _without_values(found: re.Match[str]) -> str:
    """Keep a name in double quotes. Replace quoted strings and long numbers by `...`."""
    name = found["name"]
    return found[0] if name is not None and _A_NAME.fullmatch(name) else "..."
