"""The values that this package returns, and the roles of people.

No secret is in a `repr`, so that no log gets one by accident. The table `remit.services.base.permissions` says what
each role may do.
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
    user: str | None = None
    """The user of goals that the person is, if any."""
    tenant: str | None = None

    @property
    def path(self) -> str:
        """The path below the server's address. The browser does not send the part after the #, so no log has it."""
        return f"/login#{self.code}"


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that has just begun. `cookie` is the secret that the browser keeps."""

    person_id: str
    expires_at: datetime
    cookie: str = field(repr=False)
    csrf: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The person that a cookie identifies."""

    person: Person
    role: Role
    user: str | None
    tenant: str | None
    expires_at: datetime
    csrf: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Listed:
    """A person as a line of a list."""

    id: str
    role: Role
    user: str | None
    tenant: str | None
    since: str
    last_login: str | None
    invited_by: str | None
    sessions: int
    open_links: int
