"""Authenticated people, who may decide approval requests. An agent is never a person.

Only code that authenticates makes a `Person`. Limit: at the command line the person is the user of the operating
system. Remit cannot detect an agent that runs as the same user and hides that it is an agent. Run agents as another
user, who cannot open the state directory.
"""

import os
import pwd
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from remit.core.errors import Reason, RefusedError
from remit.ledger.entry import Actor

AGENT_VARIABLES: Final = ("REMIT_AGENT", "REMIT_TOKEN")
"""Environment variables that are set for an agent: its name, and its token."""
PEOPLE: Final = frozenset({"os", "link", "oidc"})
"""The prefixes of a person's id: authenticated by the operating system, a link, or an identity provider."""
_LONGEST: Final = 100


@dataclass(frozen=True, slots=True)
class Person:
    """An authenticated person. `id` says how and as whom they were authenticated. They choose `name` themselves."""

    id: str
    name: str | None = None
    is_valid_at: Callable[[datetime], bool] | None = field(default=None, compare=False, repr=False)
    """Whether the session is valid at a time. None if the authentication cannot end, as at a terminal."""

    def require_still_valid(self, now: datetime) -> None:
        """Refuse if the person's session is no longer valid. Takes no lock and writes nothing.

        Call it in the transaction that records the decision: an admin may have removed the person since the request.
        """
        if self.is_valid_at is not None and not self.is_valid_at(now):
            raise RefusedError(
                Reason.REVOKED,
                "your session has ended, or your role has changed since; nothing was done",
                where=f"person {self.id}",
                next_step="Log in again. For a new link, an admin runs: remit people invite NAME --role ROLE",
            )

    @property
    def actor(self) -> str:
        """The actor of a ledger entry. The entry is not written if the person's session is no longer valid."""
        return self.acting_as(self.id)

    def acting_as(self, name: str) -> str:
        return name if self.is_valid_at is None else Actor(name, lambda _connection, now: self.require_still_valid(now))

    @property
    def signature(self) -> str:
        """The id and the name, as the ledger records them."""
        return f"{self.id} ({self.name})" if self.name else self.id


def person_at_terminal(environ: Mapping[str, str], name: str | None = None) -> Person:
    """Return the user of the operating system as a person. Refuses an agent."""
    acting_as = next((variable for variable in AGENT_VARIABLES if environ.get(variable)), None)
    if acting_as is not None:
        raise agent_cannot_decide(f"{acting_as} is set, so the caller is treated as an agent")
    if name is not None and not (name.isprintable() and 0 < len(name) <= _LONGEST):
        raise RefusedError(Reason.MALFORMED, f"a name has 1 to {_LONGEST} printable characters", where="--as")
    return Person(f"os:{_login()}", name)


def account_name() -> str:
    """Return the id of the user of the operating system, for records. It gives no right to anything."""
    return f"os:{_login()}"


def agent_cannot_decide(why: str) -> RefusedError:
    return RefusedError(
        Reason.PERMISSION_DENIED,
        f"this is for a person, and an agent cannot do it: {why}",
        next_step=f"Let a person do it, at a terminal where {' and '.join(AGENT_VARIABLES)} are not set.",
    )


def _login() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
