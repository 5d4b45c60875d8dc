"""For whom each command is: one table, asked before a command begins.

Whoever has REMIT_AGENT or REMIT_TOKEN set is an agent, and may do by a command what it may do by any other way in: what
decides, signs or changes what others rely on is for a person. So is what prints entries of the record: they hold
digests and counts of files and rows that an agent did not send. A command that is not in the table is for a person.
"""

import functools
import os
from collections.abc import Callable
from typing import Any, Final

import click

PERSON: Final = "person"
ANYONE: Final = "anybody"
CHECKED_BY_COMMAND: Final = "itself"
"""The command looks at the token by itself, because what it asks for depends on more than its name."""

COMMAND_PERMISSIONS: Final[dict[str, str]] = {
    "init": ANYONE,
    "demo": ANYONE,
    "doctor": ANYONE,
    "task lease": PERSON,
    "task run": "run_task",
    "task restore": PERSON,  # it leases what it does
    "preview": ANYONE,
    "approve": PERSON,
    "propose": CHECKED_BY_COMMAND,
    "apply": "apply",
    "run": PERSON,
    "runs": PERSON,  # what is recorded tells of files and rows
    "rollback": CHECKED_BY_COMMAND,
    "cancel": CHECKED_BY_COMMAND,
    "prune": PERSON,
    "token issue": PERSON,
    "token revoke": PERSON,
    "token list": ANYONE,
    "token keys": ANYONE,
    "token rotate-key": PERSON,
    "token trust": PERSON,
    "token distrust": PERSON,
    "people invite": PERSON,
    "people list": ANYONE,
    "people remove": PERSON,
    "approvals": PERSON,
    "approvals list": PERSON,
    "approvals show": PERSON,
    "approvals compute": PERSON,
    "approvals approve": PERSON,
    "approvals deny": PERSON,
    "browse": CHECKED_BY_COMMAND,
    "catalogue list": ANYONE,
    "catalogue show": ANYONE,
    "catalogue check": ANYONE,
    "catalogue promote": PERSON,
    "catalogue retire": PERSON,
    "slo": ANYONE,
    "slo run": ANYONE,
    "slo gate": ANYONE,
    "ask": CHECKED_BY_COMMAND,
    "intake": ANYONE,
    "intake list": ANYONE,
    "intake export": ANYONE,
    "mcp": CHECKED_BY_COMMAND,
    "serve": CHECKED_BY_COMMAND,  # to an agent without a link
    "recover": PERSON,
    "ledger verify": ANYONE,
    "ledger show": PERSON,  # what is recorded tells of files and rows
    "ledger trace": PERSON,
    "ledger replay": PERSON,
    "ledger rebuild": PERSON,
    "ledger export": PERSON,
    "ledger head": PERSON,  # how many entries there are depends on what files and rows hold
    "clock show": PERSON,  # likewise when the newest one was written
    "clock accept": PERSON,
    "keys list": ANYONE,
    "keys export": ANYONE,
    "keys rotate": PERSON,
    "keys revoke": PERSON,
    "migrate": PERSON,
    "schema": ANYONE,
    "completion": ANYONE,
}
"""PERSON, ANYBODY, ITSELF, or the right (`remit.services.base.permissions`) that an agent's token must give."""

_ALTERNATIVES: Final = {
    "approve": "Propose it, and a person answers: remit propose PLAN",
    "run": "Propose it, and a person answers: remit propose PLAN",
    **dict.fromkeys(
        ("runs", "ledger show", "ledger trace", "ledger replay", "ledger export", "ledger head"),
        "Let a person look, at a terminal where REMIT_AGENT and REMIT_TOKEN are not set. An agent may verify the"
        " ledger (remit ledger verify), and asks over HTTP or MCP what became of its own plans and tasks.",
    ),
}


def require_permissions(command: click.Command, path: str) -> None:
    """From now on this command, and those below it, ask the table before they begin."""
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            require_permissions(child, f"{path} {name}")
        if not command.invoke_without_command:
            return
    callback = command.callback
    if callback is not None and not isinstance(callback, _PermissionCheck):
        command.callback = _PermissionCheck(callback, path)


class _PermissionCheck:
    """A command's own function, once it is clear that it is for whoever calls."""

    def __init__(self, callback: Callable[..., Any], path: str) -> None:
        functools.update_wrapper(self, callback)
        self._callback = callback
        self._path = path

    def __call__(self, *arguments: Any, **parameters: Any) -> Any:
        permission = COMMAND_PERMISSIONS.get(self._path, PERSON)
        if permission not in {ANYONE, CHECKED_BY_COMMAND}:
            _require(permission, self._path, parameters)
        return self._callback(*arguments, **parameters)


def _require(permission: str, path: str, parameters: dict[str, Any]) -> None:
    from remit.core.errors import RefusedError  # noqa: PLC0415 - as above
    from remit.identity.person import AGENT_VARIABLES, person_at_terminal  # noqa: PLC0415 - `remit --help` does without

    if not any(os.environ.get(variable) for variable in AGENT_VARIABLES):
        return
    if permission != PERSON:
        _require_right(permission, parameters)
        return
    try:
        person_at_terminal(os.environ)
    except RefusedError as problem:
        if path not in _ALTERNATIVES:
            raise
        raise RefusedError(problem.reason, problem.what, where=f"remit {path}", next_step=_ALTERNATIVES[path]) from None


def _require_right(right: str, parameters: dict[str, Any]) -> None:
    from remit.cli.common.identity import authenticate_agent  # noqa: PLC0415 - an agent's commands only
    from remit.services.base.permissions import Right, require  # noqa: PLC0415 - as above
    from remit.workspace.workspace import Workspace  # noqa: PLC0415 - as above

    with Workspace.open(parameters["directory"]) as workspace:
        require(authenticate_agent(workspace, parameters.get("token")), Right(right))
