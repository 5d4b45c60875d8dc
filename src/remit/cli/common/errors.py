"""The report of an error to a person or a program: masked, with the next step and the right exit code."""

import errno
import importlib
import os
import traceback
from collections.abc import Sequence
from typing import Any, Final

import click

from remit.cli.common.options import show_json
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError, as_remit_error
from remit.core.faultpoints import setting_problem

PLAN_COMMANDS: Final = frozenset(
    {"preview", "propose", "approve", "apply", "run", "runs", "rollback", "cancel", "prune"}
)
"""The commands for plans. Their errors have numbers."""


class OperationRefusedError(RefusedError):
    """A refusal with its documents: the `errors` of the operation, and what the command `recovered` before it."""

    def __init__(self, problem: RefusedError, errors: Sequence[Any], recovered: Sequence[Any] = ()) -> None:
        super().__init__(problem.reason, problem.what, where=problem.where, next_step=problem.next_step)
        documents = {"errors": list(errors), "settled": list(recovered)}
        self.documents = {name: each for name, each in documents.items() if each}


def report(problem: Exception, *, as_json: bool, command: str = "") -> int:
    """Print the error, with `--json` on standard output and else on standard error, and return the exit code."""
    if isinstance(problem, click.ClickException) and not as_json:
        problem.show()
        return problem.exit_code
    error = problem if isinstance(problem, RemitError) else _to_remit_error(problem)
    code = _find_code(error) if command in PLAN_COMMANDS and not isinstance(problem, click.ClickException) else {}
    if as_json:
        documents = error.documents if isinstance(error, OperationRefusedError) else {}
        show_json({"error": {**error.as_json(), "next_step": error.advice, **code}, **documents}, indent=None)
    else:
        outcome = "refused" if isinstance(error, RefusedError) else "failed"
        click.echo(f"{click.style(outcome, fg='red', bold=True)}: {error.what}", err=True)
        known_as = " ".join(map(str, code.values())) or error.reason.value
        shown = {"where": error.where, "code": known_as, "next": error.advice}
        for label, text in shown.items():
            if text:
                click.echo(f"  {label + ':':<6} {text}", err=True)
    if os.environ.get("REMIT_DEBUG") == "1":
        traceback.print_exception(problem)
    return error.exit_code


def _find_code(problem: RemitError) -> dict[str, Any]:
    # The command has usually loaded this module already.
    found = importlib.import_module("remit.contracts.plans.error_codes").plan_error(problem.reason)
    return {"code": found.code, "type": found.kind}


def require_valid_fault(setting: str) -> None:
    """Refuse an unknown fault point. A test that names one would pass without testing anything."""
    mistake = setting_problem(setting)
    if mistake:
        raise RefusedError(
            Reason.MALFORMED,
            f"the environment variable REMIT_FAULT {mistake}",
            where=f"REMIT_FAULT={setting}",
            next_step="This variable crashes Remit on purpose, for tests only. Otherwise: unset REMIT_FAULT",
        )


def _to_remit_error(problem: Exception) -> RemitError:
    if isinstance(problem, click.ClickException):
        return _from_click(problem)
    if isinstance(problem, OSError):
        full = problem.errno in {errno.ENOSPC, errno.EDQUOT}
        advice = "Check that the file exists and that you may use it. `remit doctor` checks the rest."
        return EnvironmentFailureError(
            Reason.DISK_FULL if full else Reason.STATE_UNSAFE,
            problem.strerror or type(problem).__name__,
            where=str(problem.filename or ""),
            next_step="Free some disk space and try again." if full else advice,
        )
    return as_remit_error(problem)


def _from_click(problem: click.ClickException) -> RemitError:
    if not isinstance(problem, click.UsageError):
        return EnvironmentFailureError(Reason.STATE_UNSAFE, problem.format_message())
    path = problem.ctx.command_path if problem.ctx else "remit"
    return UsageError(
        Reason.ARGUMENT_INVALID, problem.format_message(), where=path, next_step=f"See how to use it: {path} --help"
    )
