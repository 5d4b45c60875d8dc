"""What would otherwise happen within COMMIT, when nobody counts any more, happens before it.

The server keeps two kinds of work for that moment: triggers that were put off, and queries of cursors that are to
outlive the transaction. A function of the database can leave either of them behind.
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
    """All constraints hold, and nothing is put off, when this returns. What is counted then.

    A trigger that runs now can put off another one, but not without changing a row: a round that changes none is the
    last one. `ours` are tables that nobody counts.
    """
    for _ in range(_MOST_ROUNDS):
        try:
            _run_deferred(session)
            require_clean_session(session, "a trigger that was put off to the end")
            after = count(session.wire, ours)
        except ServerError as problem:
            raise step_error("after the last statement, when all constraints must hold", problem, seconds) from None
        if after == so_far:
            return after
        so_far = after
    raise RefusedError(
        Reason.SQL_REFUSED,
        "triggers of the database put off one another again and again, so nobody knows what they will have done",
        where=THE_TEXT,
        next_step="See which constraint triggers the tables have, and what they change.",
    )


def is_unchanged_by_constraints(session: PostgresSession, then: Counts) -> bool:
    """Right before COMMIT: whether nothing is done by it that was not counted `then`."""
    _run_deferred(session)
    return count(session.wire) == then


def require_clean_session(session: PostgresSession, who: str) -> None:
    """After anything that runs functions of the database."""
    is_same_role, has_cursor = session.wire.one(_LEFT_BEHIND, session.identity.role)
    if has_cursor == "t":
        raise _refused(f"{who} opened a cursor that outlives the transaction: its query would run within COMMIT")
    if is_same_role != "t":
        raise _refused(f"{who} changed the role of the session")


def _run_deferred(session: PostgresSession) -> None:
    """With names as the role has them: the functions of these triggers are the database's."""
    session.wire.do("CLOSE ALL")
    session.use_statement_settings()
    session.wire.do("SET CONSTRAINTS ALL IMMEDIATE")
    session.apply_settings()


def _refused(what: str) -> RefusedError:
    return RefusedError(
        Reason.SQL_REFUSED,
        what,
        where=THE_TEXT,
        next_step="Leave out what does that, or change the function of the database that it calls.",
    )
