"""How an error reaches a person or a program: masked, with the next step, and with the right exit code."""

import errno
import os
import traceback

import click

from remit.cli.shown import show_json
from remit.errors import EnvironmentFailed, Misuse, Reason, Refused, RemitError, as_remit_error
from remit.faultpoints import setting_problem


def report(problem: Exception, *, as_json: bool) -> int:
    """Print the error where the user asked for it (`--json` on standard output) and return the exit code."""
    if isinstance(problem, click.ClickException) and not as_json:
        problem.show()
        return problem.exit_code
    known = problem if isinstance(problem, RemitError) else _wrapped(problem)
    if as_json:
        show_json({"error": known.as_json()}, indent=None)
    else:
        word = "refused" if isinstance(known, Refused) else "failed"
        click.echo(f"{click.style(word, fg='red', bold=True)}: {known.what}", err=True)
        if known.where:
            click.echo(f"  where: {known.where}", err=True)
        if known.next_step:
            click.echo(f"  next:  {known.next_step}", err=True)
    if os.environ.get("REMIT_DEBUG") == "1":
        traceback.print_exception(problem)
    return known.exit_code


def require_valid_fault(setting: str) -> None:
    """A test that arms a point which does not exist would pass without testing anything."""
    mistake = setting_problem(setting)
    if mistake:
        raise Refused(
            Reason.MALFORMED,
            f"the environment variable REMIT_FAULT {mistake}",
            where=f"REMIT_FAULT={setting}",
            next_step="It crashes Remit on purpose, for tests only. Outside of them: unset REMIT_FAULT",
        )


def _wrapped(problem: Exception) -> RemitError:
    if isinstance(problem, click.ClickException):
        return _from_click(problem)
    if isinstance(problem, OSError):
        full = problem.errno in {errno.ENOSPC, errno.EDQUOT}
        elsewhere = "Check that the file is there and that you may use it; `remit doctor` looks at the rest."
        return EnvironmentFailed(
            Reason.DISK_FULL if full else Reason.STATE_UNSAFE,
            problem.strerror or type(problem).__name__,
            where=str(problem.filename or ""),
            next_step="Free some space and try again." if full else elsewhere,
        )
    return as_remit_error(problem)


def _from_click(problem: click.ClickException) -> RemitError:
    if not isinstance(problem, click.UsageError):
        return EnvironmentFailed(Reason.STATE_UNSAFE, problem.format_message())
    path = problem.ctx.command_path if problem.ctx else "remit"
    return Misuse(Reason.MISUSE, problem.format_message(), where=path, next_step=f"See how it is used: {path} --help")
