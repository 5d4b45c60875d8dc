"""Simulates a plan without changing anything: each step works on the files as the earlier steps would leave them.

Read-only. For each step the host receives its state before and after, the diff, and the findings that need an approval,
or the problem that would stop the step. The effect must later produce exactly these states.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason, RefusedError, RemitError
from remit.effects.context import EffectContext, read_given
from remit.effects.edits.data_files import remarks
from remit.effects.edits.splice import Edited
from remit.effects.plans.credential_search import CredentialSearch
from remit.effects.plans.diff import Diff, diff_edit, diff_rename, diff_whole
from remit.effects.plans.files import (
    ReadFile,
    as_error,
    mismatch,
    missing,
    read_file,
    read_plan,
    require_hash,
    spot_of,
    state_of,
    too_large,
)
from remit.effects.plans.handlers import Editors, Handler, edit_file
from remit.effects.plans.steps import PlanStep, State, StepPlan
from remit.effects.plans.virtual_tree import VirtualTree
from remit.fs.openat import already_exists, exists

MAX_PIECE: Final = 64 << 10
"""Characters of a diff in one message."""
MAX_DIFFS: Final = 8 << 20
"""Characters of all diffs of a plan. Lines past this limit are only counted."""

MAX_COMPARED: Final = 4 << 20
"""Bytes of a prepared file. A larger file has no diff."""

MAX_FINDINGS: Final = 100
"""The limit for one step. Further findings would tell the reader nothing new."""
MAX_WORDS: Final = 500
"""Characters of the text of a finding."""

_SYNTAX: Final = "syntax"
_PREPARED_TYPES: Final = frozenset({"SQL_EXECUTE", "PIPELINE_RUN"})
_NO_DIFF: Final = Diff(0, 0, "")


class Flagged(NamedTuple):
    """A finding that needs an approval by name."""

    rule: str
    where: str
    what: str


FindInResult = Callable[[str, Edited, int], Sequence[Any]]
"""A function from path, edit and mode of a result to its findings, each with `rule`, `where` and `what`."""


class _Simulated(NamedTuple):
    before: State | None
    after: State | None
    summary: str
    diff: Diff
    findings: tuple[Flagged, ...]
    remarks: Sequence[str] = ()
    searched: bool = False
    """Whether the contents before and after were searched in full, and hold nothing that looks like a credential."""


class Simulate:
    """The simulation. It changes nothing, so `settle` has nothing to do."""

    def __init__(self, editors: Editors, handlers: Mapping[str, Handler], find_in_result: FindInResult) -> None:
        self._editors = editors
        self._handlers = handlers
        self._find = find_in_result

    def run(self, work: EffectContext) -> dict[str, Any]:
        plan = read_plan(work)
        tree = VirtualTree(plan.paths, plan.steps, partial(_read, work, plan))
        simulator = _Simulator(plan, tree, self._editors, self._handlers, self._find)
        failing: set[int] = set()
        remaining = MAX_DIFFS
        for step in plan.steps:
            work.step({"number": step.number, "phase": "begun"})
            try:
                if step.problem is not None:
                    raise as_error(step.problem)
                _require_needed(plan, step, failing)
                if step.source in work.given:
                    simulated = simulator.simulate_prepared(step, read_given(work, step.source, plan.max_file_bytes))
                else:
                    simulated = _from_host(step) if _is_known_to_host(step) else simulator.simulate_searched(step)
            except RemitError as problem:
                failing.add(step.number)
                work.step(_problem_frame(step, tree, problem, searched=simulator.is_searched(step)))
                tree.forget(step)
                continue
            text = simulated.diff.text if len(simulated.diff.text) <= remaining else ""
            work.step(
                _step_frame(
                    step, simulated, left_out=simulated.diff.text.count("\n") if text != simulated.diff.text else 0
                )
            )
            for start in range(0, len(text), MAX_PIECE):
                work.step({"number": step.number, "phase": "diff", "text": text[start : start + MAX_PIECE]})
            remaining -= len(text)
            tree.forget(step)
        return {}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002
        return None


class _Simulator:
    def __init__(
        self,
        plan: StepPlan,
        tree: VirtualTree,
        editors: Editors,
        handlers: Mapping[str, Handler],
        find_in_result: FindInResult,
    ) -> None:
        self._plan, self._tree = plan, tree
        self._editors, self._handlers, self._find = editors, handlers, find_in_result
        self._search = CredentialSearch(tree)

    def simulate_searched(self, step: PlanStep) -> _Simulated:
        """Simulate one step, and search its contents for credentials if the preview is shown."""
        is_clean = self.is_searched(step)
        simulated = self.simulate(step)
        return simulated._replace(searched=is_clean and self.is_searched(step))

    def is_searched(self, step: PlanStep) -> bool:
        """Whether the contents of the step's paths, as they are now, were searched and hold no credential."""
        if self._plan.diffs != "full" or _is_known_to_host(step):
            return False
        try:
            return self._search.is_clean(step.path, step.new_path)
        except RemitError:
            return False

    def simulate(self, step: PlanStep) -> _Simulated:
        """Simulate one step and update the tree. If it raises, the tree is as before."""
        tree, path = self._tree, self._plan.paths[step.path]
        for named in (step.path, step.new_path):
            if named is not None:
                tree.require_place(named)
        before = tree.state(step.path)
        if step.move == "create":
            if before is not None:
                raise already_exists(path)
        elif before is None:
            raise missing(path)
        require_hash(step.expected_before, before, path)
        if step.move == "rename":
            return self._simulate_rename(step, before)
        tree.require_ordinary(step.path)
        return self._simulate_delete(step, before) if step.move == "delete" else self._simulate_content(step, before)

    def simulate_prepared(self, step: PlanStep, content: bytes) -> _Simulated:
        """Simulate a step with prepared bytes, which are searched for findings like those of an edit.

        Only a preview shows their lines. Reports leave them out, because they may be personal data.
        """
        path, before, after = self._plan.paths[step.path], step.before, step.after
        if after is None or not after.is_alike(state_of(content, after.mode)):
            raise mismatch("the prepared file does not have the reported content", path)
        old = None if before is None else self._tree.content(step.path)
        edited = Edited(content, None, step.summary)
        findings = self._find_all(step, path, edited, after.mode)
        self._tree.put(step.path, content, after)
        if max(len(content), len(old or b"")) > MAX_COMPARED:
            diff = _NO_DIFF
        else:
            diff = self._diff_whole(path, old, content)._replace(preview="")
        return _Simulated(before, after, step.summary, diff, findings, remarks(path, edited))

    def _simulate_delete(self, step: PlanStep, before: State | None) -> _Simulated:
        path = self._plan.paths[step.path]
        require_hash(step.expected_after, None, path)
        diff = self._diff_whole(path, self._tree.content(step.path), None)
        self._tree.remove(step.path)
        return _Simulated(before, None, "File deleted", diff, ())

    def _simulate_content(self, step: PlanStep, before: State | None) -> _Simulated:
        tree, path, handler = self._tree, self._plan.paths[step.path], self._handlers[step.action_type]
        old = tree.content(step.path)
        edited = edit_file(handler, path, old, step.operation, self._editors) or Edited(b"", None, "")
        if len(edited.content) > self._plan.max_file_bytes:
            raise too_large(len(edited.content), self._plan.max_file_bytes, path)
        old_mode = before.mode if before is not None else None
        after = state_of(
            edited.content, handler.mode(old_mode, step.operation, keep_permissions=self._plan.keep_permissions)
        )
        require_hash(step.expected_after, after, path)
        findings = self._find_all(step, path, edited, after.mode)
        tree.put(step.path, edited.content, after)
        if old is None:
            diff = self._diff_whole(path, None, edited.content)
        elif self._plan.diffs == "none":
            diff = _NO_DIFF
        else:
            diff = diff_edit(path, old, edited, full=self._plan.diffs == "full", modes=(old_mode, after.mode))
        return _Simulated(before, after, edited.summary, diff, findings, remarks(path, edited))

    def _simulate_rename(self, step: PlanStep, before: State | None) -> _Simulated:
        tree, new_path = self._tree, step.path if step.new_path is None else step.new_path
        name, new_name = self._plan.paths[step.path], self._plan.paths[new_path]
        if tree.state(new_path) is not None:
            raise already_exists(new_name)
        require_hash(step.expected_after, before, name)
        content = tree.content(step.path) or b""
        # Content that is older than the plan needs no approval. A new name that makes it a program, or broken data,
        # does.
        moved = Edited(content, None if tree.is_planned(step.path) else (), "")
        findings = self._find_by_name(step, name, new_name, moved, before.mode if before is not None else 0)
        tree.rename(step.path, new_path)
        diff = _NO_DIFF if self._plan.diffs == "none" else diff_rename(name, new_name, full=self._plan.diffs == "full")
        summary = f"File renamed to {new_name}"
        return _Simulated(before, before, summary, diff, findings, remarks(new_name, moved))

    def _find_by_name(self, step: PlanStep, name: str, new_name: str, moved: Edited, mode: int) -> tuple[Flagged, ...]:
        """Return the findings under the new name that the old name did not have. The name decides what bytes mean."""
        under_old_name = {(found.rule, found.what) for found in self._find_all(step, name, moved, mode)}
        found = self._find_all(step, new_name, moved, mode)
        return tuple(one for one in found if (one.rule, one.what) not in under_old_name)

    def _find_all(self, step: PlanStep, name: str, edited: Edited, mode: int) -> tuple[Flagged, ...]:
        """Return all findings of a result. The syntax is checked only in the last state of a file."""
        result = step.path if step.new_path is None else step.new_path
        is_last = self._tree.is_last_use(result, step.number)
        found = self._find(name, edited, mode)
        flagged = (Flagged(one.rule, one.where[:MAX_WORDS], one.what[:MAX_WORDS]) for one in found)
        return tuple(one for one in flagged if is_last or one.rule != _SYNTAX)

    def _diff_whole(self, path: str, before: bytes | None, after: bytes | None) -> Diff:
        if self._plan.diffs == "none":
            return _NO_DIFF
        return diff_whole(path, before, after, full=self._plan.diffs == "full")


