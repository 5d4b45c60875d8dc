"""Runs deferred work of the server before COMMIT, because changes within COMMIT cannot be counted.

The server defers two kinds of work to COMMIT: deferred triggers, and queries of cursors WITH HOLD, which stay open
after the transaction. A function of the database can leave either of them behind.
"""

from typing import Final

from remit.core.errors import Reason, RefusedError
from remit.effects.postgres.errors import THE_TEXT, step_error
from remit.effects.postgres.libpq import ServerError
from remit.effects.postgres.row_counts import Counts, count
from remit.effects.postgres.session import PostgresSession

_MOST_ROUNDS: Final = 5
_LEFT_BEHIND: Final = "SELECT current_user = $1::name, EXISTS (SELECT FROM pg_cursors WHERE is_holdable)"


def check_constraints(session: PostgresSession, so_far: Counts, ours: frozenset[int], seconds: float) -> Counts:
    """Run all deferred triggers. Return the counts after them, when all constraints hold and no trigger is deferred.

    A trigger that runs now can defer another one only by changing a row, so a round without a change is the last one.
    `ours`: tables that are not counted.

    Raises:
        RefusedError: Triggers still defer one another after several rounds.
    """
    for _ in range(_MOST_ROUNDS):
        try:
            _run_deferred(session)
            require_clean_session(session, "a deferred trigger")
            after = count(session.wire, ours)
        except ServerError as problem:
            raise step_error("after the last statement, when all constraints must hold", problem, seconds) from None
        if after == so_far:
            return after
        so_far = after
    raise RefusedError(
        Reason.SQL_REFUSED,
        "triggers of the database defer one another again and again, so their changes are unknown",
        where=THE_TEXT,
        next_step="Check which constraint triggers the tables have, and what these change.",
    )


def is_unchanged_by_constraints(session: PostgresSession, then: Counts) -> bool:
    """Return whether the deferred work changes no row after the count `then`. Call it right before COMMIT."""
    _run_deferred(session)
    return count(session.wire) == then


def require_clean_session(session: PostgresSession, who: str) -> None:
    """Check the session after functions of the database have run. `who` did it, for the message.

    Raises:
        RefusedError: A cursor WITH HOLD is open, or the role has changed.
    """
    is_same_role, has_cursor = session.wire.one(_LEFT_BEHIND, session.identity.role)
    if has_cursor == "t":
        raise _refused(f"{who} opened a cursor WITH HOLD, whose query would run within COMMIT")
    if is_same_role != "t":
        raise _refused(f"{who} changed the role of the session")


def _run_deferred(session: PostgresSession) -> None:
    """Run deferred triggers with the role's own search path, because their functions belong to the database."""
    session.wire.do("CLOSE ALL")
    session.use_statement_settings()
    session.wire.do("SET CONSTRAINTS ALL IMMEDIATE")
    session.apply_settings()


def _refused(what: str) -> RefusedError:
    return RefusedError(
        Reason.SQL_REFUSED,
        what,
        where=THE_TEXT,
        next_step="Leave out that statement, or change the function of the database that it calls.",
    )
