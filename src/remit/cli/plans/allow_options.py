"""What a person must allow beyond the plan itself: the options for it, and all that is missing told at once."""

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import click

from remit.cli.common.bidi import shown_name
from remit.cli.plans.render import needed, not_allowed, spelled_plainly
from remit.cli.plans.text import flag_for, quoted, render_problem
from remit.contracts.plans.error_codes import PLAN_CODES
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.core.errors import Reason, RefusedError
from remit.core.text import counted
from remit.plans.preparation.remote_sql import is_bound_server

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
    "irreversible": Reason.IRREVERSIBLE,
}
NAMED: Final = 5
LONGEST_COMMAND: Final = 1_500
"""An error's text is cut soon after, and a command that was cut is none."""


class Allowance(NamedTuple):
    """What the options of one command allow."""

    names: dict[str, Any]
    """By the kind of the approval; arguments of `Workspace.approve`."""
    even_if_it_fails: bool

    @property
    def everything(self) -> dict[str, Any]:
        """Arguments of `Workspace.approve`."""
        return {**self.names, "even_if_it_fails": self.even_if_it_fails}


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


def require_useful(document: PlanPreviewDocument, allowed: Allowance, *, shown: bool = False, deny: str = "") -> None:
    """An approval of what would fail is most likely a mistake, and must be asked for by name.

    `shown`: the preview stands above, and need not be repeated. `deny`: of a proposed plan, the command that denies it.
    """
    if not document.problems or (allowed.even_if_it_fails and not document.doomed):
        return
    first = document.problems[0]
    code = first.error_code
    reason = next((each for each, error in PLAN_CODES.items() if error.code == code), Reason.EFFECT_FAILED)
    more = f"; and {len(document.problems) - 1:,} more" if len(document.problems) > 1 else ""
    named = "" if shown else f": {render_problem(first).removesuffix('.')}{more}"
    what = f"{document.consequence.removesuffix('.')}{named}"
    raise RefusedError(reason, what, where=f"plan {document.plan_id}", next_step=_how_to_go_on(document, allowed, deny))


def _how_to_go_on(document: PlanPreviewDocument, allowed: Allowance, deny: str) -> str:
    correct = f"Deny it, and say why (its proposer reads that): {deny}" if deny else "Correct the plan"
    if not document.doomed:
        return f"{correct}; or, if that is what you want: {command_again(EVEN_IF_IT_FAILS)}"
    if deny:
        return correct
    if not allowed.even_if_it_fails:
        return "Correct the plan; `remit preview` shows what it would do."
    if any(is_bound_server(item.path) for item in document.inputs):
        return (
            f"{EVEN_IF_IT_FAILS} cannot help here: what a plan does on a server is done whole, or not at all. Correct"
            " the plan."
        )
    return (
        f"{EVEN_IF_IT_FAILS} cannot help here: the plan stops at its first error. Correct it; or let it go on after"
        ' errors: "stop_on_error": false in its execution_instructions.'
    )


def require_allowed(document: PlanPreviewDocument, allowed: Allowance) -> None:
    """A yes to the diff is not a yes to what needs an approval of its own. All that is missing, with the command."""
    missing = not_allowed(document, allowed.names)
    if not missing:
        return
    idle = _not_needed(document, allowed)
    flags = [word for kind, name in missing for word in (flag_for(kind), name)]
    command = command_again(*flags, without=idle)
    advice = f"If that is what you want: {command}"
    if len(command) > LONGEST_COMMAND:
        advice = "`remit preview` lists each with the option that allows it."
    raise RefusedError(
        _REASONS[missing[0][0]],
        f"the plan needs {counted(len(missing), 'approval')} that the command does not give: {_some(missing)}"
        + (f"; of no use: {_some(idle)}{_on_patterns(idle)}" if idle else ""),
        where=f"plan {document.plan_id}",
        next_step=advice,
    )


def _not_needed(document: PlanPreviewDocument, allowed: Allowance) -> list[tuple[str, str]]:
    """Allowances that nothing asks for: approvals that have them are refused."""
    wanted = needed(document)
    return [
        (kind, name)
        for kind, names in allowed.names.items()
        for name in names
        if not set(spelled_plainly(kind, [name])) & set(wanted.get(kind, ()))
    ]


def _on_patterns(idle: Sequence[tuple[str, str]]) -> str:
    return ", for patterns do not work: each file is named" if any(set(name) & set("*?[") for _, name in idle) else ""


def _some(named: Sequence[tuple[str, str]]) -> str:
    more = f", and {len(named) - NAMED:,} more" if len(named) > NAMED else ""
    return ", ".join(f"{shown_name(name)} ({kind})" for kind, name in named[:NAMED]) + more


def command_again(*more: str, without: Collection[tuple[str, str]] = ()) -> str:
    """The command that was given, with more options, to copy; `without` allowances that are of no use.

    An option before `--` counts; one behind it does not.
    """
    given: Sequence[str] = (click.get_current_context().find_root().obj or {}).get("arguments", ())
    options, rest = (given[: given.index("--")], given[given.index("--") :]) if "--" in given else (given, ())
    kept = _without(options, {(flag_for(kind), name) for kind, name in without})
    words = [*map(_word, kept), *map(_word, more), *map(_word, rest)]
    return " ".join(["remit", *words])


def _without(words: Sequence[str], pairs: Collection[tuple[str, str]]) -> list[str]:
    """`--option value` and `--option=value` alike."""
    kept: list[str] = []
    for word in words:
        if kept and (kept[-1], word) in pairs:
            kept.pop()
        elif tuple(word.split("=", 1)) not in pairs:
            kept.append(word)
    return kept


def _word(word: str) -> str:
    return word if word.startswith("--") and word.isprintable() and quoted(word[2:]) == word[2:] else _short(word)


def _short(word: str) -> str:
    return word if word in {"-", "--", "-o", "-C"} else quoted(word)
