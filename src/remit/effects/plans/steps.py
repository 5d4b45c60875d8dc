"""The data model of a plan for host and sandboxed process: paths, states, steps and waves. Needs the standard library
only.

A *step* is one action at its place in the order. The *state* of a path is the content and mode of its file. Steps run
in *waves*. No path occurs twice in a wave, so the files themselves show which steps of the wave were done. The number
of the wave is in a note. A *switch* is the one system call by which a step becomes visible.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from remit.core.errors import Reason

MAX_WAVE_STEPS: Final = 256
MAX_WAVE_BYTES: Final = 64 << 20
MAX_PLAN_BYTES: Final = 12 << 20

ABOUT_ONE_ACTION: Final = frozenset(
    {
        Reason.FILE_MISSING,
        Reason.FILE_CONFLICT,
        Reason.PERMISSION_DENIED,
        Reason.DEPENDENCY_FAILED,
        Reason.LIMIT_EXCEEDED,
        Reason.EDIT_NO_MATCH,
        Reason.EDIT_OUT_OF_RANGE,
        Reason.EDIT_AMBIGUOUS,
        Reason.EDIT_CONFLICT,
        Reason.EDIT_UNSUPPORTED,
        Reason.NOT_TEXT,
        Reason.SYNTAX_BROKEN,
        Reason.SCHEMA_INVALID,
        Reason.SQL_FAILED,
        Reason.DATABASE_BUSY,
        Reason.PIPELINE_FAILED,
    }
)
"""Reasons that stop one action and not the whole plan: the action does not fit its file, and the other actions are
safe.

These reasons stop the plan and are not in the set: bytes that are not as they were approved, a path that leads to
another place, SQL that a plan may not run (SQL_REFUSED, because no part of such a plan is kept), a failing disk or
machine.
"""

Move = Literal["create", "modify", "delete", "rename"]
StepEnd = Literal["done", "failed", "skipped"]

_ASIDE: Final = 0x8000


class State(NamedTuple):
    """The state of a file that exists. `None` is used where no file exists."""

    sha256: str
    """`sha256:` and 64 hexadecimal digits."""
    size: int
    mode: int
    """The permission bits."""

    def is_alike(self, other: "State | None") -> bool:
        """Whether both have the same bytes and the same permissions."""
        return other is not None and (self.sha256, self.mode) == (other.sha256, other.mode)


class PlanStep(NamedTuple):
    """One action of a plan and, once it was simulated, the states before and after it."""

    number: int
    """Its place in the order, from 0."""
    action_id: str
    action_type: str
    move: Move
    path: int
    """The index in the plan's paths."""
    new_path: int | None = None
    operation: Mapping[str, Any] = {}
    """The operation of the plan, or the part of it that the handler needs."""
    needs: tuple[int, ...] = ()
    """Numbers of the steps that must be done before it."""
    expected_before: str | None = None
    expected_after: str | None = None
    before: State | None = None
    """The state of `path` right before this step."""
    after: State | None = None
    """The state of `path`, or of `new_path` for a rename, after this step."""
    summary: str = ""
    """The sentence for the report."""
    unchanged: bool = False
    """Whether bytes and permissions stay the same, so that nothing is switched."""
    problem: Mapping[str, str] | None = None
    """Why the simulation found that it cannot be done: reason, what, where, next_step."""
    source: str = ""
    """The name of the given descriptor with the new bytes, where they come from a backup or a prepared file."""
    metadata: Mapping[str, Any] | None = None
    """Owner, mode, times and attributes of the new file."""


class StepPlan(NamedTuple):
    """Everything that the sandboxed process receives about a plan."""

    prefix: str
    """Twenty random hexadecimal digits: the first part of the name of every temporary file of the plan."""
    paths: tuple[str, ...]
    """Relative to the root."""
    steps: tuple[PlanStep, ...]
    waves: tuple[tuple[int, ...], ...]
    stop_on_error: bool = True
    keep_permissions: bool = True
    max_file_bytes: int = 50 << 20
    diffs: Literal["none", "summary", "full"] = "none"
    rules: tuple[Mapping[str, Any], ...] = ()


class Result(NamedTuple):
    """How a step ended."""

    number: int
    state: StepEnd
    started_at: str = ""
    ended_at: str = ""
    error: Mapping[str, str] | None = None
    """The error of a failed step: reason, what, where, next_step."""
    reason: str = ""
    """Why the step was skipped: a sentence for the report."""


class Ids(NamedTuple):
    """The ids of a run's reports, drawn when the run began."""

    envelope_id: str
    report_id: str
    log_id: str
    manifest_id: str


class StepProgress(NamedTuple):
    """The progress of a run, from its notes."""

    wave: int = 0
    """The only wave that may be partly done. Earlier waves are complete except for `not_done`. Later waves have not
    begun, except that the next one may be staged.
    """
    not_done: frozenset[int] = frozenset()
    undone: int | None = None
    """This wave and all later ones are undone."""
    verdict: Literal["back", "keep"] | None = None
    status: str = ""
    results: tuple[Result, ...] = ()
    kept: frozenset[int] = frozenset()
    clearing: bool = False
    """Whether the run is verified and reported, so that old files may be removed and an undo is not possible."""


