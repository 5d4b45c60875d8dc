"""The preview of a plan with all its data, and the document that people and programs see."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

from remit.contracts.base import RiskLevel
from remit.contracts.plans.change_log import FileOperation
from remit.contracts.plans.envelope import ApprovedInput
from remit.contracts.plans.error_response import ErrorResponse
from remit.contracts.plans.plan import Action, Plan
from remit.contracts.plans.preview import (
    MAX_FINDINGS,
    MAX_REMARKS,
    NeededApprovals,
    PlanPreviewDocument,
    PreviewedFile,
    PreviewedFinding,
    PreviewedRemark,
)
from remit.contracts.plans.sql_report import SqlPreviewed
from remit.core.errors import Reason
from remit.core.ids import parse_time
from remit.effects.plans.steps import Ids, Move, PlanStep, Result, State, StepPlan
from remit.effects.plans.validate import ROWS
from remit.execution.engine import Preview
from remit.plans.model.parameters import previewed_pipelines
from remit.plans.model.remote_part import RemotePart
from remit.plans.model.simulation_result import SimulatedStep
from remit.plans.policy.failure_handling import JudgedStep, PlanFate, decide_fate
from remit.plans.policy.required_approvals import Needed, PathFinding
from remit.plans.preparation.prepared import PreparedAll
from remit.plans.preparation.remote_sql import PreparedStatements
from remit.plans.preparation.sql_preview import causes_of_sql, previewed_sql
from remit.plans.reports.execution_report import ReportedAction, build_errors
from remit.plans.reports.run_data import FinishedRun, RemoteAction
from remit.plans.runtime.runner import paths_of

MAX_DIFFS: Final = 8 << 20
MANY_FILES: Final = 20

_OPERATIONS: Final[dict[Move, FileOperation]] = {
    "create": "CREATE",
    "modify": "MODIFY",
    "delete": "DELETE",
    "rename": "RENAME",
}
_RISK_OF_ENDING: Final[dict[str, RiskLevel]] = {"PARTIAL": "HIGH", "ROLLED_BACK": "MEDIUM", "FAILED": "MEDIUM"}
"""A partly applied plan leaves a state that its author did not intend. One that changes nothing misses its purpose."""
_GROUP_AND_OTHERS: Final = 0o077
RISKS: Final[tuple[RiskLevel, ...]] = ("LOW", "MEDIUM", "HIGH", "CRITICAL")


@dataclass(frozen=True, slots=True)
class PlanPreview(Preview):
    """The preview with all data behind it: the states that the effect must find, and those that it must arrive at."""

    plan: Plan
    plan_digest: str
    config_digest: str
    steps: StepPlan
    simulated: tuple[SimulatedStep, ...]
    inputs: tuple[ApprovedInput, ...]
    needs: Needed
    findings: tuple[PathFinding, ...]
    folders: tuple[str, ...]
    """The folders to be made, parents first."""
    first: tuple[State | None, ...]
    """The state of each path of the plan before the run."""
    at: str
    prepared: PreparedAll
    """The prepared files that SQL and pipelines left. No other process can reach them. The operation closes them."""
    remote: RemotePart | None = None
    """The effect on a database server, if the plan has such a part."""
    statements: PreparedStatements | None = field(default=None, repr=False)
    """The statements that would run there."""

    @property
    def problems(self) -> list[Mapping[str, str]]:
        """The reasons why actions cannot be done, and the rule that would not hold if they were."""
        broken = self.prepared.broken_rule
        failing = [one.problem for one in _all_actions(self) if one.problem is not None]
        return failing if broken is None else [*failing, broken.as_json()]

    @property
    def doomed(self) -> bool:
        """Whether the plan stops at its first error and has one, so that applying it would change nothing."""
        return self.steps.stop_on_error and any(one.problem is not None for one in _all_actions(self))

    @property
    def fate(self) -> PlanFate:
        """How the plan would end, as far as the current files show."""
        if self.doomed:
            return PlanFate("BACK", "FAILED")
        judged = [_judge_step(step) for step in self.steps.steps]
        judged += [JudgedStep(one.number, "done") for one in _remote_actions(self)]  # a failing one is handled above
        fate = decide_fate(judged, self.plan.execution_instructions)
        is_rolled_back = fate.verdict == "GOOD" and self.prepared.broken_rule is not None
        return PlanFate("BACK", "ROLLED_BACK") if is_rolled_back else fate

    @property
    def to_back_up(self) -> dict[int, State | None]:
        """The files that need a backup, by path."""
        touched = paths_of(step for step in self.steps.steps if step.problem is None and not step.unchanged)
        return {path: self.first[path] for path in sorted(touched) if self.first[path] is not None}

    @property
    def backup_bytes(self) -> int:
        """The size of all backups and before-images that the plan would need."""
        files = sum(state.size for state in self.to_back_up.values() if state is not None)
        return files + (self.remote.image_bytes if self.remote is not None else 0)

    @property
    def document(self) -> PlanPreviewDocument:
        return _document(self)


def _remote_actions(preview: PlanPreview) -> tuple[RemoteAction, ...]:
    return preview.remote.actions if preview.remote is not None else ()


def _all_actions(preview: PlanPreview) -> list[ReportedAction]:
    """Return the remote actions, and then all steps."""
    remote: list[ReportedAction] = [*_remote_actions(preview)]
    return [*remote, *preview.steps.steps]


def _sql_previews(preview: PlanPreview) -> dict[int, SqlPreviewed]:
    """Return the preview of every action that runs SQL, on a copy or on a server."""
    return collect_sql_previews(preview.prepared, preview.remote)


def collect_sql_previews(prepared: PreparedAll, remote: RemotePart | None) -> dict[int, SqlPreviewed]:
    acted = remote.actions if remote is not None else ()
    return {**prepared.sql, **{one.number: one.told for one in acted if isinstance(one.told, SqlPreviewed)}}


def _judge_step(step: PlanStep) -> JudgedStep:
    if step.problem is None:
        return JudgedStep(step.number, "done", action_id=step.action_id)
    return JudgedStep(step.number, "failed", Reason(step.problem["reason"]), step.action_id)


def _document(preview: PlanPreview) -> PlanPreviewDocument:
    needs = preview.needs
    executable = sorted({found.path for found in preview.findings if found.rule == "executable"})
    content = sorted({found.path for found in preview.findings if found.rule != "executable"})
    needed = NeededApprovals(
        protected=needs.protected,
        executable=tuple(executable),
        content=tuple(content),
        irreversible=needs.irreversible,
    )
    problems = _problems(preview)
    risk, reasons = _judge_risk(preview, needed)
    needs_approval = any((needed.protected, needed.executable, needed.content, needed.irreversible))
    return PlanPreviewDocument.from_tree(
        {
            "plan_id": preview.plan.plan_id,
            "plan_digest": preview.plan_digest,
            "config_digest": preview.config_digest,
            "digest": preview.digest,
            "status": "WOULD_FAIL" if problems else "NEEDS_APPROVAL" if needs_approval else "READY",
            "risk": risk,
            "risk_reasons": reasons,
            "inputs": [item.tree() for item in preview.inputs],
            "files": _files(preview),
            "sql": [preview_of_action.tree() for preview_of_action in previewed_sql(_sql_previews(preview))],
            "pipelines": list(previewed_pipelines(preview.plan, preview.prepared.pipelines.values())),
            "needs": needed.tree(),
            "findings": [_finding(found).tree() for found in preview.findings[:MAX_FINDINGS]],
            "remarks": [remark.tree() for remark in _remarks(preview)],
            "problems": [problem.tree() for problem in problems],
            "doomed": preview.doomed,
            "would_end": preview.fate.status,
            "consequence": _consequence(preview),
            "rules": [_describe_rule(rule) for rule in preview.steps.rules],
            "folders": [] if preview.doomed else list(preview.folders),
            "backup_bytes": 0 if preview.doomed else preview.backup_bytes,
        }
    )


def _consequence(preview: PlanPreview) -> str:
    """Return what a person must know before they approve a plan that would not succeed."""
    acted = _all_actions(preview)
    stopped = [one for one in acted if one.problem is not None]
    if not stopped:
        broken = preview.prepared.broken_rule is not None
        return "A rule would not hold, so everything would be undone and nothing would stay changed." if broken else ""
    # An action that depends on them is skipped, and is not a failure of its own.
    failing = {one.action_id: None for one in stopped if (one.problem or {})["reason"] != Reason.DEPENDENCY_FAILED}
    fails = f"{next(iter(failing))} would fail" if len(failing) == 1 else f"{len(failing):,} actions would fail"
    others = len({one.action_id for one in acted} - {one.action_id for one in stopped})
    match preview.fate.status:
        case "PARTIAL":
            rest = "the other one" if others == 1 else f"the other {others:,}"
            return f"{fails}, and {rest} would be done and would stay: rollback_on_failure is false."
        case "ROLLED_BACK":
            return f"{fails}, and everything done by then would be undone: nothing would stay changed."
    return f"{fails}, so nothing would be changed at all."


def _remarks(preview: PlanPreview) -> list[PreviewedRemark]:
    paths = preview.steps.paths
    of_steps = (
        PreviewedRemark(path=paths[step.path if step.new_path is None else step.new_path], what=remark)
        for step, one in zip(preview.steps.steps, preview.simulated, strict=True)
        for remark in one.remarks
    )
    return list(islice(chain(preview.prepared.remarks, of_steps), MAX_REMARKS))


def _problems(preview: PlanPreview) -> tuple[ErrorResponse, ...]:
    """Return the problems in the form that the report of such a failed run would have."""
    draft, at = str(uuid.uuid4()), preview.at
    run = FinishedRun(
        plan_id=preview.plan.plan_id,
        ids=Ids(draft, draft, draft, draft),
        folder="",
        started_at=at,
        completed_at=at,
        status="FAILED",
        steps=preview.steps,
        results=tuple(
            Result(one.number, "failed", at, at, one.problem) for one in _all_actions(preview) if one.problem
        ),
        remote=_remote_actions(preview),
        diffs={},
        modified={},
        originals={},
        rolled_back=False,
        problem=preview.prepared.broken_rule,
        has_manifest=False,
    )
    return build_errors(run, lambda: parse_time(at))


def _finding(found: PathFinding) -> PreviewedFinding:
    return PreviewedFinding.from_tree(
        {"path": found.path, "rule": found.rule, "where": found.where, "what": found.what}
    )


def _describe_rule(rule: Mapping[str, Any]) -> str:
    """Describe what a rule reads. The value that it compares with is in the plan, and may be long."""
    subject = f"{rule['type']} {rule['path']}"
    if rule["type"] == ROWS:
        rows = len(rule["expected"])
        expected = f"exactly the {rows:,} row{'' if rows == 1 else 's'} in the plan" if rows else "no row"
        return f"{subject}: its query returns {expected}"
    if rule["type"] == "json_schema":
        return f"{subject} against {rule.get('schema_file') or 'a schema in the plan'}"
    return f"{subject} at {rule['expression']}" if rule["type"] == "json_path" else subject


def _files(preview: PlanPreview) -> list[dict[str, Any]]:
    """Return every step that would change something. Diffs past a limit are left out, and their lines are counted."""
    remaining, files = MAX_DIFFS, []
    paths = preview.steps.paths
    for step, one in zip(preview.steps.steps, preview.simulated, strict=True):
        if step.problem is not None or step.unchanged:
            continue
        text, left_out = one.text, one.left_out
        if len(text) > remaining:
            text, left_out = "", left_out + text.count("\n")
        remaining -= len(text)
        file = PreviewedFile(
            action_id=step.action_id,
            path=paths[step.path],
            new_path=None if step.new_path is None else paths[step.new_path],
            operation=_OPERATIONS[step.move],
            before=step.before.sha256 if step.before else None,
            after=step.after.sha256 if step.after else None,
            mode_before=_mode(step.before),
            mode_after=_mode(step.after),
            size_before=step.before.size if step.before else None,
            size_after=step.after.size if step.after else None,
            lines_added=one.diff.lines_added,
            lines_removed=one.diff.lines_removed,
            diff=text,
            diff_left_out=left_out,
        )
        files.append(file.tree())
    return files


def _causes_of_risk(preview: PlanPreview, needed: NeededApprovals) -> Iterator[tuple[RiskLevel, str]]:
    """Yield each cause of a risk above LOW: in what the plan says about itself, and in what it does."""
    for action in preview.plan.action_plan:
        yield action.risk_level, "risk_level of the plan"
        if replaces_document(action):
            yield "HIGH", "a whole document is replaced"
    yield _RISK_OF_ENDING.get(preview.fate.status, "LOW"), f"would end as {preview.fate.status}"
    yield from causes_of_sql(_sql_previews(preview).values())
    for found in preview.findings:
        yield "MEDIUM" if found.rule == "syntax" else "HIGH", f"content: {found.rule}"
    if any(step.move == "delete" for step in preview.steps.steps):
        yield "HIGH", "a file is deleted"
    if needed.protected:
        yield "HIGH", "a protected file"
    if needed.irreversible:
        yield "HIGH", "an action cannot be undone"
    if len(paths_of(preview.steps.steps)) > MANY_FILES:
        yield "MEDIUM", f"more than {MANY_FILES} files"
    if any(map(_widens_access, preview.steps.steps)):
        yield "MEDIUM", "others get more rights to a file"


def _judge_risk(preview: PlanPreview, needed: NeededApprovals) -> tuple[RiskLevel, list[str]]:
    """Return the highest risk, and each cause of it. LOW has none."""
    causes = list(_causes_of_risk(preview, needed))
    risk = max((level for level, _ in causes), key=RISKS.index)
    return risk, list(dict.fromkeys(why for level, why in causes if level == risk != "LOW"))


def _mode(state: State | None) -> str | None:
    return None if state is None else f"{state.mode:04o}"


def _widens_access(step: PlanStep) -> bool:
    """Whether group or others could do more with the file than they can now."""
    if step.problem is not None or step.before is None or step.after is None:
        return False
    return bool(step.after.mode & ~step.before.mode & _GROUP_AND_OTHERS)


def replaces_document(action: Action) -> bool:
    operation = action.operation
    return operation.type == "json_update_value" and operation.path.strip() == "$"
