"""All actions of a plan in one open transaction, and how it could be taken back afterwards: images of the rows.

Before the first statement, the tables that the statements reach are locked, in a transaction of its own; see `locks`.
Then the statements are run once to learn which tables they change. If images of some of these can be taken, everything
is rolled back, the triggers are installed, and the statements run again. The first time, numbers come from copies of
the sequences, so that an apply takes each number once; in a preview also the second time. A table that only a function
of the database was found to change is locked in a second attempt, again before the first statement.
"""

import os
from collections.abc import Mapping, Sequence
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
_NOT_FOLLOWED: Final = "the changes of its rows could not be followed exactly"
_NOT_RESTORABLE: Final = "its rows could not all be given back: others refer to them, or they exclude each other"
_MOST_REASONS: Final = 5
_MOST_ATTEMPTS: Final = 3
_NOT_COUNTED: Final = "the server does not count the rows that are changed (its track_counts is off)"


class Followed(NamedTuple):
    """What was done, and what is kept of it."""

    did: tuple[Did, ...]
    facts: Mapping[int, TableFacts]
    captured: tuple[Table, ...]
    why_not: str
    """Why nothing that it did can be taken back, whatever it is; empty if there is no such reason."""
    written: WrittenImages | None
    """Of the file of images; None if there is none."""


class Follower:
    """Runs the actions of one order. `images` is where the file is made. `commits`: not only a preview, or one right
    before it is done; then the locks are those that it takes to be done.
    """

    def __init__(
        self,
        session: PostgresSession,
        runner: StatementRunner,
        images: PathHandle,
        *,
        reads_only: bool,
        is_preview: bool,
        commits: bool,
    ) -> None:
        self._session = session
        self._wire = session.wire
        self._runner = runner
        self._spot = images
        self._reads_only = reads_only
        self._is_preview = is_preview
        self._commits = commits
        self._capture: Capture | None = None
        self._has_copies = False
        """An apply has taken numbers from copies of sequences, so its statements must run again."""

    def follow(self, actions: Sequence[RequestedAction], *, continue_on_error: bool) -> Followed:
        """DATABASE_BUSY if other sessions are in the way for longer than they are waited for."""
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
        self._session.apply_settings()  # the settings have gone back as well
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
        """All statements once, with the locks; and the tables that no other session can write to."""
        table = self._runner.blocking_table
        self._runner.forget()
        if not self._wire.in_transaction:  # another session was in the way
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
            copied = frozenset(step.oid for step in plan.steps if step.is_sequence)
            self._has_copies = bool(copied) and not self._is_preview
            self._wire.do("ROLLBACK")
            acquire_locks(
                self._session, plan, reads_only=self._reads_only, before_copies=_FIRST if self._has_copies else ""
            )
            if plan.writes or self._runner.may_write:
                self._session.start_hold_limit()
            self._session.apply_settings()
            if self._is_preview:
                self._runner.copy_sequences(copied)
            if not self._has_copies:
                self._wire.do(f"SAVEPOINT {_FIRST}")
            did = self._runner.run(actions, continue_on_error=continue_on_error)
            more = frozenset(oid for one in did for oid in one.tables) - plan.writes
            attempt += 1
            if not more or any(one.structure for one in did) or attempt == _MOST_ATTEMPTS:
                return did, plan.writes
            self._wire.do(f"ROLLBACK TO SAVEPOINT {_FIRST}")
            self._session.apply_settings()
            reached.append(ReachedObjects(writes=more))

    def _start_reading(self) -> None:
        """A transaction that may make a function, which is never called: only so can a statement be looked at."""
        self._wire.do("ROLLBACK")
        try:
            self._session.begin(reads_only=False)
        except ServerError:  # a standby
            self._session.begin(reads_only=True)

    def check_before(self, followed: Followed) -> Followed:
        """In a preview: take everything back, and see that the images have what was there before."""
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
        """Whether the way back would succeed if it were gone at once. It is, and then that is taken back."""
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
        """Nothing of ours is left in the database but what the statements did."""
        if self._capture is not None:
            self._capture.remove()

    def _facts(self, did: Sequence[Did]) -> dict[int, TableFacts]:
        oids = {oid for one in did for oid in one.tables}
        return read_facts(self._wire, sorted(oids)) if oids else {}

    def _why_not(self, did: Sequence[Did]) -> str:
        if not is_counting(self._wire):
            return _NOT_COUNTED
        if any(one.structure for one in did):
            return "no images of rows are kept, because the structure of the database changes in the same plan"
        if any(one.tables for one in did):
            return why_nothing_can_be_captured(self._wire)
        return ""

    def _is_exact(self, did: Sequence[Did], images: Images, side: str) -> bool:
        """As many rows were kept as the server has counted, and what they say is there now is there."""
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
    """Action by action, for the host."""
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
    """By what was counted; and in any case where nothing is."""
    return followed.why_not == _NOT_COUNTED or any(one.tables or one.structure or one.unseen for one in followed.did)


def before_rows(followed: Followed) -> dict[str, str]:
    """By table, a digest of the rows that were there before."""
    if followed.written is None:
        return {}
    return {table.shown: digest for table, digest in zip(followed.captured, followed.written.before, strict=True)}


def _irreversible(followed: Followed, one: Did) -> str:
    if one.problem is not None or not (one.tables or one.structure or one.unseen):
        return followed.why_not if followed.why_not == _NOT_COUNTED else ""
    reasons = list(one.unseen)
    if one.structure:
        reasons.insert(0, f"{summarise(one.structure)} cannot be taken back")
    elif followed.why_not:
        reasons.append(followed.why_not)
    if not reasons or one.structure:  # all that people would have to know to do it otherwise
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
