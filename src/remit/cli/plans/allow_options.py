"""The `--allow-...` options, and the errors that name every approval that a command leaves out."""

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import click

from remit.cli.common.bidi import display_name
from remit.cli.plans.render import list_missing_approvals, list_needed_approvals, normalise_names
from remit.cli.plans.text import flag_for, quoted, render_problem
from remit.contracts.plans.error_codes import PLAN_CODES
from remit.contracts.plans.error_response import ErrorResponse
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.core.errors import Reason, RefusedError
from remit.core.text import counted
from remit.plans.preparation.remote_sql import is_bound_server

F = TypeVar("F", bound=Callable[..., Any])
KINDS: Final = {
    "protected": ("PATH", "A protected file that the plan may change. May be repeated."),
    "executable": ("PATH", "A file that may become executable or contain a program. May be repeated."),
    "content": ("PATH", "A file whose reported content you accept. May be repeated."),
    "irreversible": ("ACTION", "An action that may run although it cannot be undone. May be repeated."),
}
EVEN_IF_IT_FAILS: Final = "--even-if-it-fails"
_REASONS: Final = {
    "protected": Reason.PROTECTED,
    "executable": Reason.EXECUTABLE_REFUSED,
    "content": Reason.CONTENT_REFUSED,
    "irreversible": Reason.IRREVERSIBLE,
}
_BUSY: Final = PLAN_CODES[Reason.DATABASE_BUSY].code
MAX_NAMED: Final = 5
MAX_COMMAND_LENGTH: Final = 1_500
"""A longer text of an error is cut, and a command that is cut cannot be run."""


class Allowance(NamedTuple):
    """The approvals that the options of one command give."""

    names: dict[str, Any]
    """The names by kind of approval. They are arguments of `Workspace.approve`."""
    even_if_it_fails: bool

    @property
    def everything(self) -> dict[str, Any]:
        """All of it, as arguments of `Workspace.approve`."""
        return {**self.names, "even_if_it_fails": self.even_if_it_fails}


def allow_options(command: F) -> F:
    """Add the `--allow-...` options and `--even-if-it-fails`. The command gets them together as `allowed`."""

    @functools.wraps(command)
    def collect(*arguments: Any, even_if_it_fails: bool, **options: Any) -> Any:
        names = {kind: options.pop(f"allow_{kind}") for kind in KINDS}
        return command(*arguments, allowed=Allowance(names, even_if_it_fails), **options)

    made: Any = collect
    for kind, (metavar, text) in reversed(KINDS.items()):
        made = click.option(flag_for(kind), f"allow_{kind}", multiple=True, metavar=metavar, help=text)(made)
    failing = click.option(EVEN_IF_IT_FAILS, is_flag=True, help="Approve although some actions would fail.")
    result: F = failing(made)
    return result


def require_useful(document: PlanPreviewDocument, allowed: Allowance, *, shown: bool = False, deny: str = "") -> None:
    """Refuse a plan that would fail, unless `--even-if-it-fails` is given. Such an approval is most likely a mistake.

    A plan that would leave no change is refused with this option too.

    With `shown`, the preview is on the screen and is not repeated. `deny` is the command that denies a proposed plan.
    """
    busy = next((each for each in document.problems if each.error_code == _BUSY), None)
    if not document.problems or (allowed.even_if_it_fails and not document.cannot_be_approved and busy is None):
        return
    first = busy or document.problems[0]
    code = first.error_code
    reason = next((each for each, error in PLAN_CODES.items() if error.code == code), Reason.EFFECT_FAILED)
    more = f"; and {len(document.problems) - 1:,} more" if len(document.problems) > 1 else ""
    named = "" if shown else f": {render_problem(first).removesuffix('.')}{more}"
    consequence = document.consequence.removesuffix(".")
    if document.breaks_rule:
        consequence = consequence[:1].lower() + consequence[1:]
    what = f"{consequence}{named}"
    raise RefusedError(
        reason,
        what,
        where=f"plan {document.plan_id}",
        next_step=_advise_on_busy(first) if busy else _advise(document, allowed, deny),
    )


def _advise_on_busy(problem: ErrorResponse) -> str:
    """Advise to free the database. The plan itself needs no correction."""
    free = "Close the program that has it open. If there is none, open it with DuckDB once, and close it."
    if problem.details.target is None:
        free = "Wait until the other session of the server has finished."
    return f"{free} Then run the command again: {repeat_command()}"


