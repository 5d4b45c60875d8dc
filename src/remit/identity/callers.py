"""Whoever asks something of Remit from outside: an agent with a capability token, or a person who has logged in.

Both are made by what has authenticated them, and by nothing else. An agent is never a person: no right that decides
anything is within its reach (`remit.services.base.permissions`).
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
"""Characters of an id in the record."""


def agent_id(name: str) -> str:
    """What the record calls an agent of this name. A name that would be cut there goes by its digest.

    So does one that looks like a digest: no two names have one id.
    """
    whole = f"agent:{name}"
    return whole if len(whole) <= MOST and not name.startswith("sha256:") else f"agent:{digest_bytes(name.encode())}"


@dataclass(frozen=True, slots=True)
class AgentCaller:
    """By a token that was verified a moment ago; `text` is the token itself, for the doors that verify it again."""

    token: Token
    text: str = field(repr=False)
    require_still_valid: Callable[[Connection, datetime], None] = field(compare=False, repr=False)
    """That the token counts, by the connection of a transaction."""

    @classmethod
    def by(cls, tokens: Tokens, text: str) -> Self:
        """Whoever has this token; refused where it does not count."""
        token = tokens.verify(text)
        return cls(token, text, lambda connection, now: tokens.require_still_valid(connection, token, now))

    @property
    def id(self) -> str:
        return agent_id(self.token.agent_id)

    @property
    def actor(self) -> str:
        """For the record. An entry that names it is written only while the token counts."""
        return Actor(self.id, self.require_still_valid)


@dataclass(frozen=True, slots=True)
class PersonCaller:
    """By a session. `user` of `tenant` is whom this person asks for at the goal door; without one he asks nothing."""

    person: Person
    role: Role
    user: str | None = None
    tenant: str | None = None

    @property
    def id(self) -> str:
        return self.person.id

    @property
    def actor(self) -> str:
        """For the record. An entry that names him is written only while his session counts."""
        return self.person.actor


Caller = AgentCaller | PersonCaller
