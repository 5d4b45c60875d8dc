"""The PostgreSQL effect. It runs a plan's SQL in one transaction, and rolls it back, or holds it open for the host.

The connection is opened before the sandbox is closed; afterwards no other connection is possible. At the end the host
answers `commit` or `rollback`. If it does not answer, or if this process dies, the server rolls back by itself.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError
from remit.effects.context import Connecting, EffectContext
from remit.effects.postgres.constraints import is_unchanged_by_constraints
from remit.effects.postgres.dependencies import Reach, reached_by_rows
from remit.effects.postgres.errors import THE_TEXT, connection_lost_error, held_too_long_error, step_error
from remit.effects.postgres.explain import StatementExplainer, render_explained
from remit.effects.postgres.libpq import PostgresWire, ServerError
from remit.effects.postgres.request import read_actions
from remit.effects.postgres.row_counts import RowCounts, count
from remit.effects.postgres.row_images import Images, read_header
from remit.effects.postgres.runner import NotExecutedError, StatementRunner
from remit.effects.postgres.session import OUR_PATH, LockWait, PostgresSession, connect, identify, open_session
from remit.effects.postgres.table_locks import acquire_locks, plan_locks, until_free
from remit.effects.postgres.transaction import Followed, Follower, before_rows, changes_something, describe_actions
from remit.effects.postgres.transaction_id import is_in_the_future, require_durable_commit
from remit.effects.postgres.undo import (
    TableDrift,
    find_drift,
    find_missing_tables,
    require_no_drift,
    restore_rows,
    with_current_oids,
)

IMAGES: Final = "images"
_PAUSE: Final = 0.05
_ABORTED_BY: Final = ("23", "40", "P0", "25", "42", "22", "53", "54", "55")
"""The classes of SQLSTATE that prove that a COMMIT failed. After any other error the outcome is unknown."""

_FATE: Final = "SELECT pg_xact_status($1::xid8)"
_END_IT: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = $1 AND backend_xid::text = ($2::numeric % 4294967296)::text AND usename = current_user
"""


class PostgresRun:
    """The effect `RUN`. The input `mode` is `preview`, `begin`, `look_back`, `undo`, `make_lasting` or `fate`."""

    def connect(self, work: EffectContext) -> PostgresWire:
        return connect(work)

    def run(self, work: EffectContext) -> dict[str, Any]:
        wire: PostgresWire = work.connected
        seconds = float(work.inputs["seconds"])
        try:
            match work.inputs["mode"]:
                case "preview":
                    return _preview(work, wire, seconds)
                case "begin":
                    return _begin(work, wire, seconds)
                case "look_back":
                    return {"drifts": [drift._asdict() for drift in _find_drift(work, wire, seconds)]}
                case "undo":
                    return _undo(work, wire, seconds)
                case "fate":
                    return {"fate": _fate(wire, work.inputs)}
                case "make_lasting":
                    if not require_durable_commit(wire, str(work.inputs["xid"]), int(work.inputs["backend"])):
                        raise connection_lost_error()
                    return {}
        except ServerError as problem:
            raise step_error("a query to the database server failed", problem, seconds) from None
        except MemoryError:
            raise _too_large_error() from None
        raise UsageError(Reason.MISUSE, "the mode is unknown", where="mode")

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002
        """Do nothing. The server rolls back an open transaction, and the host asks with `fate` if it was committed."""
        return None


def _too_large_error() -> EnvironmentFailureError:
    """Return the error for a row that is too large for the memory of this process, which reads whole rows."""
    return EnvironmentFailureError(
        Reason.RESOURCE_EXHAUSTED,
        "a row has a value that is too large for the sandboxed process",
        where=THE_TEXT,
        next_step="Leave out the column or the row with this value. Nothing was changed.",
    )


def _preview(work: EffectContext, wire: PostgresWire, seconds: float) -> dict[str, Any]:
    if not work.inputs["executes"]:
        return _explain(work, _open(work, wire, seconds), "", seconds)
    session, follower = _open_session(work, wire, seconds, is_preview=True, commits=bool(work.inputs["in_earnest"]))
    if not work.inputs["in_earnest"]:  # no person has approved it
        session.hold_seconds = float(work.inputs["preview_seconds"])
    try:
        followed = follower.follow(read_actions(work), continue_on_error=not work.inputs["stop_on_error"])
        xid = session.xid() if _commits(work, followed) else ""
        descriptions = describe_actions(followed)
        followed = follower.check_before(followed)
    except NotExecutedError as problem:
        wire.do("ROLLBACK")
        wire.until = None
        return _explain(work, session, str(problem), seconds)
    except (ServerError, RemitError):
        if not session.is_past_hold_limit:
            raise
        wire.do("ROLLBACK")
        raise held_too_long_error(session.hold_seconds or 0) from None
    wire.do("ROLLBACK")  # before the report to the host, so that no lock is held meanwhile
    return _transaction_output(
        work, session, followed, xid, descriptions if followed.written is not None else describe_actions(followed)
    )


