"""The people of one workspace. An invitation is a link that works once. A session identifies a person until it ends.

Every grant is recorded in the ledger before it has an effect. A removal or logout takes effect before it is recorded
(`revocations`). A session ends when it expires, when it is not used, at a logout, when its person is removed, and as
soon as that person has another role, user or tenant.
"""

import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT, Clock, parse_time, render_time
from remit.identity.models import Invitation, Listed, LoggedIn, NewSession, Role
from remit.identity.people_file import (
    PeopleFile,
    PeopleStore,
    RoleAssignment,
    StoredInvitation,
    StoredPerson,
    StoredSession,
    find_by_name,
    find_person,
    is_active,
    is_open,
    require_person,
    with_fields,
    with_person,
    without_expired,
    without_person,
    without_sessions,
)
from remit.identity.person import Person
from remit.identity.revocations import Revocations
from remit.identity.secrets import code_digest, derive_csrf, invalid_link_error, is_secret, new_secret, secret_digest
from remit.ledger.entry import NewEntry
from remit.ledger.search import not_before_newest
from remit.ledger.writer import Ledger

T = TypeVar("T")
LINK_LIFE: Final = timedelta(minutes=15)
SESSION_LIFE: Final = timedelta(hours=12)
IDLE_LIFE: Final = timedelta(hours=2)
SESSIONS_EACH: Final = 20
"""The most sessions of one person at a time. One more ends the oldest."""
_TOUCH_EACH: Final = timedelta(minutes=1)
_LONGEST_LINK: Final = timedelta(days=7)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")


