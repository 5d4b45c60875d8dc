"""Who calls at the command line: an agent, by the token that it was given, or the person at the terminal."""

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from remit.core.errors import Reason, Refused
from remit.core.ids import DEFAULT_TENANT
from remit.identity.person import AGENT_VARIABLES, person_at_terminal
from remit.ledger.clock import require_valid_when_signed
from remit.workspace.workspace import Workspace

if TYPE_CHECKING:
    from remit.identity.callers import AgentCaller, Caller

TOKEN_VARIABLE: Final = "REMIT_TOKEN"  # noqa: S105 - the name of a variable
_LONGEST_TOKEN: Final = 20_000

token_option: Final = click.option(
    "--token",
    metavar="FILE",
    help=f"The file with the capability token, or the token itself; else the variable {TOKEN_VARIABLE}.",
)


def caller_here(workspace: Workspace, token: str | None, name: str | None = None) -> "Caller":
    """Whoever can open the state directory has every right that a person has; whoever has a token acts as its agent."""
    from remit.identity.callers import PersonCaller  # noqa: PLC0415 - most commands need only the option

    if token is None and not workspace.environ.get(TOKEN_VARIABLE):
        return PersonCaller(person_at_terminal(workspace.environ, name), "admin")
    return agent_by(workspace, token)


def require_clock(workspace: Workspace, life: timedelta) -> None:
    """Refuse to sign something for `life` while the ledger is further ahead of the clock than that."""
    with workspace.store.reading() as connection:
        require_valid_when_signed(connection, DEFAULT_TENANT, workspace.clock(), life)


def is_agent_here() -> bool:
    """Whether the environment says so. Who it is, and whether its token counts, is not looked at."""
    return any(os.environ.get(variable) for variable in AGENT_VARIABLES)


def agent_here(workspace: Workspace) -> "AgentCaller | None":
    """Whoever says that he is an agent, by his token; without one he is refused. None: a person."""
    if not any(workspace.environ.get(variable) for variable in AGENT_VARIABLES):
        return None
    return agent_by(workspace, None)


def actor_here(workspace: Workspace, token: str | None = None) -> str | None:
    """Whom the record names for what is done here. None for an agent that shows no token, where none is asked for."""
    if token is None and not workspace.environ.get(TOKEN_VARIABLE):
        is_agent = any(workspace.environ.get(variable) for variable in AGENT_VARIABLES)
        return None if is_agent else person_at_terminal(workspace.environ).id
    return agent_by(workspace, token).actor


def agent_by(workspace: Workspace, token: str | None) -> "AgentCaller":
    from remit.identity.callers import AgentCaller  # noqa: PLC0415 - as above

    return AgentCaller.by(workspace.tokens, read_token(token))


def read_token(given: str | None) -> str:
    """A token in a command line can be seen by other users of the machine; a file is better."""
    text = given or os.environ.get(TOKEN_VARIABLE, "")
    if not text:
        raise Refused(
            Reason.AUTHORITY_MALFORMED,
            "no capability token was given",
            where="--token",
            next_step="Give the file that holds it: --token FILE, or the variable REMIT_TOKEN. A person issues one:"
            " remit token issue --sub AGENT --cap CAPABILITY -o FILE",
        )
    if text.count(".") == 2 and text.startswith("ey") and not os.path.exists(text):
        return text.strip()
    try:
        with Path(text).open("rb") as stream:
            return stream.read(_LONGEST_TOKEN).decode("utf-8", "replace").strip()
    except OSError as problem:
        raise Refused(
            Reason.AUTHORITY_MALFORMED,
            f"the file with the token cannot be read: {problem.strerror}",
            where="--token" if text.startswith("ey") else text,  # half a token is a secret too
            next_step="Name the file that `remit token issue -o FILE` wrote.",
        ) from None
