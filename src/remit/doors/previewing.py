"""What a plan would do to the files as they are: its actions as steps, simulated, with all that an approval must name.

The host opens the folders and reads no file but to hash it; the edits are made in a sandboxed process that may only
read. The same code will carry them out, and must arrive at the hashes that were seen here.
"""

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from remit.canonical import canonical_bytes, digest_bytes
from remit.checkpoint.backups import state_of
from remit.confine import beneath
from remit.confine.names import Located
from remit.contracts.base import RiskLevel
from remit.contracts.change_log import FileOperation
from remit.contracts.config import SystemConfig
from remit.contracts.envelope import ApprovedInput
from remit.contracts.error_response import ErrorResponse
from remit.contracts.plan import Action, Plan
from remit.contracts.plan_preview import (
    FindingRule,
    NeededApprovals,
    PlanPreviewDocument,
    PreviewedFile,
    PreviewedFinding,
)
from remit.doors.drafting import draft_steps, levels_of, times_of
from remit.doors.folders import (
    FolderLook,
    Parents,
    closed_folder,
    given_rights,
    look_at_folders,
    needed_folders,
    opened,
)
from remit.doors.running import Runner, paths_of
from remit.doors.seen import FoundIn, Seen
from remit.effects.plan_steps import Ids, Move, Result, State, Step, StepPlan, make_waves
from remit.errors import Reason, Refused, render_line
from remit.ids import parse_time
from remit.policy.findings import Needed, PathFinding
from remit.policy.plan import needed_approvals
from remit.reports.report import build_errors
from remit.reports.run import Run
from remit.road import Preview

MAX_DIFFS: Final = 8 << 20
MAX_FOLDERS: Final = 200
MAX_NEW_DEPTH: Final = 32
MANY_FILES: Final = 20

_OPERATIONS: Final[dict[Move, FileOperation]] = {
    "create": "CREATE",
    "modify": "MODIFY",
    "delete": "DELETE",
    "rename": "RENAME",
}
_RISKS: Final[tuple[RiskLevel, ...]] = ("LOW", "MEDIUM", "HIGH", "CRITICAL")


@dataclass(frozen=True, slots=True)
class PlanPreview(Preview):
    """With all that was looked at: what is previewed is what the effect must find, and what it must arrive at."""

    plan: Plan
    plan_digest: str
    config_digest: str
    steps: StepPlan
    seen: tuple[Seen, ...]
    inputs: tuple[ApprovedInput, ...]
    needs: Needed
    findings: tuple[PathFinding, ...]
    folders: tuple[str, ...]
    """To be made, parents first."""
    first: tuple[State | None, ...]
    """Each path of the plan before the run."""
    at: str

    @property
    def doomed(self) -> bool:
        """It would stop at its first error, and there is one: nothing of it is worth beginning."""
        return self.steps.stop_on_error and any(step.problem for step in self.steps.steps)

    @property
    def kept(self) -> dict[int, State | None]:
        """The files that are to be backed up, by path."""
        touched = paths_of(step for step in self.steps.steps if step.problem is None and not step.unchanged)
        return {path: self.first[path] for path in sorted(touched) if self.first[path] is not None}

    @property
    def document(self) -> PlanPreviewDocument:
        return _document(self)


def preview_plan(
    plan: Plan,
    config: SystemConfig,
    root: str,
    runner: Runner,
    *,
    plan_digest: str,
    at: str,
    diffs: str = "summary",
) -> PlanPreview:
    """Look at the folders, simulate all steps, and collect what an approval of it would bind and must name."""
    drafted, places = draft_steps(plan, config, root, diffs=diffs)
    looks = look_at_folders(places.values())
    there = {path: place for path, place in places.items() if looks[place.parents].exists}
    seen = runner.simulate(drafted, there, times_of(plan, config))
    steps = tuple(_simulated(step, one, looks, places) for step, one in zip(drafted.steps, seen, strict=True))
    _require_own_paths(steps)
    folders = needed_folders(looks, (places[path] for path in _made_paths(steps)))
    _require_few_folders(folders, looks)
    first = _first_states(steps, seen, places, there)
    inputs = _inputs(drafted, first, places, there)
    config_digest = config.digest()
    bound = {
        "plan_digest": plan_digest,
        "config_digest": config_digest,
        "inputs": [item.tree() for item in inputs],
    }
    sizes = {step.number: step.after.size for step in steps if step.after and step.move in {"create", "modify"}}
    return PlanPreview(
        summary=_summary(plan, steps, seen),
        digest=digest_bytes(canonical_bytes(bound)),
        plan=plan,
        plan_digest=plan_digest,
        config_digest=config_digest,
        steps=drafted._replace(steps=steps, waves=make_waves(steps, sizes, levels_of(plan)), diffs="none"),
        seen=seen,
        inputs=inputs,
        needs=needed_approvals(plan, config),
        findings=_findings(steps, seen, drafted.paths),
        folders=folders,
        first=first,
        at=at,
    )


