"""The file of people, invitations and sessions, and pure functions on its content. It holds digests, not secrets.

The file is replaced as a whole under a lock. Other processes see a change at their next read. Of two concurrent logins
with one code, only one finds the code.
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
    """The role of a person, and the user of a tenant for whom they ask."""

    role: Role
    user: Identifier | None = None
    tenant: Identifier | None = None


class StoredPerson(Contract):
    id: Identifier
    name: Name | None = None
    standing: RoleAssignment
    since: Timestamp
    last_login: Timestamp | None = None
    invited_by: Identifier | None = None


class StoredInvitation(Contract):
    code_digest: Digest
    person_id: Identifier
    created_at: Timestamp
    expires_at: Timestamp


class StoredSession(Contract):
    """A session. It is valid as long as its person exists and has the same role, user and tenant as at the login."""

    cookie_digest: Digest
    person_id: Identifier
    standing: RoleAssignment
    basis: Annotated[str, Field(max_length=100)] = ""
    """The digest of the table of roles that the role came from, if the role came from one."""
    created_at: Timestamp
    seen_at: Timestamp
    expires_at: Timestamp
    idle_seconds: Count


class StoredRevocation(Contract):
    """A logout or removal that is in force, and may not be in the ledger yet."""

    step_id: Uuid
    kind: Literal["person.logged_out", "person.removed"]
    person_id: Identifier
    sessions: Count
    actor: Identifier


class PeopleFile(Contract):
    bounds: ClassVar[Bounds] = Bounds(max_bytes=8 << 20, max_items=200_000)

    version: VersionOne = 1
    people: Annotated[tuple[StoredPerson, ...], Field(strict=False, max_length=MAX_PEOPLE)] = ()
    invitations: Annotated[tuple[StoredInvitation, ...], Field(strict=False, max_length=MAX_INVITATIONS)] = ()
    sessions: Annotated[tuple[StoredSession, ...], Field(strict=False, max_length=MAX_SESSIONS)] = ()
    unrecorded: Annotated[tuple[StoredRevocation, ...], Field(strict=False, max_length=MAX_SESSIONS)] = ()


class _CachedPeople(NamedTuple):
    """The content of the last read, and the stamp of the file that was read."""

    stamp: tuple[int, int, int, int] | None
    content: PeopleFile
    sessions: dict[str, StoredSession]
    people: dict[str, StoredPerson]


class PeopleStore:
    """The file in `folder`. The folder is made at the first change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / _FILE
        self._cached: _CachedPeople | None = None
        self._writing = threading.Lock()

    def read(self) -> PeopleFile:
        """Return the current content, including changes of other processes."""
        return self._current().content

    def session(self, cookie_digest: str) -> tuple[StoredSession, StoredPerson] | None:
        """Return a session and its person, if both exist. Does not check whether the session is valid."""
        cached = self._current()
        found = cached.sessions.get(cookie_digest)
        person = cached.people.get(found.person_id) if found else None
        return (found, person) if found and person else None

    def change(self, work: Callable[[PeopleFile], tuple[PeopleFile, T]]) -> T:
        """Replace the content by the result of `work`. If `work` raises, nothing changes."""
        with self._writing, self._locked():
            old = self.read()
            new, answer = work(old)
            if new != old:
                write_durably(self._path, PeopleFile.from_tree(new.tree(), source="people").canonical())
            return answer

    def _current(self) -> "_CachedPeople":
        try:
            found = os.stat(self._path)
            # Also the change time: an editor of the file can set its other times back, but not this one.
            stamp = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        except FileNotFoundError:
            stamp = None
        cached = self._cached
        if cached is None or cached.stamp != stamp:
            content = PeopleFile() if stamp is None else self._load()
            by_cookie = {one.cookie_digest: one for one in content.sessions}
            cached = self._cached = _CachedPeople(stamp, content, by_cookie, {one.id: one for one in content.people})
        return cached

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


def is_active(session: StoredSession, person: StoredPerson, now: datetime) -> bool:
    return (
        session.standing == person.standing
        and has_started(session.created_at, now)
        and now < parse_time(session.expires_at)
        and has_started(session.seen_at, now)
        and now - parse_time(session.seen_at) < timedelta(seconds=session.idle_seconds)
    )


def has_started(created_at: str, now: datetime) -> bool:
    """Return whether the time has come. It has not if the clock was ahead then and a person accepted an earlier one."""
    return parse_time(created_at) - now <= CLOCK_TOLERANCE


def is_open(link: StoredInvitation, now: datetime) -> bool:
    return has_started(link.created_at, now) and now < parse_time(link.expires_at)


def with_person(
    content: PeopleFile, person: Person, standing: RoleAssignment, now: str, invited_by: str | None
) -> PeopleFile:
    """Return the content with this person and their current role."""
    before = find_person(content, person.id)
    entry = StoredPerson(
        id=person.id,
        name=person.name,
        standing=standing,
        since=before.since if before else now,
        last_login=before.last_login if before else None,
        invited_by=invited_by or (before.invited_by if before else None),
    )
    return with_fields(content, people=(*(one for one in content.people if one.id != person.id), entry))


def without_expired(content: PeopleFile, now: datetime) -> PeopleFile:
    """Return the content without sessions and links that can never be valid again."""
    by_id = {one.id: one for one in content.people}
    sessions = tuple(
        one for one in content.sessions if one.person_id in by_id and is_active(one, by_id[one.person_id], now)
    )
    links = tuple(one for one in content.invitations if one.person_id in by_id and is_open(one, now))
    return with_fields(content, sessions=sessions, invitations=links)


def without_person(content: PeopleFile, person_id: str) -> PeopleFile:
    return with_fields(
        content,
        people=tuple(one for one in content.people if one.id != person_id),
        invitations=tuple(one for one in content.invitations if one.person_id != person_id),
        sessions=tuple(one for one in content.sessions if one.person_id != person_id),
    )


def without_sessions(content: PeopleFile, is_over: Callable[[StoredSession], bool]) -> tuple[PeopleFile, Counter[str]]:
    """Return the content without these sessions, and their number by person."""
    over = Counter(one.person_id for one in content.sessions if is_over(one))
    return with_fields(content, sessions=tuple(one for one in content.sessions if not is_over(one))), over


def with_fields(content: PeopleFile, **fields: object) -> PeopleFile:
    return content.model_copy(update=fields)


def find_person(content: PeopleFile, person_id: str) -> StoredPerson | None:
    return next((one for one in content.people if one.id == person_id), None)


def require_person(content: PeopleFile, person_id: str) -> StoredPerson:
    return next(one for one in content.people if one.id == person_id)


def find_by_name(content: PeopleFile, name: str) -> StoredPerson:
    """Find a person by the whole id, or by the name in an invitation."""
    found = find_person(content, name) or find_person(content, f"link:{name}")
    if found is None:
        raise RefusedError(
            Reason.STATE_MISSING,
            "no person has this name or id",
            where=name,
            next_step="To see all people: remit people list",
        )
    return found
