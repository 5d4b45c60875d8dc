"""Builds the preview of a plan: its actions as simulated steps on the current files, and what an approval must name.

The host opens the folders. It reads a file only to hash it. A sandboxed process that may only read makes the edits. The
same code applies the plan later, and must arrive at the hashes of the preview.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Final, NamedTuple, get_args

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.envelope import ApprovedInput
from remit.contracts.plans.plan import Plan
from remit.contracts.plans.preview import FindingRule
from remit.core.errors import Reason, RefusedError, RemitError, mask_for_review
from remit.core.ids import parse_time, render_time
from remit.effects.plans.database_files import is_marked
from remit.effects.plans.diff import BINARY
from remit.effects.plans.steps import PlanStep, State, StepPlan
from remit.fs import openat as beneath
from remit.fs.paths import Located
from remit.plans.model.folders import (
    ObservedFolder,
    Parents,
    needed_folders,
    observe_folders,
    opened,
)
from remit.plans.model.parameters import findings_of_pipelines
from remit.plans.model.remote_part import RemotePart, strip_rows
from remit.plans.model.simulation_result import SimulatedStep, StepFinding
from remit.plans.policy.plan import needed_approvals
from remit.plans.policy.required_approvals import Needed, PathFinding
from remit.plans.preparation.prepare import prepare_all
from remit.plans.preparation.prepared import Engines, PreparedAll
from remit.plans.preparation.remote_sql import (
    PlanContext,
    RemotePreview,
    preview_remote_part,
    summarize_remote_pipelines,
)
from remit.plans.preparation.sql_preview import findings_of_sql
from remit.plans.preview.credentials import are_query_files_clean, is_preview_free_of_credentials
from remit.plans.preview.disk_checks import find_obstacle, new_paths
from remit.plans.preview.document import PlanPreview, collect_sql_previews
from remit.plans.preview.ownership import find_permission_problems
from remit.plans.preview.planned_effect import digest_of_preview, outputs_of, waves_of
from remit.plans.runtime.runner import PlanRunner, paths_of
from remit.plans.runtime.steps import draft_steps, times_of
from remit.plans.storage.backups import state_of

MAX_FOLDERS: Final = 200
MAX_NEW_DEPTH: Final = 32
PREVIEW_LIFE: Final = timedelta(hours=24)
"""How long a preview can be approved. A longer approval keeps it longer."""


class PreviewTools(NamedTuple):
    """The runner and the engines that compute a preview."""

    runner: PlanRunner
    engines: Engines
    in_earnest: bool = False
    """Whether the plan is about to be applied, if the preview matches the approval."""


def preview_plan(
    plan: Plan,
    config: SystemConfig,
    root: str,
    tools: PreviewTools,
    *,
    plan_digest: str,
    at: str,
    diffs: str = "summary",
) -> PlanPreview:
    """Compute the preview: inspect the folders, run SQL on copies, simulate all steps, and collect what an approval
    would bind and must name. The caller closes `prepared` of the preview.
    """
    began = time.monotonic()
    drafted, places = draft_steps(plan, config, root, diffs=diffs)
    observed = observe_folders(places.values())
    existing = {path: place for path, place in places.items() if observed[place.parents].exists}
    times = times_of(plan, config)
    with ExitStack() as undo:
        prepared = prepare_all(plan, drafted, places, config, root, tools.engines, times)
        undo.callback(prepared.close)
        drafted = drafted._replace(steps=prepared.steps)
        seconds = times.seconds or float(config.timeouts.task)
        plan_context = PlanContext(plan, config, root)
        remote = preview_remote_part(
            plan_context, tools.engines.servers, len(drafted.steps), seconds, in_earnest=tools.in_earnest
        )
        prepared.pipelines.update(summarize_remote_pipelines(plan, config, remote.part) if remote is not None else {})
        simulated = tools.runner.simulate(drafted, existing, times, _files_to_scan(prepared))
        denied = find_permission_problems(drafted.steps, existing, preserve_permissions=drafted.keep_permissions)
        steps = tuple(
            _simulated(step, one, observed, places, denied.get(step.number))
            for step, one in zip(drafted.steps, simulated, strict=True)
        )
        _reject_refused_paths(steps)
        folders = needed_folders(observed, (places[path] for path in new_paths(steps)))
        _require_few_folders(folders, observed)
        first = _first_states(steps, simulated, places, existing)
        read = (*prepared.inputs, *(remote.inputs if remote is not None else ()))
        inputs = _inputs(drafted, first, places, existing, read)
        undo.pop_all()
    config_digest = config.digest()
    outputs = outputs_of(steps, drafted.paths)
    pipelines = tuple(prepared.pipelines.values())
    broken = prepared.broken_rule
    preview = PlanPreview(
        summary=_summary(plan, steps, simulated, remote.part if remote is not None else None),
        digest=digest_of_preview(plan_digest, config_digest, inputs, outputs),
        plan=plan,
        plan_digest=plan_digest,
        config_digest=config_digest,
        steps=drafted._replace(steps=steps, waves=waves_of(steps, plan, config), diffs="none"),
        simulated=simulated,
        inputs=inputs,
        folder_inputs=prepared.folder_inputs,
        needs=_with_irreversible(needed_approvals(plan, config), remote),
        findings=(
            *_findings(steps, simulated, drafted.paths),
            *_find_binary_files(steps, simulated, drafted.paths),
            *_findings_of_prepared(prepared),
            *findings_of_sql(collect_sql_previews(prepared, remote.part if remote is not None else None)),
            *findings_of_pipelines(plan, pipelines),
        ),
        folders=folders,
        first=first,
        diffs={one.number: one.diff for one in simulated},
        sql_reports={number: strip_rows(one) for number, one in prepared.sql.items()},
        pipeline_reports=pipelines,
        outputs=outputs,
        milliseconds=prepared.milliseconds,
        at=at,
        took=timedelta(seconds=time.monotonic() - began),
        expires_at=render_time(parse_time(at) + PREVIEW_LIFE),
        prepared=prepared,
        remote=remote.part if remote is not None else None,
        broken_rule=broken.as_json() if broken is not None else None,
        statements=remote.statements if remote is not None else None,
    )
    is_clean = diffs == "full" and is_preview_free_of_credentials(
        plan,
        config,
        zip(preview.steps.steps, simulated, strict=True),
        preview.findings,
        prepared.remarks,
    )
    is_clean = is_clean and are_query_files_clean(plan, config, root, inputs)
    return _require_backup_limit(replace(preview, free_of_credentials=is_clean), config)


def _with_irreversible(needed: Needed, remote: RemotePreview | None) -> Needed:
    """Add the irreversible actions on a server, which are known only after the statements were tried there."""
    more = remote.part.irreversible if remote is not None else ()
    return needed._replace(irreversible=tuple(dict.fromkeys((*needed.irreversible, *more))))


def _require_backup_limit(preview: PlanPreview, config: SystemConfig) -> PlanPreview:
    """Check the backups with the before-images of rows. For a plan without rows, a later check finds the excess."""
    rows, most = preview.remote.image_bytes if preview.remote is not None else 0, config.limits.max_backup_bytes
    if rows and preview.backup_bytes > most:
        raise RefusedError(
            Reason.LIMIT_EXCEEDED,
            f"the backups would have {preview.backup_bytes:,} bytes, {rows:,} of them for rows on a server, and"
            f" {most:,} are allowed",
            where=preview.remote.server if preview.remote is not None else "",
            next_step="Split the plan, or raise limits.max_backup_bytes in remit.yaml.",
        )
    return preview


def _simulated(
    step: PlanStep,
    simulated: SimulatedStep,
    observed: Mapping[Parents, ObservedFolder],
    places: Mapping[int, Located],
    denied: RemitError | None,
) -> PlanStep:
    problem = simulated.problem
    if problem is not None and step.problem is not None and problem["reason"] != Reason.DEPENDENCY_FAILED:
        problem = step.problem  # as the host found it: the sandboxed process does not decide all of it
    if problem is None and not simulated.unchanged:
        found = find_obstacle(step, observed, places, denied)
        problem = found.as_json() if found else None
    return step._replace(
        before=simulated.before,
        after=simulated.after,
        summary=simulated.summary,
        unchanged=simulated.unchanged,
        problem=problem,
    )


def _reject_refused_paths(steps: Iterable[PlanStep]) -> None:
    """Refuse the whole plan, not only one action, for a link, a mount point or a file with a second name."""
    for step in steps:
        if step.problem is not None and step.problem["reason"] == Reason.PATH_REFUSED:
            details = {name: step.problem[name] for name in ("where", "next_step")}
            raise RefusedError(Reason.PATH_REFUSED, step.problem["what"], **details)


def _require_few_folders(folders: Sequence[str], observed: Mapping[Parents, ObservedFolder]) -> None:
    deepest = max((len(folder.missing) for folder in observed.values()), default=0)
    if len(folders) > MAX_FOLDERS or (folders and deepest > MAX_NEW_DEPTH):
        raise RefusedError(
            Reason.LIMIT_EXCEEDED,
            f"a plan makes at most {MAX_FOLDERS} folders, at most {MAX_NEW_DEPTH} of them inside each other",
            where=folders[-1],
            next_step="Split the plan, or make some of the folders first.",
        )


def _first_states(
    steps: Sequence[PlanStep],
    simulated: Sequence[SimulatedStep],
    places: Mapping[int, Located],
    existing: Mapping[int, Located],
) -> tuple[State | None, ...]:
    """Return the state of each path before the first step that touches it. The host reads what no step reads first."""
    first: dict[int, State | None] = {}
    for step, one in zip(steps, simulated, strict=True):
        first.setdefault(step.path, one.before)
        if step.new_path is not None and step.new_path not in first:
            first[step.new_path] = read_file_state(existing[step.new_path]) if step.new_path in existing else None
    return tuple(first.get(path) for path in range(len(places)))


def read_file_state(place: Located) -> State | None:
    """Return the current state of a file, or None if there is none. Refuses anything but a plain file."""
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
    plan: StepPlan,
    first: Sequence[State | None],
    places: Mapping[int, Located],
    existing: Mapping[int, Located],
    read: Sequence[ApprovedInput],
) -> tuple[ApprovedInput, ...]:
    """Return the files that an approval binds: the existing files of the plan with their permissions, and the files
    that the plan only reads, such as query files, databases and schemas.
    """
    bound: dict[str, dict[str, str]] = {item.path: {"digest": item.input_digest} for item in read}
    bound |= {plan.paths[path]: _bound(state) for path, state in enumerate(first) if state is not None}
    touched = {plan.paths[path] for path in paths_of(plan.steps)}
    numbers = {path: number for number, path in enumerate(plan.paths)}
    for rule in plan.rules:
        schema = rule.get("schema_file")
        if schema is not None and schema not in touched and numbers[schema] in existing:
            state = read_file_state(places[numbers[schema]])
            if state is not None:
                bound[schema] = {"digest": state.sha256}
    return tuple(ApprovedInput.from_tree({"path": path, **digests}) for path, digests in sorted(bound.items()))


def _bound(state: State) -> dict[str, str]:
    return {"digest": state.sha256, "mode": f"{state.mode:04o}"}


def _files_to_scan(prepared: PreparedAll) -> dict[str, int]:
    """Return the files that pipelines left, except databases. SQL scans its saved rows itself."""
    sources = (step for step in prepared.steps if step.action_type == "PIPELINE_RUN" and not is_marked(step))
    return {step.source: prepared.descriptors[step.source] for step in sources if step.source}


def _findings(
    steps: Sequence[PlanStep], simulated: Sequence[SimulatedStep], paths: Sequence[str]
) -> tuple[PathFinding, ...]:
    return tuple(
        PathFinding(
            paths[step.path if step.new_path is None else step.new_path], rule_of(found), found.where, found.what
        )
        for step, one in zip(steps, simulated, strict=True)
        for found in one.findings
    )


def _find_binary_files(
    steps: Sequence[PlanStep], simulated: Sequence[SimulatedStep], paths: Sequence[str]
) -> Iterable[PathFinding]:
    """Yield a finding for each binary file, since the preview cannot show its content.

    Databases, and files that SQL or a pipeline made, are described by the statements or steps that were run.
    """
    for step, one in zip(steps, simulated, strict=True):
        is_new = step.move in {"create", "modify"} and not step.source and not one.unchanged and step.problem is None
        is_program = any(found.rule == "executable" for found in one.findings)  # a program is approved as one
        if is_new and not is_program and one.diff.preview.startswith(BINARY):
            yield PathFinding(
                paths[step.path], "command", "", "this is a binary file, so its content is not shown here"
            )


def _findings_of_prepared(prepared: PreparedAll) -> Iterable[PathFinding]:
    return (PathFinding(path, rule_of(found), found.where, found.what) for path, found in prepared.findings)


def rule_of(found: StepFinding) -> FindingRule:
    """Return the rule of a finding. An unknown rule becomes the gravest one, so it needs an approval too."""
    return next((rule for rule in get_args(FindingRule) if rule == found.rule), "executable")


def _summary(
    plan: Plan, steps: Sequence[PlanStep], simulated: Sequence[SimulatedStep], remote: RemotePart | None
) -> str:
    added = sum(one.diff.lines_added for one in simulated)
    removed = sum(one.diff.lines_removed for one in simulated)
    files = len(paths_of(steps))
    actions = len(plan.action_plan)
    subject = f"{actions:,} action{'' if actions == 1 else 's'} on {files:,} file{'' if files == 1 else 's'}"
    counts = f"{subject}, +{added:,} -{removed:,} lines"
    failing = len({step.action_id for step in steps if step.problem})
    if remote is not None:
        counts += f", {len(remote.actions):,} of them on {mask_for_review(remote.server)}"
        failing += sum(1 for one in remote.actions if one.problem)
    # Only the names are masked: a plan may be named after a password, and the counts are not secret.
    return f"plan {mask_for_review(plan.plan_id)}: {counts}" + (f"; {failing:,} would fail" if failing else "")
