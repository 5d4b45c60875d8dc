"""The checkpoint of a plan: what a process needs to finish or to undo the run. It holds paths, states and steps.

It holds no content of a file and no operation. Undo and finishing need neither.
"""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from remit.contracts.plans.change_log import DiffSummary
from remit.contracts.plans.pipeline_report import PipelineTold
from remit.contracts.plans.plan import ExecutionInstructions, Plan
from remit.contracts.plans.sql_report import SqlTold
from remit.effects.plans.database_files import MARK, is_marked
from remit.effects.plans.steps import Ids, PlanStep, Result, State, StepPlan, step_of
from remit.execution.checkpoint_text import read_checkpoint
from remit.fs.paths import Located, locate_below
from remit.plans.model.remote_part import RemotePart, parse_remote_part, render_remote_part
from remit.plans.runtime.steps import operation_of
from remit.plans.storage.backups import Original

_VERSION: Final = 1
_SHORT: Final = 200


@dataclass(frozen=True, slots=True)
class PlanCheckpoint:
    """The data of one run that is stored before the run changes anything.

    It carries no authority. Only the process that verified the envelope has that.
    """

    request_digest: str
    plan_id: str
    ids: Ids
    root: str
    folder: str
    """The name of its report folder."""
    started_at: str
    instructions: ExecutionInstructions
    rollback_days: int | None
    needs_parsers: bool
    """Whether its edits and rules need the parsers."""
    doomed: bool
    """A step is known to fail and the plan stops at errors. Nothing is changed, and the failure is recorded."""
    steps: StepPlan
    first: tuple[State | None, ...]
    """The state of each path before the run."""
    originals: Mapping[int, Original]
    """The backup of each file that the plan changes, by path."""
    folders: tuple[str, ...]
    """Folders that the run makes, parents first."""
    diffs: Mapping[int, DiffSummary]
    """Masked diff summaries, by step."""
    sql: Mapping[int, SqlTold]
    """Reports of the steps that run SQL, by step. They hold no rows and no SQL text."""
    pipelines: tuple[PipelineTold, ...] = ()
    """Reports of the actions that run a pipeline. Output is included only for a failed one."""
    remote: RemotePart | None = None
    """The changes on a database server, if the plan makes any."""
    prepared_ms: int = 0
    """How long SQL and pipelines took for the preview, whose outputs the run puts in place."""

    @property
    def envelope_id(self) -> str:
        return self.ids.envelope_id

    def places(self) -> dict[int, Located]:
        return {number: locate_below(self.root, path) for number, path in enumerate(self.steps.paths)}

    def first_states(self) -> dict[int, State | None]:
        return dict(enumerate(self.first))

    def with_operations(self, plan: Plan) -> StepPlan:
        """Return the steps as the sandboxed process needs them, with the operations of the envelope."""
        operations = {action.action_id: operation_of(action) for action in plan.action_plan}
        steps = tuple(
            step if step.action_type == "PIPELINE_RUN" else step._replace(operation=operations[step.action_id])
            for step in self.steps.steps
        )
        return self.steps._replace(steps=steps)

    def needed_folders(self, done: Collection[int]) -> tuple[str, ...]:
        """Return those of `folders` that the completed steps need."""
        needed: set[str] = set()
        for step in self.steps.steps:
            target = step.new_path if step.move == "rename" else step.path if step.move == "create" else None
            if step.number in done and target is not None:
                parents = self.steps.paths[target].split("/")[:-1]
                needed.update("/".join(parents[: depth + 1]) for depth in range(len(parents)))
        return tuple(folder for folder in self.folders if folder in needed)


def render_checkpoint(checkpoint: PlanCheckpoint) -> str:
    """Serialize a checkpoint to the text that the store keeps."""
    steps = checkpoint.steps
    tree: dict[str, Any] = {
        "version": _VERSION,
        "request_digest": checkpoint.request_digest,
        "plan_id": checkpoint.plan_id,
        "ids": list(checkpoint.ids),
        "root": checkpoint.root,
        "folder": checkpoint.folder,
        "started_at": checkpoint.started_at,
        "instructions": checkpoint.instructions.tree(),
        "rollback_days": checkpoint.rollback_days,
        "rich": checkpoint.needs_parsers,
        "doomed": checkpoint.doomed,
        "prefix": steps.prefix,
        "paths": list(steps.paths),
        "steps": [step._replace(operation=_saved_operation(step)) for step in steps.steps],
        "waves": [list(wave) for wave in steps.waves],
        "max_file_bytes": steps.max_file_bytes,
        "rules": list(steps.rules),
        "first": [list(state) if state else None for state in checkpoint.first],
        "originals": {str(path): list(original) for path, original in checkpoint.originals.items()},
        "folders": list(checkpoint.folders),
        "diffs": {str(number): diff.tree() for number, diff in checkpoint.diffs.items()},
        "sql": {str(number): report.tree() for number, report in checkpoint.sql.items()},
        "pipelines": [report.tree() for report in checkpoint.pipelines],
        "elsewhere": render_remote_part(checkpoint.remote),
        "prepared_ms": checkpoint.prepared_ms,
    }
    # Not the canonical form: that has no integer past 2^53, and times have more nanoseconds.
    return json.dumps(tree, sort_keys=True, separators=(",", ":"))


