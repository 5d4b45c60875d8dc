"""The file that remembers people, invitations and sessions. It holds digests of secrets, and no secret.

One file, replaced as a whole under a lock: what one process changes, the others see at their next look, and of two who
redeem one code at the same time only one finds it.

What is kept of people, as pure functions: who is in it, what counts, what it is after a change.
"""

import contextlib
import fcntl
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, NamedTuple, TypeVar

from pydantic import Field

from remit.contracts.base import Contract, Count, Digest, Identifier, Timestamp, Uuid, VersionOne
from remit.core.errors import Reason, RefusedError
from remit.core.ids import CLOCK_TOLERANCE, parse_time
from remit.fs.atomic_write import make_private_directory, write_durably
from remit.fs.state_dir import require_private
from remit.identity.models import Role
from remit.identity.person import Person
from remit.parsing import Bounds, read_bounded

T = TypeVar("T")
MAX_PEOPLE: Final = 5_000
MAX_INVITATIONS: Final = 2_000
MAX_SESSIONS: Final = 5_000
_FILE: Final = "people.json"
Name = Annotated[str, Field(min_length=1, max_length=100)]


class RoleAssignment(Contract):
    """As what somebody is let in."""

    role: Role
    user: Identifier | None = None
    tenant: Identifier | None = None


class KeptPerson(Contract):
    id: Identifier
    name: Name | None = None
    standing: RoleAssignment
    since: Timestamp
    last_login: Timestamp | None = None
    invited_by: Identifier | None = None


class KeptInvitation(Contract):
    code_digest: Digest
    person_id: Identifier
    created_at: Timestamp
    expires_at: Timestamp


class KeptSession(Contract):
    """It counts as long as its person is there, with the standing that he logged in with."""

    cookie_digest: Digest
    person_id: Identifier
    standing: RoleAssignment
    basis: Annotated[str, Field(max_length=100)] = ""
    """What the standing was derived from, where that can change behind our back: the digest of a table of roles."""
    created_at: Timestamp
    seen_at: Timestamp
    expires_at: Timestamp
    idle_seconds: Count


class KeptEnding(Contract):
    """In force, and not known to be in the ledger yet."""

    step_id: Uuid
    kind: Literal["person.logged_out", "person.removed"]
    person_id: Identifier
    sessions: Count
    actor: Identifier


class PeopleFile(Contract):
    bounds: ClassVar[Bounds] = Bounds(max_bytes=8 << 20, max_items=200_000)

    version: VersionOne = 1
    people: Annotated[tuple[KeptPerson, ...], Field(strict=False, max_length=MAX_PEOPLE)] = ()
    invitations: Annotated[tuple[KeptInvitation, ...], Field(strict=False, max_length=MAX_INVITATIONS)] = ()
    sessions: Annotated[tuple[KeptSession, ...], Field(strict=False, max_length=MAX_SESSIONS)] = ()
    unrecorded: Annotated[tuple[KeptEnding, ...], Field(strict=False, max_length=MAX_SESSIONS)] = ()


class _CachedPeople(NamedTuple):
    """What was read last, and of which file."""

    stamp: tuple[int, int, int, int] | None
    kept: PeopleFile
    sessions: dict[str, KeptSession]
    people: dict[str, KeptPerson]


