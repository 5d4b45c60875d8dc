"""The preview of a plan with all its data, and the document that people and programs see."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain, islice
from typing import Any, Final

from remit.contracts.base import RiskLevel
from remit.contracts.plans.change_log import FileOperation
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
from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.core.ids import parse_time
from remit.effects.plans.steps import Ids, Move, PlanStep, Result, State
from remit.effects.plans.validate import ROWS
from remit.plans.model.parameters import previewed_pipelines
from remit.plans.model.remote_part import RemotePart
from remit.plans.model.simulation_result import SimulatedStep
from remit.plans.policy.failure_handling import JudgedStep, PlanFate, decide_fate
from remit.plans.policy.required_approvals import PathFinding
from remit.plans.preparation.prepared import PreparedAll
from remit.plans.preparation.remote_sql import PreparedStatements
from remit.plans.preparation.sql_preview import causes_of_sql, previewed_sql
from remit.plans.preview.planned_effect import PlannedEffect, PlannedOutput
from remit.plans.reports.execution_report import build_errors
from remit.plans.reports.run_data import FinishedRun
from remit.plans.runtime.runner import paths_of

MAX_DIFFS: Final = 8 << 20
MANY_FILES: Final = 20
_MAX_NAMED: Final = 20

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
class PlanPreview(PlannedEffect):
    """A preview as it was computed: the effect, and all that its document shows."""

    plan: Plan
    simulated: tuple[SimulatedStep, ...]
    at: str
    took: timedelta
    """How long computing it took."""
    expires_at: str
    prepared: PreparedAll
    """The prepared files that SQL and pipelines left. No other process can reach them. The operation closes them."""
    statements: PreparedStatements | None = field(default=None, repr=False)
    """The statements that would run on a database server."""
    free_of_credentials: bool = False
    """Whether every file of the preview was searched in full, and holds nothing that looks like a credential."""

    @property
    def fate(self) -> PlanFate:
        """How the plan would end, as far as the current files show."""
        if self.doomed:
            return PlanFate("BACK", "FAILED")
        judged = [_judge_step(step) for step in self.steps.steps]
        judged += [JudgedStep(one.number, "done") for one in self.remote_actions]  # a failing one is handled above
        fate = decide_fate(judged, self.plan.execution_instructions)
        is_rolled_back = fate.verdict == "GOOD" and self.broken_rule is not None
        return PlanFate("BACK", "ROLLED_BACK") if is_rolled_back else fate

    @property
    def document(self) -> PlanPreviewDocument:
        return _document(self)


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
            "outputs": [_output(output) for output in preview.outputs],
            "costs": {
                "milliseconds": round(preview.took.total_seconds() * 1000),
                "actions": [
                    {"action_id": action_id, "milliseconds": taken} for action_id, taken in preview.milliseconds.items()
                ],
                "output_bytes": preview.output_bytes,
            },
            "undo": _describe_undo(preview),
            "computed_at": preview.at,
            "expires_at": preview.expires_at,
            "free_of_credentials": preview.free_of_credentials,
        }
    )


def _output(output: PlannedOutput) -> dict[str, Any]:
    return {"action_id": output.action_id, "path": output.path, "digest": output.sha256, "size": output.size}


def _describe_undo(preview: PlanPreview) -> str:
    """Say what can be undone after the run, and how. Empty for a plan that would change nothing."""
    is_empty = not preview.remote_actions and all(step.problem or step.unchanged for step in preview.steps.steps)
    if preview.doomed or is_empty:
        return ""
    lasting = preview.needs.irreversible
    if not lasting:
        return "Everything can be undone: `remit rollback` restores the files and rows from their backups."
    named = ", ".join(lasting[:_MAX_NAMED]) + (
        f" and {len(lasting) - _MAX_NAMED:,} more" if len(lasting) > _MAX_NAMED else ""
    )
    return f"This cannot be undone: {named}. `remit rollback` restores the rest from its backups."


def _consequence(preview: PlanPreview) -> str:
    """Return what a person must know before they approve a plan that would not succeed."""
    acted = preview.all_actions
    stopped = [one for one in acted if one.problem is not None]
    if not stopped:
        broken = preview.broken_rule is not None
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
        results=tuple(Result(one.number, "failed", at, at, one.problem) for one in preview.all_actions if one.problem),
        remote=preview.remote_actions,
        diffs={},
        modified={},
        originals={},
        rolled_back=False,
        problem=_broken_rule(preview),
        has_manifest=False,
    )
    return build_errors(run, lambda: parse_time(at))


def _broken_rule(preview: PlanPreview) -> RemitError | None:
    broken = preview.broken_rule
    if broken is None:
        return None
    return EnvironmentFailureError(
        Reason(broken["reason"]), broken["what"], where=broken["where"], next_step=broken["next_step"]
    )


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