class People:
    """The people of a workspace, kept in `folder`. It is made when the first person is invited."""

    def __init__(
        self, folder: Path, ledger: Callable[[], Ledger], clock: Clock, tenant_id: str = DEFAULT_TENANT
    ) -> None:
        self._file = PeopleStore(folder)
        self._revocations = Revocations(self._file, ledger, self._now, tenant_id)
        self._ledger = ledger
        self._clock = clock
        self._tenant_id = tenant_id

    def invite(
        self,
        name: str,
        role: Role,
        *,
        actor: str,
        user: str | None = None,
        tenant: str | None = None,
        life: timedelta = LINK_LIFE,
    ) -> Invitation:
        """Make a link for `link:NAME`. Older links of this person end; with another role, their sessions end too.

        Without `user`, a person who was invited before keeps their user and tenant.
        """
        if not _NAME.fullmatch(name):
            raise RefusedError(
                Reason.MALFORMED,
                "a name has 1 to 64 letters, digits and any of . _ @ + -, and begins with a letter or a digit",
                where="name",
                next_step="Give a short name, such as an account name or a mail address.",
            )
        standing = RoleAssignment.from_tree({"role": role, "user": user, "tenant": tenant}, source="the invitation")
        return self._invite(Person(f"link:{name}"), standing, actor, life)

    def invite_self(self, person: Person) -> Invitation:
        """Make a link for the person who starts the server: the user of the operating system, who owns the workspace.

        As with every link, older unused links of the same person end.
        """
        if not person.id.startswith("os:"):
            raise RefusedError(Reason.PERMISSION_DENIED, "only a user of the operating system can get this link")
        return self._invite(person, RoleAssignment(role="admin"), person.id, LINK_LIFE)

    def redeem(self, code: str, *, life: timedelta = SESSION_LIFE, idle: timedelta = IDLE_LIFE) -> NewSession:
        """Log in with a code. It is valid once: of two concurrent attempts, one is refused."""
        digest, now = code_digest(code), self._now()

        def work(content: PeopleFile) -> tuple[PeopleFile, NewSession]:
            found = next((one for one in content.invitations if one.code_digest == digest), None)
            person = find_person(content, found.person_id) if found else None
            if found is None or person is None or not is_open(found, now):
                raise invalid_link_error()
            return self._open_session(content, person, now, (life, idle), how="link")

        return self._change(work)

    def admit(
        self,
        person: Person,
        role: Role,
        *,
        user: str | None = None,
        tenant: str | None = None,
        basis: str = "",
        life: timedelta = SESSION_LIFE,
        idle: timedelta = IDLE_LIFE,
    ) -> NewSession:
        """Log in a person whom an identity provider has just authenticated. Only for `oidc:` ids."""
        if not person.id.startswith("oidc:"):
            raise RefusedError(
                Reason.PERMISSION_DENIED, "an identity provider can only log in people whose id begins with oidc:"
            )
        standing = RoleAssignment.from_tree({"role": role, "user": user, "tenant": tenant}, source="the login")
        now = self._now()

        def work(content: PeopleFile) -> tuple[PeopleFile, NewSession]:
            made = with_person(content, person, standing, render_time(now), None)
            return self._open_session(made, require_person(made, person.id), now, (life, idle), how="oidc", basis=basis)

        return self._change(work)

    def session(self, cookie: str, *, touch: bool = True) -> LoggedIn | None:
        """Return the person that the cookie identifies now, or None if it never was or no longer is valid."""
        if not is_secret(cookie):
            return None
        digest, now = secret_digest(cookie), self._now()
        cached = self._file.session(digest)
        if cached is None or not is_active(*cached, now):
            return None
        found, person = cached
        if touch and now - parse_time(found.seen_at) >= _TOUCH_EACH:
            self._touch(digest, now)
        standing = found.standing
        who = Person(person.id, person.name, lambda then: self._is_same_session(digest, standing, then))
        expires = parse_time(found.expires_at)
        return LoggedIn(who, standing.role, standing.user, standing.tenant, expires, derive_csrf(cookie))

    def _is_same_session(self, digest: str, standing: RoleAssignment, now: datetime) -> bool:
        """Return whether the session is valid with the same role. Only reads the file: a transaction calls it."""
        cached = self._file.session(digest)
        return cached is not None and is_active(*cached, now) and cached[0].standing == standing

    def end(self, cookie: str) -> bool:
        """Log out. Return False if there was no such session."""
        if not is_secret(cookie):
            return False
        digest = secret_digest(cookie)

        def work(content: PeopleFile) -> tuple[PeopleFile, Counter[str]]:
            return without_sessions(content, lambda one: one.cookie_digest == digest)

        return bool(self._revocations.end("person.logged_out", None, work))

    def end_all(self, name: str, *, actor: str) -> int:
        """End every session of a person, and return their number. The person can log in again with a new link."""

        def work(content: PeopleFile) -> tuple[PeopleFile, Counter[str]]:
            person = find_by_name(content, name)
            rest, ended = without_sessions(content, lambda one: one.person_id == person.id)
            return rest, Counter({person.id: ended.total()})

        return self._revocations.end("person.logged_out", actor, work).total()

    def remove(self, name: str, *, actor: str) -> str:
        """Remove a person, and return the id. Links and sessions end at once. Their ledger entries stay."""

        def work(content: PeopleFile) -> tuple[PeopleFile, Counter[str]]:
            person = find_by_name(content, name)
            ended = sum(one.person_id == person.id for one in content.sessions)
            return without_person(content, person.id), Counter({person.id: ended})

        return next(iter(self._revocations.end("person.removed", actor, work)))

    def end_other_basis(self, kind: str, basis: str) -> int:
        """End the sessions of `kind:` people whose role came from another table than `basis`. Return their number."""

        def work(content: PeopleFile) -> tuple[PeopleFile, Counter[str]]:
            return without_sessions(content, lambda one: one.person_id.startswith(f"{kind}:") and one.basis != basis)

        if not self._file.read().sessions:
            return 0
        return self._revocations.end("person.logged_out", "remit", work).total()

    def record_pending(self) -> int:
        """Record the logouts and removals that a dead process had not recorded. Return their number."""
        return self._revocations.record_pending()

    def listed(self) -> list[Listed]:
        """List the people, sorted by id."""
        self.record_pending()
        content, now = self._file.read(), self._now()
        return [
            Listed(
                one.id,
                one.standing.role,
                one.standing.user,
                one.standing.tenant,
                one.since,
                one.last_login,
                one.invited_by,
                sum(found.person_id == one.id and is_active(found, one, now) for found in content.sessions),
                sum(link.person_id == one.id and is_open(link, now) for link in content.invitations),
            )
            for one in sorted(content.people, key=lambda person: person.id)
        ]

    def _invite(self, person: Person, standing: RoleAssignment, actor: str, life: timedelta) -> Invitation:
        if not timedelta(0) < life <= _LONGEST_LINK:
            raise RefusedError(
                Reason.TOO_LARGE,
                f"a link is valid for at most {_LONGEST_LINK.days} days",
                where="life",
                next_step="Give a shorter time, and make another link when it is needed.",
            )
        code, now = new_secret(), self._now()
        expires = now + life

        def work(content: PeopleFile) -> tuple[PeopleFile, RoleAssignment]:
            kept = _keep_user(standing, find_person(content, person.id))
            # An older link may still be in a mailbox, and it could restore an earlier role.
            links = _without_links(content, person.id)
            link = StoredInvitation(
                code_digest=secret_digest(code),
                person_id=person.id,
                created_at=render_time(now),
                expires_at=render_time(expires),
            )
            made = with_person(with_fields(content, invitations=links), person, kept, render_time(now), str(actor))
            made = without_expired(with_fields(made, invitations=(*made.invitations, link)), now)
            payload = {"person": person.id, **kept.tree(), "expires_at": render_time(expires)}
            self._record("person.invited", person.id, payload, actor)
            return made, kept

        now_standing = self._change(work)
        return Invitation(person.id, standing.role, expires, code, now_standing.user, now_standing.tenant)

    def _open_session(
        self,
        content: PeopleFile,
        person: StoredPerson,
        now: datetime,
        lifetimes: tuple[timedelta, timedelta],
        *,
        how: str,
        basis: str = "",
    ) -> tuple[PeopleFile, NewSession]:
        """Open a session with a new cookie, so that a cookie planted in the browser before the login is of no use.

        The links of the person end: a person who is logged in does not need one.
        """
        cookie, (life, idle) = new_secret(), lifetimes
        expires = now + life
        session = StoredSession(
            cookie_digest=secret_digest(cookie),
            person_id=person.id,
            standing=person.standing,
            basis=basis,
            created_at=render_time(now),
            seen_at=render_time(now),
            expires_at=render_time(expires),
            idle_seconds=int(idle.total_seconds()),
        )
        content = without_expired(content, now)
        own_sessions = [one for one in content.sessions if one.person_id == person.id][-(SESSIONS_EACH - 1) :]
        others = [one for one in content.sessions if one.person_id != person.id]
        people = tuple(
            one.model_copy(update={"last_login": render_time(now)}) if one.id == person.id else one
            for one in content.people
        )
        payload = {"person": person.id, **person.standing.tree(), "how": how, "expires_at": render_time(expires)}
        self._record("person.logged_in", person.id, payload, person.id)
        links = _without_links(content, person.id)
        made = with_fields(content, people=people, sessions=(*others, *own_sessions, session), invitations=links)
        return made, NewSession(person.id, expires, cookie, derive_csrf(cookie))

    def _change(self, work: Callable[[PeopleFile], tuple[PeopleFile, T]]) -> T:
        """Make a change that is recorded at once, after all earlier steps that are in force but not recorded."""
        return self._file.change(lambda content: work(self._revocations.with_recorded(content)))

    def _now(self) -> datetime:
        """Return the current time. A clock that was set back makes no session and no link valid again."""
        with self._ledger().store.reading_pooled() as connection:
            return not_before_newest(connection, self._tenant_id, self._clock())

    def _touch(self, digest: str, now: datetime) -> None:
        def work(content: PeopleFile) -> tuple[PeopleFile, None]:
            stale = render_time(now - _TOUCH_EACH)
            touched = tuple(
                one.model_copy(update={"seen_at": render_time(now)})
                if one.cookie_digest == digest and one.seen_at <= stale  # otherwise another thread has updated it
                else one
                for one in content.sessions
            )
            return with_fields(content, sessions=touched), None

        self._file.change(work)

    def _record(self, kind: str, person_id: str, payload: dict[str, object], actor: str) -> None:
        self._ledger().append(NewEntry(self._tenant_id, kind, person_id, payload, actor=actor))


def _keep_user(standing: RoleAssignment, before: StoredPerson | None) -> RoleAssignment:
    """Return the new standing, with the user and tenant of the person if the invitation names none."""
    if standing.user is not None or before is None:
        return standing
    return standing.model_copy(update={"user": before.standing.user, "tenant": before.standing.tenant})


def _without_links(content: PeopleFile, person_id: str) -> tuple[StoredInvitation, ...]:
    return tuple(one for one in content.invitations if one.person_id != person_id)
