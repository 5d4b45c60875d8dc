"""What the server says when it fails, in words that hold nothing of anybody's rows.

What it says of a text that was not run yet (a table that is not there) is passed on, without what it quotes of strings.
Everything else may quote values, and a function can make a message of its own: only the kind of it is told, by its
SQLSTATE, and for a constraint its name.
"""

import re
from typing import Final

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.effects.postgres.libpq import NotConnectedError, ServerError

THE_TEXT: Final = "the SQL text"
THE_SERVER: Final = "the server"
THE_TIME: Final = "the time"
"""`where` of a failure that the host tells as TIMED_OUT: whether time is over is not for this process to say."""
THE_HOLD: Final = "the time of a preview"
"""The same, of how long a preview may keep others from tables."""

_LOST: Final = ("08", "57P")
_BUSY: Final = {
    "55P03": "another session holds a lock that it needs",
    "40P01": "it and another session waited for each other's locks",
    "40001": "another session changed the same rows at the same time",
}
_WHEN_FREE: Final = (
    "Try again when that session has ended its transaction. Nothing was changed, and an approval stays valid."
)
_EXISTS: Final = "something of this name exists already"
_MISSING: Final = "something that it names is not there"
_NO_RIGHT: Final = "42501"
_RIGHTS: Final = {
    "CREATE": "GRANT CREATE ON SCHEMA ... TO the role; an index or the like is made by the owner of its table",
    **dict.fromkeys(("ALTER", "DROP"), "the role must own what it changes: ALTER ... OWNER TO the role"),
}
"""Told by the kind of the statement: the server's words may be a function's."""
_ABOUT_VALUES: Final = {
    "23502": "a column that must have a value got none",
    "23503": "a row would refer to one that is not there, or is still referred to",
    "23505": "a row would have a key that another one has",
    "23514": "a row breaks a check of its table",
    "23P01": "a row is in conflict with another one",
    "23": "a row breaks a constraint of its table",
    "22": "a value is not of the type that is asked for, or out of its range",
    "21": "a query that must give one row gave several",
    "42501": "the role may not do that",
    "42P07": _EXISTS,
    "42P06": _EXISTS,
    "42710": _EXISTS,
    "42701": _EXISTS,
    "42P01": _MISSING,
    "42703": _MISSING,
    "42704": _MISSING,
    "3F000": _MISSING,
    "2BP01": "other things in the database depend on it",
    "0A": "the server cannot do that",
    "25006": "it would change the database, and this connection is to read only",
    "54": "it is larger than the server takes",
    "P0": "a function raised an error of its own",
    "25": "it cannot be done in the one transaction of the plan",
}
_QUOTED: Final = re.compile(r"'[^']*'?|\"(?P<name>[^\"]*)\"?|\$(\w*)\$.*?(\$\2\$|$)|\d{5,}", re.DOTALL)
_LONGEST: Final = 300
_A_NAME: Final = re.compile(r"[A-Za-z_][\w.]{0,62}")

_NOT_CONNECTED: Final = (
    (r"password authentication failed|no password supplied|authentication", "it does not accept the user or password"),
    (r'database "[^"]*" does not exist', "it has no such database"),
    (r'role "[^"]*" does not exist', "it does not know the user"),
    (r"no pg_hba.conf entry", "it does not let this user connect from here"),
    (r"certificate|SSL|ssl", "no secure connection can be made as it was asked for"),
    (r"Connection refused|No such file or directory", "no server answers there"),
    (r"timeout|timed out", "it did not answer in time"),
    (r"too many clients|remaining connection slots", "it has as many connections as it takes"),
    (r"starting up|shutting down", "it is being started or stopped"),
)


def not_connected_error(problem: NotConnectedError) -> RemitError:
    """Its words name hosts and users; only the kind is passed on."""
    message = str(problem)
    what = next((text for pattern, text in _NOT_CONNECTED if re.search(pattern, message)), "it cannot be reached")
    return EnvironmentFailureError(
        Reason.SQL_FAILED,
        f"there is no connection to the database server: {what}",
        where=THE_SERVER,
        next_step="See that the server runs, and what stands in the connection's URL. Nothing was changed.",
    )