def _explain(work: EffectContext, session: PostgresSession, why: str, seconds: float) -> dict[str, Any]:
    """Explain the statements instead of running them. `why`: the reason if the connection would let them run."""
    explainer = _explainer(work, session, seconds)
    explained = explainer.explain(read_actions(work))
    failed = next((one.problem for one in explained.actions if one.problem is not None), None)
    if failed is not None and work.inputs["stop_on_error"]:
        raise failed
    output = _report(work, session, [render_explained(one) for one in explained.actions], "")
    return {**output, "before": {}, "images": False, "definitions": explained.definitions, "why": why}


def _explainer(work: EffectContext, session: PostgresSession, seconds: float) -> StatementExplainer:
    reach = Reach(session, work.inputs["functions"], calls_nothing=True)
    return StatementExplainer(session, reach, reads_only=bool(work.inputs["reads_only"]), seconds=seconds)


def _begin(work: EffectContext, wire: PostgresWire, seconds: float) -> dict[str, Any]:
    session, follower = _open_session(work, wire, seconds, is_preview=False, commits=True)
    followed = follower.follow(read_actions(work), continue_on_error=False)
    more = {"definitions": follower.definitions} if work.inputs["defines"] else {}
    commits = _commits(work, followed)
    xid = session.xid() if commits else ""
    output = {**_transaction_output(work, session, followed, xid, describe_actions(followed)), **more}
    return _finish(work, session, output, follower.clear_up, commits=commits)


def _open_session(
    work: EffectContext, wire: PostgresWire, seconds: float, *, is_preview: bool, commits: bool
) -> tuple[PostgresSession, Follower]:
    reads_only = bool(work.inputs["reads_only"])
    session = _open(work, wire, seconds)
    reach = Reach(session, work.inputs["functions"], calls_nothing=is_preview)
    runner = StatementRunner(session, work, reach, reads_only=reads_only, is_preview=is_preview, seconds=seconds)
    define = None
    if not is_preview and work.inputs["defines"] and not reads_only:
        define = partial(_explainer(work, session, seconds).digest, read_actions(work))
    spot = work.spots[IMAGES]
    return session, Follower(session, runner, spot, reads_only=reads_only, commits=commits, define=define)


def _open(work: EffectContext, wire: PostgresWire, seconds: float) -> PostgresSession:
    return _session(work, wire, seconds, reads_only=bool(work.inputs["reads_only"]))


def _session(work: EffectContext, wire: PostgresWire, seconds: float, *, reads_only: bool) -> PostgresSession:
    inputs = work.inputs
    seconds = min(seconds, float(inputs["statement_seconds"]))
    lock_wait = LockWait(float(inputs["lock_seconds"]), float(inputs["lock_left"]))
    return open_session(wire, reads_only=reads_only, seconds=seconds, lock_wait=lock_wait)


def _commits(work: EffectContext, followed: Followed) -> bool:
    """Return whether the transaction would be committed.

    A transaction without counted changes is rolled back, so that an uncounted change by a function has no effect. It
    gets no transaction id, because its outcome is never needed.
    """
    return not work.inputs["reads_only"] and changes_something(followed)


