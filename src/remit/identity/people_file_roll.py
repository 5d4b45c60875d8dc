"""What is kept of people, as pure functions: who is in it, what counts, what it is after a change."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

from remit.core.errors import Reason, Refused
from remit.core.ids import CLOCK_TOLERANCE, parse_time
from remit.identity.people_file_kept import Kept, KeptInvitation, KeptPerson, KeptSession, Standing
from remit.identity.person import Person


def counts(session: KeptSession, person: KeptPerson, now: datetime) -> bool:
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


def placed(kept: Kept, person: Person, standing: Standing, now: str, invited_by: str | None) -> Kept:
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


def cleared(kept: Kept, now: datetime) -> Kept:
    """Without what can never count again."""
    by_id = {one.id: one for one in kept.people}
    sessions = tuple(one for one in kept.sessions if one.person_id in by_id and counts(one, by_id[one.person_id], now))
    links = tuple(one for one in kept.invitations if one.person_id in by_id and is_open(one, now))
    return changed(kept, sessions=sessions, invitations=links)


def without(kept: Kept, person_id: str) -> Kept:
    return changed(
        kept,
        people=tuple(one for one in kept.people if one.id != person_id),
        invitations=tuple(one for one in kept.invitations if one.person_id != person_id),
        sessions=tuple(one for one in kept.sessions if one.person_id != person_id),
    )


def without_sessions(kept: Kept, is_over: Callable[[KeptSession], bool]) -> tuple[Kept, Counter[str]]:
    """And how many of whom there were."""
    over = Counter(one.person_id for one in kept.sessions if is_over(one))
    return changed(kept, sessions=tuple(one for one in kept.sessions if not is_over(one))), over


def changed(kept: Kept, **fields: object) -> Kept:
    return kept.model_copy(update=fields)


def find(kept: Kept, person_id: str) -> KeptPerson | None:
    return next((one for one in kept.people if one.id == person_id), None)


def known(kept: Kept, person_id: str) -> KeptPerson:
    return next(one for one in kept.people if one.id == person_id)


def named(kept: Kept, name: str) -> KeptPerson:
    """By the whole id, or by the name in an invitation."""
    found = find(kept, name) or find(kept, f"link:{name}")
    if found is None:
        raise Refused(
            Reason.STATE_MISSING,
            "there is nobody of this name",
            where=name,
            next_step="`remit people list` shows who there is.",
        )
    return found
