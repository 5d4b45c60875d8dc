"""Table locks. Remit acquires all of them before the first statement, so that it never causes a deadlock.

Remit waits only for the first lock, and holds no other lock at that time. It acquires the others without waiting. If
one of them is not free, Remit releases everything, waits for that lock first, and tries all of them again. So Remit
never waits while another session could wait for Remit. A short wait for the second lock would not be safe. A writer may
queue behind Remit while Remit waits for the first lock. When Remit then waits for the second lock, that writer may have
waited long enough for the server to check for a deadlock and to end the writer.

Some locks are acquired only by a statement itself. The statement waits one millisecond for them, the shortest time that
the server supports. If it does not get them, it fails, Remit releases everything, and tries all again (`until_free`).
The tables that the statement reaches are then locked first.

If a statement takes numbers from a sequence, the transaction makes a copy of the sequence, which needs a lock on it.
Sequences come last, because this step fixes the snapshot of the transaction. The server has no way to request this lock
without waiting, so Remit waits one millisecond.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from remit.core.errors import EnvironmentFailureError
from remit.effects.postgres.dependencies import ReachedObjects, array, names_array
from remit.effects.postgres.errors import is_busy, lock_held_error
from remit.effects.postgres.lexer import tokens_of
from remit.effects.postgres.libpq import PostgresWire, ServerError
from remit.effects.postgres.session import AT_ONCE, PostgresSession, lock_timeout
from remit.effects.postgres.tables import read_facts

T = TypeVar("T")

ACCESS_SHARE: Final = "ACCESS SHARE"
ROW_EXCLUSIVE: Final = "ROW EXCLUSIVE"
EXCLUSIVE: Final = "EXCLUSIVE"
"""Other sessions may read. They may not write or lock rows for writing. SHARE ROW EXCLUSIVE would allow row locks."""
ACCESS_EXCLUSIVE: Final = "ACCESS EXCLUSIVE"
_STRENGTH: Final = (ACCESS_SHARE, ROW_EXCLUSIVE, EXCLUSIVE, ACCESS_EXCLUSIVE)

_LONGEST_PAUSE: Final = 0.03
"""The maximum of seconds between two attempts. The pause is random, so that two plans try at different moments."""
_LONGER: Final = 1.5
_LEAST: Final = 0.01
"""The minimum of seconds left for another attempt."""
_LONGEST_OF_ALL: Final = 0.25
_BUSY: Final = frozenset({"55P03", "40P01"})
_GONE: Final = frozenset({"42P01", "42501", "42809", "3F000"})
"""The object was dropped meanwhile, or the role may not lock it. A statement that needs it reports the error."""
_TABLES: Final = """
SELECT c.oid, format('%I.%I', n.nspname, c.relname), c.relkind, has_table_privilege(c.oid, 'SELECT'),
  has_table_privilege(c.oid, 'UPDATE, DELETE, TRUNCATE'),
  has_table_privilege(c.oid, 'INSERT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY ($1::oid[]) AND c.oid >= 16384 AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
"""
_SEQUENCES: Final = """
SELECT c.oid, format('%I.%I', n.nspname, c.relname), s.seqincrement FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_sequence s ON s.seqrelid = c.oid
WHERE c.oid = ANY ($1::oid[]) AND c.relpersistence <> 't' ORDER BY c.oid
"""
_HELD: Final = """
SELECT format('%I.%I', n.nspname, c.relname) FROM pg_locks l
JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
WHERE l.granted AND l.pid <> pg_backend_pid() AND c.relname = ANY ($1::name[])
AND l.mode IN ('AccessExclusiveLock', 'ExclusiveLock', 'ShareRowExclusiveLock', 'ShareLock')
ORDER BY l.mode, 1 LIMIT 1
"""
_CASCADE: Final = """
WITH RECURSIVE found(class, object) AS (
  SELECT 'pg_class'::regclass::oid, oid FROM pg_class WHERE oid >= 16384 AND relname = ANY ($1::name[])
  UNION SELECT 'pg_type'::regclass::oid, oid FROM pg_type WHERE oid >= 16384 AND typname = ANY ($1::name[])
  UNION SELECT 'pg_namespace'::regclass::oid, oid FROM pg_namespace WHERE oid >= 16384 AND nspname = ANY ($1::name[])
  UNION SELECT d.classid, d.objid FROM pg_depend d JOIN found f ON d.refclassid = f.class AND d.refobjid = f.object
    WHERE $2::boolean OR (d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass)
)
SELECT object FROM found WHERE class = 'pg_class'::regclass
UNION SELECT c.conrelid FROM found f JOIN pg_constraint c ON c.oid = f.object WHERE f.class = 'pg_constraint'::regclass
UNION SELECT c.confrelid FROM found f JOIN pg_constraint c ON c.oid = f.object WHERE f.class = 'pg_constraint'::regclass
"""


class LockStep(NamedTuple):
    """One lock, and the statement that acquires it."""

    oid: int
    name: str
    """The name as it is written in SQL."""
    text: str
    is_sequence: bool = False


class LockPlan(NamedTuple):
    """The locks to acquire, in order."""

    steps: tuple[LockStep, ...]
    writes: frozenset[int]
    """Tables that no other session can write to while the locks are held."""


def plan_locks(wire: PostgresWire, reached: Iterable[ReachedObjects], *, for_good: bool) -> LockPlan:
    """Plan the locks for the reached objects: tables by their number, then sequences.

    `for_good`: the transaction will be committed. Before the commit, Remit drops the triggers that capture rows, which
    needs the strongest lock. A request for it at that time could cause a deadlock with a session that waits for Remit.
    A preview only needs to prevent other sessions from writing.
    """
    all_of_them = list(reached)
    writes = frozenset(oid for one in all_of_them for oid in one.writes | one.alters)
    modes: dict[int, str] = {}
    for one in all_of_them if writes else ():  # a plan that only reads blocks no other session
        for oids, mode in (
            (one.reads, ACCESS_SHARE),
            (one.parents, EXCLUSIVE),
            (one.writes, EXCLUSIVE),
            (one.alters, ACCESS_EXCLUSIVE),
        ):
            for oid in oids:
                modes[oid] = max(modes.get(oid, ACCESS_SHARE), mode, key=_STRENGTH.index)
    if for_good:
        captured = {oid for oid, facts in read_facts(wire, sorted(writes)).items() if not facts.not_captured}
        modes.update(dict.fromkeys(captured, ACCESS_EXCLUSIVE))
    steps = list(_tables(wire, modes))
    sequences = frozenset(oid for one in all_of_them for oid in one.sequences)
    if sequences:
        steps += copies(wire, sequences)
    return LockPlan(tuple(steps), writes)


def acquire_locks(session: PostgresSession, plan: LockPlan, *, reads_only: bool, before_copies: str = "") -> None:
    """Begin a transaction, and acquire all locks of the plan.

    `before_copies`: the name of a savepoint. A rollback to it releases the copies of sequences, but no table.

    Raises:
        EnvironmentFailureError: DATABASE_BUSY. Not all locks were free in the remaining time. No transaction is open.
    """
    session.wire.until = None
    with session.lock_wait.counted():
        _acquire(
            session, plan, time.monotonic() + session.lock_wait.left, reads_only=reads_only, savepoint=before_copies
        )
    session.wire.do(f"SET LOCAL lock_timeout = '{AT_ONCE}'")


def until_free(session: PostgresSession, attempt: Callable[[], T]) -> T:
    """Return the result of `attempt`. Retry it from the start while another session holds a lock that it needs.

    Before each retry, everything is rolled back, so that the other session can continue. The last error is raised when
    no time is left to wait for locks.
    """
    wait = session.lock_wait
    longest = _LONGEST_PAUSE
    while True:
        began, before = time.monotonic(), wait.waited
        try:
            return attempt()
        except (ServerError, EnvironmentFailureError) as problem:
            if not is_busy(problem):
                raise
            session.wire.do("ROLLBACK")
            session.wire.until = None
            wait.waited = max(wait.waited, before + time.monotonic() - began)
            if wait.left < _LEAST:
                raise
        with wait.counted():
            time.sleep(min(longest * os.urandom(1)[0] / 255, wait.left))
        longest = min(longest * _LONGER, _LONGEST_OF_ALL)


def wait_for(session: PostgresSession, table: str) -> None:
    """Wait until this session can read the table. No lock is held meanwhile. DATABASE_BUSY if no time is left."""
    wait = session.lock_wait
    session.begin(reads_only=True)
    with wait.counted():
        is_had = _acquire_one(
            session.wire, LockStep(0, table, f"LOCK TABLE ONLY {table} IN {ACCESS_SHARE} MODE"), wait.left
        )
    session.wire.do("ROLLBACK")
    if not is_had:
        raise lock_held_error(table, wait.seconds)


def reached_by_structure(wire: PostgresWire, text: str) -> ReachedObjects:
    """Return the tables that a statement about the structure names, and the tables that inherit from them.

    With CASCADE, also the tables that depend on an object that it names. Names are found in all schemas, so a table of
    another schema with the same name may be locked as well.
    """
    tokens = list(tokens_of(text))
    names = {
        token.name
        for token, after in zip(tokens, [*tokens[1:], None], strict=True)
        if token.name and (after is None or after.text != ".")
    }
    cascades = str(any(token.word == "CASCADE" for token in tokens)).lower()
    found = wire.do(_CASCADE, names_array(names), cascades)
    return ReachedObjects(alters=frozenset(int(row[0] or 0) for row in found))


def held_table(wire: PostgresWire, names: Iterable[str]) -> str:
    """Return a table with one of these names that another session has locked. Empty if there is none now."""
    found = wire.do(_HELD, names_array(names))
    return (found[0][0] or "") if found else ""


def _acquire(session: PostgresSession, plan: LockPlan, until: float, *, reads_only: bool, savepoint: str) -> None:
    missing: LockStep | None = None
    while True:
        if missing is not None and missing.is_sequence:
            session.begin(reads_only=reads_only)
            _acquire_one(session.wire, missing, until - time.monotonic())
            session.wire.do("ROLLBACK")
        session.begin(reads_only=reads_only)
        missing = _acquire_all(session.wire, plan, missing, until, savepoint)
        if missing is None:
            return
        session.wire.do("ROLLBACK")
        if time.monotonic() >= until - _LEAST:
            raise lock_held_error(missing.name, session.lock_wait.seconds)
        time.sleep(_LONGEST_PAUSE * os.urandom(1)[0] / 255)


def copies(wire: PostgresWire, sequences: Iterable[int]) -> list[LockStep]:
    """Return the steps that copy the sequences.

    ALTER SEQUENCE makes a copy that belongs to the transaction, with the same numbers, and locks the sequence. A
    rollback of the transaction discards the numbers that were taken from the copy.
    """
    return [
        LockStep(int(oid or 0), name or "", f"ALTER SEQUENCE {name} INCREMENT BY {increment}", is_sequence=True)
        for oid, name, increment in wire.do(_SEQUENCES, array(sequences))
    ]


def _tables(wire: PostgresWire, modes: Mapping[int, str]) -> Iterable[LockStep]:
    found = {int(row[0] or 0): row[1:] for row in wire.do(_TABLES, array(modes))} if modes else {}
    for oid in sorted(found):
        name, _, may_read, may_change, may_insert = found[oid]
        mode = modes[oid]
        if mode != ACCESS_SHARE and may_change != "t":
            mode = ROW_EXCLUSIVE if may_insert == "t" else ACCESS_SHARE
        if mode != ACCESS_SHARE or may_read == "t":
            yield LockStep(oid, name or "", f"LOCK TABLE ONLY {name} IN {mode} MODE")


def _acquire_all(
    wire: PostgresWire, plan: LockPlan, first: LockStep | None, until: float, savepoint: str
) -> LockStep | None:
    """Acquire the locks. Return the first one that was not free, or None if all are acquired."""
    steps = list(plan.steps)
    if first is not None and not first.is_sequence:
        steps.sort(key=lambda step: step != first)
    copies_begin = next((place for place, step in enumerate(steps) if step.is_sequence), len(steps))
    for place, step in enumerate(steps):
        if savepoint and place == copies_begin:
            wire.do(f"SAVEPOINT {savepoint}")
        if not _acquire_one(wire, step, 0.0 if place else until - time.monotonic()):
            return step
    return None


def _acquire_one(wire: PostgresWire, step: LockStep, seconds: float) -> bool:
    """Return whether the lock was acquired in that time. With 0 seconds it does not wait, except for a sequence."""
    wire.do(f"SET LOCAL lock_timeout = '{lock_timeout(seconds)}'")
    wire.do("SAVEPOINT remit_lock")
    try:
        wire.do(step.text if seconds or step.is_sequence else f"{step.text} NOWAIT")
    except ServerError as problem:
        if problem.state in _BUSY:
            return False
        if problem.state not in _GONE:
            raise
        wire.do("ROLLBACK TO SAVEPOINT remit_lock")
    wire.do("RELEASE SAVEPOINT remit_lock")
    return True