def _saved_operation(step: PlanStep) -> dict[str, Any]:
    """Return the operation without its content. The database mark is kept, because verification needs it."""
    return dict(MARK) if is_marked(step) else {}


def parse_checkpoint(text: str) -> PlanCheckpoint:
    """The inverse of `render_checkpoint`."""
    return read_checkpoint(text, _parse, "plan")


def _parse(tree: Any) -> PlanCheckpoint:
    if tree["version"] != _VERSION:
        raise ValueError("another version")
    instructions = ExecutionInstructions.from_tree(tree["instructions"])
    steps = StepPlan(
        prefix=tree["prefix"],
        paths=tuple(tree["paths"]),
        steps=tuple(map(step_of, tree["steps"])),
        waves=tuple(map(tuple, tree["waves"])),
        stop_on_error=instructions.stop_on_error,
        keep_permissions=instructions.preserve_permissions,
        max_file_bytes=tree["max_file_bytes"],
        rules=tuple(tree["rules"]),
    )
    return PlanCheckpoint(
        request_digest=tree["request_digest"],
        plan_id=tree["plan_id"],
        ids=Ids(*tree["ids"]),
        root=tree["root"],
        folder=tree["folder"],
        started_at=tree["started_at"],
        instructions=instructions,
        rollback_days=tree["rollback_days"],
        needs_parsers=tree["rich"],
        doomed=tree["doomed"],
        steps=steps,
        first=tuple(State(*state) if state else None for state in tree["first"]),
        originals={int(path): original_of(values) for path, values in tree["originals"].items()},
        folders=tuple(tree["folders"]),
        diffs={int(number): DiffSummary.from_tree(diff) for number, diff in tree["diffs"].items()},
        sql={int(number): SqlTold.from_tree(report) for number, report in tree.get("sql", {}).items()},
        pipelines=tuple(PipelineTold.from_tree(report) for report in tree.get("pipelines", [])),
        remote=parse_remote_part(tree.get("elsewhere")),
        prepared_ms=tree.get("prepared_ms", 0),
    )


def with_ownership(checkpoint: PlanCheckpoint, originals: Mapping[int, Original]) -> PlanCheckpoint:
    """Return the checkpoint with the backups. A file may have an owner or attributes that a new file would not get.
    Then
    its modification step carries them, and the new file gets them.
    """
    if not checkpoint.instructions.preserve_permissions:
        return replace(checkpoint, originals=originals)
    origin: dict[int, Original | None] = dict(originals)
    steps = []
    for step in checkpoint.steps.steps:
        steps.append(step._replace(metadata=_ownership_of(step, origin.get(step.path))))
        if step.problem is None and step.new_path is not None:
            origin[step.new_path] = origin.pop(step.path, None)
        elif step.problem is None and step.move in {"create", "delete"}:
            origin[step.path] = None
    return replace(checkpoint, originals=originals, steps=checkpoint.steps._replace(steps=tuple(steps)))


def _ownership_of(step: PlanStep, original: Original | None) -> dict[str, Any] | None:
    if original is None or step.after is None or step.move != "modify":
        return None
    if original.owner == (os.geteuid(), os.getegid()) and not original.attributes:
        return None
    uid, gid = original.owner
    return {"uid": uid, "gid": gid, "xattrs": dict(original.attributes), "mode": step.after.mode, "strict": True}


def original_of(values: Any) -> Original:
    original = Original(*values)
    return original._replace(state=State(*original.state), owner=(original.owner[0], original.owner[1]))


def truncate_errors(results: Collection[Result]) -> list[Result]:
    """Return results with short error texts. A ledger entry is bounded, and a thousand actions may have failed."""
    return [
        result._replace(error={key: str(value)[:_SHORT] for key, value in result.error.items()})
        if result.error
        else result
        for result in results
    ]