def _advise(document: PlanPreviewDocument, allowed: Allowance, deny: str) -> str:
    correct = f"Deny it and give a reason, which the proposer reads: {deny}" if deny else "Correct the plan"
    if not document.cannot_be_approved:
        return f"{correct}; or, if you want it like this: {repeat_command(EVEN_IF_IT_FAILS)}"
    if deny:
        return correct
    if not allowed.even_if_it_fails:
        return "Correct the plan; `remit preview` shows what it would do."
    if document.breaks_rule:
        return (
            f"{EVEN_IF_IT_FAILS} cannot help here, because a rule that does not hold undoes the whole plan. Correct the"
            " plan or the rule."
        )
    if any(is_bound_server(item.path) for item in document.inputs):
        return (
            f"{EVEN_IF_IT_FAILS} cannot help here, because a plan's changes on a server are done whole, or not at all."
            " Correct the plan."
        )
    return (
        f"{EVEN_IF_IT_FAILS} cannot help here, because the plan stops at its first error. Correct it, or let it"
        ' continue after errors with "stop_on_error": false in its execution_instructions.'
    )


def require_allowed(document: PlanPreviewDocument, allowed: Allowance) -> None:
    """Refuse if an approval by name is missing: approving the diff does not include it. The error gives the command.

    Also refuse an approval by name that the plan does not need.
    """
    missing, idle = list_missing_approvals(document, allowed.names), _list_unneeded(document, allowed)
    if not missing:
        if idle:
            raise _unneeded_error(document, idle)
        return
    flags = [flag for kind, name in missing for flag in (flag_for(kind), name)]
    command = repeat_command(*flags, without=idle)
    advice = f"If you want to allow this: {command}"
    if len(command) > MAX_COMMAND_LENGTH:
        advice = "`remit preview` lists each of them with the option that allows it."
    raise RefusedError(
        _REASONS[missing[0][0]],
        f"the plan needs {counted(len(missing), 'approval')} that the command does not give: {_list_some(missing)}"
        + (f"; not needed: {_list_some(idle)}{_note_on_patterns(idle)}" if idle else ""),
        where=f"plan {document.plan_id}",
        next_step=advice,
    )


def _unneeded_error(document: PlanPreviewDocument, idle: Sequence[tuple[str, str]]) -> RefusedError:
    """Return the error for allowances that the plan does not need: most likely, a name is mistyped."""
    command = repeat_command(without=idle)
    return RefusedError(
        Reason.ARGUMENT_INVALID,
        f"the plan needs no such approval: {_list_some(idle)}{_note_on_patterns(idle)}",
        where=f"plan {document.plan_id}",
        next_step=f"Leave it out: {command}"
        if len(command) <= MAX_COMMAND_LENGTH
        else "Leave it out. `remit preview` lists each approval that the plan needs.",
    )


def _list_unneeded(document: PlanPreviewDocument, allowed: Allowance) -> list[tuple[str, str]]:
    """List the allowances that the plan does not need. An approval that contains one is refused."""
    wanted = list_needed_approvals(document)
    return [
        (kind, name)
        for kind, names in allowed.names.items()
        for name in names
        if not set(normalise_names(kind, [name])) & set(wanted.get(kind, ()))
    ]


def _note_on_patterns(idle: Sequence[tuple[str, str]]) -> str:
    return " (patterns do not work; name each file)" if any(set(name) & set("*?[") for _, name in idle) else ""


def _list_some(named: Sequence[tuple[str, str]]) -> str:
    more = f", and {len(named) - MAX_NAMED:,} more" if len(named) > MAX_NAMED else ""
    return ", ".join(f"{display_name(name)} ({kind})" for kind, name in named[:MAX_NAMED]) + more


def repeat_command(*more: str, without: Collection[tuple[str, str]] = ()) -> str:
    """Return the command that the user gave, with more options and `without` the allowances that are not needed.

    New options go before `--`, because after it they would be arguments.
    """
    arguments: Sequence[str] = (click.get_current_context().find_root().obj or {}).get("arguments", ())
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, rest = arguments[:end], arguments[end:]
    remaining = _drop_options(options, {(flag_for(kind), name) for kind, name in without})
    parts = [*map(_quote_argument, remaining), *map(_quote_argument, more), *map(_quote_argument, rest)]
    return " ".join(["remit", *parts])


def _drop_options(arguments: Sequence[str], pairs: Collection[tuple[str, str]]) -> list[str]:
    """Remove options with these values, written `--option value` or `--option=value`."""
    remaining: list[str] = []
    for argument in arguments:
        if remaining and (remaining[-1], argument) in pairs:
            remaining.pop()
        elif tuple(argument.split("=", 1)) not in pairs:
            remaining.append(argument)
    return remaining


def _quote_argument(text: str) -> str:
    return text if text.startswith("--") and text.isprintable() and quoted(text[2:]) == text[2:] else _quote_value(text)


def _quote_value(text: str) -> str:
    return text if text in {"-", "--", "-o", "-C"} else quoted(text)
