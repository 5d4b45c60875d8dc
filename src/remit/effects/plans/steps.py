"""A plan as host and sandboxed process speak of it: paths, states, steps and waves. Standard library only.

A *step* is one action in its place of the order. The *state* of a path is what a look at it can tell. Steps run in
*waves*, in which no path stands twice, so that a look at the tree tells which steps of the wave were done; which wave
it is, is noted. A *switch* is the one system call by which a step becomes visible.
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
"""The action cannot be done on the file that is there, and nothing says that the others are in danger. Not among them:
bytes that are not as they were approved, a path that leads elsewhere, a text of SQL that tries what is not for a plan
(SQL_REFUSED: no half of such a plan is kept), a disk or a machine in trouble."""

Move = Literal["create", "modify", "delete", "rename"]
StepEnd = Literal["done", "failed", "skipped"]

_ASIDE: Final = 0x8000


class State(NamedTuple):
    """A file that is there. `None` in its place: nothing is."""

    sha256: str
    """`sha256:` and 64 hexadecimal digits."""
    size: int
    mode: int
    """The permission bits."""

    def is_alike(self, other: "State | None") -> bool:
        """The same bytes and the same permissions."""
        return other is not None and (self.sha256, self.mode) == (other.sha256, other.mode)


class PlanStep(NamedTuple):
    """What is done, and, once it was simulated, from which state to which."""

    number: int
    """Its place in the order, from 0."""
    action_id: str
    action_type: str
    move: Move
    path: int
    """Which of the plan's paths."""
    new_path: int | None = None
    operation: Mapping[str, Any] = {}
    """The operation as the plan has it, or as much as the handler needs."""
    needs: tuple[int, ...] = ()
    """Numbers of the steps that must be done before it."""
    expected_before: str | None = None
    expected_after: str | None = None
    before: State | None = None
    """Of `path`, at its turn."""
    after: State | None = None
    """Of `path`, or of `new_path` for a rename."""
    summary: str = ""
    """The sentence for the report."""
    unchanged: bool = False
    """Bytes and permissions stay as they are, so nothing is switched."""
    problem: Mapping[str, str] | None = None
    """Why it cannot be done, as found by the simulation: reason, what, where, next_step."""
    source: str = ""
    """The name of a given descriptor with the new bytes, where they come from a backup."""
    metadata: Mapping[str, Any] | None = None
    """Owner, mode, times and attributes to give to the new file."""


class StepPlan(NamedTuple):
    """All that the sandboxed process is told."""

    prefix: str
    """Twenty hexadecimal digits, drawn at random: the first part of every name that stands for bytes on their way."""
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
    """reason, what, where, next_step, of a step that failed."""
    reason: str = ""
    """Why it was skipped, in words."""


class Ids(NamedTuple):
    """The ids of a run's papers, drawn when it began."""

    envelope_id: str
    report_id: str
    log_id: str
    manifest_id: str


class StepProgress(NamedTuple):
    """How far a run came, by its notes."""

    wave: int = 0
    """The only wave that may be half done. Those before are whole but for `not_done`, those after are not begun."""
    not_done: frozenset[int] = frozenset()
    undone: int | None = None
    """This wave and all later ones are undone."""
    verdict: Literal["back", "keep"] | None = None
    status: str = ""
    results: tuple[Result, ...] = ()
    kept: frozenset[int] = frozenset()
    clearing: bool = False
    """It was verified and reported, and old files may be gone: there is only forward."""


def part_name(prefix: str, number: int) -> str:
    """Bytes on their way; after a modification was switched, the old file."""
    return f".remit-{prefix}{number:04x}.part"


def aside_name(prefix: str, number: int) -> str:
    """A file that goes away. Another name than the part's: unfinished bytes are never taken for somebody's file."""
    return f".remit-{prefix}{number | _ASIDE:04x}.part"


def encode_plan(plan: StepPlan) -> bytes:
    return json.dumps(plan, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def parse_plan(raw: bytes) -> StepPlan:
    """The inverse of `encode_plan`. ValueError, TypeError or KeyError for anything else."""
    plan = StepPlan(*json.loads(raw))
    return plan._replace(
        paths=tuple(plan.paths),
        steps=tuple(map(step_of, plan.steps)),
        waves=tuple(map(tuple, plan.waves)),
        rules=tuple(plan.rules),
    )


def as_json(step: PlanStep) -> list[Any]:
    """As plain JSON, for a checkpoint. `step_of` is the inverse."""
    tree: list[Any] = json.loads(json.dumps(step))
    return tree


def step_of(tree: Sequence[Any]) -> PlanStep:
    step = PlanStep(*tree)
    before, after = (State(*state) if state else None for state in (step.before, step.after))
    return step._replace(needs=tuple(step.needs), before=before, after=after)


def ends(step: PlanStep) -> dict[int, State | None]:
    """What a step leaves, by path."""
    if step.move == "rename" and step.new_path is not None:
        return {step.path: None, step.new_path: step.after}
    return {step.path: None if step.move == "delete" else step.after}


def final_states(
    plan: StepPlan, first: Mapping[int, State | None], done: "frozenset[int] | None" = None
) -> dict[int, State | None]:
    """Every path after the steps, or after those that were `done`."""
    states = dict(first)
    for step in plan.steps:
        if done is None or step.number in done:
            states.update(ends(step))
    return states


def make_waves(
    steps: Sequence[PlanStep], sizes: Mapping[int, int], levels: Sequence[Sequence[int]] | None = None
) -> tuple[tuple[int, ...], ...]:
    """The steps in order, cut so that no path stands twice in a wave; where levels are given, one wave holds no two.

    `sizes` are the bytes that a step stages. A wave is bounded in steps and bytes: all of it lies beside the old files.
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
    """Before the switches of every wave but the first."""
    return {"wave": wave, "not_done": list(not_done)}


def note_undo(status: str, results: Sequence[Result]) -> dict[str, Any]:
    """Before going back: whoever goes on with it knows what it ends as, and why."""
    return {"back": status, "results": [list(result) for result in results]}


def note_partial(kept: Sequence[int], results: Sequence[Result]) -> dict[str, Any]:
    """Before clearing up after a plan of which only a part was done, and is to stay."""
    return {"keep": list(kept), "results": [list(result) for result in results]}


def note_clearing() -> dict[str, Any]:
    """Before the first old file is removed."""
    return {"clearing": True}


def note_undone(wave: int) -> dict[str, Any]:
    """When a wave was undone and another, earlier one follows."""
    return {"undone": wave}


def read_progress(notes: Sequence[Mapping[str, Any]]) -> StepProgress:
    """What the notes of a run say, the latest word of each kind."""
    progress = StepProgress()
    for note in notes:
        match note:
            case {"wave": int(wave), "not_done": [*numbers]}:
                # Whatever was noted before is over: a run that was taken back and begun again notes its waves anew.
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