def _is_known_to_host(step: PlanStep) -> bool:
    """Whether the host knows the result of the step already, because it ran on a copy before or could not run."""
    return bool(step.problem or step.source) or (step.unchanged and step.action_type in _PREPARED_TYPES)


def _from_host(step: PlanStep) -> _Simulated:
    """Return the result that the host knows. The file is not read, because it may be larger than memory."""
    return _Simulated(step.before, step.after, step.summary, _NO_DIFF, ())


def _read(work: EffectContext, plan: StepPlan, path: int) -> ReadFile | None:
    spot = spot_of(work, path)
    if spot is None or not exists(spot.folder, spot.name):
        return None
    return read_file(spot, plan.max_file_bytes, where=plan.paths[path])


def _require_needed(plan: StepPlan, step: PlanStep, failing: Collection[int]) -> None:
    for number in step.needs:
        if number in failing:
            action_id = next(other.action_id for other in plan.steps if other.number == number)
            raise RefusedError(
                Reason.DEPENDENCY_FAILED,
                f"this action needs the action {action_id}, which would fail",
                where=plan.paths[step.path],
                next_step=f"Fix {action_id} first.",
            )


# --- messages to the host --------------------------------------------------------------------------------------------


def _step_frame(step: PlanStep, simulated: _Simulated, left_out: int) -> dict[str, Any]:
    diff = simulated.diff
    same = step.move == "modify" and simulated.after is not None and simulated.after.is_alike(simulated.before)
    return {
        "number": step.number,
        "phase": "seen",
        "before": simulated.before,
        "after": simulated.after,
        "summary": simulated.summary,
        "unchanged": same or (step.unchanged and _is_known_to_host(step)),
        "diff": {
            "added": diff.added,
            "removed": diff.removed,
            "preview": diff.preview,
            "left_out": diff.left_out + left_out,
        },
        "findings": [one._asdict() for one in simulated.findings[:MAX_FINDINGS]],
        "remarks": list(simulated.remarks),
        "searched": simulated.searched,
    }


def _problem_frame(step: PlanStep, tree: VirtualTree, problem: RemitError, *, searched: bool) -> dict[str, Any]:
    try:
        before = step.before if _is_known_to_host(step) else tree.state(step.path)
    except RemitError:
        before = None
    frame = _step_frame(step, _Simulated(before, None, "", _NO_DIFF, (), searched=searched), 0)
    return {**frame, "unchanged": False, "problem": problem.as_json()}