def _simulated(step: Step, seen: Seen, looks: Mapping[Parents, FolderLook], places: Mapping[int, Located]) -> Step:
    problem = seen.problem
    if problem is None and not seen.unchanged:
        closed = [places[path] for path in paths_of([step]) if not looks[places[path].parents].writable]
        found = closed_folder(closed[0]) if closed else given_rights(step, looks, places)
        problem = found.as_json() if found else None
    return step._replace(
        before=seen.before, after=seen.after, said=seen.said, unchanged=seen.unchanged, problem=problem
    )


def _require_own_paths(steps: Iterable[Step]) -> None:
    """A link, a mount point or a file with a second name is no failure of one action: the plan is refused."""
    for step in steps:
        if step.problem is not None and step.problem["reason"] == Reason.PATH_REFUSED:
            words = {name: step.problem[name] for name in ("where", "next_step")}
            raise Refused(Reason.PATH_REFUSED, step.problem["what"], **words)


def _made_paths(steps: Iterable[Step]) -> Iterable[int]:
    for step in steps:
        if step.problem is None and step.move == "create":
            yield step.path
        elif step.problem is None and step.new_path is not None:
            yield step.new_path


def _require_few_folders(folders: Sequence[str], looks: Mapping[Parents, FolderLook]) -> None:
    deepest = max((len(look.missing) for look in looks.values()), default=0)
    if len(folders) > MAX_FOLDERS or (folders and deepest > MAX_NEW_DEPTH):
        raise Refused(
            Reason.LIMIT_EXCEEDED,
            f"a plan makes at most {MAX_FOLDERS} folders, and {MAX_NEW_DEPTH} below one that exists",
            where=folders[-1],
            next_step="Split the plan, or make some of the folders first.",
        )


def _first_states(
    steps: Sequence[Step], seen: Sequence[Seen], places: Mapping[int, Located], there: Mapping[int, Located]
) -> tuple[State | None, ...]:
    """Each path before the first step that touches it. What no step reads first is looked at by the host."""
    first: dict[int, State | None] = {}
    for step, one in zip(steps, seen, strict=True):
        first.setdefault(step.path, one.before)
        if step.new_path is not None and step.new_path not in first:
            first[step.new_path] = look_at_state(there[step.new_path]) if step.new_path in there else None
    return tuple(first.get(path) for path in range(len(places)))


def look_at_state(place: Located) -> State | None:
    """A file as it is, or None. Refuses what is no plain file."""
    with opened(place.base, place.parents, where=place.path) as folder:
        if not beneath.exists(folder, place.name):
            return None
        descriptor = beneath.open_file(folder, place.name, where=place.path)
        try:
            return state_of(descriptor)
        except OSError as problem:
            raise beneath.failure(problem, place.path, "could not be read") from None
        finally:
            os.close(descriptor)


def _inputs(
    plan: StepPlan, first: Sequence[State | None], places: Mapping[int, Located], there: Mapping[int, Located]
) -> tuple[ApprovedInput, ...]:
    """The files that an approval binds: those of the plan that exist, and schemas that it is checked against."""
    digests = {plan.paths[path]: state.sha256 for path, state in enumerate(first) if state is not None}
    touched = {plan.paths[path] for path in paths_of(plan.steps)}
    numbers = {path: number for number, path in enumerate(plan.paths)}
    for rule in plan.rules:
        schema = rule.get("schema_file")
        if schema is not None and schema not in touched and numbers[schema] in there:
            state = look_at_state(places[numbers[schema]])
            if state is not None:
                digests[schema] = state.sha256
    return tuple(ApprovedInput.from_tree({"path": path, "digest": digest}) for path, digest in sorted(digests.items()))


def _findings(steps: Sequence[Step], seen: Sequence[Seen], paths: Sequence[str]) -> tuple[PathFinding, ...]:
    return tuple(
        PathFinding(
            paths[step.path if step.new_path is None else step.new_path], rule_of(found), found.where, found.what
        )
        for step, one in zip(steps, seen, strict=True)
        for found in one.findings
    )


def rule_of(found: FoundIn) -> FindingRule:
    """One that is known. What is not reads as the gravest, and needs its approval all the same."""
    return next((rule for rule in get_args(FindingRule) if rule == found.rule), "executable")


