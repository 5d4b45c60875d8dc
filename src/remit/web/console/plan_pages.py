"""The effect of a plan as pages show it: files with their diffs, and the graph of its actions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from remit.contracts.plans.change_log import Change
from remit.contracts.plans.outcome import RollbackOutcome
from remit.contracts.plans.pipeline_report import PipelineTold
from remit.contracts.plans.preview import PlanPreviewDocument, PreviewedFile
from remit.contracts.plans.report import ExecutionReport
from remit.contracts.services.plans import ChangedSince, ProposalPreview, RunDocuments
from remit.plans.reports.diff_lines import count_omitted_lines
from remit.plans.reports.preview_sentences import (
    describe_deadline,
    describe_kept_outputs,
    describe_pipeline_undo,
    describe_undo,
)
from remit.web.console.diffs import MOST_ROWS, DiffShown, build_rows
from remit.web.console.graphs import Graph, GraphBox, lay_out
from remit.web.console.templating import address

LONGEST_OPEN: Final = 400
"""Lines. A file with a longer diff is folded."""
MOST_OPEN: Final = 2_000
"""Lines on one page. A file that would bring the page above this limit is folded too."""
ALL_FILES: Final = "all"
"""The value in the address of a page and in its form: every file is unfolded."""


@dataclass(frozen=True, slots=True)
class FileShown:
    path: str
    new_path: str | None
    operation: str
    added: int
    removed: int
    mode: str
    shown: DiffShown
    open: bool
    changed: bool = False
    """Whether the content changes, with or without lines to show."""
    rest: str = ""
    """The address of the lines that are not shown here."""


@dataclass(frozen=True, slots=True)
class PreviewShown:
    document: PlanPreviewDocument
    preview_digest: str
    files: tuple[FileShown, ...]
    changed_since: tuple[ChangedSince, ...] = ()
    """Changes since the approval; without an approval, since the preview was computed."""
    unfold: str = ""
    """The address of the same page with every file unfolded."""
    is_unfolded: bool = False
    """The request was for the page with every file unfolded."""
    computed_at: str | None = None
    computed_by: str | None = None

    @classmethod
    def of(cls, preview: ProposalPreview, *, is_unfolded: bool = False) -> "PreviewShown":
        return cls(
            preview.document,
            preview.preview_digest,
            tuple(_files_of(preview, is_unfolded=is_unfolded)),
            preview.changed_since,
            address("/inbox/question", kind="plan", id=preview.proposal_id, files=ALL_FILES),
            is_unfolded,
            preview.computed_at,
            preview.computed_by,
        )

    @property
    def undo(self) -> str:
        return describe_undo(self.document)

    @property
    def kept(self) -> str:
        return describe_kept_outputs(self.document)

    def pipeline_undo(self, report: PipelineTold) -> str:
        return describe_pipeline_undo(report)

    def deadline(self, decide_until: str | None) -> str:
        """Until when this preview can be approved. Empty for a stale one, and if the request is decided."""
        return "" if decide_until is None or self.changed_since else describe_deadline(self.document, decide_until)

    @property
    def unseen(self) -> int:
        """The number of diff lines that the page does not show. The approver has to tick a box for them."""
        return sum(each.shown.left_out for each in self.files)

    @property
    def folded(self) -> tuple[FileShown, ...]:
        """Files whose lines are folded on the page. To approve without unfolding them, the approver ticks a box."""
        return tuple(each for each in self.files if not each.open and each.shown.rows)

    @property
    def folding(self) -> str:
        """The sentence on the page about which files are folded."""
        return (
            f"A file with more than {LONGEST_OPEN:,} lines of diff is folded, and so is a file that would bring the"
            f" page above {MOST_OPEN:,} lines."
        )

    @property
    def folded_lines(self) -> int:
        return sum(len(each.shown.rows) for each in self.folded)


class StepView(Protocol):
    @property
    def action_id(self) -> str: ...
    @property
    def action_type(self) -> str: ...
    @property
    def target(self) -> str | None: ...
    @property
    def depends_on(self) -> Sequence[str]: ...


class RecordedStep(NamedTuple):
    """An action of a plan whose text is not stored, from the report and the change log."""

    action_id: str
    action_type: str
    target: str | None
    depends_on: tuple[str, ...] = ()


def list_steps(documents: RunDocuments | None) -> list[RecordedStep]:
    if documents is None:
        return []
    report = documents.report
    known = {each.action_id: each for each in documents.change_log.changes}
    names = [each.action_id for each in report.actions_completed]
    names += [each.action_id for each in report.actions_failed]
    names += [each.action_id for each in report.actions_skipped]
    return [
        RecordedStep(name, known[name].operation, known[name].file_path)
        if name in known
        else RecordedStep(name, "", None)
        for name in names
    ]


def draw_steps(steps: Iterable[StepView], states: dict[str, str], otherwise: str = "") -> Graph | None:
    """Draw the actions of a plan with the state of each. Return None if they are too many to draw."""
    return lay_out(
        [
            GraphBox(
                step.action_id,
                step.action_id,
                _describe_step(step),
                states.get(step.action_id, otherwise),
                tuple(step.depends_on),
            )
            for step in steps
        ]
    )


def _describe_step(step: StepView) -> str:
    """Return the kind of the change and the file: `modify app.py`."""
    kind = step.action_type.removeprefix("FILE_").replace("_", " ").lower()
    return f"{kind} {(step.target or '').rpartition('/')[2]}".strip()


def map_step_states(report: ExecutionReport | None) -> dict[str, str]:
    """Return the state of each action: `completed`, `failed`, `skipped`, or `undone` if the run undid it itself."""
    if report is None:
        return {}
    done = "undone" if report.rollback_performed else "completed"
    return {
        **{each.action_id: done for each in report.actions_completed},
        **{each.action_id: "failed" for each in report.actions_failed},
        **{each.action_id: "skipped" for each in report.actions_skipped},
    }


def show_changes(changes: Iterable[Change]) -> tuple[FileShown, ...]:
    """Return the files of a run that has ended. Only the beginning of each diff is stored."""
    return tuple(
        FileShown(
            each.file_path,
            each.new_path,
            each.operation,
            each.diff_summary.lines_added,
            each.diff_summary.lines_removed,
            "",
            build_rows(each.diff_summary.preview, count_omitted_lines(each.diff_summary)),
            open=True,
            changed=each.before_state.file_hash != each.after_state.file_hash,
        )
        for each in changes
    )


class RollbackView(NamedTuple):
    """The result of one rollback in files. Checkpoints include folders too."""

    status: str
    files: int
    not_restored: tuple[tuple[str, str], ...]
    """Path and reason."""


def list_rollbacks(outcomes: Iterable[RollbackOutcome]) -> list[RollbackView]:
    return [_to_rollback_view(each) for each in outcomes]


def _to_rollback_view(outcome: RollbackOutcome) -> RollbackView:
    paths = {each.checkpoint_id: each.file_path for each in outcome.manifest.checkpoints}
    folders = {each.checkpoint_id for each in outcome.manifest.checkpoints if each.file_kind == "directory"}
    if (rows := outcome.manifest.rows) is not None:
        paths[rows.checkpoint_id] = rows.server
    files = {paths[each] for each in outcome.restored if each in paths and each not in folders}
    not_restored = tuple((paths.get(each.checkpoint_id, each.checkpoint_id), each.reason) for each in outcome.kept)
    return RollbackView(outcome.status, len(files), not_restored)


class RestShown(NamedTuple):
    """One part of a file's diff, for a page of its own."""

    file: PreviewedFile
    shown: DiffShown
    before: str | None
    after: str | None


