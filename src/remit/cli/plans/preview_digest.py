"""`--digest`: names the preview that a person has read, for commands that have no terminal to show it."""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

import click

from remit.cli.plans.allow_options import repeat_command
from remit.cli.plans.preview_notes import NAMED, find_note, render_changes
from remit.cli.plans.render import count_hidden_lines
from remit.cli.plans.text import row
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.core.errors import Reason, RefusedError
from remit.core.text import counted, printable
from remit.workspace.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")


class NamedPreview(NamedTuple):
    """The values of `--digest` and `--unseen-lines`."""

    digest: str
    unseen_lines: int | None = None
    """The number of lines that the preview did not show, as the approver gives it."""


def unseen_lines_option(command: F) -> F:
    return click.option(
        "--unseen-lines",
        type=click.IntRange(0),
        metavar="N",
        help="With --digest: approve although the preview left out N lines. The preview prints the number.",
    )(command)


def digest_options(command: F) -> F:
    """Add `--digest` and `--unseen-lines`. The command gets them together as `named`, or None without a digest."""

    @functools.wraps(command)
    def collect(*arguments: Any, digest: str | None, unseen_lines: int | None, **given: Any) -> Any:
        return command(*arguments, named=named_preview(digest, unseen_lines), **given)

    text = "The digest of the preview that you read. `remit preview` prints it. Necessary without a terminal."
    made: Any = click.option("--digest", metavar="DIGEST", help=text)(unseen_lines_option(collect))
    result: F = made
    return result


def named_preview(digest: str | None, unseen_lines: int | None) -> NamedPreview | None:
    if digest is None:
        if unseen_lines is not None:
            raise click.UsageError("--unseen-lines needs --digest.")
        return None
    if not _DIGEST.match(digest):
        raise click.UsageError("--digest takes sha256: and 64 hex digits, as `remit preview` prints it.")
    return NamedPreview(digest, unseen_lines)


def render_digest_options(document: PlanPreviewDocument, max_lines: int | None) -> Iterator[str]:
    """Render the values for `--digest` and `--unseen-lines` below a preview with `max_lines` lines of each diff."""
    yield row("digest", document.preview_digest)
    if hidden := count_hidden_lines(document, max_lines):
        see = "; --full shows them" if max_lines is not None else ""
        yield row(
            "unseen",
            f"{counted(hidden, 'line')} not shown{see}; to approve without seeing them: --unseen-lines {hidden}",
        )


def require_named_preview(
    workspace: Workspace, document: PlanPreviewDocument, named: NamedPreview, max_lines: int | None
) -> None:
    """Refuse unless this is the named preview and the approver gives the number of lines that it does not show."""
    if document.preview_digest != named.digest:
        raise _changed_preview_error(workspace, document, named.digest)
    require_hidden_lines_named(document, named, max_lines, read="remit preview --full")


def require_hidden_lines_named(
    document: PlanPreviewDocument, named: NamedPreview, max_lines: int | None, *, read: str
) -> None:
    """Refuse unless the approver gives the number of lines that the preview does not show with these options.

    `read` is the command that shows all lines.
    """
    hidden = count_hidden_lines(document, max_lines)
    if hidden == (named.unseen_lines or 0):
        return
    where = f"plan {document.plan_id}"
    if named.unseen_lines is not None:
        raise RefusedError(
            Reason.APPROVAL_PENDING,
            f"--unseen-lines says {named.unseen_lines:,}, but with these options the preview leaves"
            f" {counted(hidden, 'line')} out; nothing was approved",
            where=where,
            next_step="Read the preview again with the same options (--full, --no-diff). It prints how many lines it"
            " does not show.",
        )
    without = repeat_command("--unseen-lines", str(hidden))
    full = f"Read all of it with `{read}`, then: {repeat_command('--full')}; or, w" if max_lines is not None else "W"
    raise RefusedError(
        Reason.APPROVAL_PENDING,
        f"the preview does not show {counted(hidden, 'line')}, and --unseen-lines is missing; nothing was approved",
        where=where,
        next_step=f"{full}ithout having seen them: {without}",
    )


def _changed_preview_error(workspace: Workspace, document: PlanPreviewDocument, digest: str) -> RefusedError:
    note = find_note(workspace, digest)
    changes = render_changes(note, document) if note is not None else ""
    what = f"the plan or its files changed since the preview: {changes}"
    if not changes:
        inputs = ", ".join(printable(item.path) for item in document.inputs[:NAMED])
        what = (
            "this is not the digest of the plan's preview; the plan, its settings or its files changed since, or the"
            f" digest belongs to another plan{f' (files of this plan: {inputs})' if inputs else ''}"
        )
    return RefusedError(
        Reason.BINDING_MISMATCH,
        f"{what}; nothing was approved",
        where=f"--digest, plan {document.plan_id}",
        next_step="Read the plan again with `remit preview`, and pass the digest that it prints.",
    )