def statement_error(number: int, kind: str, problem: ServerError, seconds: float) -> RemitError:
    """One statement did not succeed. Nothing of the action has taken effect."""
    advice = "Mend the statement."
    if problem.state == _NO_RIGHT:
        granted = _RIGHTS.get(kind, f"GRANT {kind.partition('_')[0]} ON what it names TO the role")
        advice = f"Ask whoever owns the database for the right: {granted}."
    elif _ABOUT_VALUES.get(problem.state) == _EXISTS:
        advice = "Give it another name, or make it only IF NOT EXISTS."
    return _failed(f"statement {number} ({kind}): ", problem, seconds, f"{advice} Nothing of it was done.")


def is_busy(problem: Exception) -> bool:
    """Whether another session was in the way, so that the same may succeed later."""
    if isinstance(problem, ServerError):
        return problem.state in _BUSY
    return isinstance(problem, EnvironmentFailureError) and problem.reason is Reason.DATABASE_BUSY


def step_error(what: str, problem: ServerError, seconds: float) -> RemitError:
    """Something of our own, such as to look at the tables."""
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
            f"{what}the server has not enough memory, disk or connections for it",
            where=THE_TEXT,
            next_step="Do it in smaller steps, or give the server more.",
        )
    if state == "25006":
        return RefusedError(
            Reason.SQL_REFUSED, f"{what}{_ABOUT_VALUES[state]}", where=THE_TEXT, next_step="Leave it out."
        )
    return EnvironmentFailureError(
        Reason.SQL_FAILED, f"{what}{_describe(problem)}", where=THE_TEXT, next_step=next_step
    )


def lock_held_error(what: str, seconds: float) -> RemitError:
    """A lock was not had in time. `what`: the table, if it is known."""
    return EnvironmentFailureError(
        Reason.DATABASE_BUSY,
        f"another session holds a lock on {what}, and did not release it within {seconds:g} seconds",
        where=THE_SERVER,
        next_step=_WHEN_FREE,
    )


def held_too_long_error(seconds: float) -> RemitError:
    """Of a preview: others have waited for it for as long as they are to."""
    return EnvironmentFailureError(
        Reason.RESOURCE_EXHAUSTED, f"it kept others from tables for {seconds:g} seconds", where=THE_HOLD
    )


def timed_out_error(seconds: float) -> RemitError:
    return EnvironmentFailureError(
        Reason.RESOURCE_EXHAUSTED, f"its SQL took longer than {seconds:g} seconds", where=THE_TIME
    )


def connection_lost_error() -> RemitError:
    return EnvironmentFailureError(
        Reason.SQL_FAILED,
        "the connection to the database server was lost",
        where=THE_SERVER,
        next_step="Try again. What was not committed is gone with it.",
    )


def no_rows_error() -> RemitError:
    return EnvironmentFailureError(
        Reason.SQL_FAILED,
        "rows were expected, and the last statement that reads gave none",
        where=THE_TEXT,
        next_step="See why there are none, or leave out `expect_results`. Nothing of this action was done.",
    )


def _describe(problem: ServerError) -> str:
    state = problem.state
    if problem.of_the_text and state.startswith("42"):
        return _QUOTED.sub(_without_values, problem.fields["message"].partition("\n")[0][:_LONGEST])
    text = next(
        (_ABOUT_VALUES[known] for known in (state, state[:2]) if known in _ABOUT_VALUES), "the server could not do it"
    )
    constraint = problem.fields.get("constraint", "") if state.startswith("23") else ""
    table = problem.fields.get("table", "") if state.startswith("23") else ""
    named = [
        f"{what} {name}" for what, name in (("constraint", constraint), ("table", table)) if _A_NAME.fullmatch(name)
    ]
    return f"{text} ({', '.join(named)}; SQLSTATE {state})" if named else f"{text} (SQLSTATE {state or 'unknown'})"


def _without_values(found: re.Match[str]) -> str:
    """A name in double quotes stays; what the text had in quotes, and long numbers, do not."""
    name = found["name"]
    return found[0] if name is not None and _A_NAME.fullmatch(name) else "..."
