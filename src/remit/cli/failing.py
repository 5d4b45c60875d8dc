"""How an error reaches a person or a program: masked, with the next step, and with the right exit code."""

import json
import os
import sys
import traceback

import click

from remit.errors import EnvironmentFailed, Reason, Refused, RemitError, as_remit_error


def report(problem: Exception) -> int:
    """Print the error where the user asked for it (`--json` on standard output) and return the exit code."""
    known = problem if isinstance(problem, RemitError) else _wrapped(problem)
    if wants_json():
        click.echo(json.dumps({"error": known.as_json()}, ensure_ascii=False))
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


def wants_json() -> bool:
    """Read from the arguments, not from a parsed option: the error may have come before parsing ended."""
    return "--json" in sys.argv


def _wrapped(problem: Exception) -> RemitError:
    if isinstance(problem, OSError):
        return EnvironmentFailed(
            Reason.STATE_UNSAFE,
            problem.strerror or type(problem).__name__,
            where=str(problem.filename or ""),
            next_step="Check that the file is there and that you may use it; `remit doctor` looks at the rest.",
        )
    return as_remit_error(problem)
