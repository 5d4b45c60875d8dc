"""Who may answer a question: a person that some door has authenticated. An agent never is one.

A `Person` is made by the functions here that authenticate, and by nothing else. Limit: at the command line the person
is the user of the operating system. An agent that runs as the same user and hides that it is one is not told apart from
him: run agents as another user, who cannot open the state directory.
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
"""Set for whoever acts as an agent: its name, or the token that it acts with."""
PEOPLE: Final = frozenset({"os", "link", "oidc"})
"""How the id of a person begins: known by the operating system, by a link, or by an identity provider."""
_LONGEST: Final = 100


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who was authenticated: `id` says how and as whom, `name` is what he calls himself."""

    id: str
    name: str | None = None
    is_valid_at: Callable[[datetime], bool] | None = field(default=None, compare=False, repr=False)
    """Whether what he was authenticated by counts at a time; None where it cannot end, as at a terminal."""

    def require_still_valid(self, now: datetime) -> None:
        """To be asked in the very transaction that records his answer: what came before it takes its time, and somebody
        may have removed him meanwhile. Takes no lock and writes nothing.
        """
        if self.is_valid_at is not None and not self.is_valid_at(now):
            raise RefusedError(
                Reason.REVOKED,
                "whoever asks for this is not logged in any more, or as somebody else by now; nothing was done",
                where=f"person {self.id}",
                next_step="Log in again; an admin makes a link: remit people invite NAME --role ROLE",
            )

    @property
    def actor(self) -> str:
        """Himself, in an entry of the ledger: it is not written if he does not count by then."""
        return self.acting_as(self.id)

    def acting_as(self, name: str) -> str:
        return name if self.is_valid_at is None else Actor(name, lambda _connection, now: self.require_still_valid(now))

    @property
    def signature(self) -> str:
        """What the record says about who it was."""
        return f"{self.id} ({self.name})" if self.name else self.id


def person_at_terminal(environ: Mapping[str, str], name: str | None = None) -> Person:
    """The user of the operating system, who could open this workspace's state. Refused to whoever is an agent."""
    acting_as = next((variable for variable in AGENT_VARIABLES if environ.get(variable)), None)
    if acting_as is not None:
        raise agent_cannot_decide(f"{acting_as} is set, so the caller counts as an agent")
    if name is not None and not (name.isprintable() and 0 < len(name) <= _LONGEST):
        raise RefusedError(Reason.MALFORMED, f"a name has 1 to {_LONGEST} printable characters", where="--as")
    return Person(f"os:{_login()}", name)


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
