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
ANYBODY: Final = "anybody"
ITSELF: Final = "itself"
"""The command looks at the token by itself, because what it asks for depends on more than its name."""

WHOM: Final[dict[str, str]] = {
    "init": ANYBODY,
    "demo": ANYBODY,
    "doctor": ANYBODY,
    "task lease": PERSON,
    "task run": "run_task",
    "task restore": PERSON,  # it leases what it does
    "preview": ANYBODY,
    "approve": PERSON,
    "propose": ITSELF,
    "apply": "apply",
    "run": PERSON,
    "runs": PERSON,  # what is recorded tells of files and rows
    "rollback": ITSELF,
    "cancel": ITSELF,
    "prune": PERSON,
    "token issue": PERSON,
    "token revoke": PERSON,
    "token list": ANYBODY,
    "token keys": ANYBODY,
    "token rotate-key": PERSON,
    "token trust": PERSON,
    "token distrust": PERSON,
    "people invite": PERSON,
    "people list": ANYBODY,
    "people remove": PERSON,
    "approvals": PERSON,
    "approvals list": PERSON,
    "approvals show": PERSON,
    "approvals compute": PERSON,
    "approvals approve": PERSON,
    "approvals deny": PERSON,
    "browse": ITSELF,
    "catalogue list": ANYBODY,
    "catalogue show": ANYBODY,
    "catalogue check": ANYBODY,
    "catalogue promote": PERSON,
    "catalogue retire": PERSON,
    "slo": ANYBODY,
    "slo run": ANYBODY,
    "slo gate": ANYBODY,
    "ask": ITSELF,
    "intake": ANYBODY,
    "intake list": ANYBODY,
    "intake export": ANYBODY,
    "mcp": ITSELF,
    "serve": ITSELF,  # to an agent without a link
    "recover": PERSON,
    "ledger verify": ANYBODY,
    "ledger show": PERSON,  # what is recorded tells of files and rows
    "ledger trace": PERSON,
    "ledger replay": PERSON,
    "ledger rebuild": PERSON,
    "ledger export": PERSON,
    "ledger head": PERSON,  # how many entries there are depends on what files and rows hold
    "clock show": PERSON,  # likewise when the newest one was written
    "clock accept": PERSON,
    "keys list": ANYBODY,
    "keys export": ANYBODY,
    "keys rotate": PERSON,
    "keys revoke": PERSON,
    "migrate": PERSON,
    "schema": ANYBODY,
    "completion": ANYBODY,
}
"""PERSON, ANYBODY, ITSELF, or the right (`remit.services.base.permissions`) that an agent's token must give."""

_INSTEAD: Final = {
    "approve": "Propose it, and a person answers: remit propose PLAN",
    "run": "Propose it, and a person answers: remit propose PLAN",
    **dict.fromkeys(
        ("runs", "ledger show", "ledger trace", "ledger replay", "ledger export", "ledger head"),
        "Let a person look, at a terminal where REMIT_AGENT and REMIT_TOKEN are not set. An agent may verify the"
        " ledger (remit ledger verify), and asks over HTTP or MCP what became of its own plans and tasks.",
    ),
}


def demand_rights(command: click.Command, path: str) -> None:
    """From now on this command, and those below it, ask the table before they begin."""
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            demand_rights(child, f"{path} {name}")
        if not command.invoke_without_command:
            return
    callback = command.callback
    if callback is not None and not isinstance(callback, _Asking):
        command.callback = _Asking(callback, path)


class _Asking:
    """A command's own function, once it is clear that it is for whoever calls."""

    def __init__(self, callback: Callable[..., Any], path: str) -> None:
        functools.update_wrapper(self, callback)
        self._callback = callback
        self._path = path

    def __call__(self, *arguments: Any, **given: Any) -> Any:
        whom = WHOM.get(self._path, PERSON)
        if whom not in {ANYBODY, ITSELF}:
            _require(whom, self._path, given)
        return self._callback(*arguments, **given)


def _require(whom: str, path: str, given: dict[str, Any]) -> None:
    from remit.core.errors import RefusedError  # noqa: PLC0415 - as above
    from remit.identity.person import AGENT_VARIABLES, person_at_terminal  # noqa: PLC0415 - `remit --help` does without

    if not any(os.environ.get(variable) for variable in AGENT_VARIABLES):
        return
    if whom != PERSON:
        _require_right(whom, given)
        return
    try:
        person_at_terminal(os.environ)
    except RefusedError as problem:
        if path not in _INSTEAD:
            raise
        raise RefusedError(problem.reason, problem.what, where=f"remit {path}", next_step=_INSTEAD[path]) from None


def _require_right(right: str, given: dict[str, Any]) -> None:
    from remit.cli.common.identity import agent_by  # noqa: PLC0415 - an agent's commands only
    from remit.services.base.permissions import Right, require  # noqa: PLC0415 - as above
    from remit.workspace.workspace import Workspace  # noqa: PLC0415 - as above

    with Workspace.open(given["directory"]) as workspace:
        require(agent_by(workspace, given.get("token")), Right(right))
