"""What the room of people hands out. Secrets are in no `repr`, so that no log gets one by accident.

What a person can be. What each role may do stands in one table, `remit.services.base.permissions`.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from remit.identity.person import Person

Role = Literal["viewer", "approver", "operator", "admin"]
ROLES: Final[tuple[Role, ...]] = ("viewer", "approver", "operator", "admin")


@dataclass(frozen=True, slots=True)
class Invitation:
    """A link for one person. `code` is the secret in it."""

    person_id: str
    role: Role
    expires_at: datetime
    code: str = field(repr=False)

    @property
    def path(self) -> str:
        """Below the server's address. What follows the # stays in the browser: no log and no referrer sees it."""
        return f"/login#{self.code}"


@dataclass(frozen=True, slots=True)
class NewSession:
    """Just begun. `cookie` is the secret that the browser keeps."""

    person_id: str
    expires_at: datetime
    cookie: str = field(repr=False)
    csrf: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """Whom a cookie stands for."""

    person: Person
    role: Role
    user: str | None
    tenant: str | None
    expires_at: datetime
    csrf: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Listed:
    """A person, for people."""

    id: str
    role: Role
    user: str | None
    tenant: str | None
    since: str
    last_login: str | None
    invited_by: str | None
    sessions: int
    open_links: int
