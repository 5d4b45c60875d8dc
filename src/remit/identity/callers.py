"""Authenticated callers: an agent with a capability token, or a person with a session.

Only code that authenticates makes them. An agent is never a person, so it has no permission to decide anything
(`remit.services.base.permissions`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Self

from remit.authority.capability_token import Token
from remit.core.canonical import digest_bytes
from remit.identity.models import Role
from remit.identity.person import Person
from remit.identity.tokens import Tokens
from remit.ledger.entry import Actor
from remit.store.connection import Connection

MOST: Final = 200
"""The most characters of an id in the ledger."""


def agent_id(name: str) -> str:
    """Return the id of an agent in the ledger. It has the digest of a name that is too long or looks like a digest.

    So no two names have the same id.
    """
    whole = f"agent:{name}"
    return whole if len(whole) <= MOST and not name.startswith("sha256:") else f"agent:{digest_bytes(name.encode())}"


@dataclass(frozen=True, slots=True)
class AgentCaller:
    """An agent whose token was just verified. `text` is the token, for the operations that verify it again."""

    token: Token
    text: str = field(repr=False)
    require_still_valid: Callable[[Connection, datetime], None] = field(compare=False, repr=False)
    """Check that the token is valid, on the connection of a transaction."""

    @classmethod
    def by(cls, tokens: Tokens, text: str) -> Self:
        """Return the caller with this token. Refuses a token that is not valid."""
        token = tokens.verify(text)
        return cls(token, text, lambda connection, now: tokens.require_still_valid(connection, token, now))

    @property
    def id(self) -> str:
        return agent_id(self.token.agent_id)

    @property
    def actor(self) -> str:
        """The actor of a ledger entry. The entry is only written while the token is valid."""
        return Actor(self.id, self.require_still_valid)


@dataclass(frozen=True, slots=True)
class PersonCaller:
    """A person with a session. They ask for goals as `user` of `tenant`, and cannot ask for goals without these."""

    person: Person
    role: Role
    user: str | None = None
    tenant: str | None = None
    at_terminal: bool = False
    """Whether this is the account of the operating system at the command line, and not a session of `remit serve`."""

    @property
    def id(self) -> str:
        return self.person.id

    @property
    def actor(self) -> str:
        """The actor of a ledger entry. The entry is only written while the person's session is valid."""
        return self.person.actor


Caller = AgentCaller | PersonCaller