class KeptFile:
    """The file in `folder`, which is made when something is first to be kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / _FILE
        self._held: _CachedPeople | None = None
        self._writing = threading.Lock()

    def read(self) -> PeopleFile:
        """As it is now, in this process or another."""
        return self._current().kept

    def session(self, cookie_digest: str) -> tuple[KeptSession, KeptPerson] | None:
        """With its person, if both are there. Whether it counts is another question."""
        held = self._current()
        found = held.sessions.get(cookie_digest)
        person = held.people.get(found.person_id) if found else None
        return (found, person) if found and person else None

    def change(self, work: Callable[[PeopleFile], tuple[PeopleFile, T]]) -> T:
        """Replace what is kept by what `work` makes of it. If it raises, nothing changes."""
        with self._writing, self._locked():
            old = self.read()
            new, answer = work(old)
            if new != old:
                write_durably(self._path, PeopleFile.from_tree(new.tree(), source="people").canonical())
            return answer

    def _current(self) -> "_CachedPeople":
        try:
            found = os.stat(self._path)
            # The change time too: whoever edits a file can set its other times back.
            stamp = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        except FileNotFoundError:
            stamp = None
        held = self._held
        if held is None or held.stamp != stamp:
            kept = PeopleFile() if stamp is None else self._load()
            by_cookie = {one.cookie_digest: one for one in kept.sessions}
            held = self._held = _CachedPeople(stamp, kept, by_cookie, {one.id: one for one in kept.people})
        return held

    def _load(self) -> PeopleFile:
        require_private(self._folder, what="the folder of people and their sessions")
        require_private(self._path, what="the file of people and their sessions")
        with self._path.open("rb") as stream:
            return PeopleFile.parse(
                read_bounded(stream, PeopleFile.bounds, source=str(self._path)), source=str(self._path)
            )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        make_private_directory(self._folder)
        require_private(self._folder, what="the folder of people and their sessions")
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def is_active(session: KeptSession, person: KeptPerson, now: datetime) -> bool:
    return (
        session.standing == person.standing
        and has_begun(session.created_at, now)
        and now < parse_time(session.expires_at)
        and has_begun(session.seen_at, now)
        and now - parse_time(session.seen_at) < timedelta(seconds=session.idle_seconds)
    )


def has_begun(created_at: str, now: datetime) -> bool:
    """False for what was made while the clock was ahead, once a person has accepted an earlier clock."""
    return parse_time(created_at) - now <= CLOCK_TOLERANCE


def is_open(link: KeptInvitation, now: datetime) -> bool:
    return has_begun(link.created_at, now) and now < parse_time(link.expires_at)


def placed(kept: PeopleFile, person: Person, standing: RoleAssignment, now: str, invited_by: str | None) -> PeopleFile:
    """With this person in it, as what he is now."""
    before = find(kept, person.id)
    now_known = KeptPerson(
        id=person.id,
        name=person.name,
        standing=standing,
        since=before.since if before else now,
        last_login=before.last_login if before else None,
        invited_by=invited_by or (before.invited_by if before else None),
    )
    return changed(kept, people=(*(one for one in kept.people if one.id != person.id), now_known))


def cleared(kept: PeopleFile, now: datetime) -> PeopleFile:
    """Without what can never count again."""
    by_id = {one.id: one for one in kept.people}
    sessions = tuple(
        one for one in kept.sessions if one.person_id in by_id and is_active(one, by_id[one.person_id], now)
    )
    links = tuple(one for one in kept.invitations if one.person_id in by_id and is_open(one, now))
    return changed(kept, sessions=sessions, invitations=links)


def without(kept: PeopleFile, person_id: str) -> PeopleFile:
    return changed(
        kept,
        people=tuple(one for one in kept.people if one.id != person_id),
        invitations=tuple(one for one in kept.invitations if one.person_id != person_id),
        sessions=tuple(one for one in kept.sessions if one.person_id != person_id),
    )


def without_sessions(kept: PeopleFile, is_over: Callable[[KeptSession], bool]) -> tuple[PeopleFile, Counter[str]]:
    """And how many of whom there were."""
    over = Counter(one.person_id for one in kept.sessions if is_over(one))
    return changed(kept, sessions=tuple(one for one in kept.sessions if not is_over(one))), over


def changed(kept: PeopleFile, **fields: object) -> PeopleFile:
    return kept.model_copy(update=fields)


def find(kept: PeopleFile, person_id: str) -> KeptPerson | None:
    return next((one for one in kept.people if one.id == person_id), None)


def known(kept: PeopleFile, person_id: str) -> KeptPerson:
    return next(one for one in kept.people if one.id == person_id)


def named(kept: PeopleFile, name: str) -> KeptPerson:
    """By the whole id, or by the name in an invitation."""
    found = find(kept, name) or find(kept, f"link:{name}")
    if found is None:
        raise RefusedError(
            Reason.STATE_MISSING,
            "there is nobody of this name",
            where=name,
            next_step="`remit people list` shows who there is.",
        )
    return found