def _summary(plan: Plan, steps: Sequence[Step], seen: Sequence[Seen]) -> str:
    added = sum(one.diff.lines_added for one in seen)
    removed = sum(one.diff.lines_removed for one in seen)
    files = len(paths_of(steps))
    counts = f"{len(steps):,} actions on {files:,} files, +{added:,} -{removed:,} lines"
    failing = sum(1 for step in steps if step.problem)
    return render_line(f"plan {plan.plan_id}: {counts}" + (f"; {failing:,} would fail" if failing else ""))


# --- for people -------------------------------------------------------------------------------------------------------


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
    is_asking = any((needed.protected, needed.executable, needed.content, needed.irreversible))
    return PlanPreviewDocument.from_tree(
        {
            "plan_id": preview.plan.plan_id,
            "plan_digest": preview.plan_digest,
            "config_digest": preview.config_digest,
            "digest": preview.digest,
            "status": "WOULD_FAIL" if problems else "NEEDS_APPROVAL" if is_asking else "READY",
            "risk": _risk(preview, needed),
            "inputs": [item.tree() for item in preview.inputs],
            "files": _files(preview),
            "needs": needed.tree(),
            "findings": [_finding(found).tree() for found in preview.findings],
            "problems": [problem.tree() for problem in problems],
            "rules": [_sentence(rule) for rule in preview.steps.rules],
            "folders": list(preview.folders),
            "backup_bytes": sum(state.size for state in preview.kept.values() if state),
        }
    )


def _problems(preview: PlanPreview) -> tuple[ErrorResponse, ...]:
    """As the report of a run would have them that failed like this."""
    draft, at = str(uuid.uuid4()), preview.at
    run = Run(
        plan_id=preview.plan.plan_id,
        ids=Ids(draft, draft, draft, draft),
        folder="",
        started_at=at,
        completed_at=at,
        status="FAILED",
        steps=preview.steps,
        results=tuple(
            Result(step.number, "failed", at, at, step.problem) for step in preview.steps.steps if step.problem
        ),
        diffs={},
        modified={},
        originals={},
        rolled_back=False,
        has_manifest=False,
    )
    return build_errors(run, lambda: parse_time(at))


def _finding(found: PathFinding) -> PreviewedFinding:
    return PreviewedFinding.from_tree(
        {"path": found.path, "rule": found.rule, "where": found.where, "what": found.what}
    )


def _sentence(rule: Mapping[str, Any]) -> str:
    """What a rule reads. What it compares with stands in the plan, and may be long."""
    told = f"{rule['type']} {rule['path']}"
    if rule["type"] == "json_schema":
        return f"{told} against {rule.get('schema_file') or 'a schema in the plan'}"
    return f"{told} at {rule['expression']}" if rule["type"] == "json_path" else told


def _files(preview: PlanPreview) -> list[dict[str, Any]]:
    """Every step that would change something. Past a bound, diffs are left out, and their lines counted."""
    room, files = MAX_DIFFS, []
    paths = preview.steps.paths
    for step, one in zip(preview.steps.steps, preview.seen, strict=True):
        if step.problem is not None or step.unchanged:
            continue
        text, left_out = one.text, one.left_out
        if len(text) > room:
            text, left_out = "", left_out + text.count("\n")
        room -= len(text)
        file = PreviewedFile(
            action_id=step.action_id,
            path=paths[step.path],
            new_path=None if step.new_path is None else paths[step.new_path],
            operation=_OPERATIONS[step.move],
            before=step.before.sha256 if step.before else None,
            after=step.after.sha256 if step.after else None,
            lines_added=one.diff.lines_added,
            lines_removed=one.diff.lines_removed,
            diff=text,
            diff_left_out=left_out,
        )
        files.append(file.tree())
    return files


def _risk(preview: PlanPreview, needed: NeededApprovals) -> RiskLevel:
    """The highest of what the plan says of itself and what it does."""
    named: list[RiskLevel] = [action.risk_level for action in preview.plan.action_plan]
    if any(step.move == "delete" for step in preview.steps.steps) or needed.protected or needed.executable:
        named.append("HIGH")
    if any(_replaces_document(action) for action in preview.plan.action_plan):
        named.append("HIGH")
    if len(paths_of(preview.steps.steps)) > MANY_FILES:
        named.append("MEDIUM")
    return max(named, key=_RISKS.index)


def _replaces_document(action: Action) -> bool:
    operation = action.operation
    return operation.type == "json_update_value" and operation.path.strip() == "$"
