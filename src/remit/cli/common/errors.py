"""The report of an error to a person or a program: masked, with the next step and the right exit code."""

import contextlib
import errno
import importlib
import os
import re
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
from click.exceptions import NoArgsIsHelpError

from remit.cli.common.options import show_json
from remit.cli.common.running_command import running_command
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError, as_remit_error
from remit.core.faultpoints import setting_problem
from remit.core.ids import system_clock
from remit.masking import mask_text

PLAN_COMMANDS: Final = frozenset(
    {"preview", "propose", "approve", "apply", "run", "runs", "rollback", "cancel", "prune"}
)
"""The commands for plans. Their errors have numbers."""
_ABOUT_PLAN: Final = "This error is about a plan."

_SEQUENCE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""A control sequence of a terminal, such as a colour."""


class OperationRefusedError(RefusedError):
    """A refusal with its documents: the `errors` of the operation, and what the command `recovered` before it."""

    def __init__(self, problem: RefusedError, errors: Sequence[Any], recovered: Sequence[Any] = ()) -> None:
        super().__init__(problem.reason, problem.what, where=problem.where, next_step=problem.next_step)
        self.is_recorded = problem.is_recorded
        documents = {"errors": list(errors), "settled": list(recovered)}
        self.documents = {name: each for name, each in documents.items() if each}


@contextlib.contextmanager
def about_plan() -> Iterator[None]:
    """Mark an error as one about a plan, so that it is shown with its number. For commands that also serve others."""
    try:
        yield
    except RemitError as problem:
        problem.add_note(_ABOUT_PLAN)
        raise


def report(problem: Exception, *, as_json: bool, arguments: Sequence[str] = ()) -> int:
    """Print the error, with `--json` on standard output and else on standard error, and return the exit code."""
    if isinstance(problem, NoArgsIsHelpError) and not as_json:  # a help text, and nothing of the arguments
        problem.show()
        return problem.exit_code
    error = problem if isinstance(problem, RemitError) else _to_remit_error(problem, arguments)
    command = next(iter(arguments), "")
    is_about_plan = command in PLAN_COMMANDS or _ABOUT_PLAN in getattr(problem, "__notes__", ())
    code = _find_code(error) if is_about_plan and not isinstance(problem, click.ClickException) else {}
    if as_json:
        documents = error.documents if isinstance(error, OperationRefusedError) else {}
        if code and isinstance(error, RefusedError) and "errors" not in documents:
            documents = {"errors": _error_responses(error), **documents}
        show_json({"error": {**error.as_json(), "next_step": error.advice, **code}, **documents}, indent=None)
    else:
        outcome = "refused" if isinstance(error, (RefusedError, UsageError)) else "failed"
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


def _error_responses(problem: RefusedError) -> list[Any]:
    """Return the refusal in the error format of plans, as `errors` of a refused operation has it."""
    report_of = importlib.import_module("remit.plans.reports.execution_report")
    return [report_of.refusal_of(problem, problem.where or "plan", system_clock).tree()]


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


def _to_remit_error(problem: Exception, arguments: Sequence[str]) -> RemitError:
    if isinstance(problem, click.ClickException):
        return _from_click(problem, arguments)
    if isinstance(problem, OSError):
        full = problem.errno in {errno.ENOSPC, errno.EDQUOT}
        command = running_command()
        see = command.how_to_see() if command is not None else ""
        advice = "Check that the file exists and that you may use it. `remit doctor` checks the rest."
        if full:
            advice = f"Free some disk space. It is not known what was done. {see}" if see else ""
        return EnvironmentFailureError(
            Reason.DISK_FULL if full else Reason.STATE_UNSAFE,
            problem.strerror or type(problem).__name__,
            where=str(problem.filename or ""),
            next_step=advice,
        )
    return as_remit_error(problem)


def _from_click(problem: click.ClickException, arguments: Sequence[str]) -> RemitError:
    what = _mask_arguments(problem.format_message(), arguments)
    if not isinstance(problem, click.UsageError):
        return EnvironmentFailureError(Reason.STATE_UNSAFE, what)
    path = problem.ctx.command_path if problem.ctx else _find_path(arguments)
    return UsageError(Reason.ARGUMENT_INVALID, what, where=path, next_step=f"See how to use it: {path} --help")


def _find_path(arguments: Sequence[str]) -> str:
    """Return the command that the arguments name, for an error of click that does not know it."""
    name, child = (*arguments, "", "")[:2]
    table = importlib.import_module("remit.cli").COMMANDS
    if name not in table:
        return "remit"
    module, _, attribute = table[name][0].partition(":")
    children = getattr(getattr(importlib.import_module(module), attribute), "commands", {})
    return f"remit {name} {child}" if child in children else f"remit {name}"


def _mask_arguments(text: str, arguments: Sequence[str]) -> str:
    """Mask the secrets in the arguments that this text quotes.

    Click escapes some of the arguments. A mask does not find a secret right behind an escaped character.
    """
    for part in (part for each in arguments for part in (each.lstrip("-"), each, each.partition("=")[2]) if part):
        visible = "".join(character if character.isprintable() else " " for character in _SEQUENCE.sub(" ", part))
        masked = mask_text(visible)
        if masked != visible:
            for spelled in (part, repr(part)[1:-1]):
                text = text.replace(spelled, masked)
    return text
