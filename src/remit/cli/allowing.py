"""What a person must allow beyond the plan itself: the options for it, and all that is missing told at once."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import click

from remit.cli.plan_summary import not_allowed
from remit.cli.plan_words import flag_for, quoted, render_problem
from remit.cli.table import counted
from remit.contracts.plan_codes import PLAN_CODES
from remit.contracts.plan_preview import PlanPreviewDocument
from remit.errors import Reason, Refused
from remit.printable import printable

F = TypeVar("F", bound=Callable[..., Any])
KINDS: Final = {
    "protected": ("PATH", "A protected file that the plan may touch."),
    "executable": ("PATH", "A file that may become executable, or hold a program."),
    "content": ("PATH", "A file whose content may hold what was found in it."),
    "irreversible": ("ACTION", "An action that cannot be undone."),
}
EVEN_IF_IT_FAILS: Final = "--even-if-it-fails"
_REASONS: Final = {
    "protected": Reason.PROTECTED,
    "executable": Reason.EXECUTABLE_REFUSED,
    "content": Reason.CONTENT_REFUSED,
    "irreversible": Reason.REVOKED,
}
NAMED: Final = 5
LONGEST_COMMAND: Final = 1_500
"""An error's text is cut soon after, and a command that was cut is none."""


class Allowance(NamedTuple):
    """What the options of one command allow."""

    names: dict[str, Any]
    """By the kind of the approval; arguments of `Workspace.approve`."""
    even_if_it_fails: bool


def allow_options(command: F) -> F:
    """The `--allow-...` options and `--even-if-it-fails`, handed over together as `allowed`."""

    @functools.wraps(command)
    def collect(*arguments: Any, even_if_it_fails: bool, **given: Any) -> Any:
        names = {kind: given.pop(f"allow_{kind}") for kind in KINDS}
        return command(*arguments, allowed=Allowance(names, even_if_it_fails), **given)

    made: Any = collect
    for kind, (metavar, text) in reversed(KINDS.items()):
        made = click.option(flag_for(kind), f"allow_{kind}", multiple=True, metavar=metavar, help=text)(made)
    failing = click.option(EVEN_IF_IT_FAILS, is_flag=True, help="Also where some of its actions would fail.")
    result: F = failing(made)
    return result


def require_useful(document: PlanPreviewDocument, allowed: Allowance) -> None:
    """An approval of what would fail is most likely a mistake, and must be asked for by name."""
    if not document.problems or (allowed.even_if_it_fails and not document.doomed):
        return
    named = "; ".join(render_problem(problem) for problem in document.problems[:NAMED])
    more = f"; and {len(document.problems) - NAMED:,} more" if len(document.problems) > NAMED else ""
    advice = "Mend the plan; `remit preview` shows what it would do."
    if not document.doomed:
        advice = f"Mend the plan; or, if that is what you want: {command_again(EVEN_IF_IT_FAILS)}"
    code = document.problems[0].error_code
    reason = next((each for each, error in PLAN_CODES.items() if error.code == code), Reason.EFFECT_FAILED)
    what = f"{document.consequence.removesuffix('.')}: {named}{more}"
    raise Refused(reason, what, where=f"plan {document.plan_id}", next_step=advice)


def require_allowed(document: PlanPreviewDocument, allowed: Allowance) -> None:
    """A yes to the diff is not a yes to what needs an approval of its own. All that is missing, with the command."""
    missing = not_allowed(document, allowed.names)
    if not missing:
        return
    named = ", ".join(f"{printable(name)} ({kind})" for kind, name in missing[:NAMED])
    more = f", and {len(missing) - NAMED:,} more" if len(missing) > NAMED else ""
    flags = [word for kind, name in missing for word in (flag_for(kind), name)]
    command = command_again(*flags)
    advice = f"If that is what you want: {command}"
    if len(command) > LONGEST_COMMAND:
        advice = "`remit preview` lists each with the option that allows it."
    raise Refused(
        _REASONS[missing[0][0]],
        f"the plan needs {counted(len(missing), 'approval')} that the command does not give: {named}{more}",
        where=f"plan {document.plan_id}",
        next_step=advice,
    )


def command_again(*more: str) -> str:
    """The command that was given, with more options, to copy. An option before `--` counts; one behind it does not."""
    given: Sequence[str] = (click.get_current_context().find_root().obj or {}).get("arguments", ())
    options, rest = (given[: given.index("--")], given[given.index("--") :]) if "--" in given else (given, ())
    words = [*map(_word, options), *map(_word, more), *map(_word, rest)]
    return " ".join(["remit", *words])


def _word(word: str) -> str:
    return word if word.startswith("--") and word.isprintable() and quoted(word[2:]) == word[2:] else _short(word)


def _short(word: str) -> str:
    return word if word in {"-", "--", "-o", "-C"} else quoted(word)
