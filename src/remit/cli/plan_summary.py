"""What people read of a plan: before it runs, after it ran, and after it was taken back.

Everything is rendered from the preview and the outcome, never from a text that an agent wrote about itself; names are
made printable, so that none of them can write a line of its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import click

from remit.cli.diff_view import render_diff
from remit.cli.table import counted
from remit.contracts.change_log import Change
from remit.contracts.error_response import ErrorResponse
from remit.contracts.outcome import PlanOutcome, RollbackOutcome
from remit.contracts.plan_preview import PlanPreviewDocument, PreviewedFile
from remit.contracts.report import ExecutionReport
from remit.contracts.rollback_manifest import RollbackManifest
from remit.doors.going import NOT_AS_BEFORE
from remit.printable import printable

DIFF_LINES: Final = 40
LISTED: Final = 20
RISK_COLOURS: Final = {"LOW": "green", "MEDIUM": "yellow", "HIGH": "red", "CRITICAL": "red"}
STATUS_COLOURS: Final = {"SUCCESS": "green", "EXECUTED": "green", "PARTIAL": "yellow", "CANCELLED": "yellow"}
WORDS: Final = {"CREATE": "create", "MODIFY": "change", "DELETE": "delete", "RENAME": "rename"}
LEFT_AS: Final = {
    "ROLLED_BACK": "Rolled back: everything is as before.",
    "FAILED": "Nothing was changed.",
    "CANCELLED": "Cancelled: everything is as before.",
}


def left_as(report: ExecutionReport) -> str:
    """What a run that did not succeed has left, in one sentence; empty where something of it stands."""
    sentence = LEFT_AS.get(report.status, "")
    if sentence and any(NOT_AS_BEFORE in warning for warning in report.warnings):
        return f"{sentence.partition(':')[0]}: everything of the plan's is gone; see what others changed meanwhile."
    return sentence


# --- before ----------------------------------------------------------------------------------------------------------


def render_preview(document: PlanPreviewDocument) -> Iterator[str]:
    """The whole diff, then what a person must know before saying yes."""
    yield _heading("Plan", document.plan_id, document.files)
    for file in document.files:
        yield ""
        yield click.style(_named(file), bold=True)
        yield from render_diff(file.diff, left_out=file.diff_left_out)
    yield ""
    yield from render_verdict(document)


def render_verdict(document: PlanPreviewDocument) -> Iterator[str]:
    """Risk, what needs an approval of its own and how to give it, problems, and whether there is a way back."""
    yield _row("risk", click.style(document.risk, fg=RISK_COLOURS[document.risk]))
    for kind, names in needed(document).items():
        for name in names:
            yield _row("needs", f"{kind}: {printable(name)}   give: {flag_for(kind)} {quoted(name)}")
    for rule in document.rules:
        yield _row("checks", printable(rule))
    for finding in document.findings:
        place = ", ".join(printable(word) for word in (finding.path, finding.where) if word)
        yield _row("found", f"{place}: {finding.rule}: {printable(finding.what)}")
    for problem in document.problems:
        yield _row(click.style("problem", fg="red"), render_problem(problem), width=len("problem"))
    lasting = [printable(name) for name in document.needs.irreversible]
    undo = f"cannot be undone: {', '.join(lasting)}" if lasting else "everything can be undone"
    yield _row("undo", f"{undo}; {render_size(document.backup_bytes)} of backups")
    if document.folders:
        yield _row("folders", f"{counted(len(document.folders), 'folder')} made: {_some(document.folders)}")


def needed(document: PlanPreviewDocument) -> dict[str, Sequence[str]]:
    """What an approval must name, by the word in its flag."""
    needs = document.needs
    kinds: dict[str, Sequence[str]] = {
        "protected": needs.protected,
        "executable": needs.executable,
        "content": needs.content,
        "irreversible": needs.irreversible,
    }
    return {kind: names for kind, names in kinds.items() if names}


def flag_for(kind: str) -> str:
    return f"--allow-{kind}"


def quoted(name: str) -> str:
    """As a shell takes it, on one line."""
    if not name.isprintable():  # what a terminal would obey is spelled out, as bash reads it
        return "$'" + "".join(_spelled(character) for character in name) + "'"
    plain = name and all(c.isalnum() or c in "/._-+:@%" for c in name) and not name.startswith("-")
    return name if plain else "'" + name.replace("'", "'\\''") + "'"


def _spelled(character: str) -> str:
    if character.isprintable():
        return f"\\{character}" if character in "\\'" else character
    return f"\\U{ord(character):08x}"


# --- after -----------------------------------------------------------------------------------------------------------


def render_outcome(outcome: PlanOutcome, *, diffs: bool = True, is_last: bool = True) -> Iterator[str]:
    """How it ended, what was changed, what it took, and the way back. `is_last`: no plan has run since."""
    report, log = outcome.report, outcome.change_log
    counts = report.actions_summary
    done = f"{counts.completed:,} of {counted(counts.total, 'action')}"
    files = f", {counted(log.files_affected_count, 'file')}, {_lines_of(log.changes)}" if log.changes else ""
    yield f"{_status(report.status)}  {printable(report.plan_id)}: {done}{files}"
    yield from _failures(outcome)
    yield from _changes(log.changes, diffs=diffs)
    for warning in report.warnings:
        yield _row("warning", printable(warning))
    kept = render_size(_backup_bytes(outcome.manifest))
    yield _row("cost", f"{report.duration_ms:,} ms; {kept} of backups")
    yield _row("report", f"{printable(outcome.status.folder)}/")
    yield from _way_back(outcome, "last" if is_last else quoted(outcome.status.envelope_id))


def _failures(outcome: PlanOutcome) -> Iterator[str]:
    failed = {action.action_id for action in outcome.report.actions_failed}
    # The action that failed first; then what the others say about the plan as a whole.
    for problem in sorted(outcome.errors, key=lambda each: each.details.action_id not in failed):
        yield _row(click.style("failed", fg="red"), render_problem(problem), width=len("failed"))
    skipped = outcome.report.actions_skipped
    for action in skipped[:LISTED]:
        yield _row("skipped", f"{printable(action.action_id)}: {printable(action.reason)}")
    if len(skipped) > LISTED:
        yield _row("", f"and {len(skipped) - LISTED:,} more")
    if sentence := left_as(outcome.report):
        yield _row("left", sentence)
    elif outcome.report.status == "PARTIAL":
        yield _row("left", "What was done stays, as the plan asks for: rollback_on_failure is false.")


def _changes(changes: Sequence[Change], *, diffs: bool) -> Iterator[str]:
    room = DIFF_LINES
    for number, change in enumerate(changes):
        if number == LISTED and not diffs:
            yield _row("", f"and {len(changes) - number:,} more; the change log has all")
            return
        to = f" -> {printable(change.new_path)}" if change.new_path else ""
        yield _row(f"{WORDS[change.operation]}d", f"{printable(change.file_path)}{to}")
        if diffs and room > 0:
            shown = render_diff(change.diff_summary.preview, room)
            room -= len(shown)
            yield from (f"    {line}" for line in shown)


def _way_back(outcome: PlanOutcome, name: str) -> Iterator[str]:
    manifest = outcome.manifest
    if manifest is None or manifest.status != "ACTIVE" or not manifest.checkpoints:
        return
    until = f"until {manifest.expires_at[:10]}; " if manifest.expires_at else ""
    script = manifest.auto_rollback_script
    by_hand = f"or: python3 -I {quoted(script)}" if script else ""
    yield _row("undo", f"remit rollback {name}   ({until}{by_hand})")


def render_rollback(outcome: RollbackOutcome) -> Iterator[str]:
    """What was restored and what was kept, by name."""
    paths = {each.checkpoint_id: each for each in outcome.manifest.checkpoints}
    restored = counted(len(outcome.restored), "checkpoint")
    yield f"{_status(outcome.status)}  {printable(outcome.envelope_id)}: {restored} restored"
    for name in outcome.restored[:LISTED]:
        made = name in paths and paths[name].operation_to_reverse == "CREATE"
        yield _row("removed" if made else "restored", printable(paths[name].file_path) if name in paths else name)
    if len(outcome.restored) > LISTED:
        yield _row("", f"and {len(outcome.restored) - LISTED:,} more")
    for kept in outcome.kept:
        path = paths[kept.checkpoint_id].file_path if kept.checkpoint_id in paths else kept.checkpoint_id
        yield _row("kept", f"{printable(path)}: {printable(kept.reason)}")
    for problem in outcome.errors:
        yield _row(click.style("failed", fg="red"), render_problem(problem), width=len("failed"))
    left = sum(1 for each in outcome.manifest.checkpoints if each.restored_at is None)
    if left:
        yield _row("left", f"{counted(left, 'checkpoint')} not restored")


# --- words -----------------------------------------------------------------------------------------------------------


def render_problem(problem: ErrorResponse) -> str:
    """`a002 src/x.py: 2001 FILE_NOT_FOUND, there is no such file`."""
    details = problem.details
    about = " ".join(printable(word) for word in (details.action_id, details.target) if word)
    told = f"{problem.error_code} {problem.error_type}, {printable(problem.message)}"
    by_hand = " (by hand)" if problem.recovery_action == "MANUAL_REQUIRED" else ""
    return f"{about}: {told}{by_hand}" if about else f"{told}{by_hand}"


def render_size(size: int) -> str:
    if size < 1_000:
        return counted(size, "byte")
    for unit in ("KB", "MB"):
        size_in_unit = size / {"KB": 1_000, "MB": 1_000_000}[unit]
        if size_in_unit < 1_000:
            return f"{size_in_unit:.1f} {unit}"
    return f"{size / 1e9:.1f} GB"


def _status(status: str) -> str:
    return click.style(status, fg=STATUS_COLOURS.get(status, "red"), bold=True)


def _heading(word: str, plan_id: str, files: Sequence[PreviewedFile]) -> str:
    actions = counted(len({file.action_id for file in files}), "change")
    paths = counted(len({file.path for file in files}), "file")
    added, removed = sum(file.lines_added for file in files), sum(file.lines_removed for file in files)
    return f"{word} {printable(plan_id)}: {actions} to {paths}, +{added:,} -{removed:,} lines"


def _named(file: PreviewedFile) -> str:
    to = f" -> {printable(file.new_path)}" if file.new_path else ""
    return f"{printable(file.action_id)}: {WORDS[file.operation]} {printable(file.path)}{to}"


def _lines_of(changes: Iterable[Change]) -> str:
    summaries = [change.diff_summary for change in changes]
    return f"+{sum(s.lines_added for s in summaries):,} -{sum(s.lines_removed for s in summaries):,} lines"


def _backup_bytes(manifest: RollbackManifest | None) -> int:
    return sum(each.original_size or 0 for each in manifest.checkpoints) if manifest else 0


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(printable(name) for name in names[:LISTED]) + more


def _row(label: str, text: str, *, width: int | None = None) -> str:
    """`width` is the label's on the screen, where it carries a colour."""
    gap = " " * max(10 - (len(label) if width is None else width), 1)
    return f"  {label}{gap}{text}"
