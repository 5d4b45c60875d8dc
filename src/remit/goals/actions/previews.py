"""Previews of bound actions for the person who is asked to confirm them. Nothing is executed and nothing is changed.

The preview of a task or of a plan of edits has a digest of its effect. Before the dispatch the same digest is computed
again: if it differs, a file has changed since, and the action does not start. SQL and pipelines would have to run for
their effect, so only their statements are shown.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import Plan
from remit.contracts.plans.preview import PreviewedFile
from remit.contracts.services.goal_preview import MAX_DIFFS
from remit.contracts.tasks.task import TaskManifest
from remit.core.canonical import canonical_bytes, digest
from remit.core.errors import Reason, RefusedError
from remit.goals.binding.binding import BoundAction, BrowserAction, PlanAction, TaskAction
from remit.masking import mask_json, mask_shown, mask_sql
from remit.plans.policy.executes import executes_something, runs_something
from remit.plans.preview.planned_effect import RecordedPreview
from remit.plans.service import Plans
from remit.tasks.service import Tasks

MAX_LINES: Final = 400
"""The most lines of all diffs together."""
MAX_TEXT: Final = 5_000


class ActionPreviews:
    def __init__(
        self, tasks: Callable[[], Tasks], plans: Callable[[], Plans], config: Callable[[], SystemConfig]
    ) -> None:
        self._tasks = tasks
        self._plans = plans
        self._config = config

    def preview(self, bound: BoundAction, name: str) -> dict[str, Any] | None:
        """Return the preview of an action, without its time. None for an action that reverses another one.

        Args:
            bound: The action.
            name: The id that the action would have.
        """
        try:
            if isinstance(bound, TaskAction):
                return self._preview_task(bound, name)
            if isinstance(bound, PlanAction):
                return self._preview_plan(bound, name)
        except RefusedError as problem:
            kind = "task" if isinstance(bound, TaskAction) else "plan"
            return _tree(kind, (), problem=f"{problem.what} (at {problem.where})"[:MAX_TEXT])
        return _tree("browser", tuple(_lines_of_browser(bound))) if isinstance(bound, BrowserAction) else None

    def require_same_effect(self, bound: BoundAction, name: str, confirmed: str | None) -> str | None:
        """Refuse an action whose effect is not the one that was shown before the confirmation.

        Args:
            bound: The action.
            name: The id of the action.
            confirmed: The digest of that effect. None if no effect was shown.

        Returns:
            For a plan, the digest of its preview, so that exactly this preview is approved. None otherwise.

        Raises:
            RefusedError: The effect is another one now.
        """
        if confirmed is None:
            return None
        now = self.preview(bound, name) or {}
        if now.get("effect") != confirmed:
            raise RefusedError(
                Reason.DRIFTED,
                "what this would do has changed since the user confirmed it; nothing was done"
                + (f": {now['problem']}" if now.get("problem") else ""),
                where="the preview of the confirmation",
                next_step="Ask again, and read the new preview before the confirmation.",
            )
        seen = now.get("preview_digest")
        return str(seen) if seen is not None else None

    def _preview_task(self, bound: TaskAction, name: str) -> dict[str, Any]:
        manifest = TaskManifest.from_tree(bound.manifest(name), source="the simulation's task")
        inspected = self._tasks().inspect(manifest)
        before = {key: identity.as_json() for key, identity in inspected.before.items()}
        effect = digest([bound.capability_id, bound.inputs, before])
        summary = inspected.summary.replace(f" as task {name}", "", 1)
        return _tree("task", (summary,), effect=effect)

    def _preview_plan(self, bound: PlanAction, name: str) -> dict[str, Any]:
        plan = Plan.from_tree(bound.plan(name), source="the simulation's plan")
        if runs_something(plan) or executes_something(plan, self._config()):
            return _tree("statements", tuple(_lines_of_statements(bound.tree)))
        found = self._plans().preview(canonical_bytes(plan.tree()))
        document = found.document
        problems = "; ".join(each.message for each in document.problems)[:MAX_TEXT] or None
        made = _tree(
            "plan", tuple(map(_line_of_file, document.files)), problem=problems, effect=_effect_of(found, bound)
        )
        return {**made, "diffs": list(_diffs(document.files)), "preview_digest": found.digest}


def _effect_of(found: RecordedPreview, bound: PlanAction) -> str:
    """Return the digest of the effect of a plan. It does not depend on the id of the plan."""
    outputs = [[each.path, each.sha256] for each in found.outputs]
    return digest([bound.tree, found.config_digest, [each.tree() for each in found.inputs], outputs])


def _tree(
    kind: str, lines: tuple[str, ...], *, problem: str | None = None, effect: str | None = None
) -> dict[str, Any]:
    return {"type": kind, "lines": list(lines)[:MAX_LINES], "diffs": [], "problem": problem, "effect": effect}


def _line_of_file(file: PreviewedFile) -> str:
    place = file.path if file.new_path is None else f"{file.path} to {file.new_path}"
    changes = file.lines_added or file.lines_removed
    counts = f", {file.lines_added} lines added, {file.lines_removed} removed" if changes else ""
    return f"{file.operation.lower()} {mask_shown(place)}{counts}"


def _diffs(files: tuple[PreviewedFile, ...]) -> Iterator[dict[str, Any]]:
    left = MAX_LINES
    for file in files[:MAX_DIFFS]:
        lines = file.diff.splitlines()
        shown, left = lines[:left], max(0, left - len(lines))
        if lines:
            hidden = file.diff_left_out + len(lines) - len(shown)
            yield {"path": file.path[:1_000], "diff": "\n".join(shown), "left_out": hidden}


def _lines_of_statements(tree: Mapping[str, Any]) -> Iterator[str]:
    for action in tree["action_plan"]:
        operation = action.get("operation", {})
        details = operation.get("details", operation)
        if details.get("query") is not None:
            yield f"run SQL on {details.get('connection', 'duckdb')}: {mask_sql(details['query'])}"[:MAX_TEXT]
            for name, value in sorted(details.get("parameters", {}).items()):
                yield f"${name} = {mask_json(value, name=name, mask=mask_shown)}"[:MAX_TEXT]
        else:
            what = action.get("target") or details.get("pipeline") or details.get("query_file") or ""
            yield f"{str(action.get('action_type', '')).lower()} {mask_shown(str(what))}".rstrip()[:MAX_TEXT]


def _lines_of_browser(bound: BrowserAction) -> Iterator[str]:
    for name, value in sorted(bound.tree.items()):
        yield f"{name}: {mask_json(value, name=name, mask=mask_shown)}"[:MAX_TEXT]
