"""Table locks, all of them taken before the first statement, so that no writer of rows and we wait for each other.

Only the first lock is waited for, and nothing else is held then. The others are had at once, or everything is released,
the one that was not had is waited for first, and all are tried again. So we never wait while another session could wait
for us. A short wait would not do: a writer that queues behind us while we wait for the first lock may have waited long
enough, by the time that we wait for the second, for the server to look for a deadlock and end the writer.

What only a statement itself locks is had within a millisecond, the least that the server can be told to wait, or the
statement fails, everything is released and all is tried again (`until_free`). What it reaches is then locked first.

A sequence that numbers are taken from is copied within the transaction, which needs a lock on it. It comes last,
because it fixes what the transaction sees; and since it cannot be asked for without waiting, it is waited for a
millisecond.
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
"""Others may read. They may not write, and not lock rows in order to write: SHARE ROW EXCLUSIVE would let them."""
ACCESS_EXCLUSIVE: Final = "ACCESS EXCLUSIVE"
_STRENGTH: Final = (ACCESS_SHARE, ROW_EXCLUSIVE, EXCLUSIVE, ACCESS_EXCLUSIVE)

_LONGEST_PAUSE: Final = 0.03
"""Seconds between two attempts; by chance less, so that two plans do not try at the same moments."""
_LONGER: Final = 1.5
_LEAST: Final = 0.01
"""With less time than that left, it is not tried again."""
_LONGEST_OF_ALL: Final = 0.25
_BUSY: Final = frozenset({"55P03", "40P01"})
_GONE: Final = frozenset({"42P01", "42501", "42809", "3F000"})
"""Removed meanwhile, or not ours to lock: whatever needs it will say so."""
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
    """One lock, and how it is taken."""

    oid: int
    name: str
    """As it is written in SQL."""
    text: str
    is_sequence: bool = False


class LockPlan(NamedTuple):
    """What is to be locked, in its order."""

    steps: tuple[LockStep, ...]
    writes: frozenset[int]
    """Tables that no other session can write to then."""


def plan_locks(wire: PostgresWire, reached: Iterable[ReachedObjects], *, for_good: bool) -> LockPlan:
    """`for_good`: it will be committed. Then the triggers that keep rows have to be removed again, which needs the
    strongest lock: to ask for that later, while others wait for us, would be a deadlock.

    A preview needs to keep others from writing, and no more. Tables by their number, then sequences.
    """
    all_of_them = list(reached)
    writes = frozenset(oid for one in all_of_them for oid in one.writes | one.alters)
    modes: dict[int, str] = {}
    for one in all_of_them if writes else ():  # one that only reads is in no session's way
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
    """A new transaction, with all of them. DATABASE_BUSY if they are not had in the time that is left to wait for
    locks; then there is no transaction.

    `before_copies`: the name of a savepoint. To go back to it releases the copies of sequences, and no table.
    """
    session.wire.until = None
    with session.lock_wait.counted():
        _acquire(
            session, plan, time.monotonic() + session.lock_wait.left, reads_only=reads_only, savepoint=before_copies
        )
    session.wire.do(f"SET LOCAL lock_timeout = '{AT_ONCE}'")


def until_free(session: PostgresSession, attempt: Callable[[], T]) -> T:
    """What `attempt` gives. While another session is in its way, all is rolled back, so that this session can go on,
    and it is tried again from the start, until no time is left to wait for locks.
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
    """Until another session lets it be read; nothing is held meanwhile. DATABASE_BUSY if no time is left."""
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
    """Tables that a statement about the structure names, and those that inherit from them; with CASCADE also those that
    depend on anything that it names. In any schema: at worst one more is locked.
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
    """A table of one of these names that another session keeps others from; empty if there is none now."""
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
    """ALTER SEQUENCE makes a copy that belongs to the transaction, with the same numbers, and locks the sequence. What
    is taken from the copy is gone with the transaction.
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
    """The one that was not had; None if all were."""
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
    """Whether it was had in that time; without any waiting if that is none, but for a sequence."""
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