def _transaction_output(
    work: EffectContext, session: PostgresSession, followed: Followed, xid: str, actions: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the output, and send each action in a separate message, because together they may be too long for one."""
    output = _report(work, session, actions, xid)
    return {**output, "before": before_rows(followed), "images": followed.written is not None}


def _report(work: EffectContext, session: PostgresSession, actions: list[dict[str, Any]], xid: str) -> dict[str, Any]:
    for action in actions:
        work.ask({"kind": "action", **action})
    identity = session.identity
    return {
        "transaction": {"xid": xid, "backend": identity.backend, "database": identity.database},
        "role": identity.role,
        "lock_waited": round(session.lock_wait.waited * 1_000),
    }


def _finish(
    work: EffectContext,
    session: PostgresSession,
    output: Mapping[str, Any],
    before_commit: Callable[[], None] = lambda: None,
    *,
    commits: bool = True,
) -> dict[str, Any]:
    """Keep the transaction open until the host has answered, then commit it or roll it back."""
    wire = session.wire
    counted = count(wire)
    answer = work.ask({"kind": "open", **output})
    if answer.get("verdict") != "commit":
        wire.do("ROLLBACK")
        return {"committed": False, "said": ""}
    if not wire.in_transaction:
        return {"committed": False, "said": "the transaction had failed or was no longer open"}
    if not commits:
        wire.do("ROLLBACK")
        return {"committed": True, "said": ""}
    try:
        if not is_unchanged_by_constraints(session, counted):
            wire.do("ROLLBACK")
            return {"committed": False, "said": "deferred work of the database would change more rows in the commit"}
        before_commit()
        session.apply_settings()  # this also sets synchronous_commit
        wire.do("COMMIT")
    except ServerError as problem:
        if problem.state.startswith(_ABORTED_BY):
            return {"committed": False, "said": f"the server rejected it (SQLSTATE {problem.state})"}
        raise connection_lost_error() from None
    return {"committed": True, "said": ""}


# --- undo ------------------------------------------------------------------------------------------------------------


def _find_drift(work: EffectContext, wire: PostgresWire, seconds: float) -> list[TableDrift]:
    session = _session(work, wire, seconds, reads_only=False)

    def attempt() -> list[TableDrift]:
        if not wire.in_transaction:
            session.begin(reads_only=False)
        images, drifts = _load_images(work, session)
        return drifts if images is None else find_drift(images)

    drifts = until_free(session, attempt)
    wire.do("ROLLBACK")
    return drifts


def _undo(work: EffectContext, wire: PostgresWire, seconds: float) -> dict[str, Any]:
    force = bool(work.inputs["force"])
    session = _session(work, wire, seconds, reads_only=False)

    def attempt() -> tuple[Images, dict[int, RowCounts]]:
        _lock_first(work, session)
        images, drifts = _load_images(work, session)
        require_no_drift(drifts, force=force)
        if images is None:
            raise UsageError(Reason.MISUSE, "there are no images to restore rows from", where=IMAGES)
        require_no_drift(find_drift(images), force=force)
        return images, restore_rows(images)

    images, done = until_free(session, attempt)
    identity = session.identity
    output = {
        "transaction": {"xid": session.xid(), "backend": identity.backend, "database": identity.database},
        "role": identity.role,
        "before": {},
        "images": False,
        "tables": [[images.tables[number].shown, *change] for number, change in done.items() if any(change)],
    }
    return _finish(work, session, output)


def _lock_first(work: EffectContext, session: PostgresSession) -> None:
    """Lock the tables of the images, and those that foreign keys connect to them, before any row is read."""
    wire = session.wire
    if not wire.in_transaction:
        session.begin(reads_only=False)
    tables = with_current_oids(wire, read_header(work.given[IMAGES]).tables)
    plan = plan_locks(wire, [reached_by_rows(session, [table.oid for table in tables])], for_good=False)
    wire.do("ROLLBACK")
    acquire_locks(session, plan, reads_only=False)


def _load_images(work: EffectContext, session: PostgresSession) -> tuple[Images | None, list[TableDrift]]:
    descriptor = work.given[IMAGES]
    header = read_header(descriptor)
    if header.database != session.identity.database:
        raise RefusedError(
            Reason.DRIFTED,
            "this is not the database that the plan changed",
            where="the database",
            next_step="Set the connection to the server and the database that it had when the plan ran.",
        )
    if drifts := find_missing_tables(session.wire, header.tables):
        return None, drifts
    images = Images(session.wire, with_current_oids(session.wire, header.tables))
    images.load(descriptor)
    return images, []


# --- after a crash ---------------------------------------------------------------------------------------------------


def _fate(wire: PostgresWire, inputs: Mapping[str, Any]) -> str:
    """Return the outcome of a transaction: committed, aborted or unknown.

    If it is still open, its session is ended, because no process is left that could commit it.
    """
    wire.do("SELECT pg_catalog.set_config('search_path', $1, false)", OUR_PATH)
    if wire.one("SELECT pg_is_in_recovery()") != ("f",) or identify(wire).database != inputs["database"]:
        return "unknown"
    until = time.monotonic() + float(inputs["patience"])
    while True:
        try:
            (status,) = wire.one(_FATE, str(inputs["xid"]))
        except ServerError as problem:
            if is_in_the_future(problem):
                return "aborted"
            raise
        if status in ("committed", "aborted"):
            return status
        if status is None or time.monotonic() > until:
            return "unknown"
        wire.do(_END_IT, int(inputs["backend"]), str(inputs["xid"]))
        time.sleep(_PAUSE)


RUN: Final[Connecting] = PostgresRun()