def part_name(prefix: str, number: int) -> str:
    """Return the name for unfinished bytes. After the switch of a modification the old file has this name."""
    return f".remit-{prefix}{number:04x}.part"


def aside_name(prefix: str, number: int) -> str:
    """Return the name for a file that is set aside. It differs from the part name, so that unfinished bytes are never
    mistaken for a user's file.
    """
    return f".remit-{prefix}{number | _ASIDE:04x}.part"


def encode_plan(plan: StepPlan) -> bytes:
    return json.dumps(plan, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def parse_plan(raw: bytes) -> StepPlan:
    """Return the plan that `encode_plan` encoded. Raises ValueError, TypeError or KeyError for other bytes."""
    plan = StepPlan(*json.loads(raw))
    return plan._replace(
        paths=tuple(plan.paths),
        steps=tuple(map(step_of, plan.steps)),
        waves=tuple(map(tuple, plan.waves)),
        rules=tuple(plan.rules),
    )


def step_of(tree: Sequence[Any]) -> PlanStep:
    """Return the step from the JSON array that `json.dumps` makes of it."""
    step = PlanStep(*tree)
    before, after = (State(*state) if state else None for state in (step.before, step.after))
    return step._replace(needs=tuple(step.needs), before=before, after=after)


def ends(step: PlanStep) -> dict[int, State | None]:
    """Return the states that a step leaves, by path."""
    if step.move == "rename" and step.new_path is not None:
        return {step.path: None, step.new_path: step.after}
    return {step.path: None if step.move == "delete" else step.after}


def final_states(
    plan: StepPlan, first: Mapping[int, State | None], done: "frozenset[int] | None" = None
) -> dict[int, State | None]:
    """Return the state of every path after the steps, or after the steps in `done`."""
    states = dict(first)
    for step in plan.steps:
        if done is None or step.number in done:
            states.update(ends(step))
    return states


def make_waves(
    steps: Sequence[PlanStep], sizes: Mapping[int, int], levels: Sequence[Sequence[int]] | None = None
) -> tuple[tuple[int, ...], ...]:
    """Divide the steps into waves, in order, so that no path occurs twice in a wave. With `levels`, all steps of a wave
    are of one level.

    `sizes` are the bytes that a step stages. A wave has a limit of steps and of bytes, because all of its new files are
    on the disk beside the old ones.
    """
    level_of = {number: level for level, numbers in enumerate(levels or ()) for number in numbers}
    ordered = sorted(steps, key=lambda step: (level_of.get(step.number, 0), step.number))
    waves: list[list[int]] = []
    in_wave: set[int] = set()
    staged, level = 0, 0
    for step in ordered:
        paths = {path for path in (step.path, step.new_path) if path is not None}
        size, at = sizes.get(step.number, 0), level_of.get(step.number, 0)
        full = bool(waves) and (len(waves[-1]) >= MAX_WAVE_STEPS or staged + size > MAX_WAVE_BYTES)
        if not waves or full or at != level or not in_wave.isdisjoint(paths):
            waves.append([])
            in_wave, staged, level = set(), 0, at
        waves[-1].append(step.number)
        in_wave |= paths
        staged += size
    return tuple(map(tuple, waves))


# --- notes -----------------------------------------------------------------------------------------------------------


def note_wave(wave: int, not_done: Sequence[int]) -> dict[str, Any]:
    """Return the note that is recorded before the switches of every wave except the first."""
    return {"wave": wave, "not_done": list(not_done)}


def note_undo(status: str, results: Sequence[Result]) -> dict[str, Any]:
    """Return the note that is recorded before an undo. It tells a process that continues the undo status and reason."""
    return {"back": status, "results": [list(result) for result in results]}


def note_partial(kept: Sequence[int], results: Sequence[Result]) -> dict[str, Any]:
    """Return the note that is recorded before the cleanup of a plan that was partly done and is kept."""
    return {"keep": list(kept), "results": [list(result) for result in results]}


def note_clearing() -> dict[str, Any]:
    """Return the note that is recorded before the first old file is removed."""
    return {"clearing": True}


def note_undone(wave: int) -> dict[str, Any]:
    """Return the note that is recorded after the undo of a wave, if an earlier wave follows."""
    return {"undone": wave}


def read_progress(notes: Sequence[Mapping[str, Any]]) -> StepProgress:
    """Return the progress of a run from its notes. The latest note of each kind is valid."""
    progress = StepProgress()
    for note in notes:
        match note:
            case {"wave": int(wave), "not_done": [*numbers]}:
                # Earlier notes are no longer valid: a run that was undone and begun again notes its waves again.
                progress = StepProgress(wave, frozenset(numbers))
            case {"undone": int(wave)}:
                progress = progress._replace(undone=wave)
            case {"clearing": True}:
                progress = progress._replace(clearing=True)
            case {"back": str(status), "results": [*results]}:
                progress = progress._replace(verdict="back", status=status, results=_results(results))
            case {"keep": [*numbers], "results": [*results]}:
                kept = frozenset(numbers)
                progress = progress._replace(verdict="keep", status="PARTIAL", results=_results(results), kept=kept)
    return progress


def _results(trees: Sequence[Any]) -> tuple[Result, ...]:
    return tuple(Result(*tree) for tree in trees)
