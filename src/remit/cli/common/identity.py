"""The caller at the command line: an agent with its capability token, or the person at the terminal."""

import os
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.identity.person import AGENT_VARIABLES, Person, account_name, person_at_terminal
from remit.ledger.clock import require_valid_when_signed
from remit.workspace.workspace import Workspace

if TYPE_CHECKING:
    from remit.execution.refusals import FindSubject, PlanRequest
    from remit.identity.callers import AgentCaller, Caller, PersonCaller

TOKEN_VARIABLE: Final = "REMIT_TOKEN"  # noqa: S105 - the name of a variable
_MAX_TOKEN_LENGTH: Final = 20_000

token_option: Final = click.option(
    "--token",
    metavar="FILE",
    help=f"The file with the capability token, or the token itself. Default: the variable {TOKEN_VARIABLE}.",
)


def resolve_caller(workspace: Workspace, token: str | None, name: str | None = None) -> "Caller":
    """Return the agent of the token if there is one, else the person at the terminal, who has every right."""
    if token is None and not workspace.environ.get(TOKEN_VARIABLE):
        return as_admin(person_at_terminal(workspace.environ, name))
    return authenticate_agent(workspace, token)


def as_admin(who: Person) -> "PersonCaller":
    """Return the person at the terminal with every right. They can open the state directory anyway."""
    from remit.identity.callers import PersonCaller  # noqa: PLC0415 - most commands need only the option

    return PersonCaller(who, "admin", at_terminal=True)


def require_clock(workspace: Workspace, life: timedelta) -> None:
    """Refuse to sign something that is valid for `life` if the ledger is further ahead of the clock than that."""
    with workspace.store.reading() as connection:
        require_valid_when_signed(connection, DEFAULT_TENANT, workspace.clock(), life)


def is_agent_environment() -> bool:
    """Return whether the environment names an agent. Neither its identity nor its token is checked."""
    return any(os.environ.get(variable) for variable in AGENT_VARIABLES)


def find_agent(workspace: Workspace) -> "AgentCaller | None":
    """Return the agent that the environment names, authenticated by its token, or None for a person.

    An agent without a token is refused.
    """
    if not any(workspace.environ.get(variable) for variable in AGENT_VARIABLES):
        return None
    return authenticate_agent(workspace, None)


def resolve_actor(workspace: Workspace, token: str | None = None) -> str | None:
    """Return the actor for the ledger. None for an agent without a token, where the command needs none."""
    if token is None and not workspace.environ.get(TOKEN_VARIABLE):
        is_agent = any(workspace.environ.get(variable) for variable in AGENT_VARIABLES)
        return None if is_agent else person_at_terminal(workspace.environ).id
    return authenticate_agent(workspace, token).actor


def name_caller(workspace: Workspace, token: str | None = None) -> str:
    """Return the name of the caller for the record of a refusal. It needs no right, and no valid token."""
    try:
        return resolve_actor(workspace, token) or account_name()
    except RemitError:
        return account_name()


def recording_refusals(
    workspace: Workspace, operation: "PlanRequest", about: "FindSubject", token: str | None = None
) -> AbstractContextManager[None]:
    """Record a refusal of this command, with the caller at the terminal or the agent of the token."""
    return workspace.refusals.recording(operation, lambda: name_caller(workspace, token), about)


def authenticate_agent(workspace: Workspace, token: str | None) -> "AgentCaller":
    from remit.identity.callers import AgentCaller  # noqa: PLC0415 - as above

    return AgentCaller.by(workspace.tokens, read_token(token))


def read_token(given: str | None) -> str:
    """Return the token from a file, the command line or the environment. A file is best: other users of the machine can
    see a token in a command line.
    """
    text = given or os.environ.get(TOKEN_VARIABLE, "")
    if not text:
        raise RefusedError(
            Reason.AUTHORITY_MALFORMED,
            "no capability token given",
            where="--token",
            next_step="Name the file that holds it: --token FILE, or the variable REMIT_TOKEN. A person issues a token:"
            " remit token issue --sub AGENT --cap CAPABILITY -o FILE",
        )
    if text.count(".") == 2 and text.startswith("ey") and not os.path.exists(text):
        return text.strip()
    try:
        with Path(text).open("rb") as stream:
            return stream.read(_MAX_TOKEN_LENGTH).decode("utf-8", "replace").strip()
    except OSError as problem:
        raise RefusedError(
            Reason.AUTHORITY_MALFORMED,
            f"the token file cannot be read: {problem.strerror}",
            where="--token" if text.startswith("ey") else text,  # a part of a token is a secret too
            next_step="Name the file that `remit token issue -o FILE` wrote.",
        ) from None
