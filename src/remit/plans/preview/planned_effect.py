"""The exact effect of a plan as `apply` needs it: states, outputs, approvals and findings. Stored with the preview.

It has no content of a file, no statement and no row. The operations come from the plan itself when it is loaded.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.change_log import DiffSummary
from remit.contracts.plans.envelope import ApprovedInput
from remit.contracts.plans.pipeline_report import PipelineTold
from remit.contracts.plans.plan import Plan
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.plans.sql_report import SqlTold
from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.effects.plans.database_files import MARK, is_marked
from remit.effects.plans.steps import PlanStep, State, StepPlan, make_waves
from remit.execution.engine import Preview
from remit.plans.model.remote_part import RemotePart, parse_remote_part, render_remote_part
from remit.plans.policy.required_approvals import Needed, PathFinding
from remit.plans.preparation.prepared import FolderInput
from remit.plans.reports.execution_report import ReportedAction
from remit.plans.reports.run_data import RemoteAction
from remit.plans.runtime.runner import paths_of
from remit.plans.runtime.steps import draft_steps, levels_of

_VERSION: Final = 1


class PlannedOutput(NamedTuple):
    """A file that SQL or a pipeline made for the preview, and that is kept until the plan is applied."""

    source: str
    """The name of the kept file. Steps refer to it."""
    action_id: str
    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class PlannedEffect(Preview):
    """The states that the effect must find, those that it must arrive at, and what an approval must name."""

    plan_digest: str
    config_digest: str
    steps: StepPlan
    inputs: tuple[ApprovedInput, ...]
    folder_inputs: Mapping[str, FolderInput]
    """How the digests of the folders among the inputs were made."""
    needs: Needed
    findings: tuple[PathFinding, ...]
    folders: tuple[str, ...]
    """The folders to be made, parents first."""
    first: tuple[State | None, ...]
    """The state of each path of the plan before the run."""
    diffs: Mapping[int, DiffSummary]
    """Masked diff summaries, by step."""
    sql_reports: Mapping[int, SqlTold]
    """Reports of the steps that run SQL, by step, without rows."""
    pipeline_reports: tuple[PipelineTold, ...]
    outputs: tuple[PlannedOutput, ...]
    milliseconds: Mapping[str, int]
    """How long SQL and pipelines took for the preview, by action."""
    remote: RemotePart | None
    """The effect on a database server, if the plan has such a part."""
    broken_rule: Mapping[str, str] | None
    """The error of the first rule about rows that would not hold, if the rules were tried."""

    @property
    def problems(self) -> list[Mapping[str, str]]:
        """The reasons why actions cannot be done, and the rule that would not hold if they were."""
        failing = [one.problem for one in self.all_actions if one.problem is not None]
        return failing if self.broken_rule is None else [*failing, self.broken_rule]

    @property
    def doomed(self) -> bool:
        """Whether the plan stops at its first error and has one, so that applying it would change nothing."""
        return self.steps.stop_on_error and any(one.problem is not None for one in self.all_actions)

    @property
    def all_actions(self) -> list[ReportedAction]:
        """The actions on a server, and then all steps."""
        remote: list[ReportedAction] = [*self.remote_actions]
        return [*remote, *self.steps.steps]

    @property
    def remote_actions(self) -> tuple[RemoteAction, ...]:
        return self.remote.actions if self.remote is not None else ()

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
    def output_bytes(self) -> int:
        return sum(output.size for output in self.outputs)


@dataclass(frozen=True, slots=True)
class RecordedPreview(PlannedEffect):
    """A preview that is stored and recorded in the ledger: the effect, its plan, and the document that people see."""

    plan: Plan
    document: PlanPreviewDocument


def recorded(planned: PlannedEffect, plan: Plan, document: PlanPreviewDocument) -> RecordedPreview:
    values = {each.name: getattr(planned, each.name) for each in fields(PlannedEffect)}
    return RecordedPreview(**values, plan=plan, document=document)


def digest_of_preview(
    plan_digest: str,
    config_digest: str,
    inputs: Iterable[ApprovedInput],
    outputs: Iterable[PlannedOutput] = (),
) -> str:
    """Return the digest that an approval names. It is made of digests only, so the same effect always has the same.

    A preview without outputs has the digest that it had before outputs were kept.
    """
    made = [{"path": one.path, "action_id": one.action_id, "digest": one.sha256} for one in outputs]
    bound = {
        "plan_digest": plan_digest,
        "config_digest": config_digest,
        "inputs": [item.tree() for item in inputs],
        **({"outputs": made} if made else {}),
    }
    return digest_bytes(canonical_bytes(bound))


def outputs_of(steps: Sequence[PlanStep], paths: Sequence[str]) -> tuple[PlannedOutput, ...]:
    """Return the files that the steps take from outside of the plan, in their order."""
    return tuple(
        PlannedOutput(step.source, step.action_id, paths[step.path], step.after.sha256, step.after.size)
        for step in steps
        if step.source and step.after is not None and step.problem is None
    )


def waves_of(steps: Sequence[PlanStep], plan: Plan, config: SystemConfig) -> tuple[tuple[int, ...], ...]:
    sizes = {step.number: step.after.size for step in steps if step.after and step.move in {"create", "modify"}}
    return make_waves(steps, sizes, levels_of(plan, config))


# --- as text ---------------------------------------------------------------------------------------------------------


def render_planned(planned: PlannedEffect) -> str:
    """Serialize an effect, without the operations of its steps."""
    tree: dict[str, Any] = {
        "version": _VERSION,
        "summary": planned.summary,
        "preview_digest": planned.digest,
        "plan_digest": planned.plan_digest,
        "config_digest": planned.config_digest,
        "paths": list(planned.steps.paths),
        "steps": [_render_step(step) for step in planned.steps.steps],
        "inputs": [item.tree() for item in planned.inputs],
        "folder_inputs": {
            path: [sorted(each.without), sorted(each.made)] for path, each in planned.folder_inputs.items()
        },
        "needs": {"protected": list(planned.needs.protected), "irreversible": list(planned.needs.irreversible)},
        "findings": [list(found) for found in planned.findings],
        "first": [list(state) if state else None for state in planned.first],
        "diffs": {str(number): diff.tree() for number, diff in planned.diffs.items()},
        "sql": {str(number): report.tree() for number, report in planned.sql_reports.items()},
        "pipelines": [report.tree() for report in planned.pipeline_reports],
        "outputs": [list(output) for output in planned.outputs],
        "milliseconds": dict(planned.milliseconds),
        "remote": render_remote_part(planned.remote),
        "broken_rule": dict(planned.broken_rule) if planned.broken_rule is not None else None,
    }
    return json.dumps(tree, sort_keys=True, separators=(",", ":"))


def parse_planned(text: str, plan: Plan, config: SystemConfig, root: str) -> PlannedEffect:
    """The inverse of `render_planned`, for the same plan. The folders to be made are not known yet: they are empty.

    Raises STORE_OUTDATED for a text that another version wrote.
    """
    try:
        return _parse(json.loads(text), plan, config, root)
    except (KeyError, TypeError, ValueError, IndexError, RemitError) as problem:
        raise EnvironmentFailureError(
            Reason.STORE_OUTDATED,
            f"the stored preview cannot be read ({type(problem).__name__}): another version of Remit computed it",
            where=f"plan {plan.plan_id}",
            next_step="Preview the plan again with `remit preview`, and approve it again.",
        ) from None


def _render_step(step: PlanStep) -> list[Any]:
    return [
        step.move,
        list(step.before) if step.before else None,
        list(step.after) if step.after else None,
        step.summary,
        step.unchanged,
        dict(step.problem) if step.problem is not None else None,
        step.source,
        is_marked(step),
    ]


def _parse(tree: Any, plan: Plan, config: SystemConfig, root: str) -> PlannedEffect:
    if tree["version"] != _VERSION:
        raise ValueError("another version")
    drafted, _ = draft_steps(plan, config, root, diffs="none")
    if list(drafted.paths) != tree["paths"]:
        raise ValueError("other paths")
    steps = tuple(_parse_step(step, each) for step, each in zip(drafted.steps, tree["steps"], strict=True))
    return PlannedEffect(
        summary=tree["summary"],
        digest=tree["preview_digest"],
        plan_digest=tree["plan_digest"],
        config_digest=tree["config_digest"],
        steps=drafted._replace(steps=steps, waves=waves_of(steps, plan, config), diffs="none"),
        inputs=tuple(map(ApprovedInput.from_tree, tree["inputs"])),
        folder_inputs={
            path: FolderInput(frozenset(without), frozenset(made))
            for path, (without, made) in tree["folder_inputs"].items()
        },
        needs=Needed(tuple(tree["needs"]["protected"]), tuple(tree["needs"]["irreversible"])),
        findings=tuple(PathFinding(*found) for found in tree["findings"]),
        folders=(),
        first=tuple(State(*state) if state else None for state in tree["first"]),
        diffs={int(number): DiffSummary.from_tree(diff) for number, diff in tree["diffs"].items()},
        sql_reports={int(number): SqlTold.from_tree(report) for number, report in tree["sql"].items()},
        pipeline_reports=tuple(map(PipelineTold.from_tree, tree["pipelines"])),
        outputs=tuple(PlannedOutput(*output) for output in tree["outputs"]),
        milliseconds=tree["milliseconds"],
        remote=parse_remote_part(tree["remote"]),
        broken_rule=tree["broken_rule"],
    )


def _parse_step(step: PlanStep, tree: Sequence[Any]) -> PlanStep:
    move, before, after, summary, unchanged, problem, source, marked = tree
    return step._replace(
        move=move,
        before=State(*before) if before else None,
        after=State(*after) if after else None,
        summary=summary,
        unchanged=unchanged,
        problem=problem,
        source=source,
        operation=dict(MARK) if marked else step.operation,
    )


def with_folders(planned: PlannedEffect, folders: Sequence[str]) -> PlannedEffect:
    return replace(planned, folders=tuple(folders))