def read_rest(preview: ProposalPreview, number: int, first: int) -> RestShown | None:
    """Return one part of a diff. None if there is no such file or part."""
    files = preview.document.files
    if not 0 <= number < len(files) or first < 0:
        return None
    shown = build_rows(files[number].diff, files[number].diff_left_out, first)
    if not shown.rows:
        return None
    last = first + len(shown.rows)
    total = len(shown.rows) + shown.on_other_pages
    return RestShown(
        files[number],
        shown,
        _rest(preview, number, max(first - MOST_ROWS, 0)) if first else None,
        _rest(preview, number, last) if last < total else None,
    )


def _rest(preview: ProposalPreview, number: int, first: int) -> str:
    return address("/inbox/diff", id=preview.proposal_id, digest=preview.preview_digest, file=number, first=first)


def _files_of(preview: ProposalPreview, *, is_unfolded: bool) -> Iterable[FileShown]:
    rows_open = 0
    for number, each in enumerate(preview.document.files):
        shown = build_rows(each.diff, each.diff_left_out)
        rows = len(shown.rows)
        is_open = rows <= LONGEST_OPEN and rows_open + rows <= MOST_OPEN
        rows_open += rows if is_open else 0
        yield FileShown(
            each.path,
            each.new_path,
            each.operation,
            each.lines_added,
            each.lines_removed,
            _mode(each),
            shown,
            open=is_unfolded or is_open,
            changed=each.before != each.after,
            rest=_rest(preview, number, rows) if shown.on_other_pages else "",
        )


def _mode(file: PreviewedFile) -> str:
    before, after = file.mode_before, file.mode_after
    return f"{before} → {after}" if before and after and before != after else ""
