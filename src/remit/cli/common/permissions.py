"""The permissions of the commands: a table that is checked before a command starts.

A caller with REMIT_AGENT or REMIT_TOKEN in its environment is an agent. It has the same rights here as over HTTP and
MCP. Commands that decide, sign or change what other callers rely on are for a person. So are commands that print
entries of the ledger, because these hold digests and counts of files and rows that the agent did not send, and commands
that tell how many entries there are, because that depends on files and rows too. A command that is not in the table is
for a person.
"""

import functools
import os
from collections.abc import Callable
from typing import Any, Final

import click

PERSON: Final = "person"
ANYONE: Final = "anybody"
CHECKED_BY_COMMAND: Final = "itself"
"""The command checks the token itself, because the right that it needs depends on its options."""

COMMAND_PERMISSIONS: Final[dict[str, str]] = {
    "init": ANYONE,
    "demo": ANYONE,
    "doctor": ANYONE,
    "task lease": PERSON,
    "task run": "run_task",
    "task restore": PERSON,  # it signs a lease for its own task
    "preview": ANYONE,
    "approve": PERSON,
    "propose": CHECKED_BY_COMMAND,
    "apply": "apply",
    "run": PERSON,
    "runs": PERSON,  # ledger entries describe files and rows
    "rollback": CHECKED_BY_COMMAND,
    "cancel": CHECKED_BY_COMMAND,
    "prune": PERSON,
    "token issue": PERSON,
    "token revoke": PERSON,
    "token list": PERSON,  # it shows positions in the ledger, and the tokens of other agents
    "token keys": ANYONE,
    "token rotate-key": PERSON,
    "token trust": PERSON,
    "token distrust": PERSON,
    "people invite": PERSON,
    "people list": PERSON,
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
    "intake": PERSON,  # what others asked for, how often and when
    "intake list": PERSON,
    "intake export": PERSON,
    "mcp": CHECKED_BY_COMMAND,
    "serve": CHECKED_BY_COMMAND,  # without a login link for an agent
    "recover": PERSON,
    "ledger verify": ANYONE,
    "ledger show": PERSON,  # ledger entries describe files and rows
    "ledger trace": PERSON,
    "ledger replay": PERSON,
    "ledger rebuild": PERSON,
    "ledger export": PERSON,
    "ledger head": PERSON,  # the number of entries depends on the content of files and rows
    "clock show": PERSON,  # so does the time of the newest entry
    "clock accept": PERSON,
    "keys list": ANYONE,
    "keys export": ANYONE,
    "keys rotate": PERSON,
    "keys revoke": PERSON,
    "migrate": PERSON,
    "schema": ANYONE,
    "completion": ANYONE,
}
"""PERSON, ANYONE, CHECKED_BY_COMMAND, or the right (`remit.services.base.permissions`) that a token must give."""

_ALTERNATIVES: Final = {
    "approve": "Propose the plan, and a person decides: remit propose PLAN",
    "run": "Propose the plan, and a person decides: remit propose PLAN",
    **dict.fromkeys(
        ("runs", "ledger show", "ledger trace", "ledger replay", "ledger export", "ledger head"),
        "Ask a person to run this in a terminal where REMIT_AGENT and REMIT_TOKEN are not set. An agent can verify the"
        " ledger (remit ledger verify). Over HTTP or MCP it gets the outcomes of its own plans and tasks.",
    ),
    "token list": "Ask a person to list the tokens. Over HTTP an agent lists its own: GET /v1/tokens.",
}


def require_permissions(command: click.Command, path: str) -> None:
    """Make this command and its subcommands check the table before they start."""
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            require_permissions(child, f"{path} {name}")
        if not command.invoke_without_command:
            return
    callback = command.callback
    if callback is not None and not isinstance(callback, _PermissionCheck):
        command.callback = _PermissionCheck(callback, path)


class _PermissionCheck:
    """The callback of a command, which runs only if the caller has permission."""

    def __init__(self, callback: Callable[..., Any], path: str) -> None:
        functools.update_wrapper(self, callback)
        self._callback = callback
        self._path = path

    def __call__(self, *arguments: Any, **parameters: Any) -> Any:
        permission = COMMAND_PERMISSIONS.get(self._path, PERSON)
        child = click.get_current_context().invoked_subcommand
        if child is not None and f"{self._path} {child}" in COMMAND_PERMISSIONS:
            permission = ANYONE  # the command of the group is checked itself, and knows what was asked for
        if permission not in {ANYONE, CHECKED_BY_COMMAND}:
            _require(permission, self._path, parameters)
        return self._callback(*arguments, **parameters)


def _require(permission: str, path: str, parameters: dict[str, Any]) -> None:
    from remit.core.errors import RefusedError  # noqa: PLC0415 - `remit --help` must stay quick

    try:
        _require_permission(permission, path, parameters)
    except RefusedError as problem:
        from remit.cli.plans.recorded_gate import record_refused_command  # noqa: PLC0415 - only for a refusal

        record_refused_command(path, parameters, problem)
        raise


def _require_permission(permission: str, path: str, parameters: dict[str, Any]) -> None:
    from remit.core.errors import RefusedError  # noqa: PLC0415 - as above
    from remit.identity.person import AGENT_VARIABLES, person_at_terminal  # noqa: PLC0415 - as above

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
    from remit.cli.common.identity import authenticate_agent  # noqa: PLC0415 - only for agents
    from remit.services.base.permissions import Right, require  # noqa: PLC0415 - as above
    from remit.workspace.workspace import Workspace  # noqa: PLC0415 - as above

    with Workspace.open(parameters["directory"]) as workspace:
        require(authenticate_agent(workspace, parameters.get("token")), Right(right))
