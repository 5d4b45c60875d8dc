"""Runs all actions of a plan in one open transaction, and captures row images for a later rollback.

Before the first statement, all tables that the statements reach are locked; see `table_locks`. Then the statements run
once, to find out which tables they change. If images of some of these can be captured, everything is rolled back, the
triggers are installed, and the statements run again. In the first run, numbers come from copies of the sequences, so
that an apply takes each number only once. A preview runs no statement that takes a number. If only a function of the
database changed a table, this table is locked in a second attempt, again before the first statement.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from remit.core.errors import EnvironmentFailureError
from remit.effects.context import PathHandle
from remit.effects.postgres.dependencies import ReachedObjects
from remit.effects.postgres.libpq import ServerError
from remit.effects.postgres.request import RequestedAction
from remit.effects.postgres.row_capture import Capture
from remit.effects.postgres.row_counts import RowCounts, is_counting
from remit.effects.postgres.row_images import Images, WrittenImages
from remit.effects.postgres.runner import Did, StatementRunner, render_answer, summarise
from remit.effects.postgres.session import PostgresSession
from remit.effects.postgres.table_locks import acquire_locks, plan_locks, until_free, wait_for
from remit.effects.postgres.tables import Table, TableFacts, read_facts, why_nothing_can_be_captured
from remit.effects.postgres.undo import restore_rows

_FIRST: Final = "remit_first"
_SECOND: Final = "remit_second"
_THIRD: Final = "remit_third"
_NOT_FOLLOWED: Final = "the changes of its rows could not be captured exactly"
_NOT_RESTORABLE: Final = "not all its rows could be restored: other rows refer to them, or they exclude each other"
_MOST_REASONS: Final = 5
_MOST_ATTEMPTS: Final = 3
STRUCTURE_TOO: Final = "the plan also changes the structure of the database, so no row can be restored"
NOT_COUNTED: Final = "the server keeps no counters of changed rows (its track_counts is off)"


class Followed(NamedTuple):
    """The results of all actions, and the captured images."""

    did: tuple[Did, ...]
    facts: Mapping[int, TableFacts]
    captured: tuple[Table, ...]
    why_not: str
    """The reason why no change can be rolled back. Empty if there is no such general reason."""
    written: WrittenImages | None
    """The summary of the image file. None if there is none."""


class Follower:
    """Runs the actions of one order.

    `images`: the place of the image file. `commits`: this is not only a preview, or it is the preview right before an
    apply. Then it acquires the locks of an apply. `define`: makes the digest of the definitions of the tables, which is
    made under the locks, before the first statement.
    """

    def __init__(
        self,
        session: PostgresSession,
        runner: StatementRunner,
        images: PathHandle,
        *,
        reads_only: bool,
        commits: bool,
        define: Callable[[], str] | None = None,
    ) -> None:
        self._session = session
        self._wire = session.wire
        self._runner = runner
        self._spot = images
        self._reads_only = reads_only
        self._commits = commits
        self._define = define
        self.definitions = ""
        """The digest of the definitions of the tables before the first statement, if `define` was given."""
        self._capture: Capture | None = None
        self._has_copies = False
        """Whether an apply has taken numbers from copies of sequences. Then its statements must run again."""

    def follow(self, actions: Sequence[RequestedAction], *, continue_on_error: bool) -> Followed:
        """Run the actions, and capture images where possible.

        Raises:
            EnvironmentFailureError: DATABASE_BUSY. Other sessions held locks for longer than the maximum wait.
        """
        return until_free(self._session, lambda: self._attempt(actions, continue_on_error=continue_on_error))

    def _attempt(self, actions: Sequence[RequestedAction], *, continue_on_error: bool) -> Followed:
        did, locked = self._run_locked(actions, continue_on_error=continue_on_error)
        facts = self._facts(did)
        why_not = self._why_not(did)
        tables = [] if why_not else [f.table for oid, f in facts.items() if not f.not_captured and oid in locked]
        if not tables and self._has_copies and any(one.tables or one.structure or one.unseen for one in did):
            self._wire.do(f"ROLLBACK TO SAVEPOINT {_FIRST}")
            self._session.apply_settings()
            did = self._runner.run(actions, continue_on_error=continue_on_error)
            facts = self._facts(did)
            why_not = self._why_not(did)
        if not tables:
            return Followed(tuple(did), facts, (), why_not, None)
        self._wire.do(f"ROLLBACK TO SAVEPOINT {_FIRST}")
        self._session.apply_settings()  # the rollback has reset the settings as well
        self._capture = Capture(self._wire, tables)
        self._wire.do(f"SAVEPOINT {_SECOND}")
        did = self._runner.run(actions, continue_on_error=continue_on_error, ours=frozenset({self._capture.oid}))
        facts = self._facts(did)
        why_not = self._why_not(did)
        if why_not:
            return Followed(tuple(did), facts, (), why_not, None)
        self._session.apply_settings()
        images = Images(self._wire, tables)
        images.copy_from(self._capture)
        self._session.apply_settings()
        if not self._is_exact(did, images, "new"):
            return Followed(tuple(did), facts, (), _NOT_FOLLOWED, None)
        if not self._is_restorable(images, self._capture):
            return Followed(tuple(did), facts, (), _NOT_RESTORABLE, None)
        self._session.apply_settings()
        written = images.write(_new_file(self._spot), self._session.identity)
        return Followed(tuple(did), facts, tuple(tables), "", written)

    def _run_locked(
        self, actions: Sequence[RequestedAction], *, continue_on_error: bool
    ) -> tuple[list[Did], frozenset[int]]:
        """Run all statements once, under the locks. Return the results, and the tables that others cannot write to."""
        table = self._runner.blocking_table
        self._runner.forget()
        if not self._wire.in_transaction:  # another session held a lock
            if table:
                wait_for(self._session, table)
            self._session.begin(reads_only=self._reads_only)
        if self._reads_only:
            self._start_reading()
        reached = [*self._runner.find_reached(actions), *self._runner.blocked]
        self._session.apply_settings()
        attempt = 0
        while True:
            plan = plan_locks(self._wire, reached, for_good=self._commits)
            self._has_copies = any(step.is_sequence for step in plan.steps)
            self._wire.do("ROLLBACK")
            acquire_locks(
                self._session, plan, reads_only=self._reads_only, before_copies=_FIRST if self._has_copies else ""
            )
            if plan.writes or self._runner.may_write:
                self._session.start_hold_limit()
            self._session.apply_settings()
            if not self._has_copies:
                self._wire.do(f"SAVEPOINT {_FIRST}")
            if self._define is not None:
                self.definitions = self._define()
                self._session.apply_settings()
            did = self._runner.run(actions, continue_on_error=continue_on_error)
            more = frozenset(oid for one in did for oid in one.tables) - plan.writes
            attempt += 1
            if not more or any(one.structure for one in did) or attempt == _MOST_ATTEMPTS:
                return did, plan.writes
            self._wire.do(f"ROLLBACK TO SAVEPOINT {_FIRST}")
            self._session.apply_settings()
            reached.append(ReachedObjects(writes=more))

    def _start_reading(self) -> None:
        """Begin a transaction that may create a function, because the inspection of a statement needs one."""
        self._wire.do("ROLLBACK")
        try:
            self._session.begin(reads_only=False)
        except ServerError:  # a standby
            self._session.begin(reads_only=True)

    def check_before(self, followed: Followed) -> Followed:
        """Roll everything back, in a preview, and check that the images contain the rows before."""
        if followed.written is None:
            return followed
        self._wire.do(f"ROLLBACK TO SAVEPOINT {_SECOND}")
        self._session.apply_settings()
        images = Images(self._wire, followed.captured)
        descriptor = os.open(self._spot.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._spot.folder)
        try:
            images.load(descriptor)
        finally:
            os.close(descriptor)
        if all(images.differing(number, "old") == 0 for number in range(len(images.tables))):
            return followed
        return followed._replace(captured=(), why_not=_NOT_FOLLOWED, written=None)

    def _is_restorable(self, images: Images, capture: Capture) -> bool:
        """Test the restore: restore all rows, then roll the restore back. Return whether it succeeded."""
        self._wire.do(f"SAVEPOINT {_THIRD}")
        try:
            restore_rows(images, frozenset({capture.oid}))
        except EnvironmentFailureError:
            return False
        finally:
            self._wire.do(f"ROLLBACK TO SAVEPOINT {_THIRD}")
            self._wire.do(f"RELEASE SAVEPOINT {_THIRD}")
        return True

    def clear_up(self) -> None:
        """Remove the triggers of Remit from the database. Only the changes of the statements remain."""
        if self._capture is not None:
            self._capture.remove()

    def _facts(self, did: Sequence[Did]) -> dict[int, TableFacts]:
        oids = {oid for one in did for oid in one.tables}
        return read_facts(self._wire, sorted(oids)) if oids else {}

    def _why_not(self, did: Sequence[Did]) -> str:
        if not is_counting(self._wire):
            return NOT_COUNTED
        if any(one.structure for one in did):
            return STRUCTURE_TOO
        if any(one.tables for one in did):
            return why_nothing_can_be_captured(self._wire)
        return ""

    def _is_exact(self, did: Sequence[Did], images: Images, side: str) -> bool:
        """Return whether the number of captured rows is the counted one, and the images match the current rows."""
        capture = self._capture
        if capture is None or not capture.is_untouched():
            return False
        total = RowCounts()
        for one in did:
            for oid, change in one.tables.items():
                if oid in {table.oid for table in capture.tables}:
                    total += change
        (captured,) = self._wire.one(f"SELECT count(*) FROM {capture.name}")
        if int(captured or 0) != total.inserted + total.deleted + 2 * total.updated:
            return False
        return all(images.differing(number, side) == 0 for number in range(len(images.tables)))


def describe_actions(followed: Followed) -> list[dict[str, Any]]:
    """Return a description of each action, for the host."""
    return [
        {
            "number": one.number,
            "answer": None if one.problem is not None else render_answer(one),
            "tables": [[_name(followed, oid), *change] for oid, change in one.tables.items()],
            "irreversible": _irreversible(followed, one),
            "problem": one.problem,
        }
        for one in followed.did
    ]


def changes_something(followed: Followed) -> bool:
    """Return whether anything was changed, by the counters. If the server has no counters, always return true."""
    return followed.why_not == NOT_COUNTED or any(one.tables or one.structure or one.unseen for one in followed.did)


def before_rows(followed: Followed) -> dict[str, str]:
    """Return a digest of the rows before, by table."""
    if followed.written is None:
        return {}
    return {table.shown: digest for table, digest in zip(followed.captured, followed.written.before, strict=True)}


def _irreversible(followed: Followed, one: Did) -> str:
    if one.problem is not None or not (one.tables or one.structure or one.unseen):
        return followed.why_not if followed.why_not == NOT_COUNTED else ""
    reasons = list(one.unseen)
    if one.structure:
        reasons.insert(0, f"{summarise(one.structure)} cannot be rolled back")
    elif followed.why_not:
        reasons.append(followed.why_not)
    if not reasons or one.structure:  # all reasons, so that people can change the plan
        reasons += _not_captured(followed, one)
    return "; ".join(reasons[:_MOST_REASONS]) + ("; ..." if len(reasons) > _MOST_REASONS else "")


def _not_captured(followed: Followed, one: Did) -> list[str]:
    captured = {table.oid for table in followed.captured}
    others = [followed.facts.get(oid) for oid in one.tables if oid not in captured]
    if one.structure:  # nothing was captured, for that reason
        return [facts.not_captured for facts in others if facts is not None and facts.not_captured]
    return [_NOT_FOLLOWED if facts is None else facts.not_captured or _NOT_FOLLOWED for facts in others]


def _name(followed: Followed, oid: int) -> str:
    return followed.facts[oid].table.shown if oid in followed.facts else f"table {oid}"


def _new_file(spot: PathHandle) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(spot.name, flags, 0o600, dir_fd=spot.folder)
