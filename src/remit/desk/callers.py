"""Whoever asks something of Remit from outside: an agent with a capability token, or a person who has logged in.

Both are made by what has authenticated them, and by nothing else. An agent is never a person: no right that decides
anything is within its reach (`remit.desk.rights`).
"""

from dataclasses import dataclass, field
from typing import Final

from remit.approval.people import Person
from remit.authority.tokens import Token
from remit.canonical import digest_bytes
from remit.people.roles import Role

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

    @property
    def id(self) -> str:
        return agent_id(self.token.agent_id)

    @property
    def actor(self) -> str:
        """For the record. Whether the token counts by then is asked by the doors, in the same transaction."""
        return self.id


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
